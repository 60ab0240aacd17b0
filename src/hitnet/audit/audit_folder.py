"""The folder of an audit, whose files docs/audit.md lists: its life from the first claim to the finished audit."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from hitnet.errors import HitNetError, log
from hitnet.features.opinions import Opinion, all_distances
from hitnet.runtime import files, locks, schemas
from hitnet.runtime.tensor_files import read_tensors, write_tensors

TABLE, DISTANCES, CLASSES, SUMMARY = "audit.parquet", "distances.npy", "classes.npy", "summary.json"
CHECKSUMS = "checksums.json"
SETTINGS, DUPLICATES, PAGE = "settings.json", "duplicates.csv", "report.html"
JUDGED, MOST_FEATURES = "judged.safetensors", 4 << 30  # bytes: of more, features are not kept for the review
PER_ROW = 300  # bytes, about, of a row of the table in both its files
BLOCK = 4_096  # rows of features that are looked at, at once
CLAIM = ".auditing"  # exists while a process audits into a folder
LARGEST = 64 << 30  # bytes of a file that is read


@dataclass(frozen=True)
class Settings:
    """What is audited: written first, so that only the same audit is resumed."""

    source: str
    split: str
    images: int


def own_file(folder: Path, name: str, *, largest: int = LARGEST) -> Path:
    """A file of an audit that is safe to read: regular, in the folder itself and not a link, and not too large."""
    files.check_regular(folder / name, largest=largest, links=False)
    return folder / name


@contextmanager
def claimed(out: str | Path | None, *, resume: bool) -> Iterator[Path | None]:
    """The folder of an audit, new or to be resumed, which no other process uses meanwhile; None if there is none."""
    if out is None:
        yield None
        return
    folder = files.expand(out)
    has_begun(folder, resume=resume)
    new = not folder.exists()
    if not locks.claim(folder / CLAIM):
        raise HitNetError(f"{folder}: another process is auditing here. Wait for it, or choose another `out`.")
    try:
        files.remove_litter(folder)
        yield folder
    finally:
        locks.release(folder / CLAIM)
        if new:
            with suppress(OSError):  # what was written stays
                folder.rmdir()


def write_settings(folder: Path, settings: Settings, *, may_grow: bool = False) -> None:
    """Write what is audited into a claimed folder; raise HitNetError if it holds the audit of something else.

    With `may_grow`, files may have come or gone since. Heads on features then judge all again, but only new files are
    read: the features of the others are kept.
    """
    check_in_place(folder)
    path = folder / SETTINGS
    if has_begun(folder, resume=True):
        value = files.read_json(own_file(folder, SETTINGS))
        schemas.check_schema(value, schemas.schema_of(Settings), path)
        earlier = Settings(value["source"], value["split"], value["images"])
        # Networks that were trained on other images cannot be resumed; what heads stand on can.
        grown = may_grow and replace(earlier, images=settings.images) == settings and not (folder / "models").exists()
        if earlier != settings and not grown:
            raise HitNetError(
                f"{folder} holds the audit of other images ({earlier.images:,} of {earlier.source}, split "
                f"{earlier.split}). Choose another `out`."
            )
    files.write_json(path, asdict(settings))


def has_begun(folder: Path, *, resume: bool) -> bool:
    """Whether a folder holds an audit to resume; raises HitNetError if the folder cannot be used."""
    try:
        # An audit that never started, because of a wrong option or a kill, leaves only its settings.
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return False
    except NotADirectoryError as error:
        raise HitNetError(f"{folder} is a file or lies in one; choose another `out`.") from error
    except OSError as error:
        raise HitNetError(f"{folder} cannot be used: {error.strerror}. Choose another `out`.") from error
    begun = any(name not in (SETTINGS, CLAIM) and not files.LITTER.fullmatch(name) for name in names)
    if begun and SETTINGS not in names:
        raise HitNetError(f"{folder} holds no audit to resume, but other files. Choose another `out`.")
    if begun and not resume:
        raise HitNetError(f"{folder} is not empty. Use `resume` to continue the audit there, or choose another `out`.")
    return begun


def check_in_place(folder: Path) -> None:
    """Raise HitNetError if the folder of an audit was moved meanwhile: its name must not be made again."""
    moved = locks.moved_to(folder / CLAIM)
    if moved is not None:
        where = "" if moved.parent == folder.absolute() else f" to {moved.parent}"
        raise HitNetError(
            f"{folder} was moved{where} or removed while it was audited. What was written is in it: repeat the audit "
            "in its new place with `resume`."
        )


def tell_room_of_audit(folder: Path, images: int, columns: int, judges: int, width: int) -> None:
    """Tell the room that the files of an audit need: its table, distances at `columns` classes, and what is kept."""
    features = images * width * torch.float16.itemsize
    distances = images * columns * (judges * torch.float16.itemsize + 8)  # their mean, and which classes these are
    needed = PER_ROW * images + distances + (features if features <= MOST_FEATURES else 0)
    files.tell_room("The files of the audit", needed, folder, "Choose another `out`.")


@dataclass(frozen=True)
class Kept:
    """What judges saw and said of N images, in the order of the audit's table, for the review."""

    opinions: tuple[Opinion, ...]  # kinds, classes, and distances (N, k) in float16
    features: Tensor | None = None  # (N, D) float16, where judges stood on features that are not huge

    @classmethod
    def of(cls, opinions: Sequence[Opinion], features: Tensor | None, order: Tensor) -> Self:
        """From opinions and features (N, D) in another order."""
        place, classes = order.numpy(), opinions[0].classes
        classes = None if classes is None else classes[place]
        kept = tuple(Opinion(each.kind, each.distances[place].astype(np.float16), classes=classes) for each in opinions)
        if features is not None and (size := 2 * features.numel()) > MOST_FEATURES:
            log.info("Features are not kept for the review: they would take %.1f GB.", size / 1e9)
            features = None
        return cls(kept, None if features is None else _rescaled(features, order))


def _rescaled(features: Tensor, order: Tensor) -> Tensor:
    """Features in an order as float16, at a scale that it can hold: similarities do not depend on the scale."""
    largest = max((part.abs().amax().item() for part in features.split(BLOCK) if part.numel()), default=0.0)
    scale = 2.0 ** math.floor(math.log2(largest)) if largest > 1e4 or 0 < largest < 1e-2 else 1.0
    half = torch.empty(features.shape, dtype=torch.float16)
    for rows, places in zip(half.split(BLOCK), order.split(BLOCK), strict=True):
        rows.copy_(features[places].float() / scale)
    return half


def write_kept(folder: Path, kept: Kept) -> None:
    tensors = {"distances": torch.from_numpy(all_distances(kept.opinions))}
    if kept.opinions[0].classes is not None:
        tensors["classes"] = torch.from_numpy(kept.opinions[0].classes.astype(np.int32))
    if kept.features is not None:
        tensors["features"] = kept.features
    write_tensors(folder / JUDGED, tensors, {"judges": json.dumps([each.kind for each in kept.opinions])})


def are_classes(classes: np.ndarray, shape: tuple[int, ...], number: int) -> bool:
    """Whether an array holds the classes (N, k) of distances: ascending numbers, the last that of the classes."""
    sound = classes.shape == shape and classes.dtype.kind == "i" and shape[1] >= 2
    return sound and bool(
        (classes[:, 0] >= 0).all() and (classes[:, -1] == number).all() and (np.diff(classes) > 0).all()
    )


def read_kept(folder: Path, images: int, classes: int) -> Kept | None:
    """What an audit kept; None if it kept nothing, or if the file is damaged or of another audit."""
    if not (folder / JUDGED).exists():
        return None
    try:
        tensors, metadata = read_tensors(own_file(folder, JUDGED))
        distances, features = tensors["distances"], tensors.get("features")
        kinds = json.loads(metadata["judges"])
        at = tensors["classes"].numpy() if "classes" in tensors else None
        named = zip(kinds, distances.numpy(), strict=True)
        opinions = tuple(Opinion(str(kind), each, classes=at) for kind, each in named)
        fits = distances.dtype == torch.float16 and distances.ndim == 3 and distances.shape[1] == images
        fits &= distances.shape[2] == classes if at is None else are_classes(at, distances.shape[1:], classes)
        if features is not None:
            fits &= features.ndim == 2 and len(features) == images and features.dtype == torch.float16
    except (HitNetError, KeyError, TypeError, ValueError, RecursionError):
        fits = False
    if not fits:
        log.warning("%s is damaged or of another audit, and is not used.", folder / JUDGED)
        return None
    return Kept(opinions, features)
