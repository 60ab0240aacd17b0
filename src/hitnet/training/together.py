"""Many trainings in one process, in turns of one step each.

On a GPU every network has a stream of its own, so that their steps overlap there; on a CPU one is trained after the
other, which is as fast. Each draws from its own random state: its weights are those that it would have alone.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch

from hitnet.errors import DivergedError, HitNetError
from hitnet.training.engine import Trainer, own_randomness, random_state, set_random_state

log = logging.getLogger("hitnet")
AT_ONCE = {"cuda": 8, "cpu": 1}


class Turns:
    """One training under way, advanced a step at a time under its own random state, on its own stream."""

    def __init__(self, make: Callable[[], Trainer], device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None
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
        set_random_state(self.random)
        with self.on_stream():
            try:
                next(self.work)
            except StopIteration:
                if self.stream is not None:
                    self.stream.synchronize()
                return False
        self.random = random_state(self.device)
        return True


def fit_all(
    makers: Sequence[Callable[[], Trainer]], device: torch.device, *, at_once: int | None = None
) -> list[Trainer | DivergedError]:
    """Train what the makers make, up to `at_once` side by side; in their order, the trained or why it diverged.

    Where the GPU's memory does not hold them all, one is put back, begins again later from its last checkpoint, and
    fewer go on side by side.
    """
    ended: dict[int, Trainer | DivergedError] = {}
    waiting = deque(range(len(makers)))
    running: dict[int, Turns] = {}
    most = at_once or AT_ONCE[device.type]
    with own_randomness():
        while waiting or running:
            full = None
            while waiting and len(running) < most and full is None:
                one = waiting.popleft()
                try:
                    running[one] = Turns(makers[one], device)
                except torch.cuda.OutOfMemoryError:
                    full = one
            for one, turns in list(running.items()):
                if full is not None:
                    break
                try:
                    if not turns.advance():
                        ended[one] = running.pop(one).trainer
                except DivergedError as error:
                    ended[one] = error
                    del running[one]
                except torch.cuda.OutOfMemoryError:
                    full = one
                del turns
            if full is not None:
                most = put_back(full, running, waiting)
    return [ended[one] for one in range(len(makers))]


def put_back(one: int, running: dict[int, Turns], waiting: deque[int]) -> int:
    """Let a training wait for which there was no memory; how many may go on side by side."""
    running.pop(one, None)
    if not running:
        raise HitNetError(
            "The GPU's memory does not hold even one such network in training. Make the batches smaller "
            "(batch_size), or close what else runs on the GPU."
        )
    waiting.appendleft(one)
    gc.collect()
    torch.cuda.empty_cache()
    log.warning("The GPU's memory is full: going on with %d networks side by side.", len(running))
    return len(running)
