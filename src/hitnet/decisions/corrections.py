"""Check what people decided against the audit, and apply it to a copy of the data.

Corrections with any mistake change nothing: all mistakes are named, each with its line.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hitnet.data import Data, ImageSet, Relabelling
from hitnet.data.images import label_name
from hitnet.data.reading.stored import file_checksum
from hitnet.decisions.correction_files import listed, raise_all, read_corrections
from hitnet.decisions.rules import Audited, Correction, Settled, problem
from hitnet.decisions.steps import Change
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_vacant, expand
from hitnet.runtime.spreadsheets import undefuse

Corrections = str | Path | Settled  # a file that `read_corrections` reads, or what was decided in a review
ALONE = "the audit alone"  # the place of corrections that nobody decided on


@dataclass(frozen=True)
class Applied:
    """How many images were changed in which way; `data` is what `open_data` reads."""

    data: Path
    kept: int
    relabelled: int
    alone: int  # of these, those that only the audit decided on
    dropped: int
    neither: int  # no known label fits; these images stay as they are
    unsure: int
    disputed: int  # reviewers disagree; these images stay as they are
    untouched: int  # with those that were not audited
    not_audited: int
    gone: int  # audited images that the set has no more; nothing was decided on them
    left_out: int  # decided images that the copy does not have, e.g. links out of the set; not counted above
    changed: tuple[str, ...]  # decided files that are not those that were audited; their labels stay as they are
    emptied: tuple[str, ...]  # classes that have lost their last image
    note: str  # what else to know of the corrected data; mostly empty


def audited_images(table: pd.DataFrame) -> Audited:
    """Path and label of each image of an audit's table, by id."""
    rows = zip(table["id"].tolist(), table["path"].fillna("").tolist(), table["given"].tolist(), strict=True)
    return {int(number): (str(path), str(given)) for number, path, given in rows}


def correct(
    data: Data,
    table: pd.DataFrame,
    corrections: Corrections,
    out: str | Path,
    *,
    class_names: Sequence[str] = (),
    split: str = "all",
) -> Applied:
    """Write the corrected dataset into the new folder `out`; the original stays as it is.

    The `split` of the data was audited. Corrections are a file that `read_corrections` reads, or what was decided in a
    review. Of `class_names`, which the audit knows, also those can be given that the set has no image of.
    """
    # What can be known at once comes before the images, which may take long to read.
    check_vacant(expand(out))
    data.check_outside(out)
    name, given = _named(corrections)
    images = data.images_to_correct(split)
    names = tuple(dict.fromkeys((*images.class_names, *class_names)))
    decided = check_corrections(audited_images(table), given.corrections, names, name=name)
    places = _places(table, images, by_path=data.by_path)
    _check_none_gone(decided.values(), places, images.name, name=name)
    changed = _changed_files(data, images, table, {number: places[number] for number in decided})
    changes = {number: correction.change for number, correction in decided.items() if number not in changed}
    labels, dropped = images.labels.clone(), set()
    for number, change in changes.items():
        if change.decision == "relabel":
            labels[places[number]] = names.index(change.label)
        elif change.decision == "drop":
            dropped.add(places[number])
    relabelling = Relabelling(images, labels, [i for i in range(len(images)) if i not in dropped], names, split)
    if not relabelling.keep:
        raise HitNetError(f"{name} drops every image: nothing would be left.")
    had, has = set(images.labels.tolist()), set(relabelling.labels[relabelling.keep].tolist())
    path, note = data.write_corrected(relabelling, expand(out))
    left_out = relabelling.left_out - {""}
    copied = {number: change for number, change in changes.items() if change.path not in left_out}
    count = Counter(change.decision for change in copied.values())
    return Applied(
        data=path,
        kept=count["keep"],
        relabelled=count["relabel"],
        alone=sum(decided[number].place == ALONE for number in copied),
        dropped=count["drop"],
        neither=count["neither"],
        unsure=count["unsure"],
        disputed=given.disputed,
        untouched=len(images) - len(changes),
        not_audited=len(images) - len(places),
        gone=len(table) - len(places),
        left_out=len(changes) - len(copied),
        changed=tuple(sorted(decided[number].change.path for number in changed)),
        emptied=tuple(name for k, name in enumerate(names) if k in had and k not in has),
        note=note,
    )


def corrected_labels(table: pd.DataFrame, corrections: Corrections, class_names: Sequence[str]) -> pd.DataFrame:
    """The labels of an audit's images after the corrections, by id; dropped images have no row.

    The columns: `id` and `path` of the image, the `label` that counts now, the `given` one, and the `decision`, if any.
    """
    name, given = _named(corrections)
    decided = check_corrections(audited_images(table), given.corrections, class_names, name=name)
    nothing = Correction("", Change(0, "", "", ""))
    changes = [decided.get(number, nothing).change for number in table["id"].tolist()]
    labels = [change.label or given for change, given in zip(changes, table["given"], strict=True)]
    decisions = [change.decision for change in changes]
    rows = table[["id", "path"]].assign(label=labels, given=table["given"], decision=decisions)
    return rows[rows["decision"] != "drop"].sort_values("id", ignore_index=True)


def _named(corrections: Corrections) -> tuple[str, Settled]:
    """What corrections are called in messages, and what they are."""
    if isinstance(corrections, Settled):
        return "The review", corrections
    return str(corrections), read_corrections(corrections)


def _changed_files(data: Data, images: ImageSet, table: pd.DataFrame, places: Mapping[int, int]) -> set[int]:
    """Ids of images whose files are no longer those that were audited; their places in the set are by id."""
    files = data.image_files(images)
    if files is None or "checksum" not in table:
        return set()
    sums = dict(zip(table["id"].tolist(), table["checksum"].tolist(), strict=True))
    return {number for number, i in places.items() if sums[number] and file_checksum(files[i]) != sums[number]}


def check_corrections(
    audited: Audited, corrections: Iterable[Correction], class_names: Sequence[str], *, name: str
) -> dict[int, Correction]:
    """The corrections by id, or an error that names every one that does not fit the audit."""
    spelt = {_comparable(each): each for each in class_names}
    decided: dict[int, Correction] = {}
    problems = []
    for place, written in corrections:
        change = _as_audited(written, audited, class_names, spelt)
        earlier = decided.setdefault(change.id, Correction(place, change))
        wrong = problem(change, audited, class_names)
        if wrong is None and earlier.change != change:
            wrong = f"image {change.id} was decided otherwise on {earlier.place}"
        if wrong is not None:
            problems.append(f"{place}: {wrong}")
    raise_all(problems, name)
    return decided


def _as_audited(change: Change, audited: Audited, class_names: Sequence[str], spelt: Mapping[str, str]) -> Change:
    """The same in the audit's own words: browsers and spreadsheets change texts, and mark what would be formulas."""
    path, given = (
        known if _comparable(known) in (_comparable(read), _comparable(undefuse(read))) else read
        for read, known in zip(change[1:3], audited.get(change.id, change[1:3]), strict=True)
    )
    label = undefuse(change.label)
    if label not in class_names:
        label = change.label if change.label in class_names else spelt.get(_comparable(label_name(label) or ""), label)
    if change.decision != "relabel" and label == given:
        label = ""
    return Change(change.id, path, given, change.decision, label)


def _comparable(text: str) -> str:
    """The text as it is after a browser, which changes line ends and cannot save half a surrogate pair."""
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub("\r\n?", "\n", text))


def _places(table: pd.DataFrame, images: ImageSet, *, by_path: bool) -> dict[int, int]:
    """The place in the set of each audited image, by id; an error if an audited label has changed.

    By path, images may have been added or removed since; by id, those that were audited must all be there.
    """
    paths = None if images.paths is None else list(images.paths)
    labels = images.labels.tolist()
    keys: list[str] | list[int] = paths if by_path and paths is not None else images.ids.tolist()
    place = {key: i for i, key in enumerate(keys)}
    if len(place) < len(keys):
        what = "path" if by_path else "id"
        raise HitNetError(f"{images.name}: two images have the same {what}, so corrections cannot be told apart.")
    places = {}
    for number, (path, given) in audited_images(table).items():
        i = place.get(path if by_path else number)
        if i is None and by_path:
            continue
        now = None if i is None else images.class_names[labels[i]]
        if i is None or now != given or (paths is not None and path != paths[i]):
            what = "is not there" if i is None else f"is now {paths[i] if paths else ''!r} labelled {now!r}"
            raise HitNetError(
                f"{images.name} is not the set that was audited: image {number}, {path!r} labelled {given!r}, "
                f"{what}. Give the audited data, or audit again."
            )
        places[number] = i
    return places


def _check_none_gone(decided: Iterable[Correction], places: Mapping[int, int], data: str, *, name: str) -> None:
    gone = [f"{place}: {change.path}" for place, change in decided if change.id not in places]
    if gone:
        images = "an image" if len(gone) == 1 else f"{len(gone)} images"
        raise HitNetError(
            f"{name} decides on {images} that {data} no longer has, or that cannot be read; nothing was written.\n"
            f"{listed(gone)}\nPut the files back, or remove their lines. If the data has moved, set `data` to its "
            "new place."
        )
