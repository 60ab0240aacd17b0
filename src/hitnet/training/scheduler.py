"""The scheduler: many trainings in one process, one after the other or side by side in turns of one step.

On a GPU, trainings side by side have a stream each, so that their steps overlap. Each draws from its own random state:
its weights are those that it would have on its own.
"""

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Generic, TypeVar

import torch

from hitnet.errors import DivergedError, HitNetError, log
from hitnet.runtime.progress import Stopped
from hitnet.training.batches import own_randomness, random_state, set_random_state
from hitnet.training.engine import Trainer

AT_ONCE = {"cuda": 8, "cpu": 1}  # how many networks are trained side by side
J = TypeVar("J", bound=Hashable)


class Running:
    """A training in progress, advanced one step at a time; side by side on a GPU, each has its own stream."""

    def __init__(self, make: Callable[[], Trainer], device: torch.device, *, single: bool) -> None:
        self.stream = torch.cuda.Stream() if device.type == "cuda" and not single else None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())  # the images may still be on their way
        with self.on_stream():
            self.trainer = make()
        self.work = self.trainer.work()
        self.random = random_state(device)

    def on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    @contextmanager
    def on_threads(self) -> Iterator[None]:
        """Use as many threads of a CPU as the training was begun with."""
        before = torch.get_num_threads()
        if self.trainer.threads == before:
            yield
            return
        torch.set_num_threads(self.trainer.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


class Scheduler(Generic[J]):
    """A queue of trainings, by whatever names them, of which at most `most` run side by side in turns.

    `make` makes the trainer of a training when its turn comes. `on_end` is called as soon as a training ends, with its
    trainer, or why it diverged; not if it is stopped.
    """

    def __init__(
        self,
        jobs: Sequence[J],
        make: Callable[[J], Trainer],
        device: torch.device,
        on_end: Callable[[J, Trainer | DivergedError], None],
        most: int,
    ) -> None:
        self.make, self.device, self.on_end, self.most = make, device, on_end, most
        self.waiting = deque(jobs)
        self.running: dict[J, Running] = {}
        self.current: J  # the training whose turn it is
        self.drawing: J | None = None  # the training whose random state the generators hold

    def run(self) -> None:
        """Run all trainings.

        Where the GPU's memory does not hold them all, one is put back, starts again later from its last checkpoint, and
        fewer continue side by side.
        """
        with own_randomness():
            while self.waiting or self.running:
                try:
                    while self.waiting and len(self.running) < self.most:
                        self.current = self.waiting.popleft()
                        make = partial(self.make, self.current)
                        self.running[self.current] = Running(make, self.device, single=self.most == 1)
                    side_by_side = len(self.running)
                    for job, running in list(self.running.items()):
                        self.current, running.trainer.side_by_side = job, side_by_side
                        self.advance(running)
                except torch.cuda.OutOfMemoryError:
                    self.put_back()

    def advance(self, running: Running) -> None:
        """Take one step of the current training."""
        self.switch_random_state(running)
        outcome: Trainer | DivergedError = running.trainer
        try:
            with running.on_stream(), running.on_threads():
                for _ in running.work:
                    return
                if running.stream is not None:
                    running.stream.synchronize()
        except DivergedError as error:
            outcome = error.with_traceback(None)  # which would hold the network
        except Stopped:
            self.waiting.clear()
            del self.running[self.current]
            return
        del self.running[self.current]
        self.on_end(self.current, outcome)

    def switch_random_state(self, running: Running) -> None:
        """Let the generators hold the random state of a training; that of the last is kept for its next turn.

        Steps that draw nothing skip this: on a GPU it takes longer than to launch them.
        """
        if self.current == self.drawing or not any(other.trainer.step.draws for other in self.running.values()):
            return
        if self.drawing is not None and self.drawing in self.running:
            self.running[self.drawing].random = random_state(self.device)
        set_random_state(running.random)
        self.drawing = self.current

    def put_back(self) -> None:
        """Let the current training wait, for which there was no memory; as many as still run continue."""
        self.running.pop(self.current, None)
        if self.drawing == self.current:
            self.drawing = None
        if not self.running:
            raise HitNetError(
                "The GPU's memory does not hold even one such network in training. Make the batches smaller "
                "(`batch_size`), or close what else runs on the GPU."
            )
        self.waiting.appendleft(self.current)
        self.most = len(self.running)
        gc.collect()
        torch.cuda.empty_cache()
        log.warning("The GPU's memory is full: %d networks continue side by side.", self.most)
