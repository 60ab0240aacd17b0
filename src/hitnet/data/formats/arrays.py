"""Data that is read into memory as a whole: known sets, arrays in memory, and .npz files, which hold named arrays:
`images` and `labels` (or `X` and `y`), or `x_train`, `y_train`, `x_test` and `y_test`.

images       (N, H, W), (N, H, W, C) or (N, C, H, W); whole numbers in 0..255, or of 16 bits in 0..65,535, or fractions
             in 0..1
labels       (N,): whole numbers or names; an image whose label is empty or -1 is left out
class_names  optional, one per class; whole-number labels are then indices into it. Without it, each distinct
             label is a class, in natural order
split        optional, (N,): train, test or validation
masks        optional, (N, H, W), (N, H, W, 1) or (N, 1, H, W): 0 on the background, anything else on the object
ids, paths, name, flip   optional; `save_npz` also keeps these, so that `open_data` gives the same set back
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from hitnet.data.images import UNLABELLED, Images, label_name
from hitnet.data.opened import Data, DataOptions, ImageSet, Relabelling, Report, Room
from hitnet.data.reading import array_files
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.decode import eight_bits, fit
from hitnet.data.reading.entries import Skipped, stop_if_strict
from hitnet.data.reading.stored import UnreadableImageError
from hitnet.data.split import TEST, TRAIN, assign, check_split, even_draw, natural, no_images, split_name
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand, new_folder, replacing

CORRECTED = "images.npz"
OPTIONAL = ("class_names", "split", "masks", "ids", "paths", "name", "flip")
NAMES = (("x_train", "y_train", "x_test", "y_test"), ("images", "labels"), ("X", "y"))

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


class Labelled(NamedTuple):
    """A set, the split of each image where it is given, and the images without a label, which are left out."""

    images: Images
    splits: list[str] | None = None
    unlabelled: tuple[Skipped, ...] = ()


class ArrayData(Data):
    """Data in arrays: `content`, unless a format reads each split by itself. A corrected copy is a .npz file."""

    @cached_property
    def content(self) -> Labelled:
        """All that the source holds."""
        raise NotImplementedError

    @property
    def unlabelled(self) -> tuple[Skipped, ...]:
        return self.content.unlabelled

    def report(self, split: str = "train") -> Report:
        check_split(split)
        stop_if_strict(self.name, self.unlabelled, strict=self.options.strict)
        images = resized(self._read(split, self.options.limit), self.options.image_size, crop=self.options.crop)
        return Report(self._with_flip(images), self.unlabelled)

    def _read(self, split: str, limit: int | None) -> Images:
        """One split, at most `limit` images of it, at its own size."""
        return part(self.content.images, self.content.splits, split, limit)

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        check_target(out, originals=[])
        corrected, lost = relabelling.corrected(), len(self.unlabelled)
        with new_folder(out) as folder:
            save_npz(corrected, folder / CORRECTED, split=self._splits(corrected, relabelling.split))
        return out / CORRECTED, f"images without a label, which the copy does not have: {lost}" if lost else ""

    def _splits(self, images: Images, audited: str) -> list[str] | None:
        """The split of each image where the data gives one; `audited` is the split that was audited."""
        original, splits, _ = self.content
        if splits is None:
            return None
        split_of = dict(zip(original.ids.tolist(), splits, strict=True))
        return [split_of[number] for number in images.ids.tolist()]


class NpzData(ArrayData):
    """A .npz file of arrays."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str | Path) and expand(source).suffix.lower() == ".npz" and expand(source).is_file()

    @cached_property
    def content(self) -> Labelled:
        return read_npz(expand(self.source))

    @property
    def name(self) -> str:
        return expand(self.source).stem


class MemoryData(ArrayData):
    """`Images`, or a pair of arrays (X, y): all of them are for training; `test` may give others to test on."""

    takes_test: ClassVar[bool] = True

    def __init__(self, source: Any, options: DataOptions) -> None:
        super().__init__(source, options)
        if self.options.test is None:
            self.train_split = self.test_split = "all"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        pair = isinstance(source, tuple | list) and len(source) == 2
        return isinstance(source, Images) or (pair and isinstance(source[0], np.ndarray | torch.Tensor))

    @cached_property
    def content(self) -> Labelled:
        if isinstance(self.source, Images):
            return Labelled(self.source)
        x, y = (p.numpy(force=True) if isinstance(p, torch.Tensor) else np.asarray(p) for p in self.source)
        return labelled_images({"X": x, "y": y}, where="(X, y)", name="arrays")

    @property
    def name(self) -> str:
        return self.content.images.name

    def training_sets(self, room: Room) -> tuple[ImageSet, ImageSet | None]:
        if self.options.stream:
            self.image_sets(["all"], room)  # raises: images in memory are not streamed
        test = self.options.test
        return self.load(self.train_split), None if test is None else resized(test, self.options.image_size)

    def at_size(self, size: tuple[int, int], *, crop: bool = False) -> Self:
        """Images in memory keep their size: if it is not the network's, they are probably the wrong ones."""
        return self

    def _read(self, split: str, limit: int | None) -> Images:
        if self.options.test is None or split == "all":
            return super()._read(split, limit)
        return part(self.content.images if split == "train" else self.options.test, None, "all", limit)


def part(images: Images, given: list[str] | None, split: str, limit: int | None) -> Images:
    """One split of a set, at most `limit` images of it by an even draw."""
    keys = [str(i) for i in images.ids.tolist()]
    positions = list(range(len(images)))
    if split != "all":
        splits = assign(given, keys, images.labels.tolist())
        positions = [i for i in positions if splits[i] == split]
        if not positions:
            raise no_images(images.name, split)
    drawn = even_draw([keys[i] for i in positions], limit)
    return images if len(drawn) == len(images) else images.select([positions[i] for i in drawn])


def resized(images: Images, size: tuple[int, int] | None, *, crop: bool = False) -> Images:
    """The images brought to `size` (height, width) as files are (see `fit`); None leaves them as they are."""
    if size is None or images.shape[1:] == size:
        return images

    def fitted(pixels: torch.Tensor) -> torch.Tensor:
        rows = pixels.permute(0, 2, 3, 1).squeeze(-1).numpy()
        return torch.from_numpy(np.stack([fit(Image.fromarray(row), *size, crop=crop) for row in rows]))

    return replace(images, pixels=fitted(images.pixels), masks=None if images.masks is None else fitted(images.masks))


def save_npz(images: Images, path: str | Path, *, split: list[str] | None = None) -> None:
    """Write a set as a .npz file that `open_data` reads back; `split` is that of each image, where it is known."""
    if Path(path).suffix.lower() != ".npz":
        raise HitNetError(f"{path}: the name of a file of arrays ends in .npz.")
    rest: dict[str, Any] = {"ids": images.ids.cpu().numpy()}
    if images.paths is not None:
        rest["paths"] = np.array(images.paths, np.str_)
    if split is not None:
        if len(split) != len(images):
            raise HitNetError(f"{path}: {len(images)} images but {len(split)} splits.")
        rest["split"] = np.array([split_name(s, where=str(path)) for s in split], np.str_)
    write_npz(Path(path), [images], len(images), images, **rest)


def write_npz(path: Path, parts: Iterable[Images], count: int, about: Any, **rest: Array) -> None:
    """Write `count` images, part by part, into a .npz file; `about` gives shape, class_names, name and flip of all."""
    labels, masks, done = np.empty(count, np.int64), [], 0
    with replacing(path) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED, compresslevel=4) as archive:
        with archive.open("images.npy", "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (count, *about.shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for images in parts:
                file.write(images.pixels.cpu().contiguous().numpy().data)
                labels[done : done + len(images)] = images.labels.cpu().numpy()
                if images.masks is not None:
                    masks.append(images.masks.cpu().numpy())
                done += len(images)
        if done != count:
            raise HitNetError(f"{path}: the stream announced {count:,} images but gave {done:,}.")
        names = np.array(about.class_names, np.str_)
        rest |= {"labels": labels, "class_names": names, "name": np.array(about.name, np.str_)}
        rest |= {"flip": np.array(about.flip)} | ({"masks": np.concatenate(masks)} if masks else {})
        for key, array in rest.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def read_npz(path: Path) -> Labelled:
    """The set in a .npz file."""
    arrays = array_files.read_npz(path, {*OPTIONAL, *(name for names in NAMES for name in names)})
    if not any(set(names) <= set(arrays) for names in NAMES):
        wanted = ", or ".join(", ".join(names) for names in NAMES)
        with np.load(path, allow_pickle=False) as content:
            raise HitNetError(f"{path} must hold {wanted}; it holds {', '.join(content.files[:20]) or 'nothing'}.")
    return labelled_images(arrays, where=str(path), name=path.stem)


def labelled_images(arrays: Arrays, *, where: str, name: str) -> Labelled:
    """A set from arrays with the names of one of NAMES, and perhaps those of OPTIONAL.

    Errors call them `where`. The set is called `name`, unless one of the arrays says what to call it.
    """
    x, y, splits = _parts(arrays, where)
    pixels = _pixels(x, where)
    indices, classes = _classes(y, arrays.get("class_names"), where)
    for what, length in (("labels", len(indices)), ("splits", len(pixels) if splits is None else len(splits))):
        if length != len(pixels):
            raise HitNetError(f"{where}: {len(pixels)} images but {length} {what}.")
    if len(classes) < 2 or len(set(classes)) < len(classes):
        none = " Images whose label is empty or -1 have none." if (indices < 0).any() else ""
        raise HitNetError(
            f"{where} must have at least two classes, each with a name of its own; got {classes[:10]}.{none}"
        )
    images = _images(pixels, np.maximum(indices, 0), classes, arrays, where, name)
    names = images.paths or [f"image {number}" for number in images.ids.tolist()]
    unlabelled = tuple(Skipped(names[i], UNLABELLED) for i in np.flatnonzero(indices < 0))
    if unlabelled:
        labelled = np.flatnonzero(indices >= 0).tolist()
        images = images.select(labelled)
        splits = None if splits is None else [splits[i] for i in labelled]
    return Labelled(images, splits, unlabelled)


def _parts(arrays: Arrays, where: str) -> tuple[Array, Array, list[str] | None]:
    """Images, labels and, where they are given, splits."""
    names = next(names for names in NAMES if set(names) <= set(arrays))
    if len(names) == 2:
        x, y = (arrays[name] for name in names)
        given = arrays["split"].reshape(-1).tolist() if "split" in arrays else None
        return x, y, None if given is None else [split_name(s, where=where) for s in given]
    train, y_train, test, y_test = (arrays[name] for name in names)
    if train.ndim < 3 or train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise HitNetError(
            f"{where}: x_train and x_test must hold images of one type and size; "
            f"got {train.dtype} {train.shape} and {test.dtype} {test.shape}."
        )
    splits = [TRAIN] * len(train) + [TEST] * len(test)
    return np.concatenate([train, test]), np.concatenate([y_train.reshape(-1), y_test.reshape(-1)]), splits


def _images(pixels: Array, indices: Array, classes: list[str], arrays: Arrays, where: str, name: str) -> Images:
    none = np.empty(0)
    paths = [str(path) for path in arrays["paths"].reshape(-1).tolist()] if "paths" in arrays else None
    images = Images.from_arrays(
        pixels,
        indices,
        class_names=classes,
        name=str(arrays["name"].reshape(-1)[0]) if arrays.get("name", none).size == 1 else name,
        paths=paths,
        flip=arrays.get("flip", none).size == 1 and bool(arrays["flip"].reshape(-1)[0]),
    )
    if "masks" in arrays:
        masks, (_, height, width) = arrays["masks"], images.shape
        shapes = tuple((len(images), *rest) for rest in ((height, width), (height, width, 1), (1, height, width)))
        if masks.dtype.kind not in "biuf" or masks.shape not in shapes:
            raise HitNetError(f"{where}: masks must be numbers of shape {shapes[0]}; got {masks.dtype} {masks.shape}.")
        white = (masks != 0).astype(np.uint8) * np.uint8(255)
        images = replace(images, masks=torch.from_numpy(white).view(shapes[2]))
    if "ids" not in arrays:
        return images
    ids = arrays["ids"]
    if ids.dtype.kind not in "iu":
        raise HitNetError(f"{where}: ids must be whole numbers; got {ids.dtype}.")
    return replace(images, ids=torch.from_numpy(ids.reshape(-1).astype(np.int64)))


def _pixels(x: Array, where: str) -> npt.NDArray[np.uint8]:
    if x.size == 0:
        raise HitNetError(f"{where} holds no images: their array has the shape {x.shape}.")
    if x.ndim not in (3, 4):
        raise HitNetError(f"{where}: images must be (N, H, W), (N, H, W, C) or (N, C, H, W); got {x.shape}.")
    small = x.dtype == np.uint16 and x.max() <= 255  # 8 bits in a wider type
    try:
        return eight_bits(x, white=255 if small else None, precision=x.dtype if x.dtype.kind == "f" else np.float32)
    except UnreadableImageError as error:
        raise HitNetError(f"{where}: images: {error}.") from error


def _classes(labels: Array, names: Array | None, where: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The class of each image as an index, -1 for one without a label, and the names of the classes."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise HitNetError(
            f"{where}: labels must be (N,), one per image; got {labels.shape}. Take the argmax of one-hot."
        )
    if labels.dtype.kind == "O":  # a column of pandas
        labels = np.array([label_name(label) or "" for label in labels.tolist()], np.str_)
    if labels.dtype.kind not in "iuU":
        raise HitNetError(f"{where}: labels must be whole numbers or names; got {labels.dtype}.")
    given = [] if names is None else [str(name) for name in names.reshape(-1).tolist()]
    if names is not None and labels.dtype.kind != "U":
        low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, -1)
        if not -1 <= low <= high < len(given) and len(labels):
            raise HitNetError(f"{where}: labels run from {low} to {high} but there are {len(given)} class_names.")
        return labels.astype(np.int64), given
    words = [label_name(label) for label in labels.tolist()]
    classes = given if names is not None else sorted({word for word in words if word is not None}, key=natural)
    index: dict[str | None, int] = {None: -1} | {word: k for k, word in enumerate(classes)}
    unknown = next((word for word in words if word not in index), None)
    if unknown is not None:
        raise HitNetError(f"{where}: label {unknown!r} is not one of class_names.")
    return np.array([index[word] for word in words], np.int64), classes
