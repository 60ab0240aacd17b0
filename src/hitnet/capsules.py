"""The Hit-or-Miss layer of HitNet (Deliège et al., 2018) and the capsule maths around it.

Capsules are tensors (B, K, n): B images, K classes, one vector of n components per image and class.
"""

from collections.abc import Callable
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.errors import HitNetError, check_choice, whole

__all__ = [
    "CENTRE",
    "HIT_RADIUS",
    "MISS_RADIUS",
    "NORMS",
    "CapsuleLayer",
    "HitOrMiss",
    "Norm",
    "check_tensor",
    "distances",
    "full_precision",
    "in_precision_of",
    "mask",
]

Norm = Literal["shared", "each", "class"]
NORMS: tuple[Norm, ...] = get_args(Norm)
CENTRE = 0.5
HIT_RADIUS, MISS_RADIUS = 0.1, 0.9  # m and m' of the paper
HALF = (torch.float16, torch.bfloat16)
QUICK_MOMENTUM = 0.1  # of running statistics that must follow the weights of a short training; PyTorch's default


def full_precision(x: Tensor) -> Tensor:
    """Convert half precision to float32: the components of a hit differ from 0.5 by only about 0.025."""
    return x.float() if x.dtype in HALF else x


def in_precision_of(weight: Tensor, x: Tensor) -> Tensor:
    """Convert `x` to the precision of `weight`, unless autocast is on and does so itself."""
    if x.dtype == weight.dtype or torch.is_autocast_enabled(x.device.type):
        return x
    return x.to(weight.dtype)


def check_tensor(name: str, value: object, ndim: int, shape: str) -> None:
    """Raise HitNetError unless this is a tensor of `ndim` dimensions, called `shape` in the message."""
    if not isinstance(value, Tensor):
        raise HitNetError(f"{name} must be a tensor {shape}; got {type(value).__name__}.")
    if value.ndim != ndim:
        raise HitNetError(f"{name} must be {shape}; got shape {tuple(value.shape)}.")


def distances(capsules: Tensor, centre: float = CENTRE) -> Tensor:
    """Euclidean distance of each capsule to the central capsule (Eq. 1), in float32 or better.

    The gradient of a capsule that lies exactly at the centre is zero, not NaN.

    Args:
        capsules: (B, K, n).
        centre: Value of every component of the central capsule (paper: 0.5).

    Returns:
        (B, K), in [0, √n/2] for capsules in [0, 1].
    """
    check_tensor("distances: capsules", capsules, 3, "(B, K, n)")
    return torch.linalg.vector_norm(full_precision(capsules) - centre, dim=-1)


def one_hot(targets: Tensor, num_classes: int) -> Tensor:
    """Convert targets, class indices (B,) or zeros and ones (B, K), to booleans (B, K) without waiting for a GPU.

    Values are checked only where the check costs nothing: on a CPU, and not during export or compilation.
    """
    if not isinstance(targets, Tensor):
        raise HitNetError(f"targets must be a tensor; got {type(targets).__name__}.")
    check_values = targets.device.type == "cpu" and targets.numel() and not torch.compiler.is_compiling()
    if targets.ndim == 1 and not targets.is_floating_point() and targets.dtype != torch.bool:
        if check_values:
            low, high = int(targets.min()), int(targets.max())
            if low < 0 or high >= num_classes:
                raise HitNetError(f"targets must lie in 0..{num_classes - 1}; got values from {low} to {high}.")
        return targets[:, None] == torch.arange(num_classes, device=targets.device)
    if targets.ndim == 2 and targets.shape[1] == num_classes:
        truth = targets == 1
        if check_values and not bool((truth | (targets == 0)).all()):
            raise HitNetError(
                "targets of shape (B, K) must be zeros and ones; got other values. Mixed or smoothed labels are not "
                "supported."
            )
        return truth
    raise HitNetError(
        f"targets must be class indices (B,) or zeros and ones (B, {num_classes}); "
        f"got {targets.dtype} {tuple(targets.shape)}."
    )


def hits_and_misses(distances: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Count the true-class capsules that hit and the other capsules that miss, each a tensor (), without waiting.

    Distances are (B, K), targets class indices (B,) or zeros and ones (B, K).
    """
    truth = one_hot(targets, distances.shape[1])
    return (truth & (distances <= HIT_RADIUS)).sum(), (~truth & (distances >= MISS_RADIUS)).sum()


def mask(capsules: Tensor, classes: Tensor) -> Tensor:
    """Set all capsules (B, K, n) to 0 except those of `classes`: indices (B,), or zeros and ones (B, K)."""
    check_tensor("mask: capsules", capsules, 3, "(B, K, n)")
    kept = one_hot(classes, capsules.shape[1])
    if kept.shape[0] != capsules.shape[0]:
        raise HitNetError(f"mask: there are capsules of {capsules.shape[0]} images, but {kept.shape[0]} classes.")
    return capsules * kept[..., None]


class SteadyNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation whose running statistics are right from the first batch on.

    Batch t has the weight max(momentum, 10 / (t + 9)) in them, so the values that they start with count for nothing,
    and later batches, which come from better weights, count for more. From batch 10 / momentum on, this is the usual
    exponential average.

    A single value per channel has no spread: its own statistics would erase it. In training, it is therefore normalised
    with the running statistics, as in evaluation, and they stay unchanged; so they do for an empty batch. The layer
    never converts itself to half precision.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def except_to_half(value: Tensor) -> Tensor:
            converted = fn(value)
            return value.to(converted.device) if converted.dtype in HALF else converted

        return super()._apply(except_to_half, recurse)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        running_mean, running_var = self.running_mean, self.running_var
        if running_mean is None or running_var is None:
            return super().forward(input)
        if not self.training or input.numel() <= input.shape[1]:
            return F.batch_norm(input, running_mean, running_var, self.weight, self.bias, training=False, eps=self.eps)
        mean, variance = torch.zeros_like(running_mean), torch.zeros_like(running_var)
        scaled = F.batch_norm(input, mean, variance, self.weight, self.bias, training=True, momentum=1.0, eps=self.eps)
        track_statistics(self, mean, variance)
        return scaled


@torch.no_grad()
def track_statistics(norm: nn.modules.batchnorm._BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Add the statistics of a batch (C,) to the running ones of a norm, without waiting for the device.

    Norms other than `SteadyNorm`, e.g. those of a pretrained backbone, weight every batch by their momentum.
    """
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked.add_(1)
    weight = torch.full((), norm.momentum or 0.0, dtype=mean.dtype, device=mean.device)
    if isinstance(norm, SteadyNorm):
        weight = (10 / (norm.num_batches_tracked.to(mean.dtype) + 9)).clamp_min(norm.momentum or 0.0)
    norm.running_mean.lerp_(mean, weight)
    norm.running_var.lerp_(variance, weight)


class CapsuleNorm(SteadyNorm, nn.BatchNorm1d):
    """Batch normalisation of capsule components (B, F), or of capsules (B, K, n) with one statistic per class."""


class MapNorm(SteadyNorm, nn.BatchNorm2d):
    """Batch normalisation of maps (B, C, H, W)."""


class CapsuleLayer(nn.Module):
    """Linear → batch-norm → K vectors of n components: the part that all capsule heads of the paper share.

    Initialised as in Keras: Glorot-uniform weights, zero biases, batch-norm epsilon 1e-3 and momentum 0.99.

    Args:
        in_features: Number of features per image.
        num_classes: K.
        capsule_dim: n (paper: 16).
        norm: Which values share a mean and a variance. "shared": those of one component, over all classes (n
            statistics, as Keras computes them for a K x n matrix); "each": none (K·n statistics); "class": those of one
            class, over its components (K statistics).
        momentum: Weight of each batch in the running statistics, once there are many batches (see `SteadyNorm`).
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        capsule_dim: int = 16,
        *,
        norm: Norm = "shared",
        momentum: float = 0.01,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        in_features = whole(owner, "in_features", in_features, 1)
        classes = self.num_classes = whole(owner, "num_classes", num_classes, 1)
        n = self.capsule_dim = whole(owner, "capsule_dim", capsule_dim, 1)
        check_choice(owner, "norm", norm, NORMS)
        self.normalised_shape = {"shared": (-1, n), "each": (-1, classes * n), "class": (-1, classes, n)}[norm]
        self.linear = nn.Linear(in_features, classes * n)
        self.norm = CapsuleNorm(self.normalised_shape[1], eps=1e-3, momentum=momentum)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def vectors(self, features: Tensor) -> Tensor:
        """Map features (B, in_features) to normalised vectors (B, K, n), in float32 or better."""
        owner, shape = type(self).__name__, f"(B, {self.linear.in_features})"
        check_tensor(f"{owner}: features", features, 2, shape)
        if features.shape[1] != self.linear.in_features:
            raise HitNetError(f"{owner}: features must be {shape}; got shape {tuple(features.shape)}.")
        linear = self.linear(in_precision_of(self.linear.weight, features))  # the backbone's precision may differ
        normalised = self.norm(full_precision(linear).view(self.normalised_shape))
        return normalised.view(-1, self.num_classes, self.capsule_dim)


class HitOrMiss(CapsuleLayer):
    """The Hit-or-Miss layer: linear → batch-norm → sigmoid; (B, in_features) → capsules (B, K, n) in [0, 1]."""

    def forward(self, features: Tensor) -> Tensor:
        return torch.sigmoid(self.vectors(features))
