"""Hugging Face's datasets: `datasets.Dataset`, `DatasetDict`, and folders that `save_to_disk` wrote.

The images are in the column of type `Image`. The labels are in the column `label` (or class, target, category), else in
the only one of type `ClassLabel`. Rows whose label is empty or -1 are left out.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from hitnet.data.formats.items import ItemData, Rows, path_of
from hitnet.data.images import LABELS, label_name
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.stored import cell_file
from hitnet.errors import HitNetError, need
from hitnet.runtime.files import expand, new_folder


class HuggingFaceData(ItemData):
    """A `datasets.Dataset`, a `DatasetDict`, or the folder of one."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        if isinstance(source, str | Path):  # a folder that `save_to_disk` wrote
            saved = ("dataset_dict.json",), ("dataset_info.json", "state.json")
            return any(all((expand(source) / name).is_file() for name in names) for names in saved)
        return type(source).__module__.partition(".")[0] == "datasets"

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
    def name(self) -> str:
        if isinstance(self.source, str | Path):
            return expand(self.source).resolve().name
        first = next(iter(self.content.values())) if isinstance(self.content, Mapping) else self.content
        return str(getattr(first.info, "dataset_name", None) or first.info.builder_name or "dataset")

    def rows(self, part: Any) -> Rows:
        image, label = _columns(part, self.name)
        images = _undecoded(part, image)
        values, names = list(part.with_format(None)[label]), getattr(part.features[label], "names", None)
        if names is None:
            labels = [label_name(value) for value in values]
        else:
            labels = [names[k] if k is not None and 0 <= k < len(names) else None for k in values]
        return Rows(labels, lambda row: cell_file(images[row][image], f"{self.name}, row {row}"))

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Write the dataset as `save_to_disk` does, with all its columns; `datasets.load_from_disk` reads it."""
        check_target(out, originals=[expand(self.source)] if isinstance(self.source, str | Path) else [])
        corrected = {name: self._corrected(name, part, relabelling) for name, part in self.parts.items()}
        whole = corrected[""] if "" in corrected else _package().DatasetDict(corrected)
        with new_folder(out) as folder:
            whole.save_to_disk(str(folder))
        return out, ""

    def _corrected(self, split: str, dataset: Any, relabelling: Relabelling) -> Any:
        """The dataset of a split with new labels for some rows, and without others."""
        import pyarrow as pa  # takes a moment to import

        changed, dropped = relabelling.changed, relabelling.dropped
        paths = [path_of(split, row) for row in range(len(dataset))]
        column = _columns(dataset, self.name)[1]
        values, kind = list(dataset.with_format(None)[column]), dataset.features[column]
        names = getattr(kind, "names", None)
        if names is not None:
            names = list(dict.fromkeys([*names, *relabelling.class_names]))
            kind = _package().ClassLabel(names=names)
        for row, path in enumerate(paths):
            if path in changed:
                label = changed[path]
                values[row] = names.index(label) if names else pa.scalar(label).cast(kind.pa_type).as_py()
        relabelled = dataset.remove_columns(column).add_column(column, values, feature=kind)
        ordered = relabelled.select_columns(dataset.column_names)
        return ordered.select([row for row, path in enumerate(paths) if path not in dropped])


def _columns(dataset: Any, title: str) -> tuple[str, str]:
    """The columns of images and labels."""
    package, features = _package(), dataset.features
    images = [name for name, kind in features.items() if isinstance(kind, package.Image)]
    classes = [name for name, kind in features.items() if isinstance(kind, package.ClassLabel)]
    labels = [name for name in LABELS if name in features] or (classes if len(classes) == 1 else [])
    if len(images) != 1 or not labels:
        what = "no column of labels" if len(images) == 1 else f"{len(images)} columns of images"
        raise HitNetError(
            f"{title} has {what}. Expected one column of type Image, and one named {', '.join(LABELS)} or of "
            f"type ClassLabel; found {', '.join(features)}. Rename or remove columns first."
        )
    if not isinstance(features[labels[0]], package.Value | package.ClassLabel):
        raise HitNetError(
            f"{title}: the column {labels[0]} must hold one label per row, a number or a text; it is of type "
            f"{type(features[labels[0]]).__name__}."
        )
    return images[0], labels[0]


def _undecoded(dataset: Any, image: str) -> Any:
    """The column of images as bytes: hitnet decodes them itself, in the same way as those of files."""
    return dataset.with_format(None).select_columns([image]).cast_column(image, _package().Image(decode=False))


def _loaded(path: Path) -> Any:
    package = _package()
    try:
        loaded = package.load_from_disk(str(path))
        for part in loaded.values() if isinstance(loaded, Mapping) else [loaded]:
            part.data.validate(full=True)  # offsets that lead outside the file would crash the interpreter
            _undecoded(part, _columns(part, path.name)[0])  # copies what the JSON files say, perhaps nested too deeply
            names = [name for kind in part.features.values() for name in getattr(kind, "names", None) or ()]
            if not all(isinstance(name, str) for name in names):
                raise TypeError("a class has a name that is no text")
        return loaded
    except HitNetError:
        raise
    except Exception as error:  # a damaged file makes the reader raise almost anything
        raise HitNetError(f"{path} is not a readable dataset: {error}") from error


def _package() -> Any:
    return need("Hugging Face's datasets", "datasets")
