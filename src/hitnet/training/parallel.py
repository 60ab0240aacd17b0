"""One network that several processes train together.

Every process takes its part of each batch, batch-norm uses the whole batch, and gradients are averaged (PyTorch's
DistributedDataParallel). Only rank 0 reads and writes the run folder.
"""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hitnet.capsules import full_precision, track_statistics
from hitnet.models.network import Network
from hitnet.runtime.ranks import Ranks


class Parallel:
    """One network that all processes train: call `begin` for each batch, then `network` instead of the model."""

    def __init__(self, model: Network, ranks: Ranks) -> None:
        self.ranks = ranks
        self.images, self.batch = 0, 0  # images here, and in the whole current batch
        self.weight = 1.0  # factor of this process's mean loss: makes the mean over processes the mean over the batch
        self.norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        for norm in self.norms:
            norm.forward = partial(self.normalise, norm)  # type: ignore[method-assign]
        self.network = nn.parallel.DistributedDataParallel(model)

    @property
    def split(self) -> bool:
        """Whether the processes share the batch; each computes a batch of fewer images than processes as a whole."""
        return self.batch >= self.ranks.size

    @property
    def counts(self) -> bool:
        """Whether this process adds its part of the batch to the figures."""
        return self.split or self.ranks.first

    def begin(self, images: int, batch: int) -> None:
        """Announce the next step: this process takes `images` of the `batch` images."""
        self.images, self.batch = images, batch
        self.weight = images * self.ranks.size / batch if self.split else 1.0

    def normalise(self, norm: nn.modules.batchnorm._BatchNorm, maps: Tensor) -> Tensor:
        if not norm.training or not self.split:
            return type(norm).forward(norm, maps)
        of_an_image = maps.numel() // (maps.shape[1] * self.images)
        return synchronised_norm(norm, maps, self.batch * of_an_image)

    def release(self) -> None:
        """Restore the network's own batch-norm."""
        for norm in self.norms:
            del norm.forward


class SumOverRanks(torch.autograd.Function):
    """The differentiable sum of all processes' tensors; their losses are summed, too."""

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
    return SumOverRanks.apply(values)


def synchronised_norm(norm: nn.modules.batchnorm._BatchNorm, maps: Tensor, count: int) -> Tensor:
    """Batch normalisation in training with the statistics of the whole batch, over all processes.

    `count` is the number of values per channel in it. An image may have several rows: all classes may share a norm.
    PyTorch's SyncBatchNorm does the same, but only on GPUs.
    """
    dims = [0, *range(2, maps.ndim)]
    shape = [1, -1, *[1] * (maps.ndim - 2)]
    x = full_precision(maps)
    mean = over_ranks(x.sum(dims)) / count
    centred = x - mean.view(shape)
    variance = over_ranks(centred.square().sum(dims)) / count
    track_statistics(norm, mean.detach(), variance.detach() * count / max(count - 1, 1))
    out = centred * (variance + norm.eps).rsqrt().view(shape)
    if norm.affine:
        out = out * norm.weight.view(shape) + norm.bias.view(shape)
    return out.to(maps.dtype)
