"""The training of one network: epochs of steps, one row of history per epoch, checkpoints at intervals of time."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hitnet.capsules import hits_and_misses
from hitnet.errors import DivergedError, HitNetError, log
from hitnet.losses import misfit
from hitnet.models.network import PRETRAINED_BATCH, Network, class_distances
from hitnet.probabilities import FEWEST_HELD_OUT
from hitnet.runtime.device import Stopwatch, evaluation_batch
from hitnet.runtime.progress import Progress, Stopped, Training
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.batches import Batches, Feed, HybridAugmentation, epoch_seed, random_state, set_random_state
from hitnet.training.parallel import Parallel
from hitnet.training.recipes import Recipe
from hitnet.training.run_folder import Calibration, History, RunFolder, Saved
from hitnet.training.step import TERMS, Average, Batch, Step, copy_into

ASK_STEPS = 20  # how often several processes agree on whether to write a checkpoint
CHECKPOINT_SECONDS = 15.0  # a killed training loses at most this much work, plus the current step
MOST_HELD_OUT = 10_000  # test images that the temperature is fitted on
CHECKPOINT_WRITING = 0.05  # seconds; checkpoints that take longer to write are written correspondingly less often


def diverged(epoch: int, what: str) -> DivergedError:
    return DivergedError(
        f"Training diverged in epoch {epoch}: {what} not finite. "
        "Lower the learning rate, or start again with another seed."
    )


class Trainer:
    """Trains one network, starting from the last checkpoint of its run folder, and tests it after each epoch."""

    def __init__(
        self,
        model: Network,
        train: Feed,
        test: Feed | None,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device,
        modify: HybridAugmentation | None = None,
        run: RunFolder | None = None,
        progress: Progress | None = None,
        ranks: Ranks = SINGLE,
    ) -> None:
        self.model = model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.test, self.recipe, self.seed, self.device = test, recipe, seed, device
        self.ranks, self.run = ranks, run if ranks.first else None
        self.progress = progress if progress is not None and ranks.first else Progress()
        self.side_by_side = 1  # networks that are trained side by side, this one included
        self.batches = Batches(train, recipe, seed=seed, modify=modify, ranks=ranks)
        self.average = Average(self.model, recipe.average) if recipe.average else None
        self.parallel = None if ranks.size == 1 else Parallel(self.model, ranks)
        seen = replace(recipe, flip=recipe.flip and train.flip)  # only images that may be mirrored are
        self.step = Step(self.model, seen, device, parallel=self.parallel)
        self.history: History = []
        self.last_distances: list[Tensor] = []  # of the test images, after the last epoch
        self.calibration: Calibration | None = None  # once trained and if there are test images
        self.steps_per_epoch = recipe.steps_per_epoch(len(train))
        self.images_per_epoch = recipe.images_per_epoch(len(train))
        self.threads = torch.get_num_threads()  # of a CPU; a resumed training keeps the number it was begun with
        self.begun: tuple[int, dict[str, Tensor]] | None = None  # steps done in the epoch to resume, its state
        self.next_save = time.monotonic() + CHECKPOINT_SECONDS
        self.resume()

    @property
    def trained(self) -> Network:
        """The network that is tested and kept: the network in training, or the average of its weights."""
        return self.model if self.average is None else self.average.network

    def training(self) -> Training:
        """This training, as hooks see it."""
        return Training(self.trained, self.history, self.recipe, self.seed, None if self.run is None else self.run.path)

    def state(self) -> dict[str, Tensor]:
        """All tensors that a step changes, by name. They are live: copying into them restores a state."""
        return self.step.state() | ({} if self.average is None else self.average.state())

    def resume(self) -> None:
        saved = self.ranks.from_first(lambda: self.run.saved() if self.run else None)
        if saved is None:
            return
        self.check_state(saved)
        copy_into(self.state(), saved.tensors)
        self.threads = saved.threads or self.threads
        if self.device.type == "cpu" and self.threads != torch.get_num_threads() and self.ranks.first:
            log.info(
                "The run was begun with %d threads, and is resumed with as many (otherwise: %d), so that it ends with "
                "the same weights.",
                self.threads,
                torch.get_num_threads(),
            )
        self.history = saved.history
        self.begun = (saved.step, saved.tensors) if saved.step else None

    def check_state(self, saved: Saved) -> None:
        """Raise unless a checkpoint holds all tensors of this training, each of its own shape."""
        expected = self.state()
        if saved.step:
            expected = expected | {"totals": self.step.totals, "random.cpu": torch.get_rng_state()}
        for name, value in expected.items():
            if name not in saved.tensors or saved.tensors[name].shape != value.shape:
                place = "its checkpoint" if self.run is None else self.run.state_file
                raise HitNetError(
                    f"{place} does not fit this training: {name} is missing or of another shape. Remove it to begin "
                    "the run anew."
                )

    def work(self) -> Iterator[None]:
        """The training as a generator of steps, so that the caller can do other work in between."""
        upcoming: Iterator[Batch] | None = None
        try:
            self.progress.start(self.training())
            for epoch in range(len(self.history) + 1, self.recipe.epochs + 1):
                started, first = time.perf_counter(), self.start_epoch(epoch)
                watch = Stopwatch(self.device)
                for i, batch in enumerate(upcoming or self.batches(epoch, first), first):
                    self.take(epoch, i, batch)
                    yield
                watch.stop()
                tested = None if self.test is None else self.test_counts(self.test, epoch)
                # A GPU is still busy with all this: prepare the next epoch before waiting for the figures.
                upcoming = self.batches(epoch + 1, 0) if epoch < self.recipe.epochs else None
                yield
                row = self.row(epoch, watch, first, tested)
                self.end_epoch(row | {"seconds": time.perf_counter() - started, "beside": self.side_by_side})
            self.finish()
        finally:
            self.progress.end(self.training())

    def end_epoch(self, row: dict[str, Any]) -> None:
        """Report an epoch, write a checkpoint if it is time, and stop if this is asked for."""
        self.history.append(row)
        self.progress.epoch(self.training())
        if row["epoch"] < self.recipe.epochs:
            stop = self.ranks.from_first(lambda: self.progress.stop)
            self.checkpoint(0, now=stop)
            if stop:
                raise Stopped

    def finish(self) -> None:
        """Keep the trained network."""
        values = [value for value in self.trained.state_dict().values() if value.is_floating_point()]
        if not bool(torch.stack([value.isfinite().all() for value in values]).all()):  # which no loss has shown
            raise diverged(self.recipe.epochs, "some weights are")
        self.calibration = self.calibrated()
        if self.parallel is not None:
            self.parallel.release()
        if self.run:
            self.run.finish(self.trained, self.history, self.calibration)
        self.trained.eval()

    def calibrated(self) -> Calibration | None:
        """What the test images say of probabilities and misfits."""
        if self.test is None or len(self.test) < FEWEST_HELD_OUT:
            return None
        chosen = torch.linspace(0, len(self.test) - 1, min(len(self.test), MOST_HELD_OUT)).long()
        distances = torch.cat(self.last_distances).cpu()[chosen].double()
        if not distances.isfinite().all():
            return None
        nearest = distances if self.model.head.nearest_wins else -distances
        return Calibration.of(nearest.numpy(), misfit(distances).numpy(), self.test.labels.cpu()[chosen])

    def take(self, epoch: int, i: int, batch: Batch) -> None:
        """Step `i` of this epoch, counted from 0."""
        if self.parallel is not None:
            whole = min(self.recipe.batch_size, self.images_per_epoch - i * self.recipe.batch_size)
            self.parallel.begin(len(batch[1]), whole)
        self.step(batch, self.rate(epoch, i))
        if self.average is not None:
            self.average.add((epoch - 1) * self.steps_per_epoch + i + 1)
        self.progress.step()
        if i + 1 < self.steps_per_epoch:
            self.checkpoint(i + 1)

    def start_epoch(self, epoch: int) -> int:
        """Prepare an epoch; returns the number of its steps that are already done."""
        self.model.train()
        self.step.start_epoch(epoch)
        torch.manual_seed(epoch_seed(self.seed, epoch, self.ranks.rank))
        if self.begun is None:
            return 0
        (done, tensors), self.begun = self.begun, None
        if self.ranks.first:
            self.step.totals.copy_(tensors["totals"])
        set_random_state(tensors, self.ranks.mark)
        return done

    def rate(self, epoch: int, step: int) -> float:
        return self.recipe.rate((epoch - 1) * self.steps_per_epoch + step, self.steps_per_epoch)

    def checkpoint(self, step: int, *, now: bool = False) -> None:
        """Write a checkpoint if it is time or `now`; `step` steps of the epoch after the history are done."""
        single = self.ranks.size == 1
        if (single and self.run is None) or (not single and step % ASK_STEPS):
            return
        if not now and not self.ranks.from_first(lambda: time.monotonic() > self.next_save):
            return
        began = time.monotonic()
        totals = self.ranks.total(self.step.totals)
        # Each process draws its own random numbers.
        random = self.ranks.gather(random_state(self.device, self.ranks.mark)) if step else {}
        if self.run is not None:
            extra = {"totals": totals, **random} if step else {}
            self.run.save(self.state() | extra, self.history, step=step)
        ended = time.monotonic()
        self.next_save = ended + CHECKPOINT_SECONDS * max(1.0, (ended - began) / CHECKPOINT_WRITING)

    def row(self, epoch: int, watch: Stopwatch, first: int, tested: Tensor | None) -> dict[str, Any]:
        count = self.images_per_epoch
        totals = dict(zip(TERMS, self.ranks.total(self.step.totals).tolist(), strict=True))
        if not all(map(math.isfinite, totals.values())):
            raise diverged(epoch, "the loss is")
        row: dict[str, Any] = {"epoch": epoch, "learning_rate": self.rate(epoch, self.steps_per_epoch - 1)}
        row |= {name: totals[name] / count for name in ("loss", "classification", "reconstruction")}
        counts = [totals[name] for name in ("wrong", "hits", "misses")]
        row |= shares("train", counts, count, self.model)
        if self.test is not None and tested is not None:
            row |= shares("test", tested.tolist(), len(self.test), self.model)
        trained = count - first * self.recipe.batch_size
        return row | {"images_per_second": trained / watch.seconds}

    def test_counts(self, test: Feed, epoch: int) -> Tensor:
        """Count wrong predictions, hits and misses on the test images, without waiting for the device: (3,)."""
        counts = torch.zeros(3, dtype=torch.int64, device=self.device)
        size = 4 * PRETRAINED_BATCH if self.model.config.pretrained else evaluation_batch(test.shape)
        for pixels, labels in test.in_order(size):
            distances = class_distances(self.trained, pixels)
            if epoch == self.recipe.epochs:
                self.last_distances.append(distances)
            counts += count_outcomes(self.model, distances, labels)
        return counts


def count_outcomes(network: Network, distances: Tensor, labels: Tensor) -> Tensor:
    """Wrong predictions, hits and misses among distances (B, K), counted without waiting for the device: (3,)."""
    wrong = (network.head.predict(distances) != labels).sum()
    return torch.stack([wrong, *hits_and_misses(distances, labels)])


def shares(name: str, counts: Sequence[float], images: int, network: Network) -> dict[str, float]:
    """The entries of a history's row for counts of wrong predictions, hits and misses of some images."""
    wrong, hits, misses = counts
    row = {f"{name}_error": wrong / images}
    if network.head.loss == "centripetal":
        others = network.config.num_classes - 1
        row |= {f"{name}_hits": hits / images, f"{name}_misses": misses / (images * others)}
    return row
