"""One way in: a name, a path or images in memory become the images of one split."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from hitnet.data.decode import check_shape, fit
from hitnet.data.folder import list_folder
from hitnet.data.images import Images
from hitnet.data.listing import Listing, Report, Skipped, in_words, read_survey, survey
from hitnet.data.npz import read_npz
from hitnet.data.sets import read_set
from hitnet.data.sources import SOURCES, is_known
from hitnet.data.split import assign, check_limit, check_split, even_draw, no_images
from hitnet.data.table import list_table
from hitnet.errors import HitNetError, unknown_name
from hitnet.files import expand

log = logging.getLogger("hitnet")
SHOWN = 10

Source = str | Path | Images
Size = int | tuple[int, int]


def load(
    source: Source,
    split: str = "train",
    *,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    image_size: Size | None = None,
    strict: bool = False,
    download: bool = True,
) -> Images:
    """The images of one split ("train", "test" or "all") of a source.

    source      the name of a known set; a folder of class folders; a .csv, .tsv or .parquet table of image
                paths and labels; a .npz of arrays; or images in memory
    data_dir    where known sets lie (otherwise $HITNET_DATA, otherwise the user's cache)
    limit       at most so many images: a known set's first; of any other source an even draw, by a fixed rule
    image_size  height and width, or one number for both; images are scaled to fit and centred on black
    strict      stop at the first file that is no sound image or lies outside the class folders, instead of leaving it
                out with a warning
    download    fetch a known set's missing files

    A name goes before a folder of that name (write "./mnist" for the folder). A source that gives no split of
    its own is split 80 to 20, class by class, by a fixed rule.
    """
    report = load_report(
        source, split, data_dir=data_dir, limit=limit, image_size=image_size, strict=strict, download=download
    )
    tell_left_out(report.images.name, report.skipped, report.ignored)
    return report.images


def tell_left_out(name: str, skipped: Sequence[Skipped], ignored: dict[str, int]) -> None:
    if ignored:
        log.info("%s: ignored: %s", name, in_words(ignored))
    if skipped:
        shown = "\n".join(f"  {item.path}: {item.reason}" for item in skipped[:SHOWN])
        more = f"\n  and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        log.warning("%s: left out %d:\n%s%s", name, len(skipped), shown, more)


def load_report(
    source: Source,
    split: str = "train",
    *,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    image_size: Size | None = None,
    strict: bool = False,
    download: bool = True,
) -> Report:
    """As `load`, but with the full list of what was left out, and no word of it in the log."""
    check_split(split)
    check_limit(limit)
    size = exact_size(image_size)
    if isinstance(source, Images):
        return Report(_resized(_part(source, None, split, limit), size))
    if is_known(source):
        return Report(_resized(read_set(source, split, data_dir=data_dir, limit=limit, download=download), size))
    listing = find_listing(source)
    if listing is not None:
        return read_survey(survey(listing, split, limit=limit, image_size=size, strict=strict))
    images, splits = read_npz(expand(source))
    return Report(_resized(_part(images, splits, split, limit), size))


def find_listing(source: Source) -> Listing | None:
    """The files of a folder or table; None for a source of another kind."""
    if isinstance(source, Images) or is_known(source):
        return None
    path = expand(source)
    if not path.exists():
        if isinstance(source, str) and not path.suffix and "/" not in source:
            raise unknown_name("data set or folder", source, SOURCES)
        raise HitNetError(f"{path} does not exist. Give a folder, a table, a .npz or one of: {', '.join(SOURCES)}.")
    if path.suffix.lower() == ".npz" and path.is_file():
        return None
    return list_folder(path) if path.is_dir() else list_table(path)


def exact_size(image_size: Size | None) -> tuple[int, int] | None:
    if image_size is None:
        return None
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    check_shape((1, height, width))
    return height, width


def _part(images: Images, given: list[str] | None, split: str, limit: int | None) -> Images:
    """One split of images in memory."""
    keys = [str(i) for i in images.ids.tolist()]
    positions = list(range(len(images)))
    if split != "all":
        splits = assign(given, keys, images.labels.tolist())
        positions = [i for i in positions if splits[i] == split]
        if not positions:
            raise no_images(images.name, split)
    drawn = even_draw([keys[i] for i in positions], limit)
    return images if len(drawn) == len(images) else images.select([positions[i] for i in drawn])


def _resized(images: Images, size: tuple[int, int] | None) -> Images:
    if size is None or images.shape[1:] == size:
        return images
    masks = None if images.masks is None else _fitted(images.masks, size)
    return replace(images, pixels=_fitted(images.pixels, size), masks=masks)


def _fitted(pixels: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    rows = pixels.permute(0, 2, 3, 1).squeeze(-1).numpy()
    return torch.from_numpy(np.stack([fit(Image.fromarray(row), *size) for row in rows]))
