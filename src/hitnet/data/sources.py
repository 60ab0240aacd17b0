"""The door for data: `open_data` makes opened data of a name, a path or images in memory.

A new format is one class derived from `Data` in a file of its own, and one entry in FORMATS.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from hitnet.data.formats.arrays import MemoryData, NpzData
from hitnet.data.formats.folder import FolderData
from hitnet.data.formats.hugging_face import HuggingFaceData
from hitnet.data.formats.items import MapStyleData
from hitnet.data.formats.table import TABLES, TableData
from hitnet.data.images import Images
from hitnet.data.known.catalogue import KNOWN_SETS
from hitnet.data.known.datasets import ClothingData, KnownData
from hitnet.data.opened import Check, Data, DataOptions
from hitnet.errors import HitNetError, MissingFileError, unknown_name
from hitnet.runtime.files import expand

# The first that accepts a source opens it.
FORMATS: list[type[Data]] = [MemoryData, ClothingData, KnownData, NpzData]
FORMATS += [HuggingFaceData, MapStyleData, FolderData, TableData]

# Also arrays (X, y), and anything with a length and items (image, label), alone or by split: {"train": …, "test": …}.
Source = str | Path | Images | Data | Sequence[Any] | Dataset[Any] | Mapping[str, Any]


def open_data(
    source: Source,
    *,
    image_size: int | tuple[int, int] | None = None,
    flip: bool | None = None,
    limit: int | None = None,
    strict: bool = False,
    stream: bool | None = None,
    test: Images | None = None,
    data_dir: str | Path | None = None,
    download: bool = True,
    crop: bool = False,
) -> Data:
    """Open a data source, once, with its options (see `DataOptions`).

    The name of a known set takes precedence over a folder of that name: write "./mnist" for the folder. A source
    without splits is split 80 to 20 within each class, by a fixed rule.

    Args:
        source: The name of a known set; a folder of class folders; a .csv, .tsv or .parquet table of labels and image
            paths, or, in a .parquet, images; a .npz of arrays; `Images`; arrays (X, y); a dataset of Hugging Face (or
            the folder of one) or PyTorch, or anything with a length and items (image, label), also several by split:
            {"train": …, "test": …}; or opened data, which is returned as it is. Folders and tables may lie on other
            machines, where a path has a scheme: s3://, gs://, hf://.
    """
    options = DataOptions(image_size, flip, limit, strict, stream, test, data_dir, download, crop)  # type: ignore[arg-type]
    if isinstance(source, Data):
        if options != DataOptions():
            raise HitNetError("This data is open already. Give its options when you open it, or use its `reopen`.")
        return source
    if isinstance(source, str) and not source:
        raise HitNetError("The data has an empty name. Give a name or a path.")
    for data_format in FORMATS:
        if data_format.accepts(source):
            return data_format(source, options)
    raise _no_format(source)


def check_data(source: Source, **options: Any) -> Check:
    """Check every file of a data source; options as for `open_data`."""
    return open_data(source, **options).check()


def _no_format(source: Any) -> HitNetError:
    if not isinstance(source, str | Path):
        kinds = "a name, a path, `Images`, arrays (X, y), or a dataset whose items are (image, label)"
        return HitNetError(f"Data cannot be opened from {type(source).__name__}. Give {kinds}.")
    path = expand(source)
    if path.exists():
        return HitNetError(f"{path} is of no known kind. Give a folder, or a {', '.join(TABLES)} or .npz file.")
    if isinstance(source, str) and not path.suffix and "/" not in source:
        return unknown_name("dataset or folder", source, KNOWN_SETS)
    return MissingFileError(f"{path} does not exist. Give a folder, table, .npz or one of: {', '.join(KNOWN_SETS)}.")
