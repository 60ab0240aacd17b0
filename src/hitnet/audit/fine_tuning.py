"""Judges for photographs on a GPU: a pretrained backbone, fine-tuned on the labels as given.

Some networks learn from all images. Their judgement of an image whose label they have learned is late to change, so
others learn from all images but a fold each, and judge the images of that fold without having seen them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hitnet.audit.judges import Judgement, Judges, describe_networks, mean_distances, same_images
from hitnet.data import Data, Images
from hitnet.errors import DivergedError, whole
from hitnet.features.heads import stratified_folds
from hitnet.models import choose_model
from hitnet.training import Progress, Recipe, RecipeChoice, Run, choose_recipe, open_run
from hitnet.training.api import make_job
from hitnet.training.configuration import at_backbone_size, configure
from hitnet.training.jobs import Job, JobSet, Outcome, release, train_job_sets

BATCH = 2_000  # images on the device at once, in all their views
MANY_IMAGES, EPOCHS, FEWER_EPOCHS = 20_000, 8, 4  # longer trainings learn wrong labels by heart


@dataclass(frozen=True)
class FineTuned(Judges):
    """A pretrained backbone, fine-tuned on the labels as given; for photographs, on a GPU.

    Attributes:
        backbone: "efficientnet-lite0", "timm:NAME" or "torchvision:NAME".
        weights: A .safetensors file that it starts from. None: its published weights.
        count: Networks that learn from all images.
        folds: Networks that learn from all images but a fold, and judge that fold. 0: none.
        recipe: How they are trained. `fast` uses the audit's own number of epochs.
        seed: Seed of the first network; the others count on from it.
    """

    backbone: str = "efficientnet-lite0"
    weights: str | None = None
    count: int = 3
    folds: int = 4
    recipe: str | Recipe | RecipeChoice = "fast"
    seed: int = 0

    def __post_init__(self) -> None:
        whole("FineTuned", "count", self.count, 0)
        whole("FineTuned", "folds", self.folds, 0 if self.count else 2)

    def judge(
        self,
        data: Data,
        images: Images,
        *,
        split: str,
        folder: Path | None,
        device: torch.device,
        progress: Progress | None,
    ) -> Judgement:
        model = choose_model("hitnet-pretrained", features=self.backbone, weights=self.weights)
        large = same_images(images, at_backbone_size(data, model).load(split))
        fold_of = self._fold_of(images.labels)
        config, _ = configure(data, large, None, device=device, model=model, recipe=self._recipe(len(large)))
        parts = [(f"seed-{self.seed + i}", torch.arange(len(large))) for i in range(self.count)]
        parts += [(f"fold-{fold}", torch.nonzero(fold_of != fold)[:, 0]) for fold in range(self.folds)]
        job_sets: list[JobSet] = []
        jobs: list[Job] = []
        try:
            for i, (name, index) in enumerate(parts):
                part = large if len(index) == len(large) else large.select(index, name=f"{large.name}, {name}")
                about = config.data | {"images": len(part), "fingerprint": part.fingerprint}
                target = None if folder is None else folder / "models" / name
                own = replace(config, seed=self.seed + i, data=about)
                jobs.append(make_job(own, target, resume=True, device=device))
                if not jobs[-1].finished:
                    job_sets.append(JobSet([jobs[-1]], part, None))
            runs = _trained(jobs, job_sets, device, progress)
        finally:
            release(jobs)
        distances = [_distances(run, large, device) for run in runs[: self.count]]
        if self.folds:
            unseen = torch.empty(len(large), large.num_classes)
            for fold, run in enumerate(runs[self.count :]):
                own_fold = torch.nonzero((fold_of == fold) | (fold_of < 0))[:, 0]
                unseen[own_fold] = _distances(run, large.select(own_fold), device)
            distances.append(unseen)
        return Judgement(np.stack([each.numpy() for each in distances]), images, describe_networks(runs))

    def _fold_of(self, labels: Tensor) -> Tensor:
        if not self.folds:
            return torch.full_like(labels, -1)
        return stratified_folds(labels, self.folds, torch.Generator().manual_seed(self.seed))

    def _recipe(self, images: int) -> Recipe | RecipeChoice:
        if isinstance(self.recipe, Recipe):
            return self.recipe
        choice = choose_recipe(self.recipe) if isinstance(self.recipe, str) else self.recipe
        if choice.name == "fast" and "epochs" not in choice.changes:
            return choose_recipe("fast", **choice.changes, epochs=EPOCHS if images < MANY_IMAGES else FEWER_EPOCHS)
        return choice


def _trained(jobs: list[Job], job_sets: list[JobSet], device: torch.device, progress: Progress | None) -> list[Run]:
    """The run of each job: trained now, side by side, or opened if it is finished."""
    outcomes: dict[int, Outcome] = {}

    def on_end(job: Job, outcome: Outcome) -> None:
        if isinstance(outcome, DivergedError):
            raise outcome
        outcomes[id(job)] = outcome

    train_job_sets(job_sets, on_end, device=device, progress=progress)
    runs = []
    for job in jobs:
        outcome = outcomes.get(id(job))
        runs.append(outcome if isinstance(outcome, Run) else open_run(job.folder.path if job.folder else ""))
    return runs


def _distances(run: Run, images: Images, device: torch.device) -> Tensor:
    """Class distances (N, K) on the CPU: the mean over each image's views."""
    network = run.model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts = images.pixels.split(BATCH)
    return torch.cat([mean_distances(network, part.to(device), flip=images.flip) for part in parts])
