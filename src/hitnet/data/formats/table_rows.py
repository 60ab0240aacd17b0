"""The rows of a table of image files: which columns are read, and what they say about each image."""

import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from hitnet.data.images import LABELS, label_name
from hitnet.data.reading.array_files import class_names, read_parquet
from hitnet.data.reading.entries import Entries, Listing, Skipped
from hitnet.data.reading.stored import AnyPath, Root, cell_file, check_readable, opened
from hitnet.data.split import natural, split_name
from hitnet.errors import HitNetError

PATHS = ("path", "image", "file", "filename", "image_path", "file_name", "filepath", "file_path", "image_file", "img")
LARGEST = 4 << 30  # bytes of a table in text
HERE = re.compile(r"(?:^|(?<=/))(?:\./+)+")  # ./a.png is a.png
VOTE = re.compile(r"label_?\d+|annotator(?!_?id$|_?name$).+")


@dataclass(frozen=True)
class Table:
    """A table's cells, and which columns are read."""

    path: AnyPath
    frame: pd.DataFrame
    image: str  # the column of image paths, or of the images themselves
    stated: tuple[str, ...]  # the column of labels, if there is one
    votes: tuple[str, ...]  # the columns of several people's labels
    splits: tuple[str, ...]  # the column of splits, if there is one
    class_names: list[str] | None = None  # what numbers in the column of labels stand for, where the file says it

    @cached_property
    def root(self) -> Root:
        """Where the paths of the images start."""
        folder, cells = self.path.parent, self.frame[self.image]
        if not self.holds_images:
            return folder
        return lambda row: cell_file(cells.iloc[int(row)], f"{self.path}, row {row}", folder)

    @cached_property
    def holds_images(self) -> bool:
        return _holds_images(self.frame[self.image])

    def texts(self, column: str) -> list[str]:
        return [_text(value, self.path, column) for value in self.frame[column]]

    def labels(self, column: str) -> list[str | None]:
        names = [label_name(text) for text in self.texts(column)]
        if self.class_names is None or column not in self.stated:
            return names
        name_of = {str(k): name for k, name in enumerate(self.class_names)}
        return [name_of.get(name or "") for name in names]

    def files(self) -> list[str]:
        """The image path of each row, as in `Images.paths`; empty if the row has none.

        Of images in the table itself, the number of the row.
        """
        if self.holds_images:
            return [str(i) for i in range(len(self.frame))]
        return [HERE.sub("", text.replace("\\", "/")) for text in self.texts(self.image)]

    def listing(self) -> Listing:
        """The images that the table names, in the order of its rows."""
        rows, skipped = _gather(self)
        labelled = [row for row in rows if row.label is not None]
        skipped += [Skipped(row.path, f"{row.where} gives no label (empty or -1)") for row in rows if row.label is None]
        if not labelled:
            raise HitNetError(f"{self.path} holds no row with an image path and a label; empty and -1 mean none.")
        paths, labels = [row.path for row in labelled], [row.label or "" for row in labelled]
        given = _given_splits(labelled, self.path)
        entries = Entries.of(self.root, paths, labels, given, ids=(row.id for row in labelled))
        return Listing(self.path.stem, entries, tuple(skipped))

    def agreement(self) -> pd.DataFrame:
        """Annotator agreement: one row per labelled image, indexed by id (as in `Images.ids`). Its columns:

        path           as in `Images.paths`
        label          the label that counts
        votes          how many labels people gave the image (1 if the table has one label per image)
        agreement      the share of these votes for `label`, 0 to 1
        votes_<class>  how many votes each class got; classes in natural order, also those that never won
        """
        rows = [row for row in _gather(self)[0] if row.label is not None]
        classes = sorted({vote for row in rows for vote in (*row.stated, *row.votes)}, key=natural)
        counts = [Counter(row.votes or row.stated) for row in rows]
        columns = {
            "path": [row.path for row in rows],
            "label": [row.label for row in rows],
            "votes": [count.total() for count in counts],
            "agreement": [count[row.label or ""] / count.total() for row, count in zip(rows, counts, strict=True)],
        }
        columns |= {f"votes_{label}": [count[label] for count in counts] for label in classes}
        return pd.DataFrame(columns, index=pd.Index([row.id for row in rows], name="id"))


def _holds_images(cells: pd.Series) -> bool:
    """Whether a column holds encoded images: bytes, or bytes beside a path as Hugging Face writes them."""
    first = next((cell for cell in cells if cell is not None), None)
    return isinstance(first, bytes) or (isinstance(first, dict) and "bytes" in first)


@dataclass
class _Row:
    """What all rows of one image say about it."""

    id: int
    path: str
    where: str
    stated: list[str] = field(default_factory=list)
    votes: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)

    @cached_property
    def label(self) -> str | None:
        """The majority's label; in a tie, the first."""
        labels = self.stated or self.votes
        return Counter(labels).most_common(1)[0][0] if labels else None


def read_table(path: AnyPath) -> Table:
    """Read a table and find the columns that matter."""
    frame = _read(path)
    columns = {str(column).strip().lower(): column for column in frame.columns}
    named = [name for name in PATHS if name in columns]
    pictures = [name for name in named or columns if _holds_images(frame[columns[name]])]
    image = pictures[0] if pictures else _one_of(PATHS, columns, path, "image paths")
    voted = [name for name in columns if VOTE.fullmatch(name)]
    stated = [] if voted and not set(LABELS) & set(columns) else [_one_of(LABELS, columns, path, "labels")]
    splits = [name for name in columns if name == "split"]
    label, votes, split = (tuple(columns[name] for name in names) for names in (stated, voted, splits))
    names = class_names(path, label[0]) if path.suffix.lower() == ".parquet" and label else None
    return Table(path, frame, columns[image], label, votes, split, names)


def _gather(table: Table) -> tuple[list[_Row], list[Skipped]]:
    cells: dict[str, list[str | None]] = {name: table.labels(name) for name in (*table.stated, *table.votes)}
    cells |= {name: [text or None for text in table.texts(name)] for name in table.splits}
    rows: dict[str, _Row] = {}
    skipped = []
    for i, file in enumerate(table.files()):
        where = f"row {i + 1}"
        if not file:
            skipped.append(Skipped(f"{table.path.name}, {where}", "it gives no image path"))
            continue
        row = rows.setdefault(file, _Row(len(rows), file, where))
        for kept, names in ((row.stated, table.stated), (row.votes, table.votes), (row.splits, table.splits)):
            kept += [cell for name in names if (cell := cells[name][i]) is not None]
    return list(rows.values()), skipped


def _one_of(wanted: tuple[str, ...], columns: dict[str, str], path: AnyPath, what: str) -> str:
    name = next((name for name in wanted if name in columns), None)
    if name is None:
        raise HitNetError(
            f"{path} has no column of {what}. Expected one of {', '.join(wanted)}; "
            f"found {', '.join(columns.values()) or 'none'}."
        )
    return name


def _read(path: AnyPath) -> pd.DataFrame:
    kind = path.suffix.lower()
    if kind == ".parquet":
        return read_parquet(path)
    check_readable(path, largest=LARGEST)
    try:
        separator = "\t" if kind == ".tsv" else ","
        header = pd.read_csv(opened(path), sep=separator, nrows=0, encoding="utf-8-sig").columns
        if len(header) == 1 and any(sign in header[0] for sign in ",;\t" if sign != separator):
            raise HitNetError(
                f"{path}: columns must be separated by {'tabs' if kind == '.tsv' else 'commas'}; "
                f"its header is one column only, {header[0]!r}."
            )
        with warnings.catch_warnings():
            # With index_col=False, pandas warns of rows with more cells than the header instead of shifting them.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                opened(path), sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig", index_col=False
            )
    except pd.errors.ParserWarning as error:
        raise HitNetError(
            f"{path}: its rows have more cells than its header. Name every column, remove separators at the end of "
            "rows, and put cells that hold one in quotes."
        ) from error
    except HitNetError:
        raise
    except pd.errors.EmptyDataError as error:
        raise HitNetError(f"{path} is empty. A table needs a header that names its columns, and rows.") from error
    except UnicodeDecodeError as error:
        raise HitNetError(f"{path} is not a readable {kind} table: {error}. Save it as UTF-8.") from error
    # A damaged file makes the readers raise almost anything.
    except Exception as error:
        raise HitNetError(f"{path} is not a readable {kind} table: {str(error).strip()}") from error


def _text(value: object, path: AnyPath, column: str) -> str:
    """A cell as text; a missing cell is empty, and a whole number is written without a decimal point."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bytes | dict | list | np.ndarray):
        raise HitNetError(f"{path}: column {column} must hold text or numbers; it holds {type(value).__name__}.")
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, float | np.floating) and value.is_integer():
        return str(int(value))
    return str(value)


def _given_splits(rows: list[_Row], path: AnyPath) -> list[str] | None:
    if not any(row.splits for row in rows):
        return None
    given = []
    for row in rows:
        meant = {split_name(split, where=f"{path}, {row.where}") for split in row.splits}
        if len(meant) != 1:
            problem = "gives no split" if not meant else f"and others put {row.path} into several splits"
            raise HitNetError(f"{path}: {row.where} {problem}. Give each image one split, or remove the column.")
        given.append(meant.pop())
    return given
