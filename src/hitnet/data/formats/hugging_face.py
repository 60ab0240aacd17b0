"""Hugging Face's datasets: `datasets.Dataset`, `DatasetDict`, and folders that `save_to_disk` wrote.

The images are in the column of type `Image`. The labels are in the column `label` (or class, target, category), else in
the only one of type `ClassLabel`. Rows whose label is empty or -1 are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from hitnet.data.formats.items import ItemData, Rows, path_of
from hitnet.data.images import label_name
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.decode import UnreadableImageError
from hitnet.data.reading.stored import AnyFile, Root, StoredFile, join
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand, new_folder

LABELS = ("label", "labels", "class", "target", "category")


def named_labels(values: Sequence[Any], names: Sequence[str] | None) -> list[str | None]:
    """Labels as names of classes: of the indices into `names`, or of themselves."""
    if names is None:
        return [label_name(value) for value in values]
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else None for value in values]


def image_file(cell: Mapping[str, Any] | None, name: str, root: Root | None = None) -> AnyFile:
    """The image in a cell of bytes and path, which starts at `root` where that is given."""
    content, path = (None, None) if cell is None else (cell.get("bytes"), cell.get("path"))
    if content is None and path is not None:
        return Path(path) if root is None else join(root, path)
    return StoredFile(name, lambda: _need(content))


def _need(content: bytes | None) -> bytes:
    if content is None:
        raise UnreadableImageError("it has no image")
    return content


class DatasetRows(Rows):
    """The rows of a `datasets.Dataset`."""

    def __init__(self, dataset: Any, title: str) -> None:
        self.dataset, self.title = dataset, title
        self.image, self.label = self._columns()
        # Undecoded: hitnet decodes images itself, in the same way as those of files.
        plain = dataset.with_format(None).select_columns([self.image])
        self.images = plain.cast_column(self.image, _package().Image(decode=False))

    def _columns(self) -> tuple[str, str]:
        """The columns of images and labels."""
        package, features = _package(), self.dataset.features
        images = [name for name, kind in features.items() if isinstance(kind, package.Image)]
        classes = [name for name, kind in features.items() if isinstance(kind, package.ClassLabel)]
        labels = [name for name in LABELS if name in features] or (classes if len(classes) == 1 else [])
        if len(images) != 1 or not labels:
            what = "no column of labels" if len(images) == 1 else f"{len(images)} columns of images"
            raise HitNetError(
                f"{self.title} has {what}. Expected one column of type Image, and one named {', '.join(LABELS)} or of "
                f"type ClassLabel; found {', '.join(features)}. Rename or remove columns first."
            )
        if not isinstance(features[labels[0]], package.Value | package.ClassLabel):
            raise HitNetError(
                f"{self.title}: the column {labels[0]} must hold one label per row, a number or a text; it is of type "
                f"{type(features[labels[0]]).__name__}."
            )
        return images[0], labels[0]

    @property
    def class_names(self) -> list[str] | None:
        """The names of the classes; None for labels that are not of type ClassLabel."""
        names: list[str] | None = getattr(self.dataset.features[self.label], "names", None)
        return names

    def __len__(self) -> int:
        return len(self.dataset)

    def labels(self) -> list[str | None]:
        return named_labels(list(self.dataset.with_format(None)[self.label]), self.class_names)

    def file(self, row: int) -> AnyFile:
        return image_file(self.images[row][self.image], f"{self.title}, row {row}")

    def corrected(self, labels: Mapping[int, str], dropped: set[int], class_names: tuple[str, ...]) -> Any:
        """The dataset with new labels for some rows, and without others."""
        import pyarrow as pa  # takes a moment to import

        package, names, column = _package(), self.class_names, self.label
        values = list(self.dataset.with_format(None)[column])
        kind = self.dataset.features[column]
        if names is None:
            for row, label in labels.items():
                values[row] = pa.scalar(label).cast(kind.pa_type).as_py()
        else:
            names = list(dict.fromkeys([*names, *class_names]))
            kind = package.ClassLabel(names=names)
            for row, label in labels.items():
                values[row] = names.index(label)
        relabelled = self.dataset.remove_columns(column).add_column(column, values, feature=kind)
        ordered = relabelled.select_columns(self.dataset.column_names)
        return ordered.select([row for row in range(len(values)) if row not in dropped])


class HuggingFaceData(ItemData):
    """A `datasets.Dataset`, a `DatasetDict`, or the folder of one."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        if isinstance(source, str | Path):
            return is_saved_dataset(expand(source))
        return type(source).__module__.partition(".")[0] == "datasets"

    @property
    def address(self) -> str:
        return str(expand(self.source).absolute()) if isinstance(self.source, str | Path) else self.title

    @cached_property
    def content(self) -> Any:
        package = _package()
        if isinstance(self.source, str | Path):
            return _loaded(expand(self.source))
        if not isinstance(self.source, package.Dataset | package.DatasetDict):
            raise HitNetError(
                f"Data cannot be opened from a {type(self.source).__name__}. Give a datasets.Dataset or DatasetDict, "
                "loaded without streaming."
            )
        return self.source

    @property
    def title(self) -> str:
        if isinstance(self.source, str | Path):
            return expand(self.source).resolve().name
        first = next(iter(self.content.values())) if isinstance(self.content, Mapping) else self.content
        return str(getattr(first.info, "dataset_name", None) or first.info.builder_name or "dataset")

    def _rows(self, part: Any) -> DatasetRows:
        return DatasetRows(part, self.title)

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Write the dataset as `save_to_disk` does, with all its columns; `datasets.load_from_disk` reads it."""
        originals = [expand(self.source)] if isinstance(self.source, str | Path) else []
        check_target(out, originals=originals)
        corrected = {}
        for name, rows in cast(dict[str, DatasetRows], self.parts).items():
            changed, dropped = changes(relabelling, name, len(rows))
            corrected[name] = rows.corrected(changed, dropped, relabelling.class_names)
        whole = corrected[""] if "" in corrected else _package().DatasetDict(corrected)
        with new_folder(out) as folder:
            whole.save_to_disk(str(folder))
        return out, ""


def changes(relabelling: Relabelling, split: str, count: int) -> tuple[dict[int, str], set[int]]:
    """The new labels of the rows of a split that are relabelled, and the rows that are dropped."""
    triples = zip(relabelling.paths, relabelling.before, relabelling.after, strict=True)
    changed = {path: new for path, old, new in triples if new != old}
    paths, dropped = [path_of(split, row) for row in range(count)], relabelling.dropped
    new = {row: changed[path] for row, path in enumerate(paths) if path in changed}
    return new, {row for row, path in enumerate(paths) if path in dropped}


def is_saved_dataset(path: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (path / "dataset_dict.json").is_file() or all(
        (path / name).is_file() for name in ("dataset_info.json", "state.json")
    )


def _loaded(path: Path) -> Any:
    package = _package()
    try:
        loaded = package.load_from_disk(str(path))
        for part in loaded.values() if isinstance(loaded, Mapping) else [loaded]:
            part.data.validate(full=True)  # offsets that lead outside the file would crash the interpreter
            DatasetRows(part, path.name)  # copies what the JSON files say, which may be nested too deeply
            names = [name for kind in part.features.values() for name in getattr(kind, "names", None) or ()]
            if not all(isinstance(name, str) for name in names):
                raise TypeError("a class has a name that is no text")
        return loaded
    except HitNetError:
        raise
    except Exception as error:  # a damaged file makes the reader raise almost anything
        raise HitNetError(f"{path} is not a readable data set: {error}") from error


def _package() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise HitNetError(
            f"Hugging Face's data sets need the package {error.name}: pip install 'hitnet[hf]'."
        ) from error
    return datasets
