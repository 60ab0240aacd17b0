"""Train one network, or several; for photographs, held-out images decide which network.

A head on the features of a pretrained backbone takes seconds and mostly wins. Where photographs differ little from each
other, e.g. hands before a wall, a small network from scratch can be much better, so it is tried if there is time. On a
GPU, the backbone is fine-tuned instead.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.data import Data, Images, ImageSet, Source, open_data
from hitnet.data.opened import LONGEST_SIDE
from hitnet.errors import HitNetError, log, whole
from hitnet.features.heads import HeadOptions, deal
from hitnet.models import PRETRAINED, ModelChoice, default_name, find_choice
from hitnet.probabilities import FEWEST_HELD_OUT
from hitnet.runtime.bar import shown
from hitnet.runtime.device import Device, pick_device, room_for_images
from hitnet.runtime.progress import Progress, Stopped, Together, Training
from hitnet.runtime.ranks import connect, watched
from hitnet.training.configuration import at_backbone_size, configure, is_frozen, training_sets
from hitnet.training.frozen import FrozenTraining
from hitnet.training.jobs import Job, Outcome, seed_jobs, train_jobs, train_runs
from hitnet.training.recipes import Recipe, RecipeChoice, choose_recipe
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, RunLike

Choices = dict[str, Any]
Sets = tuple[ImageSet, ImageSet | None]
HEAD: Choices = {"model": PRETRAINED, "recipe": choose_recipe("fast", backbone_rate=0)}  # on kept features
MINUTES = 8.0
MEASURED_STEPS = 10  # after which the time of a trial is known
HOPELESS = 2.0  # times the head's error: a network that errs more often after half of its epochs is given up


def train(
    data: Source,
    *,
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: Device = "auto",
    augment_from: RunLike | None = None,
    minutes: float = MINUTES,
    progress: Progress | bool = True,
    callbacks: Sequence[Progress] = (),
) -> Run:
    """Train a network and, with `out`, keep it in a run folder.

    Args:
        data: Opened data, or what `open_data` takes.
        model: A name of `hitnet.models.MODELS`, or `choose_model(name, ...)`. None: one that suits the images and the
            device. For photographs, held-out images decide between a head on kept features and a network.
        recipe: The name of a recipe, `choose_recipe(name, ...)`, or a complete `Recipe`.
        seed: The same seed on the same machine gives the same result.
        out: Run folder.
        resume: Resume the run in `out`; a finished run is returned as it is.
        device: auto, cpu, cuda, cuda:1, mps, or a torch.device.
        augment_from: The run whose network modifies images, for recipes with hybrid augmentation.
        minutes: For photographs without `model`: how long a network other than a head may take. 0: only a head.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
        callbacks: Further hooks, e.g. `[hitnet.TensorBoard()]`.
    """
    choices: dict[str, Any] = {"model": model, "recipe": recipe, "augment_from": augment_from}
    hooks: dict[str, Any] = {"minutes": minutes, "progress": progress, "callbacks": callbacks}
    return _train(data, [seed], out, single=True, resume=resume, device=device, **hooks, **choices)[0]


def train_many(
    data: Source,
    *,
    seeds: int | Sequence[int],
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    out: str | Path | None = None,
    resume: bool = False,
    device: Device = "auto",
    augment_from: RunLike | None = None,
    minutes: float = MINUTES,
    progress: Progress | bool = True,
    callbacks: Sequence[Progress] = (),
) -> list[Run]:
    """Train one network per seed on one copy of the images. Each is the network that `train` gives for its seed.

    Args:
        seeds: The seeds, or N for the seeds 0 to N - 1.
        out: Folder; the run of seed S is kept in out/seed-S.

    The other arguments are those of `train`.
    """
    choices: dict[str, Any] = {"model": model, "recipe": recipe, "augment_from": augment_from}
    hooks: dict[str, Any] = {"minutes": minutes, "progress": progress, "callbacks": callbacks}
    return _train(data, listed_seeds(seeds), out, single=False, resume=resume, device=device, **hooks, **choices)


def _train(
    data: Source,
    seeds: Sequence[int],
    out: str | Path | None,
    *,
    single: bool,
    resume: bool,
    device: Device,
    minutes: float,
    progress: Any,
    callbacks: Any,
    **choices: Any,
) -> list[Run]:
    """Open the data, make a run folder per seed, or a `single` one, and train."""
    where = pick_device(device)
    ranks = connect(where)
    with watched(ranks), ExitStack() as stack:
        opened = open_data(data)
        bar = stack.enter_context(shown(progress, f"Training on {opened.name}"))
        hooks = Together([bar, *callbacks]) if callbacks else bar
        opened.check_outside(out)
        heads: FrozenTraining | None = None
        sets: Sets | None = None
        read = partial(training_sets, room=partial(room_for_images, where))
        if ranks.size == 1 and leaves_open(opened, choices["model"], choices["recipe"]):
            before = None if out is None or not resume else Path(out) / ("" if single else f"seed-{seeds[0]}")
            if before is not None and RunFolder(before).exists:
                choices |= as_begun(before)
            else:
                bar.part("reading images")
                sets = read(opened)
                chosen, heads = choose_training(opened, sets, where, seeds[0], minutes=minutes, progress=bar)
                choices |= chosen
        frozen = is_frozen(choices["model"], choices["recipe"], where)
        if not frozen or opened.options.image_size is not None:  # else the features of the files are kept
            sized = at_backbone_size(opened, choices["model"])
            opened, sets = sized, sets if sized is opened else None
        if sets is None:
            bar.part("reading images")
            sets = read(opened)
        images, test = sets
        if not frozen:
            opened.log_size()
        jobs = seed_jobs(opened, images, test, seeds=seeds, device=where, out=out, single=single, **choices)
        if ranks.from_first(lambda: jobs[0].config.data) != jobs[0].config.data:
            raise HitNetError(f"Process {ranks.rank} sees other images than process 0. Give all the same data.")
        if frozen:
            heads = heads or FrozenTraining(opened, images, test, where, hooks)
            return ranks.from_first(lambda: heads.train(jobs, resume=resume))
        return train_runs(jobs, resume=resume, device=where, progress=hooks, ranks=ranks)


def listed_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds, from a count or a list."""
    if not isinstance(seeds, Iterable):
        seeds = range(whole("train_many", "seeds", seeds, 1))
    chosen = list(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise HitNetError(f"seeds must be a whole number from 1 on, or seeds that all differ; got {seeds!r}.")
    return chosen


def leaves_open(data: Data, model: str | ModelChoice | None, recipe: str | Recipe | RecipeChoice) -> bool:
    """Whether nothing says how to train: neither network nor recipe nor the size of the images."""
    plain = recipe == "fast" or (isinstance(recipe, RecipeChoice) and recipe == choose_recipe("fast"))
    return plain and find_choice(model) == ModelChoice(None) and data.options.image_size is None


def as_begun(folder: Path) -> Choices:
    """Model and recipe that were chosen for the run in a folder."""
    config = RunFolder(folder).config()
    return HEAD if config.model.typical else {"model": config.model_name}


def choose_training(
    data: Data, sets: Sets, device: torch.device, seed: int, *, minutes: float, progress: Progress
) -> tuple[Choices, FrozenTraining | None]:
    """Model and recipe for photographs that leave them open; for a head, also its training, which has its features.

    `minutes` limit the trial and the training of a network; 0: only a head.
    """
    images, test = sets
    if images.shape[0] != 3 or max(images.shape[1:]) < LONGEST_SIDE:
        return {}, None
    heads = FrozenTraining(data, images, test, device, progress)
    config = replace(configure(data, images, test, device=device, **HEAD)[0], seed=seed)
    wrong = heads.fit(config).distances.argmin(dim=1) != images.labels
    held_out = deal(images.labels, HeadOptions.folds, torch.Generator().manual_seed(seed)) == 0
    if not minutes or int(held_out.sum()) < FEWEST_HELD_OUT or not isinstance(images, Images):
        return HEAD, heads
    rival: Choices = {"model": PRETRAINED if device.type == "cuda" else default_name(images.shape, device.type)}
    trial = Trial(str(rival["model"]), float(wrong[held_out].double().mean()), 60 * minutes, progress)
    seen = images if device.type == "cpu" else at_backbone_size(data, PRETRAINED).load(data.train_split)
    trial.run(data, seen, held_out, device, seed, rival)
    return (rival, None) if trial.wins else (HEAD, heads)


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
            log.info("Trying %s, too: about %.0f min; `minutes` = 0 skips it.", self.name, max(1, self.estimate / 60))

    def epoch(self, training: Training) -> None:
        row = training.history[-1]
        if 2 * row["epoch"] >= training.recipe.epochs and row["test_error"] > HOPELESS * self.to_beat:
            raise Stopped
