"""Evaluation of a trained network, or of a committee, on a set of images: distances, errors, hits and misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hitnet.capsules import hits_and_misses
from hitnet.data import Data, Images, Source, open_data
from hitnet.data.known.catalogue import recorded_folder
from hitnet.data.opened import match_classes
from hitnet.data.split import check_split
from hitnet.errors import HitNetError
from hitnet.models.decoders import masked_target
from hitnet.models.heads import Head
from hitnet.models.inference import class_distances, evaluating, to_device
from hitnet.models.network import Network, weights_fingerprint
from hitnet.runtime.device import evaluation_batch, pick_device
from hitnet.training.runs import Run, open_run


@dataclass(frozen=True)
class Evaluation:
    """Figures of one network, or of a committee, on one set of images; shares and rates are in percent.

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
        return {
            "data": self.data,
            "images": self.images,
            "networks": self.networks,
            "error_percent": self.error,
            "hits_percent": self.hits,
            "misses_percent": self.misses,
            "reconstruction_mse": self.mse,
            "classes": self.per_class(),
            "confusion": self.confusion.tolist(),
        }

    def per_class(self) -> list[dict[str, Any]]:
        rows = []
        for k, name in enumerate(self.class_names):
            count, right, said = self.confusion[k].sum(), self.confusion[k, k], self.confusion[:, k].sum()
            rows.append(
                {
                    "class": name,
                    "images": int(count),
                    "error_percent": 100 * float(count - right) / float(count) if count else None,
                    "precision_percent": 100 * float(right) / float(said) if said else None,
                }
            )
        return rows


def check_fit(model: Network, images: Images) -> None:
    """Raise HitNetError if a network cannot take a set of images."""
    wanted = model.config.in_shape
    if images.shape != wanted:
        colours = "grey images" if wanted[0] == 1 else "images in colour"
        what = "images of that size (`image_size`)" if images.shape[0] == wanted[0] else colours
        raise HitNetError(
            f"{images.name} has images of shape {images.shape}, but the network was trained on {wanted} (channels, "
            f"height, width). Give {what}."
        )
    if images.num_classes != model.config.num_classes:
        raise HitNetError(
            f"{images.name} has {images.num_classes} classes, but the network knows {model.config.num_classes}."
        )


def mean_distances(members: Sequence[Tensor]) -> Tensor:
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
    labels, k = images.labels, images.num_classes
    prediction = head.predict(distances)
    confusion = torch.bincount(labels * k + prediction, minlength=k * k).view(k, k)
    hits = misses = None
    if head.loss == "centripetal":
        hit, missed = hits_and_misses(distances, labels)
        hits, misses = 100 * int(hit) / len(labels), 100 * int(missed) / (len(labels) * (k - 1))
    return Evaluation(
        data=images.name,
        images=len(images),
        class_names=images.class_names,
        error=100 * float((prediction != labels).double().mean()),
        confusion=confusion.numpy(),
        hits=hits,
        misses=misses,
        mse=None,
    )


def evaluate(
    run: Run | str | Path | Sequence[Run | str | Path],
    data: Source | None = None,
    *,
    split: str | None = None,
    device: str = "auto",
) -> Evaluation:
    """Error rate, confusion, hits and misses of a run on a data set, or of several runs as a committee.

    A committee judges by the mean of its networks' distances, or of their probabilities for networks with softmax.

    Args:
        run: A run, or its folder; or several, with the same classes and the same kind of head.
        data: Opened data, or what `open_data` takes. None: the data that the (first) run was trained on.
        split: train, test or all. None: the test images; for images in memory without test images, all.
        device: auto, cpu or cuda.

    Raises:
        HitNetError: Images or runs do not fit together.
    """
    if isinstance(run, Run | str | Path):
        trained = run if isinstance(run, Run) else open_run(run)
        return measure(trained.model.to(pick_device(device)), load_for(trained, data, split))
    return evaluate_committee(run, data, split=split, device=device)


def evaluate_committee(
    runs: Sequence[Run | str | Path], data: Source | None, *, split: str | None, device: str
) -> Evaluation:
    """See `evaluate`. Only one network is on the device at a time."""
    if not runs:
        raise HitNetError("There is no run to evaluate: `run` is an empty list.")
    members = [each if isinstance(each, Run) else open_run(each) for each in runs]
    if len(members) == 1:
        return evaluate(members[0], data, split=split, device=device)
    check_committee(members)
    images, chosen = load_for(members[0], data, split), pick_device(device)
    distances = []
    for member in members:
        distances.append(network_distances(member.model.to(chosen), images))
        member.model.cpu()
    return replace(judge(mean_distances(distances), images, members[0].model.head), networks=len(members))


def check_committee(members: Sequence[Run]) -> None:
    """Raise HitNetError unless the mean of the runs' distances has a meaning."""
    first, networks = members[0], {weights_fingerprint(members[0].model)}
    for other in members[1:]:
        names = " and ".join(map(run_name, (first, other)))
        if other.class_names != first.class_names:
            lists = " and ".join(", ".join(run.class_names[:10]) for run in (first, other))
            raise HitNetError(
                f"{names} were trained on different lists of classes ({lists}), so they cannot judge together. Give "
                "runs with the same classes in the same order."
            )
        if other.config.model.in_shape != first.config.model.in_shape:
            shapes = " and ".join(str(run.config.model.in_shape) for run in (first, other))
            raise HitNetError(f"{names} take images of different shapes, {shapes}. Give runs on images of one shape.")
        if type(other.model.head) is not type(first.model.head):
            heads = " and ".join(run.config.model.head for run in (first, other))
            raise HitNetError(
                f"{names} have different heads ({heads}), whose distances have no common mean. Give runs of one kind."
            )
        fingerprint = weights_fingerprint(other.model)
        if fingerprint in networks:
            raise HitNetError(f"{run_name(other)} is in the committee twice. Give each run once.")
        networks.add(fingerprint)


def run_name(run: Run) -> str:
    """A run by its folder, or by its seed."""
    return str(run.folder or f"the run with seed {run.config.seed}")


def load_for(run: Run, data: Source | None, split: str | None = None, *, limit: int | None = None) -> Images:
    """Images for a run, labelled in its own order of classes, at the size that its network takes.

    Args:
        run: The run.
        data: Opened data, or what `open_data` takes. None: the data that the run was trained on.
        split: train, test or all. None: the test images.
        limit: At most N images.
    """
    if split is not None:
        check_split(split)
    try:
        opened = (_own_data(run) if data is None else open_data(data)).at_size(run.config.model.in_shape[1:])
        if limit is not None:
            opened = opened.reopen(limit=limit)
        images = opened.load(split or opened.test_split)
    except HitNetError as error:
        if data is not None:
            raise
        raise HitNetError(f"The data that the run was trained on cannot be read: {error} Name other data.") from error
    return match_classes(images, run.class_names)


def _own_data(run: Run) -> Data:
    """The data that a run was trained on."""
    about = run.config.data
    if about.get("in_memory"):  # older runs do not tell it
        raise HitNetError(f"{about['source']!r} was in memory, not in files.")
    return open_data(about["source"], flip=about.get("flip"), data_dir=recorded_folder(about.get("data_dir")))
