"""Several processes that work together, started by torchrun: their numbers, what they exchange, and how they end."""

import atexit
import gc
import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from hitnet.errors import DivergedError, HitNetError, ReportedElsewhereError, log

K = TypeVar("K")
T = TypeVar("T")
LOST = re.compile(r"gloo|nccl|connection|socket|broken pipe|timed out|store", re.IGNORECASE)
RESUME_HINT = "Nothing that was written is lost: start all processes again, with `resume`."
PATIENCE = timedelta(days=1)  # networks of several processes may end at very different times
_works = count()  # each process counts what it does together with the others


@dataclass(frozen=True)
class Ranks:
    """The number of this process, from 0 on, and how many processes there are."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def from_first(self, work: Callable[[], T]) -> T:
        """Call `work` in the first process and return its result in all; an error there ends all."""
        if self.size == 1:
            return work()
        told: list[Any] = [None, None]
        error: BaseException | None = None
        if self.first:
            try:
                told[0] = work()
            except BaseException as raised:  # whatever it is: the others wait for a word
                known = isinstance(raised, HitNetError)
                error, told[1] = raised, str(raised) if known else f"Process 0 ended with {raised!r}. {RESUME_HINT}"
        try:
            dist.broadcast_object_list(told, src=0)
        finally:
            if error is not None:  # it says more than that others are lost, too
                raise error
        if told[1] is not None:
            raise ReportedElsewhereError(told[1])
        return told[0]

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()

    @property
    def mark(self) -> str:
        """What stands before the names of this process's own tensors; nothing for the first."""
        return "" if self.first else f"rank{self.rank}."

    def gather(self, mine: dict[K, T]) -> dict[K, T]:
        """Merge the dictionaries of all processes, in all of them."""
        if self.size == 1:
            return mine
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, mine)
        return {key: value for part in parts for key, value in part.items()}

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, as a new tensor."""
        total = values.clone()
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def part(self, batch: Tensor) -> Tensor:
        """This process's part of a batch; the whole batch if it has fewer images than there are processes."""
        return batch if len(batch) < self.size else batch.tensor_split(self.size)[self.rank]


SINGLE = Ranks()


def rank() -> int:
    """This process's number among those that torchrun started; 0 without torchrun."""
    return int(os.environ.get("RANK", "0")) if started_by_torchrun() else 0


def started_by_torchrun() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "MASTER_ADDR" in os.environ


def connect(device: torch.device) -> Ranks:
    """Connect to the other processes, if torchrun started this one."""
    if not started_by_torchrun():
        return SINGLE
    if device.type == "cuda":
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
        if here > gpus:
            raise HitNetError(f"There are {here} processes but {gpus} GPUs on this machine. Start one process per GPU.")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        atexit.register(disconnect)
        if dist.get_rank():
            log.setLevel(logging.ERROR)  # the first process says it
    return Ranks(dist.get_rank(), dist.get_world_size())


def disconnect() -> None:
    """End the threads that talk to the other processes, while Python still runs.

    A thread that frees a tensor later would abort this process. Trained networks refer to these threads, so they are
    collected first.
    """
    gc.collect()
    dist.destroy_process_group()


@contextmanager
def watched(ranks: Ranks) -> Iterator[None]:
    """Report in one sentence why the work ends: only the first process that fails reports, the others end with it."""
    if ranks.size == 1:
        yield
        return

    def told_to_stop(number: int, frame: FrameType | None) -> None:
        raise HitNetError(f"Told to stop, most likely because another process of this job ended. {RESUME_HINT}")

    work, in_main_thread = next(_works), threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, told_to_stop) if in_main_thread else None
    try:
        yield
    except BaseException as error:
        if in_main_thread:  # torchrun asks to stop while the error is reported
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if isinstance(error, ReportedElsewhereError):
            raise
        # All meet a loss that is not finite; the first process has the other networks.
        if not (ranks.first if isinstance(error, DivergedError) else _is_first_to_fail(work)):
            raise ReportedElsewhereError(str(error)) from error
        if isinstance(error, RuntimeError) and (isinstance(error, dist.DistError) or LOST.search(str(error))):
            raise HitNetError(f"Another process of this job was lost. {RESUME_HINT}") from error
        raise
    if in_main_thread:
        signal.signal(signal.SIGTERM, before)


def _is_first_to_fail(work: int) -> bool:
    """Whether no other process has failed in this work; True, too, if the store that counts them is lost."""
    try:
        store = dist.distributed_c10d._get_default_store()
        return bool(store.add(f"hitnet/failed/{work}", 1) == 1)
    except RuntimeError:
        return True
