"""The training loop: epochs of steps over images in memory, a row of history each, checkpoints in between."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.data.images import Images
from hitnet.errors import HitNetError
from hitnet.models.network import Network
from hitnet.training.evaluation import class_distances
from hitnet.training.progress import Progress
from hitnet.training.recipe import Recipe
from hitnet.training.run import RunFolder
from hitnet.training.step import TERMS, Modify, Step

History = list[dict[str, Any]]
CHECKPOINT_SECONDS = 15.0  # at most this much work is lost to a kill, plus the epoch under way


def epoch_seed(seed: int, epoch: int) -> int:
    """One seed for each epoch, so that an epoch can be repeated without what came before it."""
    return (seed * 1_000_003 + epoch) % 2**63


@contextmanager
def own_randomness() -> Iterator[None]:
    """Leave the caller's random state as it was."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        yield


class Trainer:
    """Trains one network on images in memory, from wherever its run folder says that it stands."""

    def __init__(
        self,
        model: Network,
        train: Images,
        test: Images | None,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device,
        modify: Modify | None = None,
        run: RunFolder | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.model = model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.recipe, self.seed, self.device, self.run = recipe, seed, device, run
        self.progress = progress or Progress()
        pixels = train.pixels if train.masks is None else torch.cat([train.pixels, train.masks], dim=1)
        self.pixels, self.labels = pixels.to(device), train.labels.to(device)
        self.test = None if test is None else (test.pixels.to(device), test.labels.to(device))
        self.size = (train.shape[1], train.shape[2])
        self.augmentation = recipe.augmentation(mirrored_ok=train.flip)
        self.step = Step(self.model, recipe, self.augmentation, device, modify=modify)
        self.history: History = []
        self.steps_per_epoch = recipe.steps_per_epoch(len(train))

    def fit(self) -> History:
        self.resume()
        self.progress.plan((self.recipe.epochs - len(self.history)) * self.steps_per_epoch)
        last_save = time.monotonic()
        with own_randomness():
            for epoch in range(len(self.history) + 1, self.recipe.epochs + 1):
                row = self.epoch(epoch)
                self.history.append(row)
                self.progress.epoch(row)
                if self.run and epoch < self.recipe.epochs and time.monotonic() - last_save > CHECKPOINT_SECONDS:
                    self.run.save(self.step.state(), self.history)
                    last_save = time.monotonic()
        if self.run:
            self.run.finish(self.model, self.history)
        self.model.eval()
        return self.history

    def resume(self) -> None:
        saved = self.run.saved() if self.run else None
        if self.run and saved:
            epoch, tensors = saved
            with torch.no_grad():
                self.step.restore(tensors)
            self.history = self.run.history()[:epoch]

    def epoch(self, number: int) -> dict[str, Any]:
        """Train over all images once, in an order drawn for this epoch, and evaluate."""
        started = time.perf_counter()
        self.model.train()
        self.step.start_epoch(number)
        torch.manual_seed(epoch_seed(self.seed, number))
        for i, batch in enumerate(self.batches(number)):
            rate = self.recipe.rate((number - 1) * self.steps_per_epoch + i, self.steps_per_epoch)
            self.step(batch, rate)
            self.progress.step()
        return self.row(number, rate, started)

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        count = len(self.labels)
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, epoch))
        order = torch.randperm(count, generator=generator).to(self.device)
        draws = self.augmentation.draw(count, self.size, generator).to(self.device)
        for start in range(0, count, self.recipe.batch_size):
            index = order[start : start + self.recipe.batch_size]
            yield self.pixels[index], self.labels[index], draws[start : start + self.recipe.batch_size]

    def row(self, epoch: int, rate: float, started: float) -> dict[str, Any]:
        count, others = len(self.labels), self.model.config.num_classes - 1
        totals = dict(zip(TERMS, self.step.totals.tolist(), strict=True))
        seconds = time.perf_counter() - started
        if not all(map(torch.isfinite, self.step.totals)):
            raise HitNetError(
                f"Training diverged in epoch {epoch}: the loss is not finite. "
                "Lower the learning rate, or start again with another seed."
            )
        row: dict[str, Any] = {"epoch": epoch, "learning_rate": rate}
        row |= {name: totals[name] / count for name in ("loss", "classification", "reconstruction")}
        row["train_error"] = 100 * totals["wrong"] / count
        if self.model.head.loss == "centripetal":
            row["train_hits"] = 100 * totals["hits"] / count
            row["train_misses"] = 100 * totals["misses"] / (count * others)
        if self.test is not None:
            row |= self.test_figures(*self.test)
        return row | {"images_per_second": count / seconds, "seconds": time.perf_counter() - started}

    def test_figures(self, pixels: Tensor, labels: Tensor) -> dict[str, float]:
        found = class_distances(self.model, pixels)
        figures = {"test_error": 100 * (self.model.head.predict(found) != labels).double().mean().item()}
        if self.model.head.loss == "centripetal":
            own = found.gather(1, labels[:, None])
            misses = (found >= MISS_RADIUS).sum() - (own >= MISS_RADIUS).sum()
            figures["test_hits"] = 100 * (own <= HIT_RADIUS).double().mean().item()
            figures["test_misses"] = 100 * misses.item() / (found.numel() - len(found))
        return figures
