"""Many trainings in one process, one after the other or, where `at_once` allows it, in turns of one step each.

In turns on a GPU every network has a stream of its own, so that their steps overlap there. Each draws from its own
random state: its weights are those that it would have alone.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from hitnet.errors import DivergedError, HitNetError
from hitnet.models.network import Network
from hitnet.training.engine import Trainer, own_randomness, random_state, set_random_state
from hitnet.training.progress import Stopped
from hitnet.training.run import History

log = logging.getLogger("hitnet")
AT_ONCE = {"cuda": 8, "cpu": 1}  # how many networks are trained side by side
Trained = tuple[Network, History]
Tell = Callable[[int, Trained | DivergedError], None]


class Turns:
    """One training under way, advanced a step at a time; beside others, on a GPU, on a stream of its own."""

    def __init__(self, make: Callable[[], Trainer], device: torch.device, *, alone: bool) -> None:
        self.stream = torch.cuda.Stream() if device.type == "cuda" and not alone else None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())  # the images may still be on their way
        with self.on_stream():
            self.trainer = make()
        self.work = self.trainer.work()
        self.random = random_state(device)

    def on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def advance(self) -> bool:
        """One step; whether there was one left."""
        with self.on_stream():
            try:
                next(self.work)
            except StopIteration:
                if self.stream is not None:
                    self.stream.synchronize()
                return False
        return True


class Group:
    """Trainings that take turns; `tell` hears of each one's network and history, or why it diverged."""

    def __init__(self, makers: Sequence[Callable[[], Trainer]], device: torch.device, tell: Tell) -> None:
        self.makers, self.device, self.tell = makers, device, tell
        self.waiting = deque(range(len(makers)))
        self.running: dict[int, Turns] = {}
        self.last: int | None = None  # whose random state the generators hold

    def start(self, most: int) -> int | None:
        """Start what waits, up to `most` side by side; gives the one for which there was no memory, if any."""
        while self.waiting and len(self.running) < most:
            one = self.waiting.popleft()
            try:
                self.running[one] = Turns(self.makers[one], self.device, alone=most == 1)
            except torch.cuda.OutOfMemoryError:
                return one
        return None

    def turn(self) -> int | None:
        """One step of each; gives the one for which there was no memory, if any."""
        beside = len(self.running)
        for one, turns in list(self.running.items()):
            self.take_over(one)
            turns.trainer.beside = beside
            try:
                if turns.advance():
                    continue
                ended: Trained | DivergedError = (turns.trainer.trained, turns.trainer.history)
            except DivergedError as error:
                ended = error.with_traceback(None)  # which would hold the network
            except Stopped:
                self.waiting.clear()
                del self.running[one]
                continue
            except torch.cuda.OutOfMemoryError:
                return one
            del self.running[one]
            self.tell(one, ended)
        return None

    def take_over(self, one: int) -> None:
        """Let the generators hold the random state of this training; that of the last is kept for its next turn.

        Steps that draw nothing are left alone with this: on a GPU it takes longer than to launch them.
        """
        if one == self.last or not any(turns.trainer.step.draws for turns in self.running.values()):
            return
        if self.last in self.running:
            self.running[self.last].random = random_state(self.device)
        set_random_state(self.running[one].random)
        self.last = one

    def put_back(self, one: int) -> int:
        """Let a training wait for which there was no memory; how many may go on side by side."""
        self.running.pop(one, None)
        if self.last == one:
            self.last = None
        if not self.running:
            raise HitNetError(
                "The GPU's memory does not hold even one such network in training. Make the batches smaller "
                "(batch_size), or close what else runs on the GPU."
            )
        self.waiting.appendleft(one)
        gc.collect()
        torch.cuda.empty_cache()
        log.warning("The GPU's memory is full: going on with %d networks side by side.", len(self.running))
        return len(self.running)


def fit_all(
    makers: Sequence[Callable[[], Trainer]],
    device: torch.device,
    tell: Tell,
    *,
    at_once: int | None = None,
) -> None:
    """Train what the makers make, up to `at_once` side by side.

    `tell` hears what became of each as soon as it has ended, by its place among the makers; the others wait meanwhile.
    Of trainings that are stopped it hears nothing.
    Where the GPU's memory does not hold them all, one is put back, begins again later from its last checkpoint, and
    fewer go on side by side.
    """
    group, most = Group(makers, device, tell), at_once or AT_ONCE[device.type]
    with own_randomness():
        while group.waiting or group.running:
            full = group.start(most)
            if full is None:
                full = group.turn()
            if full is not None:
                most = group.put_back(full)
