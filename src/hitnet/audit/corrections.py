"""What people decided on the review page: read from CSV, checked against the audit, applied to a copy.

A corrections file has the columns `id,path,given,decision,label`. The decision is keep, relabel, drop or
unsure; label is the new class of a relabelled image and empty otherwise. A file with any mistake changes
nothing: all its mistakes are named, each with its line.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch

from hitnet.audit.rewrite import write_corrected
from hitnet.data.images import Images
from hitnet.errors import HitNetError

COLUMNS = ("id", "path", "given", "decision", "label")
DECISIONS = ("keep", "relabel", "drop", "unsure")
SHOWN = 20  # problems named in one message


@dataclass(frozen=True)
class Correction:
    """One line of a corrections file."""

    line: int
    id: int
    path: str
    given: str
    decision: str
    label: str

    @property
    def outcome(self) -> tuple[str, str]:
        return self.decision, self.label if self.decision == "relabel" else ""


@dataclass(frozen=True)
class Applied:
    """What became of the images, how many of each; `data` is what `hitnet.data.load` reads."""

    data: Path
    kept: int
    relabelled: int
    dropped: int
    unsure: int
    untouched: int
    emptied: tuple[str, ...]  # classes that have lost their last image


def apply_corrections(
    table: pd.DataFrame,
    corrections: str | Path,
    images: Images,
    out: str | Path,
    *,
    source: str | Path | None = None,
) -> Applied:
    """Write the corrected data set into the new folder `out`; the original stays as it is.

    table        the audit's table
    corrections  the CSV that the review page exported
    images       the set to correct, by ids: all that was audited, and what else belongs to the set
    source       the folder of class folders, the table or the .npz that `images` was read from. Files of a
                 folder or a table are copied as they are; any other set becomes `out/images.npz`
    """
    read = read_corrections(corrections)
    decided = check_corrections(table, read, images.class_names, name=str(corrections))
    _check_same_data(table, images)
    index = {name: k for k, name in enumerate(images.class_names)}
    ids = images.ids.tolist()
    labels = images.labels.clone()
    keep = []
    for i, number in enumerate(ids):
        correction = decided.get(number)
        if correction is not None and correction.decision == "relabel":
            labels[i] = index[correction.label]
        if correction is None or correction.decision != "drop":
            keep.append(i)
    if not keep:
        raise HitNetError(f"{corrections} drops every image: nothing would be left.")
    corrected = images.with_labels(labels).select(keep)
    before = [images.class_names[int(images.labels[i])] for i in keep]
    data = write_corrected(corrected, before, Path(out), source=None if source is None else Path(source))
    return _applied(data, images, corrected, decided)


def read_corrections(path: str | Path) -> list[Correction]:
    """The lines of a corrections file; what each means is not yet checked, its form is."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise HitNetError(f"Cannot read the corrections {path}: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise HitNetError(f"{path} is not UTF-8 text. Save it as CSV UTF-8.") from None
    records = _records(text, str(path))
    header = next(records, (1, []))[1]
    if any(column not in header for column in COLUMNS):
        wanted = ",".join(COLUMNS)
        raise HitNetError(f"The first line of {path} must name the columns {wanted}; got {header}.")
    at = [header.index(column) for column in COLUMNS]
    corrections, problems = [], []
    for line, fields in records:
        if len(fields) != len(header):
            problems.append(f"line {line}: {len(fields)} fields where the first line names {len(header)}")
        elif not re.fullmatch("[0-9]{1,18}", number := fields[at[0]]):
            problems.append(f"line {line}: the id {number!r} is not a whole number")
        else:
            corrections.append(Correction(line, int(number), *(fields[i] for i in at[1:])))
    _raise_all(problems, str(path))
    return corrections


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
        if c.label not in class_names:
            c = replace(c, label=spelt.get(_comparable(c.label), c.label))
        earlier = decided.setdefault(c.id, c)
        problem = _problem(c, audited.get(c.id), class_names)
        if problem is None and earlier.outcome != c.outcome:
            problem = f"image {c.id} was decided otherwise on line {earlier.line}"
        if problem is not None:
            problems.append(f"line {c.line}: {problem}")
    _raise_all(problems, name)
    return decided


def _problem(c: Correction, audited: tuple[str, str] | None, class_names: Sequence[str]) -> str | None:
    if audited is None:
        return f"the audit has no image {c.id}"
    path, given = audited
    if _comparable(c.path) != _comparable(path):
        return f"image {c.id} is {path!r} in the audit, not {c.path!r}"
    if _comparable(c.given) != _comparable(given):
        return f"image {c.id} is labelled {given!r} in the audit, not {c.given!r}"
    if c.decision not in DECISIONS:
        return f"unknown decision {c.decision!r}; use {', '.join(DECISIONS)}"
    if c.decision != "relabel":
        return f"{c.decision} takes no label, got {c.label!r}" if c.label not in ("", given) else None
    if not c.label:
        return "relabel without a label"
    if c.label not in class_names:
        return f"{c.label!r} is not a class of the set; new classes cannot be made here"
    return "it relabels to the label it has; write keep" if c.label == given else None


def _comparable(text: str) -> str:
    """The text as it is after a browser, which changes line ends and cannot save half a surrogate pair."""
    return re.sub("[\ud800-\udfff]", "\ufffd", re.sub("\r\n?", "\n", text))


def _records(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it begins, fields) of each record that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begun = 1
    try:
        for fields in reader:
            if fields:
                yield begun, fields
            begun = reader.line_num + 1
    except csv.Error as error:
        raise HitNetError(f"{name}, line {begun}: this is not CSV ({error}).") from error


def _raise_all(problems: Sequence[str], name: str) -> None:
    if not problems:
        return
    more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
    what = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
    listed = "\n".join(f"  {problem}" for problem in [*problems[:SHOWN], *more])
    raise HitNetError(f"{name} has {what}; nothing was written.\n{listed}")


def _check_same_data(table: pd.DataFrame, images: Images) -> None:
    """Refuse a set that is no longer the one that was audited."""
    ids = images.ids.tolist()
    place = {number: i for i, number in enumerate(ids)}
    if len(place) < len(ids):
        raise HitNetError(f"{images.name}: two images have the same id, so corrections cannot be told apart.")
    paths = images.paths
    rows = zip(table["id"].tolist(), table["path"].fillna(""), table["given"], strict=True)
    for number, path, given in rows:
        i = place.get(int(number))
        found = None if i is None else images.class_names[int(images.labels[i])]
        if i is None or found != given or (paths is not None and path != paths[i]):
            what = "is not there" if i is None else f"is now {paths[i] if paths else ''!r} labelled {found!r}"
            raise HitNetError(
                f"{images.name} is not the set that was audited: image {number}, {path!r} labelled {given!r}, "
                f"{what}. Give the audited data, or audit again."
            )


def _applied(data: Path, before: Images, after: Images, decided: Mapping[int, Correction]) -> Applied:
    count = Counter(correction.decision for correction in decided.values())
    sizes = [torch.bincount(images.labels, minlength=images.num_classes) for images in (before, after)]
    emptied = [name for name, old, new in zip(before.class_names, *sizes, strict=True) if old and not new]
    return Applied(
        data=data,
        kept=count["keep"],
        relabelled=count["relabel"],
        dropped=count["drop"],
        unsure=count["unsure"],
        untouched=len(before) - len(decided),
        emptied=tuple(emptied),
    )
