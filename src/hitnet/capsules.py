"""The Hit-or-Miss layer of HitNet (Deliège et al., 2018) and the capsule maths around it.

Capsules are tensors (B, K, n): for each of B images, K classes with a vector of n components each.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.errors import HitNetError, whole

CENTRE = 0.5
HIT_RADIUS, MISS_RADIUS = 0.1, 0.9  # m and m' of the paper
HALF = (torch.float16, torch.bfloat16)


def full_precision(x: Tensor) -> Tensor:
    """The tensor in float32 if it came in half precision; a capsule that hits differs from 0.5 by 0.025."""
    return x.float() if x.dtype in HALF else x


def in_precision_of(weight: Tensor, x: Tensor) -> Tensor:
    """The tensor in the precision of the weights that it is about to meet; autocast sees to that by itself."""
    if x.dtype == weight.dtype or torch.is_autocast_enabled(x.device.type):
        return x
    return x.to(weight.dtype)


def distances(capsules: Tensor, centre: float = CENTRE) -> Tensor:
    """Euclidean distance of each capsule (B, K, n) to the central capsule (Eq. 1): (B, K), in [0, √n/2].

    Computed in float32 or better. The gradient is zero, not undefined, where a capsule is the centre itself.
    """
    if capsules.ndim != 3:
        raise HitNetError(f"distances: capsules must be (B, K, n); got shape {tuple(capsules.shape)}.")
    return torch.linalg.vector_norm(full_precision(capsules) - centre, dim=-1)


def one_hot(targets: Tensor, num_classes: int) -> Tensor:
    """Class indices (B,), or zeros and ones (B, K), as booleans (B, K); never waits for a GPU.

    Values are looked at where that costs nothing: on a CPU, and not while a network is exported or compiled.
    """
    looked_at = targets.device.type == "cpu" and targets.numel() and not torch.compiler.is_compiling()
    if targets.ndim == 1 and not targets.is_floating_point() and targets.dtype != torch.bool:
        if looked_at:
            low, high = int(targets.min()), int(targets.max())
            if low < 0 or high >= num_classes:
                raise HitNetError(f"targets must lie in 0..{num_classes - 1}; got values from {low} to {high}.")
        return targets[:, None] == torch.arange(num_classes, device=targets.device)
    if targets.ndim == 2 and targets.shape[1] == num_classes:
        truth = targets == 1
        if looked_at and not bool((truth | (targets == 0)).all()):
            raise HitNetError(
                "targets of the shape (B, K) must be zeros and ones; got other values. A class is true or not: mixed "
                "or smoothed labels have no meaning here."
            )
        return truth
    raise HitNetError(
        f"targets must be class indices (B,) or zeros and ones (B, {num_classes}); "
        f"got {targets.dtype} {tuple(targets.shape)}."
    )


def hits_and_misses(distances: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """How many true-class capsules hit, and how many others miss, from distances (B, K); never waits for a GPU."""
    truth = one_hot(targets, distances.shape[1])
    return (truth & (distances <= HIT_RADIUS)).sum(), (~truth & (distances >= MISS_RADIUS)).sum()


def mask(capsules: Tensor, classes: Tensor) -> Tensor:
    """Capsules (B, K, n) with all set to 0 except those of `classes`: (B,) indices or (B, K) zeros and ones."""
    return capsules * one_hot(classes, capsules.shape[1])[..., None]


def squash(vectors: Tensor, dim: int = -1) -> Tensor:
    """Shrink vectors to a length below 1: |s|² / (1 + |s|²) · s / |s| (Sabour et al., 2017, Eq. 1)."""
    vectors = full_precision(vectors)
    norm = torch.linalg.vector_norm(vectors, dim=dim, keepdim=True)
    return vectors * (norm / (1 + norm * norm))


def dynamic_routing(votes: Tensor, iterations: int = 3) -> Tensor:
    """Routing by agreement (Sabour et al., 2017, procedure 1).

    votes (B, I, K, n): what each of I lower capsules predicts for each of K classes. Gives capsules (B, K, n).
    The coupling coefficients count as constants: gradients flow through the last weighted sum alone.
    """
    if iterations < 1:
        raise HitNetError(f"dynamic_routing: iterations must be at least 1; got {iterations}.")
    votes = full_precision(votes)
    fixed = votes.detach()
    logits = votes.new_zeros(votes.shape[:3])
    for _ in range(iterations - 1):
        capsules = squash(torch.einsum("bik,bikn->bkn", logits.softmax(dim=2), fixed))
        logits = logits + torch.einsum("bikn,bkn->bik", fixed, capsules)
    return squash(torch.einsum("bik,bikn->bkn", logits.softmax(dim=2), votes))


class LoneValueNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation that, given a single value a channel in training, uses its running statistics.

    One value has no spread: normalising by its own statistics would erase it, so it is treated as in evaluation
    and leaves the running statistics as they were. In a network of half precision its parameters stay as they are.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> LoneValueNorm:
        def careful(value: Tensor) -> Tensor:
            changed = fn(value)
            return value.to(changed.device) if changed.dtype in HALF else changed

        return super()._apply(careful, recurse)

    def forward(self, input: Tensor) -> Tensor:
        if self.training and input.numel() == input.shape[1]:
            return F.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
            )
        return super().forward(input)


class CapsuleNorm(LoneValueNorm, nn.BatchNorm1d):
    """For the components of capsules (B, F)."""


class MapNorm(LoneValueNorm, nn.BatchNorm2d):
    """For maps (B, C, H, W)."""


class CapsuleLayer(nn.Module):
    """Linear → batch-norm, reshaped to K vectors of n numbers: what all capsule heads of the paper share.

    Starts as in Keras: Glorot-uniform weights, zero biases, batch-norm epsilon 1e-3 and momentum 0.99.

    momentum  what one batch adds to the statistics that evaluation uses; with the default they take some hundred
              batches to settle, so that a training of fewer wants 0.1
    """

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 16, *, momentum: float = 0.01) -> None:
        super().__init__()
        owner = type(self).__name__
        in_features = whole(owner, "in_features", in_features, 1)
        self.num_classes = whole(owner, "num_classes", num_classes, 1)
        self.capsule_dim = whole(owner, "capsule_dim", capsule_dim, 1)
        self.linear = nn.Linear(in_features, self.num_classes * self.capsule_dim)
        self.norm = CapsuleNorm(self.num_classes * self.capsule_dim, eps=1e-3, momentum=momentum)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def vectors(self, features: Tensor) -> Tensor:
        """(B, in_features) → normalised vectors (B, K, n), in float32 or better."""
        if features.ndim != 2 or features.shape[1] != self.linear.in_features:
            raise HitNetError(
                f"{type(self).__name__}: features must be (B, {self.linear.in_features}); got {tuple(features.shape)}."
            )
        linear = self.linear(in_precision_of(self.linear.weight, features))  # a backbone may be of another precision
        return self.norm(full_precision(linear)).view(-1, self.num_classes, self.capsule_dim)


class HitOrMiss(CapsuleLayer):
    """The Hit-or-Miss layer: linear → batch-norm → sigmoid; (B, in_features) → capsules (B, K, n) in [0, 1]."""

    def forward(self, features: Tensor) -> Tensor:
        return torch.sigmoid(self.vectors(features))
