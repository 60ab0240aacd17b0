"""Datasets that a network makes: hybrid augmentation of whole sets (the formula is in `models.hybrid`), and files.

Images are written in two forms that `hitnet.open_data` reads: a .npz file, or a folder of PNG files, which needs at
least two classes to be read back. Both are written batch by batch, so a million images need not fit into memory, and
both are written whole or not at all.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hitnet.data import Images, Source, open_data
from hitnet.data.formats.arrays import write_npz
from hitnet.data.reading.pictures import as_picture
from hitnet.errors import HitNetError, finite, log, whole
from hitnet.models.hybrid import BATCH, capsule_noise, hybrid
from hitnet.models.network import Network, to_device
from hitnet.runtime.bar import shown
from hitnet.runtime.device import Device
from hitnet.runtime.files import check_vacant, expand, new_folder
from hitnet.runtime.progress import Progress
from hitnet.synthesis.decoding import open_decoder, to_pixels
from hitnet.synthesis.distributions import run_images
from hitnet.training.recipes import Recipe
from hitnet.training.runs import RunLike

STRENGTH = Recipe.augment_strength  # the default of augmentation during training
UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]|^\.|[. ]$|^$')  # folder names that fail on some system


@dataclass(frozen=True)
class ImageStream:
    """Labelled images that are made on demand, in pairs (split, images); all or none of them have masks."""

    batches: Iterator[tuple[str, Images]]
    total: int  # number of images
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]  # (C, H, W) of all images
    name: str  # this and `flip` as in `hitnet.data.Images`
    flip: bool = False


def _check_numbers(strength: float, seed: int, **counts: int) -> None:
    """Raise HitNetError for a strength, a seed or counts that make no sense."""
    finite("Hybrid augmentation", "strength", strength)
    whole("Hybrid augmentation", "seed", seed, 0)
    for name, count in counts.items():
        whole("Hybrid augmentation", name, count, 1)


@dataclass(frozen=True)
class HybridExamples:
    """Several modifications of one image, as in the paper's figure; floats in [0, 1] on the CPU."""

    original: Tensor  # X (C, H, W)
    reconstruction: Tensor  # X_rec (C, H, W)
    modified: Tensor  # X_mod (M, C, H, W)
    results: Tensor  # X_new (M, C, H, W)
    class_name: str


def hybrid_examples(
    run: RunLike, images: Images, *, count: int = 23, strength: float = STRENGTH, seed: int = 0, device: Device = "auto"
) -> list[HybridExamples]:
    """Modify each of a few images, with the classes of the run, `count` times (paper: 23).

    `strength` is the standard deviation of the noise, in units of m/√n.
    """
    _check_numbers(strength, seed, count=count)
    trained = open_decoder(run, device=device)
    matched = run_images(trained, images)
    network_device = next(trained.model.parameters()).device
    examples = []
    for i, label in enumerate(matched.labels.tolist()):
        repeated = to_device(matched.pixels[i : i + 1], network_device).expand(count, -1, -1, -1)
        change = _noise(trained.model, count, strength, [seed, i]).to(network_device)
        labels = torch.full((count,), label, device=network_device)
        rebuilt, modified, results = (part.cpu() for part in hybrid(trained.model, repeated, labels, change))
        examples.append(HybridExamples(repeated[0].cpu(), rebuilt[0], modified, results, trained.class_names[label]))
    return examples


def augment(
    run: RunLike,
    data: Source | None = None,
    *,
    copies: int = 1,
    strength: float = STRENGTH,
    originals: bool = True,
    seed: int = 0,
    device: Device = "auto",
) -> ImageStream:
    """A dataset with modified copies of its training images, for `write_images`. The test images stay as they are.

    Args:
        run: A run with a decoder, or its folder.
        data: Opened data, or what `open_data` takes. None: the data that the run was trained on. Data without test
            images is split by a fixed rule before its images are copied.
        copies: Modified copies per training image.
        strength: Spread of the noise on each capsule component, in units of m/√n.
        originals: Whether the training images stay beside their copies.
        seed: The same seed gives the same images.
    """
    _check_numbers(strength, seed, copies=copies)
    trained = open_decoder(run, device=device)
    opened = None if data is None else open_data(data)
    train, test_images = run_images(trained, opened, split="train"), run_images(trained, opened, split="test")
    if (train.masks is None) != (test_images.masks is None):
        raise HitNetError("Hybrid augmentation: training and test images must both have masks, or neither.")
    network, device = trained.model, next(trained.model.parameters()).device

    def batches() -> Iterator[tuple[str, Images]]:
        if originals:
            yield "train", train
        for copy in range(copies):
            # Each copy has its own seed, so the first copies do not depend on how many follow.
            change = _noise(network, len(train), strength, [seed, copy])
            for part, noise in zip(torch.arange(len(train)).split(BATCH), change.split(BATCH), strict=True):
                images = train.select(part)
                pixels, labels = to_device(images.pixels, device), images.labels.to(device)
                result = hybrid(network, pixels, labels, noise.to(device)).result
                yield "train", replace(images, pixels=to_pixels(result))
        yield "test", test_images

    total, name = len(test_images) + len(train) * (copies + originals), f"{train.name}, augmented"
    return ImageStream(batches(), total, trained.class_names, train.shape, name, train.flip)


def _noise(network: Network, count: int, strength: float, seed: list[int]) -> Tensor:
    normal = np.random.Generator(np.random.PCG64(seed)).standard_normal((count, network.config.capsule_dim))
    return capsule_noise(network, torch.from_numpy(normal).float(), strength)


def write_images(stream: ImageStream, out: str | Path, *, progress: Progress | bool = True) -> None:
    """Write a stream of images to a new .npz file or a new folder.

    Args:
        stream: The images.
        out: A name that ends in .npz gets the arrays of `hitnet.data.save_npz`. Any other name becomes a folder with
            the files <split>/<class>/<number>.png, without masks.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
    """
    target = expand(out)
    check_new(target)
    with shown(progress, f"Writing {target.name}") as bar:
        bar.part("images", stream.total, "images")
        write = _write_npz if target.suffix.lower() == ".npz" else _write_folder
        write(stream, _counted(stream.batches, bar), target)


def _counted(batches: Iterator[tuple[str, Images]], progress: Progress) -> Iterator[tuple[str, Images]]:
    for split, images in batches:
        yield split, images
        progress.step(len(images))


def _write_folder(stream: ImageStream, batches: Iterator[tuple[str, Images]], target: Path) -> None:
    odd = [name for name in stream.class_names if UNSAFE.search(name)]
    if odd:
        raise HitNetError(f"The class name {odd[0]!r} cannot be a folder name. Write to a .npz file instead.")
    number = 0
    with new_folder(target) as folder:
        for split, images in batches:
            if images.masks is not None and not number:
                log.warning("%s: masks are not written to a folder. Write to a .npz file to keep them.", target)
            for pixels, label in zip(images.pixels, images.labels.tolist(), strict=True):
                class_folder = folder / split / stream.class_names[label]
                class_folder.mkdir(parents=True, exist_ok=True)
                as_picture(pixels).save(class_folder / f"{number:07d}.png")
                number += 1


def check_new(target: Path) -> None:
    """Raise HitNetError if writing to `target` would overwrite something."""
    if target.suffix.lower() == ".npz" and target.exists():
        raise HitNetError(f"{target} exists already. Choose another name, or remove the file first.")
    check_vacant(target)


def _write_npz(stream: ImageStream, batches: Iterator[tuple[str, Images]], target: Path) -> None:
    splits, done = np.empty(stream.total, "<U5"), 0

    def parts() -> Iterator[Images]:
        nonlocal done
        for split, images in batches:
            splits[done : done + len(images)] = split
            done += len(images)
            yield images

    write_npz(target, parts(), stream.total, stream, split=splits)
