"""Evaluation of a trained network, or of a committee, on a set of images: distances, error, hits and misses."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hitnet.capsules import hits_and_misses
from hitnet.data import Images
from hitnet.errors import HitNetError
from hitnet.inference.prediction import check_finite
from hitnet.models.decoders import masked_target
from hitnet.models.network import Network, class_distances, evaluating, to_device
from hitnet.models.registry import Head
from hitnet.runtime.device import evaluation_batch


@dataclass(frozen=True)
class Evaluation:
    """Figures of one network, or of a committee, on one set of images. Shares are fractions, from 0 to 1.

    Attributes:
        data: The name of the set.
        images: How many images it has.
        class_names: Its classes.
        error: Share of wrong predictions.
        confusion: (K, K) counts: rows are the labels, columns the predictions.
        hits: Share of true-class capsules within the hit zone; None for networks other than HitNet.
        misses: Share of other classes' capsules within the miss zone; None for networks other than HitNet.
        mse: Mean squared reconstruction error from the predicted class's capsule; None without a decoder, and for a
            committee.
        networks: How many networks judge together, by the mean of their distances.
    """

    data: str
    images: int
    class_names: tuple[str, ...]
    error: float
    confusion: np.ndarray
    hits: float | None
    misses: float | None
    mse: float | None
    networks: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with one row of figures per class."""
        figures = {name: getattr(self, name) for name in ("data", "images", "networks", "error", "hits", "misses")}
        rest = {"classes": self.per_class(), "confusion": self.confusion.tolist()}
        return {**figures, "reconstruction_mse": self.mse, **rest}

    def per_class(self) -> list[dict[str, Any]]:
        rows = []
        for k, name in enumerate(self.class_names):
            count, right, said = self.confusion[k].sum(), self.confusion[k, k], self.confusion[:, k].sum()
            rows.append(
                {
                    "class": name,
                    "images": int(count),
                    "error": float(count - right) / float(count) if count else None,
                    "precision": float(right) / float(said) if said else None,
                }
            )
        return rows


def check_fit(model: Network, images: Images) -> None:
    """Raise HitNetError if a network cannot take a set of images."""
    wanted, classes = model.config.in_shape, model.config.num_classes
    if images.shape != wanted:
        colours = "grey images" if wanted[0] == 1 else "images in colour"
        what = "images of that size (`image_size`)" if images.shape[0] == wanted[0] else colours
        raise HitNetError(
            f"{images.name} has images of shape {images.shape}, but the network was trained on {wanted} (channels, "
            f"height, width). Give {what}."
        )
    if images.num_classes != classes:
        raise HitNetError(f"{images.name} has {images.num_classes} classes, but the network knows {classes}.")


def mean_distances(members: Iterable[Tensor]) -> Tensor:
    """What a committee says: the mean of its members' distances, each (N, K)."""
    return torch.stack(list(members)).double().mean(dim=0)


@torch.inference_mode()
def reconstruction_error(model: Network, images: Images) -> float | None:
    """Mean squared error per pixel of what is decoded from the predicted class's capsule.

    It is compared with the images or, if their masks are known, with the masked images, which such a network learns to
    rebuild.
    """
    if model.decoder is None:
        return None
    total, batch_size = 0.0, evaluation_batch(images.shape)
    with evaluating(model) as device:
        for start in range(0, len(images), batch_size):
            part = slice(start, start + batch_size)
            target = seen = to_device(images.pixels[part], device)
            if images.masks is not None:
                target = masked_target(seen, images.masks[part].to(device))
            total += float((model(seen).reconstruction - target).square().mean(dim=(1, 2, 3)).sum())
    check_finite(total)
    return total / len(images)


def measure(model: Network, images: Images) -> Evaluation:
    """Evaluate a network on the device that it is on."""
    figures = judge(network_distances(model, images), images, model.head)
    return replace(figures, mse=reconstruction_error(model, images))


def network_distances(model: Network, images: Images) -> Tensor:
    """Distances (N, K) of images that the network can take, on the CPU; raises HitNetError for others."""
    check_fit(model, images)
    if not len(images):
        raise HitNetError(f"{images.name} holds no images to evaluate.")
    return class_distances(model, images.pixels).cpu()


def judge(distances: Tensor, images: Images, head: Head) -> Evaluation:
    """The figures of distances (N, K), without reconstructions."""
    check_finite(distances)
    labels, k = images.labels, images.num_classes
    prediction = head.predict(distances)
    confusion = torch.bincount(labels * k + prediction, minlength=k * k).view(k, k)
    hits = misses = None
    if head.loss == "centripetal":
        hit, missed = hits_and_misses(distances, labels)
        hits, misses = int(hit) / len(labels), int(missed) / (len(labels) * (k - 1))
    return Evaluation(
        data=images.name,
        images=len(images),
        class_names=images.class_names,
        error=float((prediction != labels).double().mean()),
        confusion=confusion.numpy(),
        hits=hits,
        misses=misses,
        mse=None,
    )
