"""Who judges the labels: networks that are trained for it, or runs that are finished already.

Judges give the distance of every image to every class, (M, N, K) from M networks. Everything after that is the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.audit.grey_neighbours import neighbour_distances
from hitnet.audit.plan import Model, Planned, need_hit_or_miss, plan
from hitnet.data import Data, Images
from hitnet.data.opened import match_classes
from hitnet.errors import HitNetError
from hitnet.features.judges import NEIGHBOURS
from hitnet.inference.evaluation import check_fit
from hitnet.models.inference import class_distances
from hitnet.models.network import Network, weights_fingerprint
from hitnet.runtime.progress import Progress
from hitnet.synthesis.decoding import class_prototypes, to_pixels
from hitnet.training import Recipe, RecipeChoice, Run, RunConfig, choose_recipe, open_run
from hitnet.training.configuration import at_backbone_size, configure
from hitnet.training.jobs import Job, JobSet, make_job, release, train_jobs

BATCH = 10_000  # images on the device at once, in all their views
VIEW_SHIFT, GREY_SHIFT = 2, 1  # pixels


@dataclass(frozen=True)
class Case:
    """What is judged, and how.

    Attributes:
        data: The opened data.
        images: The images of the split, with the labels to judge.
        split: train, test or all.
        device: Where to compute.
        folder: Where to keep what is expensive, and to resume it from. None: nowhere.
        progress: Called for each part of the work, its steps, and the epochs of trainings.
    """

    data: Data
    images: Images
    split: str
    device: torch.device
    folder: Path | None = None
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True)
class Judgement:
    """What judges say of N images.

    Attributes:
        distances: (M, N, K) of M networks, float32.
        images: The images, labelled in the networks' order of classes.
        about: What the summary says of the judges: `models` (how many networks), `model` (their kinds), `networks`, and
            `prototypes`: "typical" where these are images of the data.
        prototypes: The decoded centre of each class, or its most typical image, uint8 (K, C, H, W), where there is one.
        features: Features (N, D) that show which images are alike, where there are some.
        trained: How many of the M, from the first on, were trained on the labels that they judge. None: all.
        capsules: How many of the M, from the first on, are distances of capsules. None: all.
        kinds: What to call each of the M judges. Empty: networks.
    """

    distances: np.ndarray
    images: Images
    about: dict[str, Any] = field(default_factory=dict)
    prototypes: Tensor | None = None
    features: Tensor | None = None
    trained: int | None = None
    capsules: int | None = None
    kinds: tuple[str, ...] = ()


class Judges(ABC):
    """A way to judge labels; options are its attributes."""

    @abstractmethod
    def judge(self, case: Case) -> Judgement:
        """Judge the labels of a case; what is expensive is kept below its folder, and resumed from there."""


@dataclass(frozen=True)
class NewNetworks(Judges):
    """Networks that are trained on the labels as given.

    Attributes:
        model: The kind of network, or several, which take turns; "hitnet-pretrained" fine-tunes a backbone. None: what
            suits the images and the device.
        count: How many networks. None: 4, 3 if they are pretrained and images are many, or 2 of each kind.
        recipe: How they are trained. `fast` uses the audit's own number of epochs.
        seed: Seed of the first network; the others count on from it.
        neighbours: Look at grey images in shifted views too, and ask the most similar images, where these know the
            labels (see grey_neighbours.py). The result then depends less on seeds and on the machine.
    """

    model: Model | Sequence[Model] | None = None
    count: int | None = None
    recipe: str | Recipe | RecipeChoice = "fast"
    seed: int = 0
    neighbours: bool = False

    def judge(self, case: Case) -> Judgement:
        images, device = case.images, case.device
        networks = plan(images, model=self.model, count=self.count, device=device)
        judgements: dict[int, np.ndarray] = {}
        runs: dict[int, Run] = {}
        for pretrained in (False, True):
            places = [i for i, network in enumerate(networks) if network.choice.pretrained is pretrained]
            if not places:
                continue
            seen = images
            if pretrained:
                seen = same_images(images, at_backbone_size(case.data, networks[places[0]].choice).load(case.split))
            trained = self._train(networks, places, replace(case, images=seen))
            distances = collect(trained, seen, device, grey_shift=GREY_SHIFT if self.neighbours else 0)
            for i, run, each in zip(places, trained, distances, strict=True):
                runs[i], judgements[i] = run, each
        ordered = [runs[i] for i in range(len(networks))]
        stacked = np.stack([judgements[i] for i in range(len(networks))])
        about, prototypes = describe_networks(ordered), prototype_images(ordered)
        votes = neighbour_distances(images, device) if self.neighbours else None
        if votes is None:
            return Judgement(stacked, images, about, prototypes)
        about |= {"models": len(stacked) + len(votes), "model": f"{about['model']} and neighbours"}
        kinds = ("networks",) * len(stacked) + tuple(f"{k} neighbours" for k in NEIGHBOURS)
        everything = np.concatenate([stacked, votes])
        return Judgement(everything, images, about, prototypes, capsules=len(stacked), kinds=kinds)

    def _train(self, networks: Sequence[Planned], places: Sequence[int], case: Case) -> list[Run]:
        """Train, or resume, the networks at `places`. Only the first of all has a decoder, for prototypes."""
        jobs: list[Job] = []
        kinds: dict[Planned, RunConfig] = {}
        try:
            for i in places:
                network = networks[i]
                if network not in kinds:
                    recipe = self._recipe(network)
                    kinds[network], _ = configure(
                        case.data, case.images, None, device=case.device, model=network.choice, recipe=recipe
                    )
                config = replace(kinds[network], seed=self.seed + i)
                if i:
                    config = replace(config, model=replace(config.model, decoder="none", extra_dim=0))
                target = None if case.folder is None else case.folder / "models" / f"seed-{config.seed}"
                jobs.append(make_job(config, target, resume=True, device=case.device))
            return train_jobs(JobSet(jobs, case.images, None), device=case.device, progress=case.progress)
        finally:
            release(jobs)

    def _recipe(self, network: Planned) -> Recipe | RecipeChoice:
        if isinstance(self.recipe, Recipe):
            return self.recipe
        choice = choose_recipe(self.recipe) if isinstance(self.recipe, str) else self.recipe
        if choice.name == "fast" and "epochs" not in choice.changes:
            return choose_recipe("fast", **choice.changes, epochs=network.epochs)
        return choice


@dataclass(frozen=True)
class FinishedRuns(Judges):
    """Finished runs.

    Attributes:
        runs: Runs, or their folders; at least one.
    """

    runs: Sequence[str | Path | Run]

    def __post_init__(self) -> None:
        if not self.runs:
            raise HitNetError("FinishedRuns: give at least one run.")

    def judge(self, case: Case) -> Judgement:
        runs = [run if isinstance(run, Run) else open_run(run) for run in self.runs]
        return judge_by_runs(runs, match_classes(case.images, runs[0].class_names), case.device)


def judge_by_runs(runs: Sequence[Run], images: Images, device: torch.device) -> Judgement:
    """The judgement of trained networks."""
    return Judgement(collect(runs, images, device), images, describe_networks(runs), prototype_images(runs))


def same_images(images: Images, others: Images) -> Images:
    """The others, once it is sure that they are the same images at another size."""
    if not torch.equal(images.ids, others.ids):
        raise HitNetError(f"{images.name} has changed while it was audited. Audit it again.")
    return replace(others, labels=images.labels, class_names=images.class_names)


def describe_networks(runs: Sequence[Run]) -> dict[str, Any]:
    """What the summary says of the networks: how many, of which kinds, and each with its seed and recipe."""
    configs = [run.config for run in runs]
    return {
        "models": len(configs),
        "model": ", ".join(dict.fromkeys(config.model_name for config in configs)),
        "networks": [
            {"model": config.model_name, "seed": config.seed, "recipe": config.recipe.to_dict()} for config in configs
        ],
    }


def collect(
    runs: Sequence[Run], images: Images, device: torch.device, *, plain: bool = False, grey_shift: int = 0
) -> np.ndarray:
    """Class distances (M, N, K) in float32: the mean over each image's views or, if `plain`, of the image as it is."""
    distances = []
    check_differ(runs)
    for run in runs:
        need_hit_or_miss(run.config.model_name, run.model.head.loss)
        if run.class_names != images.class_names:
            raise HitNetError(
                f"The runs must know the same classes in the same order, {', '.join(images.class_names[:20])}; "
                f"{run.folder} knows {', '.join(run.class_names[:20])}."
            )
        check_fit(run.model, images)
        network = run.model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        if plain:
            seen = class_distances(network, images.pixels).cpu()
        else:
            parts = images.pixels.split(BATCH)
            seen = torch.cat(
                [mean_distances(network, part.to(device), flip=images.flip, grey_shift=grey_shift) for part in parts]
            )
        distances.append(seen.numpy())
    return np.stack(distances)


def check_differ(runs: Sequence[Run]) -> None:
    """Raise if one network is given twice: its two votes would be counted as agreement."""
    folders: dict[str, Path | None] = {}
    for run in runs:
        weights = weights_fingerprint(run.model)
        if weights in folders:
            raise HitNetError(f"{folders[weights]} and {run.folder} hold the same network. Give each network once.")
        folders[weights] = run.folder


def mean_distances(network: Network, pixels: Tensor, *, flip: bool, grey_shift: int = 0) -> Tensor:
    """Class distances (N, K) on the CPU: the mean over each image's views."""
    shift = VIEW_SHIFT if pixels.shape[1] > 1 else grey_shift
    if network.config.pretrained:  # it has seen shifts enough
        shift = 0
    seen = [class_distances(network, view) for view in views(pixels, flip=flip, shift=shift)]
    return torch.stack(seen).mean(dim=0).cpu()


def views(pixels: Tensor, *, flip: bool, shift: int) -> Iterator[Tensor]:
    """Images (N, C, H, W) as they are, and shifted four ways by `shift` pixels; each also mirrored if `flip`."""
    height, width = pixels.shape[2:]
    by = shift
    around = F.pad(pixels, [by] * 4)
    for down, right in dict.fromkeys([(0, 0), (-by, 0), (by, 0), (0, -by), (0, by)]):
        view = around[:, :, by + down : by + down + height, by + right : by + right + width]
        yield view
        if flip:
            yield view.flip(-1)


def prototype_images(runs: Sequence[Run]) -> Tensor | None:
    """The decoded centre of each class as uint8 (K, C, H, W), from the first network that has a decoder, if any."""
    network = next((run.model for run in runs if run.model.decoder is not None), None)
    if network is None:
        return None
    return to_pixels(class_prototypes(network, torch.arange(network.config.num_classes)))
