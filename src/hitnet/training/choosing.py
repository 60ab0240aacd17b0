"""Which network suits photographs: held-out images decide between a head on kept features and a network trained whole.

A head on the features of a pretrained backbone takes seconds and mostly wins. Where photographs differ little from each
other, e.g. hands before a wall, a small network from scratch can be much better, so it is tried if there is time. On a
GPU, the backbone is fine-tuned instead.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.data import Data, Images
from hitnet.data.opened import LONGEST_SIDE
from hitnet.features.heads import HeadOptions, deal
from hitnet.models import PRETRAINED, ModelChoice, default_name, find_choice
from hitnet.probabilities import FEWEST_HELD_OUT
from hitnet.runtime.device import room_for_images
from hitnet.runtime.progress import Progress, Stopped, Training
from hitnet.training.configuration import at_backbone_size, configure, training_sets
from hitnet.training.frozen import FrozenTraining
from hitnet.training.jobs import Job, Outcome, train_jobs
from hitnet.training.recipes import Recipe, RecipeChoice, choose_recipe
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run

log = logging.getLogger("hitnet")
Choices = dict[str, Any]
MINUTES = 8.0
MEASURED_STEPS = 10  # after which the time of a trial is known
HOPELESS = 2.0  # times the head's error: a network that errs more often after half of its epochs is given up


def leaves_open(data: Data, model: str | ModelChoice | None, recipe: str | Recipe | RecipeChoice) -> bool:
    """Whether nothing says how to train: neither network nor recipe nor the size of the images, which are files."""
    plain = recipe == "fast" or (isinstance(recipe, RecipeChoice) and recipe == choose_recipe("fast"))
    return plain and find_choice(model) == ModelChoice(None) and data.by_path and data.options.image_size is None


def choose_training(
    data: Data, device: torch.device, seed: int, *, before: Path | None, minutes: float, progress: Progress
) -> tuple[Choices, FrozenTraining | None]:
    """Model and recipe for image files that leave them open; for a head, also its training, which has its features.

    If there is a run in the folder `before`, its choice stands. A network may take so many `minutes`, its trial and its
    training together; 0: only a head.
    """
    choices: Choices = {"model": PRETRAINED, "recipe": choose_recipe("fast", backbone_rate=0)}
    if before is not None and RunFolder(before).exists:
        config = RunFolder(before).config()
        return ({"model": config.model_name} if config.recipe.backbone_rate else choices), None
    progress.part("reading images")
    images, test = training_sets(data, partial(room_for_images, device))
    if images.shape[0] != 3 or max(images.shape[1:]) < LONGEST_SIDE:
        return {}, None
    heads = FrozenTraining(data, images, test, device, progress)
    config = replace(configure(data, images, test, device=device, **choices)[0], seed=seed)
    wrong = heads.fit(config).distances.argmin(dim=1) != images.labels
    held_out = deal(images.labels, HeadOptions.folds, torch.Generator().manual_seed(seed)) == 0
    if not minutes or int(held_out.sum()) < FEWEST_HELD_OUT or not isinstance(images, Images):
        return choices, heads
    rival: Choices = {"model": PRETRAINED if device.type == "cuda" else default_name(images.shape, device.type)}
    trial = Trial(str(rival["model"]), float(wrong[held_out].double().mean()), 60 * minutes, progress)
    seen = images if device.type == "cpu" else at_backbone_size(data, PRETRAINED).load(data.train_split)
    trial.run(data, seen, held_out, device, seed, rival)
    return (rival, None) if trial.wins else (choices, heads)


class Trial(Progress):
    """Trains a network without some images, and compares its error on these with that of heads that did not see them.

    It has half of the usual epochs, and ends early where the network needs more than `seconds` or is far behind.
    """

    def __init__(self, name: str, to_beat: float, seconds: float, progress: Progress) -> None:
        self.name, self.to_beat, self.seconds, self.progress = name, to_beat, seconds, progress
        self.error: float | None = None
        self.steps = self.done = 0
        self.began = self.estimate = 0.0  # estimate: seconds of trial and training together

    @property
    def wins(self) -> bool:
        return self.error is not None and self.error < self.to_beat

    def run(
        self, data: Data, images: Images, held_out: Tensor, device: torch.device, seed: int, rival: Choices
    ) -> None:
        learned, tested = images.select(torch.nonzero(~held_out)[:, 0]), images.select(torch.nonzero(held_out)[:, 0])
        config = replace(configure(data, learned, tested, device=device, **rival)[0], seed=seed)
        config = replace(config, recipe=replace(config.recipe, epochs=-(-config.recipe.epochs // 2)))
        self.steps = config.recipe.epochs * config.recipe.steps_per_epoch(len(learned))

        def on_end(job: Job, outcome: Outcome) -> None:
            if isinstance(outcome, Run):
                self.error = outcome.history[-1]["test_error"]

        train_jobs([Job(config, learned, tested)], on_end, device=device, progress=self)
        log.info("%s", self.report(len(tested)))

    def report(self, images: int) -> str:
        """What was found, in one line."""
        if self.estimate > self.seconds:
            result = f"would take about {self.estimate / 60:.0f} min, more than `minutes` allow"
        elif self.error is None:
            result = "given up halfway"
        else:
            result = f"{100 * self.error:.1f} %"
        return (
            f"Error on {images:,} images that were held out: head on kept features {100 * self.to_beat:.1f} %, "
            f"{self.name} {result}. Chosen: {self.name if self.wins else 'the head'}."
        )

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        self.progress.part(f"trying {self.name}", steps, unit)

    def step(self, count: int = 1) -> None:
        self.done += count
        self.progress.step(count)
        if self.done == 1:
            self.began = time.perf_counter()  # the first step prepares
        if self.done == MEASURED_STEPS:
            per_step = (time.perf_counter() - self.began) / (MEASURED_STEPS - 1)
            self.estimate = 3.5 * self.steps * per_step  # the training has twice the epochs and a quarter more images
            if self.estimate > self.seconds:
                raise Stopped
            log.info(
                "Trying %s too: about %.0f min. `minutes` = 0 leaves this out.", self.name, max(1, self.estimate / 60)
            )

    def epoch(self, training: Training) -> None:
        row = training.history[-1]
        if 2 * row["epoch"] >= training.recipe.epochs and row["test_error"] > HOPELESS * self.to_beat:
            raise Stopped
