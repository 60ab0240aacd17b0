"""Which images are for training and which for testing: the split that the data gives, otherwise a fixed rule."""

import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Hashable, Sequence

from hitnet.errors import HitNetError, log

SPLITS = ("train", "test", "all")
TRAIN, TEST, VALIDATION = "train", "test", "validation"
NAMES = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("test", "testing"), TEST),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VALIDATION),
}


def check_split(split: str) -> None:
    if split not in SPLITS:
        raise HitNetError(f"split must be one of {', '.join(SPLITS)}; got {split!r}.")


def no_images(name: str, split: str) -> HitNetError:
    """The error for a split without images."""
    return HitNetError(
        f"{name} has no {split} images. Put some into that split; without given splits, every class of two or more "
        "images has some in both."
    )


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise HitNetError(f"limit must be at least 1; got {limit}.")


def natural(text: str) -> str:
    """A sort key under which "2" comes before "10"."""
    key = []
    for i, part in enumerate(re.split(r"([0-9]+)", text)):
        # Text ends in \0, so that "a1" comes before "ab". Numbers are compared by length, then digit by digit.
        digits = part.lstrip("0")
        key.append(chr(min(len(digits) + 1, sys.maxunicode)) + digits if i % 2 else part + "\0")
    return "".join(key)


def natural_path(path: str) -> str:
    """A sort key for paths, folder by folder: "2/b" comes before "10/a", and "a/1" before "a-/1"."""
    return "\0".join(natural(part) for part in path.split("/"))


def split_name(given: object, *, where: str) -> str:
    """The split (train, test or validation) that a folder's name or a table's cell means."""
    name = NAMES.get(str(given).strip().lower())
    if name is None:
        raise HitNetError(f"{where}: unknown split {str(given)!r}. Use train, test or validation.")
    return name


def fifth(keys: Sequence[str], labels: Sequence[Hashable]) -> list[bool]:
    """Whether each image is in the fixed fifth that is used for testing.

    The images of each class are ranked by the SHA-256 of their key (path or index). The first fifth of them, rounded,
    is for testing: at least one image of a class of two or more. The rule depends neither on the order of the file
    system nor on a random generator.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, label in enumerate(labels):
        groups[label].append(i)
    test = [False] * len(keys)
    for members in groups.values():
        count = max(1, (len(members) + 2) // 5) if len(members) > 1 else 0
        for i in sorted(members, key=lambda i: rank(keys[i]))[:count]:
            test[i] = True
    return test


def rank(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def assign(given: Sequence[str] | None, keys: Sequence[str], labels: Sequence[Hashable]) -> list[str]:
    """The split of each image: train, test or validation.

    Given splits are kept. Validation images are used for testing if there is no test split; otherwise they are only in
    "all". If only training images or no splits are given, the fixed fifth is for testing.
    """
    if given is not None and TEST in given:
        if VALIDATION in given:
            message = "%d validation images are used only in the split `all`, because the data has a test split."
            log.info(message, given.count(VALIDATION))
        return list(given)
    if given is not None and VALIDATION in given:
        return [TEST if split == VALIDATION else split for split in given]
    return [TEST if test else TRAIN for test in fifth(keys, labels)]


def even_draw(keys: Sequence[str], limit: int | None) -> list[int]:
    """Positions of at most `limit` images, drawn evenly by a fixed rule, in ascending order.

    Most datasets are sorted by class: their first images would all be of one class.
    """
    if limit is None or limit >= len(keys):
        return list(range(len(keys)))
    return sorted(sorted(range(len(keys)), key=lambda i: rank(keys[i]))[:limit])
