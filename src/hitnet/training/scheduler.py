"""The scheduler: many trainings in one process, one after the other or side by side in turns of one step.

On a GPU, trainings side by side have a stream each, so that their steps overlap. Each draws from its own random state:
its weights are those that it would have on its own.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from hitnet.errors import DivergedError, HitNetError
from hitnet.models.network import Network
from hitnet.runtime.progress import Stopped
from hitnet.training.engine import Trainer
from hitnet.training.randomness import own_randomness, random_state, set_random_state
from hitnet.training.run_folder import History

log = logging.getLogger("hitnet")
AT_ONCE = {"cuda": 8, "cpu": 1}  # how many networks are trained side by side
Trained = tuple[Network, History]
OnEnd = Callable[[int, Trained | DivergedError], None]


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

    def advance(self) -> bool:
        """Take one step.

        Returns:
            Whether there was a step left.
        """
        with self.on_stream(), self.on_threads():
            try:
                next(self.work)
            except StopIteration:
                if self.stream is not None:
                    self.stream.synchronize()
                return False
        return True

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


class Scheduler:
    """A queue of trainings, some of which run side by side in turns.

    Args:
        factories: Each makes the trainer of one training, when its turn comes.
        device: Where all of them train.
        on_end: Called with a training's place in `factories` and its network and history, or why it diverged.
    """

    def __init__(self, factories: Sequence[Callable[[], Trainer]], device: torch.device, on_end: OnEnd) -> None:
        self.factories, self.device, self.on_end = factories, device, on_end
        self.waiting = deque(range(len(factories)))
        self.running: dict[int, Running] = {}
        self.last: int | None = None  # whose random state the generators hold

    def start(self, most: int) -> int | None:
        """Start what waits, up to `most` side by side.

        Returns:
            The training for which there was no memory, if any.
        """
        while self.waiting and len(self.running) < most:
            index = self.waiting.popleft()
            try:
                self.running[index] = Running(self.factories[index], self.device, single=most == 1)
            except torch.cuda.OutOfMemoryError:
                return index
        return None

    def turn(self) -> int | None:
        """Take one step of each training.

        Returns:
            The training for which there was no memory, if any.
        """
        side_by_side = len(self.running)
        for index, running in list(self.running.items()):
            self.switch_random_state(index)
            running.trainer.side_by_side = side_by_side
            try:
                if running.advance():
                    continue
                outcome: Trained | DivergedError = (running.trainer.trained, running.trainer.history)
            except DivergedError as error:
                outcome = error.with_traceback(None)  # which would hold the network
            except Stopped:
                self.waiting.clear()
                del self.running[index]
                continue
            except torch.cuda.OutOfMemoryError:
                return index
            del self.running[index]
            self.on_end(index, outcome)
        return None

    def switch_random_state(self, index: int) -> None:
        """Let the generators hold the random state of this training; that of the last is kept for its next turn.

        Steps that draw nothing skip this: on a GPU it takes longer than to launch them.
        """
        if index == self.last or not any(running.trainer.step.draws for running in self.running.values()):
            return
        if self.last in self.running:
            self.running[self.last].random = random_state(self.device)
        set_random_state(self.running[index].random)
        self.last = index

    def put_back(self, index: int) -> int:
        """Let a training wait for which there was no memory.

        Returns:
            How many trainings continue side by side.
        """
        self.running.pop(index, None)
        if self.last == index:
            self.last = None
        if not self.running:
            raise HitNetError(
                "The GPU's memory does not hold even one such network in training. Make the batches smaller "
                "(`batch_size`), or close what else runs on the GPU."
            )
        self.waiting.appendleft(index)
        gc.collect()
        torch.cuda.empty_cache()
        log.warning("The GPU's memory is full: %d networks continue side by side.", len(self.running))
        return len(self.running)


def fit_all(
    factories: Sequence[Callable[[], Trainer]],
    device: torch.device,
    on_end: OnEnd,
    *,
    at_once: int | None = None,
) -> None:
    """Run all trainings, up to `at_once` side by side.

    `on_end` is called as soon as a training ends, by its place in `factories`; the others wait meanwhile. It is not
    called for trainings that are stopped. Where the GPU's memory does not hold them all, one is put back, starts again
    later from its last checkpoint, and fewer continue side by side.
    """
    scheduler, most = Scheduler(factories, device, on_end), at_once or AT_ONCE[device.type]
    with own_randomness():
        while scheduler.waiting or scheduler.running:
            without_memory = scheduler.start(most)
            if without_memory is None:
                without_memory = scheduler.turn()
            if without_memory is not None:
                most = scheduler.put_back(without_memory)
