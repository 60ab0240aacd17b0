"""affNIST: MNIST digits under affine transformations on a 40 x 40 canvas.

The training set is plain MNIST: each training image is placed once at random on the canvas. The test set is the
original if its Matlab files (test.mat, or test_batches/*.mat) lie in the folder `affnist` of the known sets. Otherwise
it is rebuilt from MNIST's test images, 32 transformed copies of each, and its name says so. The order and the ranges of
the transformations (rotation, shear, expansion, translation) come from second-hand descriptions of the original:
rebuilt images resemble the original images but are not equal to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet import Data, HitNetError, Images, open_data
from hitnet.data import FORMATS, Relabelling, Report, data_folder, read_matlab

SIDE, CANVAS = 28, 40
COPIES = 32
ROTATION = 20.0  # degrees, either way
SHEAR = 0.2  # share of the x coordinate that is added to y, either way
EXPANSION = (0.8, 1.2)  # drawn for each axis separately
SEED = 2018
BATCH = 2000
CLASSES = tuple("0123456789")


class AffnistData(Data):
    """The splits "train" and "test" of affNIST, at their own size."""

    name = address = "affnist"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str) and source == cls.name

    def report(self, split: str = "train") -> Report:
        if split not in ("train", "test"):
            raise HitNetError(f"affNIST has the splits train and test; got {split}.")
        images = self._train() if split == "train" else self._test()
        return Report(images.first(self.options.limit))

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        raise HitNetError("affNIST is made of MNIST. Correct that.")

    def _mnist(self, split: str) -> Images:
        return open_data("mnist", data_dir=self.options.data_dir, download=self.options.download).load(split)

    def _train(self) -> Images:
        digits = self._mnist("train")
        name = "affNIST train (MNIST on 40x40)"
        return Images.from_arrays(place(digits.pixels), digits.labels, class_names=CLASSES, name=name)

    def _test(self) -> Images:
        if files := self.original_files():
            parts = [read_affnist(file) for file in files]
            pixels, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            return Images.from_arrays(pixels, labels, class_names=CLASSES, name="affNIST")
        digits = self._mnist("test")
        rebuilt = rebuild(digits.pixels, limit=self.options.limit)
        repeated = digits.labels.repeat(COPIES)[: len(rebuilt)]
        return Images.from_arrays(rebuilt, repeated, class_names=CLASSES, name="affNIST (rebuilt)")

    def original_files(self) -> list[Path]:
        """The original test files that the user has: test.mat, otherwise the batches 1.mat, 2.mat, …"""
        folder = data_folder(self.options.data_dir) / self.name
        if (whole := folder / "test.mat").is_file():
            return [whole]
        return sorted((folder / "test_batches").glob("*.mat"), key=lambda path: (len(path.name), path.name))


FORMATS.insert(0, AffnistData)


def read_affnist(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Images (N, 40, 40) and digits (N,) of an original affNIST file."""
    content = read_matlab(path, "affNISTdata")
    x, y = content.get("affNISTdata.image"), content.get("affNISTdata.label_int")
    if x is None or y is None:
        names = [name.partition(".")[2] for name in content if "." in name]
        raise HitNetError(f"{path}: affNISTdata must hold image and label_int; it holds {', '.join(names) or 'none'}.")
    if x.dtype != np.uint8 or x.ndim != 2 or x.shape[0] != CANVAS**2 or y.size != x.shape[1]:
        raise HitNetError(
            f"{path}: image must be uint8 (1600, N), label_int (1, N); got {x.dtype} {x.shape} and {y.shape}."
        )
    if not y.size or not np.isin(y, np.arange(10)).all():
        raise HitNetError(f"{path}: labels must be whole numbers from 0 to 9.")
    # Each column is one image, row by row.
    return np.ascontiguousarray(x.T).reshape(-1, CANVAS, CANVAS), y.reshape(-1).astype(np.int64)


def place(images: Tensor) -> Tensor:
    """uint8 (N, 1, 28, 28) to (N, 1, 40, 40): each image at a whole-pixel position from a fixed seed."""
    count = len(images)
    corner = torch.from_numpy(_uniform(0, count, 2) * (CANVAS - SIDE + 1)).long()
    canvas = images.new_zeros(count, CANVAS, CANVAS)
    steps = torch.arange(SIDE)
    rows, columns = corner[:, :1] + steps, corner[:, 1:] + steps
    canvas[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]] = images[:, 0]
    return canvas[:, None]


def rebuild(images: Tensor, *, limit: int | None = None) -> Tensor:
    """uint8 (N, 1, 28, 28) to (32 N, 1, 40, 40), or the first `limit` of these.

    Copy k of image i is at k * N + i. Each copy is drawn from its own seed, so a limit changes only the number.
    """
    total = COPIES * len(images) if limit is None else min(limit, COPIES * len(images))
    out = torch.empty(total, 1, CANVAS, CANVAS, dtype=torch.uint8)
    for copy in range(-(-total // len(images))):
        start = copy * len(images)
        draws = torch.from_numpy(_uniform(1 + copy, len(images), 6))
        for begin in range(0, min(len(images), total - start), BATCH):
            end = min(begin + BATCH, len(images), total - start)
            out[start + begin : start + end] = transform(images[begin:end], draws[begin:end])
    return out


def transform(images: Tensor, draws: Tensor) -> Tensor:
    """Transform images (B, 1, 28, 28) to (B, 1, 40, 40); `draws` (B, 6) in [0, 1) choose the transformations."""
    linear = _linear(draws)
    centre = _centres(images, linear, draws[:, 4:])
    # affine_grid maps the canvas to the image, both from -1 to 1: pixel p of the canvas is at u, where
    # p = (u + 1) * CANVAS / 2 - 1 / 2, and shows the image's pixel at inverse (p - centre).
    inverse = torch.linalg.inv(linear)
    offset = inverse @ ((CANVAS - 1) / 2 - centre)[:, :, None]
    theta = torch.cat([inverse * (CANVAS / SIDE), offset * (2 / SIDE)], -1).float()
    grid = F.affine_grid(theta, [len(images), 1, CANVAS, CANVAS], align_corners=False)
    values = F.grid_sample(images.float(), grid, padding_mode="zeros", align_corners=False)
    return values.round_().clamp_(0, 255).to(torch.uint8)


def _linear(draws: Tensor) -> Tensor:
    """(B, 2, 2): expansion after shear after rotation, acting on (x, y)."""
    angle = torch.deg2rad((2 * draws[:, 0] - 1) * ROTATION)
    shear = (2 * draws[:, 1] - 1) * SHEAR
    low, high = EXPANSION
    expand_x, expand_y = (low + (high - low) * draws[:, k] for k in (2, 3))
    cos, sin = angle.cos(), angle.sin()
    rows = (expand_x * cos, -expand_x * sin), (expand_y * (sin + shear * cos), expand_y * (cos - shear * sin))
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def _centres(images: Tensor, linear: Tensor, draws: Tensor) -> Tensor:
    """(B, 2): the new position of the image's centre, uniform over all positions that keep the ink on the canvas."""
    steps = torch.arange(SIDE, dtype=torch.float64) - (SIDE - 1) / 2
    ink = images[:, 0] > 0
    blank = ~ink.any(-1)[:, None]
    # The outermost ink pixels of each row bound the row under any linear map.
    left = torch.where(ink, steps, torch.inf).amin(-1)
    right = torch.where(ink, steps, -torch.inf).amax(-1)
    ends = torch.stack([left, right], 1).masked_fill(blank, 0.0)
    places = linear[:, :, :1, None] * ends[:, None] + linear[:, :, 1:, None] * steps
    half = linear.abs().sum(-1) / 2  # half of a transformed pixel's width
    low = places.masked_fill(blank[:, None], torch.inf).amin((2, 3)) - half
    high = places.masked_fill(blank[:, None], -torch.inf).amax((2, 3)) + half
    first, last = -0.5 - low, CANVAS - 0.5 - high
    middle = torch.full_like(first, (CANVAS - 1) / 2)
    return torch.where(blank.all(-1), middle, first + (last - first) * draws)


def _uniform(stream: int, rows: int, columns: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) from PCG64's raw bits, which are the same in all versions of NumPy."""
    raw = np.random.PCG64(np.random.SeedSequence([SEED, stream])).random_raw(rows * columns)
    numbers: npt.NDArray[np.float64] = (np.asarray(raw, np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers.reshape(rows, columns)
