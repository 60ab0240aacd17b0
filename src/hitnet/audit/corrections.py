"""Check what people decided against the audit, and apply it to a copy of the data.

Corrections with any mistake change nothing: all mistakes are named, each with its line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from hitnet.audit.correction_files import DECISIONS, Correction, listed, raise_all, read_corrections
from hitnet.audit.decisions import Settled
from hitnet.data import Data, ImageSet, Relabelling
from hitnet.data.images import label_name
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_vacant, expand
from hitnet.runtime.spreadsheets import undefuse


@dataclass(frozen=True)
class Applied:
    """How many images were changed in which way; `data` is what `open_data` reads."""

    data: Path
    kept: int
    relabelled: int
    dropped: int
    neither: int  # no known label fits; these images stay as they are
    unsure: int
    disputed: int  # reviewers disagree; these images stay as they are
    untouched: int  # with those that were not audited
    not_audited: int
    gone: int  # audited images that the set has no more; nothing was decided on them
    emptied: tuple[str, ...]  # classes that have lost their last image
    note: str  # what else to know of the corrected data; mostly empty


def correct(
    data: Data,
    table: pd.DataFrame,
    corrections: str | Path | Settled,
    out: str | Path,
    *,
    class_names: Sequence[str] = (),
    split: str = "all",
) -> Applied:
    """Write the corrected data set into the new folder `out`; the original stays as it is.

    Args:
        data: The data that was audited.
        table: The audit's table.
        corrections: A file that `read_corrections` reads, or the decisions of a review.
        out: A new folder.
        class_names: The classes that the audit knows; of those that the set has no image of, new ones can be made.
        split: The split that was audited.
    """
    # What can be known at once comes before the images, which may take long to read.
    check_vacant(expand(out))
    data.check_outside(out)
    name = "The review" if isinstance(corrections, Settled) else str(corrections)
    given = corrections if isinstance(corrections, Settled) else Settled(read_corrections(corrections), 0)
    images = data.images_to_correct(split)
    names = tuple(dict.fromkeys((*images.class_names, *class_names)))
    decided = check_corrections(table, given.corrections, names, name=name)
    audited = _audited_ids(table, images, by_path=data.by_path)
    _check_none_gone(decided, audited, images.name, name=name)
    index = {name: k for k, name in enumerate(names)}
    labels = images.labels.clone()
    keep = []
    for i, number in enumerate(audited):
        correction = None if number is None else decided.get(number)
        if correction is not None and correction.decision == "relabel":
            labels[i] = index[correction.label]
        if correction is None or correction.decision != "drop":
            keep.append(i)
    if not keep:
        raise HitNetError(f"{name} drops every image: nothing would be left.")
    relabelling = Relabelling(images, labels, keep, names, split)
    path, note = data.write_corrected(relabelling, expand(out))
    count = Counter(correction.decision for correction in decided.values())
    return Applied(
        data=path,
        kept=count["keep"],
        relabelled=count["relabel"],
        dropped=count["drop"],
        neither=count["neither"],
        unsure=count["unsure"],
        disputed=given.disputed,
        untouched=len(images) - len(decided),
        not_audited=audited.count(None),
        gone=len(table) - len(images) + audited.count(None),
        emptied=_emptied(relabelling),
        note=note,
    )


def check_corrections(
    table: pd.DataFrame, corrections: Sequence[Correction], class_names: Sequence[str], *, name: str
) -> dict[int, Correction]:
    """The corrections by id, or an error that names every one that does not fit the audit."""
    rows = zip(table["id"].tolist(), table["path"].fillna("").tolist(), table["given"].tolist(), strict=True)
    audited = {int(number): (str(path), str(given)) for number, path, given in rows}
    spelt = {_comparable(name): name for name in class_names}
    decided: dict[int, Correction] = {}
    problems = []
    for c in corrections:
        if undefuse(c.label) in class_names:  # the page marks names that a spreadsheet would run as formulas
            c = replace(c, label=undefuse(c.label))
        elif c.label not in class_names:
            c = replace(c, label=spelt.get(_comparable(label_name(undefuse(c.label)) or ""), c.label))
        earlier = decided.setdefault(c.id, c)
        problem = _problem(c, audited.get(c.id), class_names)
        if problem is None and earlier.outcome != c.outcome:
            problem = f"image {c.id} was decided otherwise on {earlier.place}"
        if problem is not None:
            problems.append(f"{c.place}: {problem}")
    raise_all(problems, name)
    return decided


def _problem(c: Correction, audited: tuple[str, str] | None, class_names: Sequence[str]) -> str | None:
    if audited is None:
        return f"the audit has no image {c.id}"
    path, given = audited
    if not _same(c.path, path):
        return f"image {c.id} is {path!r} in the audit, not {c.path!r}"
    if not _same(c.given, given):
        return f"image {c.id} is labelled {given!r} in the audit, not {c.given!r}"
    if c.decision not in DECISIONS:
        return f"unknown decision {c.decision!r}; use {', '.join(DECISIONS)}"
    if c.decision != "relabel":
        return f"{c.decision} takes no label, got {c.label!r}" if c.label not in ("", given) else None
    if not c.label:
        return "relabel without a label"
    if c.label not in class_names:
        return f"{c.label!r} is not a class of the set or of the audit; new classes cannot be made here"
    return "it relabels to the label it has; write keep" if c.label == given else None


def _same(read: str, known: str) -> bool:
    """Whether a text is the one that the audit has, perhaps marked against spreadsheets."""
    return _comparable(known) in (_comparable(read), _comparable(undefuse(read)))


def _comparable(text: str) -> str:
    """The text as it is after a browser, which changes line ends and cannot save half a surrogate pair."""
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub("\r\n?", "\n", text))


def _audited_ids(table: pd.DataFrame, images: ImageSet, *, by_path: bool) -> list[int | None]:
    """The audit's id of each image, None for one that was not audited; an error if an audited label has changed.

    By path, images may have been added or removed since; by id, those that were audited must all be there.
    """
    paths = None if images.paths is None else list(images.paths)
    labels = images.labels.tolist()
    keys: list[str] | list[int] = paths if by_path and paths is not None else images.ids.tolist()
    place = {key: i for i, key in enumerate(keys)}
    if len(place) < len(keys):
        what = "path" if by_path else "id"
        raise HitNetError(f"{images.name}: two images have the same {what}, so corrections cannot be told apart.")
    audited: list[int | None] = [None] * len(keys)
    rows = zip(table["id"].tolist(), table["path"].fillna(""), table["given"], strict=True)
    for number, path, given in rows:
        i = place.get(path if by_path else int(number))
        if i is None and by_path:
            continue
        now = None if i is None else images.class_names[labels[i]]
        if i is None or now != given or (paths is not None and path != paths[i]):
            what = "is not there" if i is None else f"is now {paths[i] if paths else ''!r} labelled {now!r}"
            raise HitNetError(
                f"{images.name} is not the set that was audited: image {number}, {path!r} labelled {given!r}, "
                f"{what}. Give the audited data, or audit again."
            )
        audited[i] = int(number)
    return audited


def _check_none_gone(decided: Mapping[int, Correction], audited: Sequence[int | None], data: str, *, name: str) -> None:
    there = set(audited)
    gone = [f"{c.place}: {c.path}" for number, c in decided.items() if number not in there]
    if gone:
        images = "an image" if len(gone) == 1 else f"{len(gone)} images"
        raise HitNetError(
            f"{name} decides on {images} that {data} no longer has, or that cannot be read; nothing was written.\n"
            f"{listed(gone)}\nPut the files back, or remove their lines. If the data has moved, set `data` to its "
            "new place."
        )


def _emptied(relabelling: Relabelling) -> tuple[str, ...]:
    had, has = set(relabelling.images.labels.tolist()), set(relabelling.labels[relabelling.keep].tolist())
    return tuple(name for k, name in enumerate(relabelling.class_names) if k in had and k not in has)
