"""Which images are alike, by their features: evidence beside each doubtful label, and near-duplicates."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hitnet.data import Images
from hitnet.features.neighbours import MOST_DUPLICATES, directions, near_duplicates, strangeness

log = logging.getLogger("hitnet")
MOST_IMAGES = {"cpu": 50_000, "cuda": 1_000_000}  # the work grows with the square of their number
BLOCK = 1024


def nearest_with_label(features: Tensor, labels: Tensor, wanted: Tensor, num_classes: int) -> Tensor:
    """For each image, the most similar other image that has the label `wanted` (N,) of it; −1 where there is none."""
    rows = directions(features)
    nearest = torch.full((len(rows),), -1, dtype=torch.int64, device=rows.device)
    labels, wanted = labels.to(rows.device), wanted.to(rows.device)
    for k in range(num_classes):
        members, asking = torch.nonzero(labels == k)[:, 0], torch.nonzero(wanted == k)[:, 0]
        if not len(members):
            continue
        for part in asking.split(BLOCK):
            similarity = rows[part] @ rows[members].T
            similarity[part[:, None] == members] = -torch.inf  # an image is no neighbour of itself
            best = similarity.max(dim=1)
            nearest[part] = torch.where(best.values > -torch.inf, members[best.indices], -1)
    return nearest.cpu()


def add_likeness(table: pd.DataFrame, features: Tensor, images: Images, device: torch.device) -> pd.DataFrame:
    """The audit's table with what features (N, D) show of each image, all in one order.

    like_given      id of the most similar image under the given label; −1 where there is none
    like_suggested  the same under the suggested label
    unlike          how unlike all other images it is: 0 (others are the same) to 1 (nothing is like it)
    """
    if len(images) > MOST_IMAGES[device.type]:
        log.info("Similar images are not looked for: %d images are too many for this device.", len(images))
        return table
    features = features.to(device)
    index = {name: k for k, name in enumerate(images.class_names)}
    ids = np.append(images.ids.numpy(), -1)
    compared = table.copy()
    for column in ("given", "suggested"):
        wanted = torch.tensor([index[name] for name in table[column]])
        nearest = nearest_with_label(features, images.labels, wanted, images.num_classes)
        compared[f"like_{column}"] = ids[nearest.numpy()]
    compared["unlike"] = strangeness(features, min(5, len(images) - 1)).cpu().numpy() if len(images) > 1 else 1.0
    return compared


def duplicate_table(features: Tensor, images: Images, device: torch.device) -> pd.DataFrame:
    """Pairs of images that show the same: ids, paths, labels, similarity, and whether the labels differ.

    Pairs under different labels come first: at most one of the two labels is right. Each image is paired with at most
    10 others that it chooses, those under other labels first.
    """
    pairs, similarity = torch.zeros((0, 2), dtype=torch.int64), torch.zeros(0)
    if len(images) <= MOST_IMAGES[device.type]:
        pairs, similarity = near_duplicates(features.to(device), labels=images.labels)
    if len(pairs) and np.bincount(pairs.cpu().flatten()).max() >= MOST_DUPLICATES:
        log.info(
            "Some images have many near-duplicates. At least %d of each are listed, those under other labels first.",
            MOST_DUPLICATES,
        )
    given = np.array(images.class_names, dtype=object)[images.labels.numpy()]
    paths = images.paths or [""] * len(images)
    about = pd.DataFrame({"id": images.ids.numpy(), "path": paths, "given": given})
    sides = [about.iloc[pairs[:, side].cpu().numpy()].reset_index(drop=True) for side in (0, 1)]
    rows = sides[0].add_suffix("_a").join(sides[1].add_suffix("_b"))
    rows = rows.assign(similarity=similarity.cpu().numpy(), labels_differ=rows["given_a"] != rows["given_b"])
    return rows.sort_values(["labels_differ", "similarity"], ascending=False, kind="stable", ignore_index=True)
