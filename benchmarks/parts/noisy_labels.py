"""Labels that are made wrong on purpose, by a fixed rule, so that it is known which ones an audit should find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]
SHARE = 0.05
CLOTHES = ("dress", "hat", "longsleeve", "outwear", "pants", "shirt", "shoes", "shorts", "skirt", "t-shirt")
# What each class of clothes is most often confused with, by heads on frozen features that were fitted on the labels as
# published and judged images out of sample.
LOOK_ALIKES = np.array([9, 6, 9, 5, 7, 2, 9, 4, 7, 2])
KINDS = ("uniform", "look-alike")


def clothing_files(root: Path) -> tuple[list[Path], Labels]:
    """The 3,781 photographs of clothing-dataset-small in the order of the noise, and their labels as published."""
    files = sorted(path for split in ("train", "validation", "test") for path in (root / split).rglob("*.jpg"))
    if len(files) != 3781:
        raise SystemExit(f"{root}: expected the 3,781 photographs of clothing-dataset-small, found {len(files):,}")
    return files, np.array([CLOTHES.index(path.parent.name) for path in files])


def with_noise(labels: Labels, kind: str, seed: int, alike: Labels = LOOK_ALIKES, share: float = SHARE) -> Labels:
    """The labels with a share of them replaced: by any other class ("uniform"), or by the class that looks alike."""
    random = np.random.default_rng(seed)
    chosen = random.choice(len(labels), round(share * len(labels)), replace=False)
    noisy = labels.copy()
    if kind == "uniform":
        classes = int(labels.max()) + 1
        noisy[chosen] = (labels[chosen] + random.integers(1, classes, len(chosen))) % classes
    else:
        noisy[chosen] = alike[labels[chosen]]
    return noisy


def write_table(path: Path, files: list[Path], labels: Labels) -> Path:
    """A table of image files and labels, as `hitnet audit` takes it."""
    rows = [f"{file},{CLOTHES[label]}" for file, label in zip(files, labels, strict=True)]
    path.write_text("\n".join(["path,label", *rows]) + "\n")
    return path
