"""Several runs together: a committee judges by the mean of its distances, and their ghosts are compared."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from hitnet.data import Images, Source, open_data
from hitnet.errors import HitNetError
from hitnet.inference.evaluation import Evaluation, judge, mean_distances, network_distances
from hitnet.inference.ghosts import Ghosts, find_ghosts
from hitnet.models.network import weights_fingerprint
from hitnet.runtime.device import Device, pick_device
from hitnet.training.runs import Run, RunLike, open_run


def evaluate(
    run: RunLike | Sequence[RunLike], data: Source | None = None, *, split: str | None = None, device: Device = "auto"
) -> Evaluation:
    """Error rate, confusion, hits and misses of a run on a dataset, or of several runs as a committee.

    A committee judges by the mean of its networks' distances, or of their probabilities for networks with softmax.

    Args:
        run: A run, or its folder; or several, with the same classes and the same kind of head.
        data: Opened data, or what `open_data` takes. None: the data that the (first) run was trained on.
        split: train, test or all. None: the test images; for images in memory without test images, all.
        device: auto, cpu, cuda, cuda:1, mps, or a torch.device.

    Raises:
        HitNetError: Images or runs do not fit together.
    """
    members = [open_run(each) for each in ([run] if isinstance(run, RunLike) else run)]
    if not members:
        raise HitNetError("There is no run to evaluate: `run` is an empty list.")
    if len(members) == 1:
        return members[0].evaluate(data, split=split, device=device)
    check_committee(members)
    images = members[0].load(data, split)
    mean = mean_distances(torch.from_numpy(all_distances(members, images, device)))
    return replace(judge(mean, images, members[0].model.head), networks=len(members))


def analyse_ghosts(
    runs: Sequence[RunLike], data: Source, *, split: str | None = None, device: Device = "auto"
) -> tuple[Ghosts, Images]:
    """Find the ghosts of a dataset's images in the networks of several runs.

    Args:
        runs: Runs, or their folders.
        data: Opened data, or what `open_data` takes.
        split: train, test or all. None: the default of an audit.
        device: auto, cpu, cuda, cuda:1, mps, or a torch.device.

    Returns:
        The ghosts, and the images in the same order.
    """
    members = [open_run(run) for run in runs]
    opened = open_data(data)
    images = members[0].load(opened, split or opened.audit_split)
    check_committee(members)
    for run in members:
        if run.model.head.loss != "centripetal":
            raise HitNetError(f"{run.name} has no Hit-or-Miss layer, and so no ghosts. Give runs of hitnet….")
    distances = all_distances(members, images, device)
    return find_ghosts(distances, images.labels.numpy(), images.class_names), images


def all_distances(members: Sequence[Run], images: Images, device: Device) -> np.ndarray:
    """Distances (M, N, K) in float32; only one network is on the device at a time."""
    distances, where = [], pick_device(device, mps=True)
    for member in members:
        distances.append(network_distances(member.model.to(where), images).numpy())
        member.model.cpu()
    return np.stack(distances)


def check_committee(members: Sequence[Run]) -> None:
    """Raise HitNetError unless the mean of the runs' distances has a meaning."""
    first, known = members[0], {weights_fingerprint(members[0].model): members[0].name}
    for other in members[1:]:
        names = f"{first.name} and {other.name}"
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
        if fingerprint in known:
            raise HitNetError(f"{known[fingerprint]} and {other.name} hold the same network. Give each network once.")
        known[fingerprint] = other.name
