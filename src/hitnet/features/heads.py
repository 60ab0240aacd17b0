"""Heads on features of a frozen backbone: every fold and repeat at once, each image judged out of sample.

A repeat deals the images into F folds and trains one head per fold on the images of all others; the head then judges
the images of its own fold. A batch holds equally many images of each fold, fold after fold, twice over: the batch of a
head is then a window of it that leaves out one fold. So a step is one batched matrix product of windows and weights,
(F, B, D) @ (F, D, K·n) for batches of B images, D features, K classes and capsules of n numbers.

Images of classes with fewer images than folds cannot be judged out of sample: without them, a head would hardly know
their class. All heads are trained on them, and the mean of all heads judges them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.capsules import CENTRE, QUICK_MOMENTUM
from hitnet.errors import HitNetError, check_choice, finite, whole
from hitnet.losses import centripetal_loss

Loss = Literal["hit-or-miss", "softmax"]
LOSSES: tuple[Loss, ...] = ("hit-or-miss", "softmax")
NORM_EPSILON = 1e-3
BLOCK = 16_384  # rows that are standardised at once


@dataclass(frozen=True)
class HeadOptions:
    """How heads are trained.

    Attributes:
        loss: "hit-or-miss" (linear, batch normalisation, sigmoid, centripetal loss) or "softmax" (cross-entropy).
        folds: Heads per repeat; each judges 1/folds of the images.
        repeats: Independent divisions into folds.
        steps: Training steps; None: see `default_steps`.
        batch: Images per step and head.
        learning_rate: The highest of a one-cycle schedule, for Adam.
        dropout: Share of the features that a step ignores, drawn per image.
        capsule_dim: Numbers per capsule (paper: 16).
    """

    loss: Loss = "hit-or-miss"
    folds: int = 5
    repeats: int = 4
    steps: int | None = None
    batch: int = 256
    learning_rate: float = 1e-2
    dropout: float = 0.5
    capsule_dim: int = 16

    def __post_init__(self) -> None:
        check_choice("HeadOptions", "loss", self.loss, LOSSES)
        whole("HeadOptions", "folds", self.folds, 2)
        whole("HeadOptions", "repeats", self.repeats, 1)
        whole("HeadOptions", "batch", self.batch, 2)
        whole("HeadOptions", "capsule_dim", self.capsule_dim, 4)
        finite("HeadOptions", "learning_rate", self.learning_rate, above_0=True)
        if self.steps is not None:
            whole("HeadOptions", "steps", self.steps, 1)
        if not 0 <= self.dropout < 1:
            raise HitNetError(f"HeadOptions: dropout must be at least 0 and below 1; got {self.dropout}.")

    @property
    def outputs(self) -> int:
        """Numbers that a head gives per class."""
        return self.capsule_dim if self.loss == "hit-or-miss" else 1


def default_steps(images: int, batch: int) -> int:
    """75 steps for sets of up to a few thousand images, three passes over large ones."""
    return max(75, math.ceil(3 * images / batch))


def deal(labels: Tensor, folds: int, generator: torch.Generator) -> Tensor:
    """The fold of each image (N,), every class spread evenly; -1 for images of classes with fewer than `folds`.

    Each class begins where the one before ended, so that folds differ by at most one image.
    """
    shuffled = torch.randperm(len(labels), generator=generator)
    order = shuffled[torch.argsort(labels[shuffled], stable=True)]
    large = torch.bincount(labels)[labels[order]] >= folds
    dealt = torch.full_like(labels, -1)
    dealt[order[large]] = torch.arange(int(large.sum())) % folds
    return dealt


def fit_heads(
    features: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    options: HeadOptions | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """What heads that have not seen an image say of it.

    Args:
        features: (N, D), or (V, N, D) for V views of each image: training draws one per image and step, judging takes
            the mean over all.
        labels: (N,) class indices.
        num_classes: K.
        options: How heads are trained; None: the defaults.
        seed: Decides folds, first weights, batches and dropout.
        device: Where to compute. Features that already are on it are not copied.

    Returns:
        (repeats, N, K) float32 on the CPU: the distance of each class's capsule to the centre, or for the loss
        "softmax" log-probabilities.
    """
    options = options or HeadOptions()
    views = _checked(features, labels, num_classes).to(device)
    labels = labels.to("cpu", torch.int64)
    scaling = _standardisation(views)
    judged = []
    for repeat in range(options.repeats):
        # Each repeat has its own stream of random numbers: it finds the same, however many others there are.
        draw = torch.Generator().manual_seed(seed * 1_000_003 + repeat)
        heads = _Heads(views, labels, num_classes, options, draw, scaling)
        heads.train()
        judged.append(heads.judge())
    return torch.stack(judged)


def _checked(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Features as (V, N, D), if features and labels fit each other."""
    whole("fit_heads", "num_classes", num_classes, 2)
    if features.ndim not in (2, 3) or not features.is_floating_point():
        raise HitNetError(
            f"fit_heads: features must be floating-point (N, D) or (V, N, D); got {features.dtype} "
            f"{tuple(features.shape)}."
        )
    views = features if features.ndim == 3 else features[None]
    if labels.shape != (views.shape[1],):
        raise HitNetError(f"fit_heads: {views.shape[1]} rows of features but labels of shape {tuple(labels.shape)}.")
    if len(labels) < 2:
        raise HitNetError("fit_heads: at least two images are needed.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise HitNetError(f"fit_heads: labels must lie in 0..{num_classes - 1}; got values from {low} to {high}.")
    return views


def _standardisation(views: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (D,) and 1 / standard deviation (D,) of each feature over all views and images, in bounded memory."""
    total = torch.zeros(views.shape[2], dtype=torch.float64, device=views.device)
    squares, count = total.clone(), views.shape[0] * views.shape[1]
    # Of shifted values, so that the squares of a large mean do not swallow a small spread.
    shift = views[0, :1].double()
    for view in views:
        for rows in view.split(BLOCK):
            shifted = rows.double() - shift
            total += shifted.sum(dim=0)
            squares += shifted.square().sum(dim=0)
    mean = total / count
    variance = squares / count - mean.square()
    # A feature that never changes says nothing; it becomes 0.
    varies = variance > 1e-12 * (mean + shift[0]).square()  # relative: units may be of any size
    scale = torch.where(varies & (variance > 0), variance.clamp_min(torch.finfo(torch.float64).tiny).rsqrt(), 0)
    return (mean + shift[0]).float(), scale.float()


class _Heads:
    """The heads of one repeat, F of them, trained together."""

    def __init__(
        self,
        views: Tensor,
        labels: Tensor,
        num_classes: int,
        options: HeadOptions,
        draw: torch.Generator,
        scaling: tuple[Tensor, Tensor],
    ) -> None:
        self.views, self.num_classes, self.options, self.draw = views, num_classes, options, draw
        self.mean, self.scale = scaling
        self.dealt = deal(labels, options.folds, draw)
        self.labels, device = labels.to(views.device), views.device
        inward, outward = views.shape[2], num_classes * options.outputs
        bound = math.sqrt(6 / (inward + outward))  # Glorot's, as in the paper's heads
        first = torch.rand(options.folds, inward, outward, generator=draw).mul_(2 * bound).sub_(bound)
        self.weight = first.to(device).requires_grad_()
        self.bias = torch.zeros(options.folds * outward, device=device, requires_grad=True)
        self.gain = torch.ones(options.folds * outward, device=device, requires_grad=True)
        self.running_mean, self.running_variance = torch.zeros_like(self.bias), torch.ones_like(self.gain)

    def rows(self, view: Tensor | int, index: Tensor) -> Tensor:
        """Standardised features of images (…, D)."""
        return (self.views[view, index].float() - self.mean) * self.scale

    def batches(self) -> Tensor:
        """Images of each step and fold: (steps, F, B / (F - 1)); the images of a fold come in shuffled passes.

        Images of no fold are put into two, so that every head sees them.
        """
        options, count = self.options, self.views.shape[1]
        steps = options.steps or default_steps(count, options.batch)
        members = [torch.nonzero(self.dealt == fold)[:, 0] for fold in range(options.folds)]
        loose = torch.nonzero(self.dealt < 0)[:, 0]
        for i, image in enumerate(loose.split(1)):
            for fold in (i % options.folds, (i + 1) % options.folds):
                members[fold] = torch.cat([members[fold], image])
        everyone = torch.arange(count)
        members = [rows if len(rows) else everyone for rows in members]  # fewer images than folds
        smallest = min(len(rows) for rows in members)
        size = max(1, min(options.batch // (options.folds - 1), smallest))
        return torch.stack([self.stream(rows, steps * size).view(steps, size) for rows in members], dim=1)

    def stream(self, rows: Tensor, length: int) -> Tensor:
        passes = math.ceil(length / len(rows))
        return torch.cat([rows[torch.randperm(len(rows), generator=self.draw)] for _ in range(passes)])[:length]

    def train(self) -> None:
        options, device = self.options, self.views.device
        batches = self.batches()
        parameters = [self.weight, self.bias] + ([self.gain] if options.loss == "hit-or-miss" else [])
        optimizer = torch.optim.Adam(parameters, lr=options.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, options.learning_rate, total_steps=max(len(batches), 2), pct_start=0.3
        )
        for index in batches:
            view = torch.randint(len(self.views), index.shape, generator=self.draw)
            inputs = self.rows(view.to(device), index.to(device))
            if options.dropout:
                inputs = inputs * self.dropout(inputs.shape)
            losses = self.losses(windows(inputs), windows(self.labels[index.to(device)][..., None])[..., 0])
            optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()
            optimizer.step()
            schedule.step()

    def dropout(self, shape: torch.Size) -> Tensor:
        """Zeros and 1 / (1 - p), p in steps of 1/256: eight random bytes cost as much as one random number."""
        numbers = torch.empty(-(-math.prod(shape) // 8), dtype=torch.int64)
        numbers.random_(-(2**63), None, generator=self.draw)
        kept = numbers.view(torch.uint8)[: math.prod(shape)].view(shape) >= round(256 * self.options.dropout)
        return kept.to(self.views.device) / (1 - self.options.dropout)

    def losses(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of each head (F,) on its own batch: inputs (F, B, D), labels (F, B)."""
        outputs = torch.bmm(inputs, self.weight).transpose(0, 1).flatten(1)  # (B, F·K·n)
        labels = labels.T  # (B, F)
        if self.options.loss == "softmax":
            logits = self.per_class(outputs + self.bias)[..., 0]
            return -logits.log_softmax(dim=-1).gather(-1, labels[..., None])[..., 0].mean(dim=0)
        distances = self.distances(self.normalise(outputs, training=True))
        truth = labels[..., None] == torch.arange(self.num_classes, device=labels.device)
        return centripetal_loss(distances.flatten(0, 1), truth.flatten(0, 1)).view(labels.shape).mean(dim=0)

    def normalise(self, outputs: Tensor, *, training: bool) -> Tensor:
        return F.batch_norm(
            outputs,
            self.running_mean,
            self.running_variance,
            self.gain,
            self.bias,
            training=training,
            momentum=QUICK_MOMENTUM,
            eps=NORM_EPSILON,
        )

    def per_class(self, outputs: Tensor) -> Tensor:
        """(B, F·K·n) → (B, F, K, n)."""
        return outputs.unflatten(-1, (-1, self.num_classes, self.options.outputs))

    def distances(self, vectors: Tensor) -> Tensor:
        """Distances of capsules to the centre: (B, F·K·n) → (B, F, K)."""
        return torch.linalg.vector_norm(torch.sigmoid(self.per_class(vectors)) - CENTRE, dim=-1)

    @torch.no_grad()
    def judge(self) -> Tensor:
        """What the heads that have not seen an image say of it: (N, K)."""
        judged = torch.empty(self.views.shape[1], self.num_classes)
        for fold in range(-1, self.options.folds):
            for index in torch.nonzero(self.dealt == fold)[:, 0].split(1024):
                heads = slice(None) if fold < 0 else slice(fold, fold + 1)
                said = [
                    self.say(heads, self.rows(view, index.to(self.views.device))) for view in range(len(self.views))
                ]
                judged[index] = torch.stack(said).mean(dim=0).cpu()
        return judged

    def say(self, heads: slice, inputs: Tensor) -> Tensor:
        """Distances or log-probabilities (B, K) of images (B, D), as the mean of some of the heads."""
        outputs = torch.matmul(inputs, self.weight[heads]).transpose(0, 1).flatten(1)
        gain, bias, mean, variance = (
            values.view(self.options.folds, -1)[heads].flatten()
            for values in (self.gain, self.bias, self.running_mean, self.running_variance)
        )
        if self.options.loss == "softmax":
            return self.per_class(outputs + bias)[..., 0].log_softmax(dim=-1).mean(dim=1)
        normalised = F.batch_norm(outputs, mean, variance, gain, bias, training=False, eps=NORM_EPSILON)
        return self.distances(normalised).mean(dim=1)


def windows(groups: Tensor) -> Tensor:
    """For each of F heads, the groups of all folds but its own: (F, b, D) → (F, (F - 1)·b, D), a view of twice the
    groups."""
    folds, size, width = groups.shape
    twice = torch.cat([groups, groups[:-1]]).reshape(-1, width)[size:]
    return twice.as_strided((folds, (folds - 1) * size, width), (size * width, width, 1))
