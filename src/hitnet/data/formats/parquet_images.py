"""A Parquet file with the images in it, as Hugging Face writes it: a column of bytes and path, and one of labels.

Needs no package beyond hitnet's own. If the labels are of type `ClassLabel`, the schema's metadata names the classes.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from hitnet.data.formats.hugging_face import LABELS, changes, image_file, named_labels
from hitnet.data.formats.image_files import FileData
from hitnet.data.formats.items import ItemData, Rows
from hitnet.data.formats.table import is_table, replaced
from hitnet.data.images import label_name
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.parquet import LARGEST, read_arrow
from hitnet.data.reading.stored import AnyFile, AnyPath, check_readable, opened, path_or_address
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder

METADATA = b"huggingface"


class ParquetRows(Rows):
    """The rows of a Parquet file."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        schema = _schema(path)
        labels = [name for name in LABELS if name in schema.names]
        if not labels:
            raise HitNetError(
                f"{path} has images, but no column of labels. Expected one of {', '.join(LABELS)}; "
                f"found {', '.join(schema.names)}."
            )
        self.label = labels[0]
        table = read_arrow(path, [_image_column(schema) or "", self.label])
        self.images, self.values = table.column(0), table.column(1).to_pylist()
        self.class_names = _class_names(schema.metadata, self.label)

    def __len__(self) -> int:
        return len(self.values)

    def labels(self) -> list[str | None]:
        return named_labels(self.values, self.class_names)

    def file(self, row: int) -> AnyFile:
        cell = self.images[row].as_py()
        cell = {"bytes": cell} if isinstance(cell, bytes) else cell
        return image_file(cell, f"{self.path}, row {row}", self.path.parent)


class ParquetImageData(ItemData):
    """A Parquet file with the images in it. A corrected copy is a Parquet file with the same columns."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        if not is_table(source) or path_or_address(source).suffix.lower() != ".parquet":
            return False
        try:
            return _image_column(_schema(path_or_address(source))) is not None
        except Exception:  # the reader of tables says what is wrong
            return False

    address = FileData.address

    @property
    def title(self) -> str:
        return self.path.stem

    @cached_property
    def rows(self) -> ParquetRows:
        return ParquetRows(self.path)

    def _rows(self, part: Any) -> ParquetRows:
        return self.rows

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        check_target(out, originals=[])
        changed, dropped = changes(relabelling, "", len(self.rows))
        copy, column, names = read_arrow(self.path), self.rows.label, self.rows.class_names
        place = copy.column_names.index(column)
        if names is None:
            texts = [label_name(value) or "" for value in self.rows.values]
            copy = copy.set_column(place, column, replaced(copy[column], texts, changed))
        else:
            names = list(dict.fromkeys([*names, *relabelling.class_names]))
            values = [names.index(changed[i]) if i in changed else value for i, value in enumerate(self.rows.values)]
            copy = copy.set_column(place, column, pa.array(values, copy[column].type))
            about = json.loads(copy.schema.metadata[METADATA])
            about["info"]["features"][column]["names"] = names
            copy = copy.replace_schema_metadata({**copy.schema.metadata, METADATA: json.dumps(about)})
        with new_folder(out) as folder:
            rows = [row for row in range(len(copy)) if row not in dropped]
            pq.write_table(copy.take(rows), folder / self.path.name)
        return out / self.path.name, ""


def _schema(path: AnyPath) -> Any:
    import pyarrow.parquet as pq

    check_readable(path, largest=LARGEST)
    return pq.read_schema(opened(path))


def _image_column(schema: Any) -> str | None:
    """The first column of encoded images: bytes, alone or beside a path."""
    import pyarrow.types as types

    for field in schema:
        struct = types.is_struct(field.type) and field.type.get_field_index("bytes") >= 0
        if struct or types.is_binary(field.type) or types.is_large_binary(field.type):
            return str(field.name)
    return None


def _class_names(metadata: dict[bytes, bytes] | None, column: str) -> list[str] | None:
    try:
        names = json.loads((metadata or {})[METADATA])["info"]["features"][column]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    sound = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if sound else None
