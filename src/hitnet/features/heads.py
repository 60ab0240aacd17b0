"""One way to fit Hit-or-Miss heads on features: for audits, for the estimator and for a network on a frozen backbone.

Least squares find, in seconds, directions that divide the classes; Hit-or-Miss heads begin there instead of at random
weights, and need few steps also where classes are many.

The images are dealt into F folds. Head f is trained on all images but those of fold f, and judges these, which it has
not seen; where it is wanted, one more head is trained on all images. All H heads are trained together: a step is one
matrix product (B, D) @ (D, H·K·n) for B images, D features, K classes and capsules of n numbers, and the loss of a head
leaves out the images of its own fold.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.capsules import CENTRE, MISS_RADIUS, QUICK_MOMENTUM, HitOrMiss, distances, one_hot
from hitnet.errors import HitNetError, finite, share, whole
from hitnet.features.least_squares import BLOCK, LeastSquares
from hitnet.losses import MISS_WEIGHT, centripetal_loss, ghost_mask
from hitnet.runtime.device import Device
from hitnet.runtime.progress import Progress

PAPER_CLASSES = 10  # that the weight of misses was chosen for
CLEAN_DROPOUT = 0.5  # labels that are mostly right need less than those of an audit
JITTER = 0.3  # by how much the components of a capsule begin apart, relative to the weights of least squares
WARM_UP = 0.3  # share of the steps in which the learning rate rises


@dataclass(frozen=True)
class HeadOptions:
    """How heads are trained.

    Attributes:
        folds: Heads that each leave out 1/folds of the images, and judge these.
        steps: Training steps; None: 300, and three passes over large datasets.
        batch: Images per step.
        learning_rate: The highest of a schedule that rises and falls, for Adam.
        dropout: Share of the features that a step ignores, drawn per image. 0.8 suits labels of which some are wrong,
            0.5 those that are right.
        capsule_dim: Numbers per capsule (paper: 16).
        ghosts: Wrong classes per image that go unpunished (paper: 1; 0 = off).
    """

    folds: int = 5
    steps: int | None = None
    batch: int = 256
    learning_rate: float = 3e-3
    dropout: float = 0.8
    capsule_dim: int = 8
    ghosts: int = 0

    def __post_init__(self) -> None:
        least = {"folds": 2, "batch": 2, "capsule_dim": 4, "ghosts": 0}  # a capsule of fewer numbers than 4 cannot miss
        for name, number in (least if self.steps is None else least | {"steps": 1}).items():
            whole("HeadOptions", name, getattr(self, name), number)
        finite("HeadOptions", "learning_rate", self.learning_rate, above_0=True)
        share("HeadOptions", "dropout", self.dropout, most=0.99)

    def steps_for(self, images: int) -> int:
        """300 steps, or three passes over the images if that is more."""
        return self.steps or max(300, math.ceil(3 * images / self.batch))


@dataclass(frozen=True)
class FittedHeads:
    """What fitting gives.

    Attributes:
        layer: The head that was trained on all images, in float64 on the CPU: features (B, D) as they are to capsules
            (B, K, n).
        distances: (N, K), of each image by the head that has not seen it; float32 on the CPU.
        least_squares: (N, K), what least squares without the image say of it; at best 1 for its class, 0 for others.
    """

    layer: HitOrMiss
    distances: Tensor
    least_squares: Tensor


def deal(labels: Tensor, folds: int, generator: torch.Generator) -> Tensor:
    """The fold of each image (N,), every class spread evenly.

    Each class begins where the one before ended, so that folds differ by at most one image.
    """
    shuffled = torch.randperm(len(labels), generator=generator)
    order = shuffled[torch.argsort(labels[shuffled], stable=True)]
    dealt = torch.empty_like(labels)
    dealt[order] = torch.arange(len(labels)) % folds
    return dealt


def fit_heads(features: Tensor, labels: Tensor, num_classes: int, **options: Any) -> FittedHeads:
    """The head of all images, and what those say that have not seen an image; `options` as in `train_heads`."""
    heads = train_heads(features, labels, num_classes, of_all=True, **options)
    everything = torch.arange(len(labels), device=heads.dealt.device)
    layer = on_given_features(heads.layer(heads.options.folds), heads.data.mean, heads.data.scale)
    return FittedHeads(layer, heads.judge(everything).cpu(), heads.left_out(everything).cpu())


def train_heads(
    features: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    options: HeadOptions | None = None,
    of_all: bool = False,
    seed: int = 0,
    device: Device = "cpu",
    progress: Progress = Progress(),
) -> "_Heads":
    """Train heads on features (N, D) and labels (N,), class indices below `num_classes`.

    Args:
        features: (N, D), floating-point; no need to standardise them.
        labels: (N,).
        num_classes: K.
        options: How heads are trained; None: the defaults.
        of_all: Train a head on all images, too; the other heads stay the same.
        seed: Decides folds, first weights, batches and dropout.
        device: Where to compute. Features that already are on it are not copied.
        progress: Called after each step.
    """
    options = options or HeadOptions()
    _check(features, labels, num_classes)
    draw = torch.Generator().manual_seed(seed)
    labels = labels.to("cpu", torch.int64)
    dealt = deal(labels, options.folds, draw).to(device)
    with torch.no_grad():
        squares = LeastSquares(features.to(device), labels.to(device), num_classes)
        penalty = squares.penalty = squares.choose_penalty(draw)
        first = torch.stack([squares.weights(penalty, dealt == f) for f in range(options.folds + of_all)], dim=1)
    heads = _Heads(squares, dealt, first, options, draw)
    heads.train(progress)
    return heads


def batches(count: int, steps: int, size: int, draw: torch.Generator, device: Device) -> tuple[Tensor, ...]:
    """The images of each step, (size,): passes over all of them, each in an order of its own."""
    passes = [torch.randperm(count, generator=draw) for _ in range(math.ceil(steps * size / count))]
    return torch.cat(passes)[: steps * size].to(device).split(size)


def descend(
    weights: list[Tensor],
    rate: float,
    indices: tuple[Tensor, ...],
    loss: Callable[[Tensor], Tensor],
    progress: Progress,
) -> None:
    """A step of Adam for the images of each index, by their loss; the learning rate rises to `rate` and falls again."""
    optimizer = torch.optim.Adam(weights, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=max(len(indices), 2), pct_start=WARM_UP, cycle_momentum=False
    )
    for index in indices:
        optimizer.zero_grad()
        loss(index).backward()
        optimizer.step()
        schedule.step()
        progress.step()


def drop(rows: Tensor, share: float, draw: torch.Generator) -> Tensor:
    """Rows (B, D) with that share of their numbers set to 0, the others raised to make up for it."""
    if not share:
        return rows
    return rows * (torch.rand(rows.shape, generator=draw, device=rows.device) >= share) / (1 - share)


def mean_of_seen(losses: Tensor, dealt: Tensor) -> Tensor:
    """The sum over the heads of the mean loss of the images that each may see, from losses (B, H) and folds (B,)."""
    seen = dealt[:, None] != torch.arange(losses.shape[1], device=losses.device)
    return ((losses * seen).sum(dim=0) / seen.sum(dim=0).clamp_min(1)).sum()


def _check(features: Tensor, labels: Tensor, num_classes: int) -> None:
    """Raise HitNetError unless features and labels fit each other."""
    whole("fit_heads", "num_classes", num_classes, 2)
    if features.ndim != 2 or not features.is_floating_point():
        raise HitNetError(
            f"fit_heads: features must be floating-point (N, D); got {features.dtype} {tuple(features.shape)}."
        )
    if labels.shape != (len(features),):
        raise HitNetError(f"fit_heads: {len(features)} rows of features but labels of shape {tuple(labels.shape)}.")
    if len(labels) < 2:
        raise HitNetError("fit_heads: at least two images are needed.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise HitNetError(f"fit_heads: labels must lie in 0..{num_classes - 1}; got values from {low} to {high}.")


class _Heads:
    """The heads of F folds and, where wanted, one of all images, trained together; H is their number."""

    def __init__(
        self, data: LeastSquares, dealt: Tensor, first: Tensor, options: HeadOptions, draw: torch.Generator
    ) -> None:
        self.data, self.dealt, self.options, self.draw = data, dealt, options, draw
        self.noise = torch.Generator(dealt.device).manual_seed(draw.initial_seed())
        width, heads, classes = first.shape
        self.shape = (heads, classes, options.capsule_dim)
        spread = JITTER * first.square().mean(dim=0, keepdim=True).sqrt()[..., None]
        shape = (width, options.folds + 1, *self.shape[1:])  # the same numbers with and without a head of all images
        apart = torch.randn(shape, generator=self.noise, device=first.device)[:, :heads]
        weight = (spread * apart - first[..., None]).view(width, -1)  # a hit is a value of 0: members come down to it
        self.weight = weight.requires_grad_()
        self.running_mean = torch.zeros(weight.shape[1], device=weight.device)
        self.running_variance, gain, bias = self.running_mean + 1, self.running_mean + 1, self.running_mean + 0
        self.begin(gain, bias)
        self.gain, self.bias = gain.requires_grad_(), bias.requires_grad_()

    @torch.no_grad()
    def begin(self, gain: Tensor, bias: Tensor) -> None:
        """Set statistics, gain and bias so that the mean member of a class hits, and the mean image misses."""
        heads, _, n = self.shape
        some = torch.randperm(len(self.dealt), generator=self.draw)[:2048].to(self.dealt.device)
        rows, labels = self.data.rows(some), self.data.labels[some]
        dropped = drop(rows, self.options.dropout, self.noise) @ self.weight
        self.running_mean.copy_(dropped.mean(dim=0))
        self.running_variance.copy_(dropped.var(dim=0, correction=0))
        own = (rows @ self.weight).view(-1, *self.shape)[torch.arange(len(some)), :, labels].mean(dim=2)  # (B, H)
        unseen = self.dealt[some, None] == torch.arange(heads, device=some.device)
        members = -(own * unseen).sum() / unseen.sum()  # of the heads that have not seen them
        if not members > 0:
            return  # least squares know nothing of these images: begin as any head does
        reach = float(torch.logit(torch.tensor(CENTRE + min(MISS_RADIUS / math.sqrt(n), 0.49))))
        gain.copy_(self.running_variance.sqrt() * reach / members)
        bias.copy_((members + self.running_mean) * reach / members)

    def capsules(self, rows: Tensor, *, training: bool) -> Tensor:
        """(B, D) → (B, H, K, n)."""
        linear, running = rows @ self.weight, (self.running_mean, self.running_variance)
        normalised = F.batch_norm(linear, *running, self.gain, self.bias, training, QUICK_MOMENTUM, eps=1e-3)
        return torch.sigmoid(normalised.view(-1, *self.shape))

    def train(self, progress: Progress = Progress()) -> None:
        options, count = self.options, len(self.dealt)
        steps, size = options.steps_for(count), min(options.batch, count)
        indices = batches(count, steps, size, self.draw, self.dealt.device)
        descend([self.weight, self.gain, self.bias], options.learning_rate, indices, self.loss, progress)

    def loss(self, index: Tensor) -> Tensor:
        """The sum over the heads of the mean loss of the images (B,) that each may see."""
        heads, classes, _ = self.shape
        capsules = self.capsules(drop(self.data.rows(index), self.options.dropout, self.noise), training=True)
        judged = distances(capsules.flatten(0, 1))  # (B·H, K)
        truth = one_hot(self.data.labels[index].repeat_interleave(heads), classes)
        excused = ghost_mask(judged, truth, ghosts=self.options.ghosts) if self.options.ghosts else None
        # As many wrong classes as the paper's ten have: with more classes, each counts for less.
        weight = MISS_WEIGHT * (PAPER_CLASSES - 1) / (classes - 1)
        losses = centripetal_loss(judged, truth, miss_weight=weight, excused=excused).view(-1, heads)
        return mean_of_seen(losses, self.dealt[index])

    @cached_property
    def layers(self) -> list[HitOrMiss]:
        """The heads that leave out a fold."""
        return [self.layer(fold).float().to(self.dealt.device) for fold in range(self.options.folds)]

    @torch.no_grad()
    def judge(self, index: Tensor) -> Tensor:
        """Distances (B, K) of images (B,), each by the head that has not seen it."""
        judged = torch.empty(len(index), self.shape[1], device=index.device)
        for fold, layer in enumerate(self.layers):
            for places in torch.nonzero(self.dealt[index] == fold)[:, 0].split(BLOCK):
                judged[places] = distances(layer(self.data.rows(index[places])))
        return judged

    @torch.no_grad()
    def left_out(self, index: Tensor) -> Tensor:
        """What least squares that have not seen images (B,) say of them (B, K)."""
        return self.data.leave_one_out(self.data.penalty, index)

    @torch.no_grad()
    def layer(self, head: int) -> HitOrMiss:
        """One of the heads as a layer on standardised features, in float64 on the CPU."""
        _, classes, n = self.shape
        with torch.random.fork_rng(devices=[]):  # first weights, which are replaced
            layer = HitOrMiss(len(self.weight), classes, n, norm="each", momentum=QUICK_MOMENTUM).double()
        own = slice(head * classes * n, (head + 1) * classes * n)
        layer.linear.weight.copy_(self.weight[:, own].T)
        norm = {"weight": self.gain, "bias": self.bias}
        norm |= {"running_mean": self.running_mean, "running_var": self.running_variance}
        for name, values in norm.items():
            getattr(layer.norm, name).copy_(values[own])
        return layer.eval()


@torch.no_grad()
def on_given_features(layer: HitOrMiss, mean: Tensor, scale: Tensor) -> HitOrMiss:
    """A layer on standardised features as a layer on features as they are."""
    factors = scale.to(layer.linear.weight)
    layer.linear.bias.sub_(layer.linear.weight @ (mean.to(factors) * factors))
    layer.linear.weight.mul_(factors)
    return layer
