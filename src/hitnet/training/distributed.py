"""Several processes, started by torchrun: one network trained by all of them, or networks dealt out among them.

One network: every process takes its part of each batch, batch-norm sees the whole batch, gradients are averaged
(PyTorch's DistributedDataParallel). Rank 0 alone reads and writes the run folder.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hitnet.capsules import full_precision
from hitnet.errors import DivergedError, HitNetError, ToldElsewhereError
from hitnet.models.network import Network

T = TypeVar("T")
LOST = re.compile(r"gloo|nccl|connection|socket|broken pipe|timed out|store", re.IGNORECASE)
RESUME_HINT = "Nothing that was written is lost: start all processes again with `resume`."
PATIENCE = timedelta(days=1)  # networks that are dealt out may end at very different times


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this one is."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def from_first(self, work: Callable[[], T]) -> T:
        """What `work` gives in the first process, in all of them; an error there is an error in all."""
        if self.size == 1:
            return work()
        told: list[Any] = [None, None]
        error = None
        if self.first:
            try:
                told[0] = work()
            except HitNetError as raised:
                error, told[1] = raised, str(raised)
        dist.broadcast_object_list(told, src=0)
        if error is not None:
            raise error
        if told[1] is not None:
            raise ToldElsewhereError(told[1])
        return told[0]

    def gather(self, mine: dict[int, T]) -> dict[int, T]:
        """What all processes have, in all of them."""
        if self.size == 1:
            return mine
        every: list[Any] = [None] * self.size
        dist.all_gather_object(every, mine)
        return {key: value for one in every for key, value in one.items()}

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, as a new tensor."""
        found = values.clone()
        if self.size > 1:
            dist.all_reduce(found)
        return found

    def part(self, batch: Tensor) -> Tensor:
        """This process's part of a batch; all of it where there are fewer images than processes."""
        return batch if len(batch) < self.size else batch.tensor_split(self.size)[self.rank]


SINGLE = Ranks()


def rank() -> int:
    """This process's number among those that torchrun started; 0 for one on its own."""
    return int(os.environ.get("RANK", "0")) if started_by_torchrun() else 0


def started_by_torchrun() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "MASTER_ADDR" in os.environ


def connect(device: torch.device) -> Ranks:
    """Find the other processes that torchrun started, if it did."""
    if not started_by_torchrun():
        return SINGLE
    if device.type == "cuda":
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
        if here > gpus:
            raise HitNetError(f"There are {here} processes but {gpus} GPUs on this machine. Start one process a GPU.")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        atexit.register(disconnect)
    return Ranks(dist.get_rank(), dist.get_world_size())


def disconnect() -> None:
    """End the threads that talk to the other processes, while Python still runs: one of them that has a tensor to give
    back later would abort this process. What was trained must go first, since it holds on to them."""
    gc.collect()
    dist.destroy_process_group()


@contextmanager
def watched(ranks: Ranks) -> Iterator[None]:
    """Say in a sentence that another process was lost; errors that all processes meet are told by the first alone."""
    if ranks.size == 1:
        yield
        return

    def told_to_stop(number: int, frame: FrameType | None) -> None:
        raise HitNetError(f"Told to stop, most likely because another process of this training ended. {RESUME_HINT}")

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, told_to_stop) if in_main_thread else None
    try:
        yield
    except DivergedError as error:
        if ranks.first:
            raise
        raise ToldElsewhereError(str(error)) from error
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or LOST.search(str(error)):
            raise HitNetError(f"Another process of this training was lost. {RESUME_HINT}") from error
        raise
    finally:
        if in_main_thread:
            # An error under way is to be told before this process ends, though torchrun asks it to stop meanwhile.
            signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.exc_info()[0] else before)


class Parallel:
    """One network trained by all processes: `network` is called in its place, after `begin` for each batch."""

    def __init__(self, model: Network, ranks: Ranks) -> None:
        self.ranks = ranks
        self.batch = 0  # images in the whole batch under way
        self.weight = 1.0  # of this process's mean loss: makes the mean over processes the mean over the batch
        self.norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        for norm in self.norms:
            norm.forward = partial(self.normalise, norm)  # type: ignore[method-assign]
        self.network = nn.parallel.DistributedDataParallel(model)

    @property
    def split(self) -> bool:
        """Whether the batch is dealt out; one of fewer images than processes is computed by each of them."""
        return self.batch >= self.ranks.size

    @property
    def counts(self) -> bool:
        """Whether this process adds the batch to its figures."""
        return self.split or self.ranks.first

    def begin(self, images: int, batch: int) -> None:
        """The next step takes `images` of a batch of so many."""
        self.batch = batch
        self.weight = images * self.ranks.size / batch if self.split else 1.0

    def normalise(self, norm: nn.modules.batchnorm._BatchNorm, maps: Tensor) -> Tensor:
        if not norm.training or not self.split:
            return type(norm).forward(norm, maps)
        return synchronised_norm(norm, maps, self.batch)

    def release(self) -> None:
        """Give the network its own batch-norm back."""
        for norm in self.norms:
            del norm.forward


class SumOverRanks(torch.autograd.Function):
    """The sum of all processes' tensors, through which gradients flow: their losses are summed too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


def over_ranks(values: Tensor) -> Tensor:
    total: Tensor = SumOverRanks.apply(values)
    return total


def synchronised_norm(norm: nn.modules.batchnorm._BatchNorm, maps: Tensor, batch: int) -> Tensor:
    """Batch normalisation in training by the statistics of all processes' parts of a batch of `batch` images.

    PyTorch's SyncBatchNorm does the same, but on GPUs alone.
    """
    dims = [0, *range(2, maps.ndim)]
    shape = [1, -1, *[1] * (maps.ndim - 2)]
    x = full_precision(maps)
    count = batch * x[0, 0].numel()
    mean = over_ranks(x.sum(dims)) / count
    centred = x - mean.view(shape)
    variance = over_ranks(centred.square().sum(dims)) / count
    with torch.no_grad():
        for kept, new in ((norm.running_mean, mean), (norm.running_var, variance * count / max(count - 1, 1))):
            if kept is not None:
                kept.lerp_(new, norm.momentum or 0.0)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked += 1
    out = centred * (variance + norm.eps).rsqrt().view(shape)
    if norm.affine:
        out = out * norm.weight.view(shape) + norm.bias.view(shape)
    return out.to(maps.dtype)
