"""Heads on features of a frozen backbone: every fold and repeat at once, each image judged out of sample.

A repeat deals the images into folds and trains one head per fold on all images outside it; the head then judges the
images inside. The heads of one repeat see the same batches: a head ignores the rows of its own fold. So the work of a
step is one batched matrix product (R, B, D) @ (R, D, F·K·n) for R repeats, batches of B images, D features, F folds, K
classes and capsules of n numbers.

Images of classes with fewer images than folds belong to no fold: without them, a head would not know their class. All
heads are trained on them, and the mean of all heads judges them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hitnet.capsules import CENTRE
from hitnet.errors import HitNetError, check_choice, finite, whole
from hitnet.losses import centripetal_loss

Loss = Literal["hit-or-miss", "softmax"]
LOSSES: tuple[Loss, ...] = ("hit-or-miss", "softmax")
NORM_EPSILON = 1e-3
LARGEST_WEIGHTS = 2**26  # numbers in the weights of all heads that are trained together


@dataclass(frozen=True)
class HeadOptions:
    """How heads are trained.

    Attributes:
        loss: "hit-or-miss" (linear, batch normalisation, sigmoid, centripetal loss) or "softmax" (cross-entropy).
        folds: Heads per repeat; each judges 1/folds of the images.
        repeats: Independent divisions into folds.
        steps: Training steps; None: see `default_steps`.
        batch: Images per step and head, on average.
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
    """150 steps for sets of up to a few thousand images, three passes over large ones."""
    return max(150, math.ceil(3 * images / batch))


def stratified_folds(labels: Tensor, folds: int, generator: torch.Generator) -> Tensor:
    """The fold of each image (N,), every class spread evenly; −1 for images of classes with fewer than `folds`.

    Classes follow one another in dealing, so that folds differ by at most one image per set, not per class.
    """
    shuffled = torch.randperm(len(labels), generator=generator)
    order = shuffled[torch.argsort(labels[shuffled], stable=True)]
    counts = torch.bincount(labels)
    large = counts[labels[order]] >= folds
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
    centred, scale = _standardisation(views)
    together = max(1, LARGEST_WEIGHTS // (views.shape[2] * options.folds * num_classes * options.outputs))
    found = []
    for first in range(0, options.repeats, together):
        repeats = range(first, min(first + together, options.repeats))
        heads = _Heads(views, labels, num_classes, options, repeats, seed, centred, scale)
        heads.train()
        found.append(heads.judge())
    return torch.cat(found)


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


def _standardisation(views: Tensor, block: int = 65_536) -> tuple[Tensor, Tensor]:
    """Mean (D,) and 1 / standard deviation (D,) of each feature over all views and images, in bounded memory."""
    total = torch.zeros(views.shape[2], dtype=torch.float64, device=views.device)
    squares, count = total.clone(), views.shape[0] * views.shape[1]
    # Of a shifted copy, so that squares of a large mean do not swallow a small spread.
    shift = views[0, :1].double()
    for view in views:
        for rows in view.split(block):
            part = rows.double() - shift
            total += part.sum(dim=0)
            squares += part.square().sum(dim=0)
    mean = total / count
    variance = (squares / count - mean.square()).clamp_min(0)
    # A feature that never changes says nothing; it is left at 0.
    scale = torch.where(variance > 1e-12, (variance + 1e-12).rsqrt(), 0)
    return (mean + shift[0]).float(), scale.float()


class _Heads:
    """The heads of some repeats: R x F of them, trained together."""

    def __init__(
        self,
        views: Tensor,
        labels: Tensor,
        num_classes: int,
        options: HeadOptions,
        repeats: range,
        seed: int,
        mean: Tensor,
        scale: Tensor,
    ) -> None:
        self.views, self.num_classes, self.options = views, num_classes, options
        self.mean, self.scale = mean, scale
        # Each repeat has its own stream of random numbers: what it finds does not depend on those beside it.
        self.draws = [torch.Generator().manual_seed(seed * 1_000_003 + repeat) for repeat in repeats]
        self.folds = torch.stack([stratified_folds(labels, options.folds, draw) for draw in self.draws])
        self.labels, device = labels.to(views.device), views.device
        shape = (views.shape[2], options.folds * num_classes * options.outputs)
        bound = math.sqrt(6 / (shape[0] + num_classes * options.outputs))  # Glorot's, as in the paper's heads
        first = [torch.rand(shape, generator=draw).mul_(2 * bound).sub_(bound) for draw in self.draws]
        self.weight = torch.stack(first).to(device).requires_grad_()
        vector = torch.zeros(len(self.draws), 1, shape[1], device=device)
        self.bias = vector.clone().requires_grad_()
        self.gain = torch.ones_like(vector).requires_grad_()
        self.running_mean, self.running_variance = vector.clone(), torch.ones_like(vector)

    @property
    def parameters(self) -> list[Tensor]:
        return [self.weight, self.bias] + ([self.gain] if self.options.loss == "hit-or-miss" else [])

    def rows(self, view: Tensor, index: Tensor) -> Tensor:
        """Standardised features of images: (…, D)."""
        return (self.views[view, index].float() - self.mean) * self.scale

    def batches(self) -> list[Tensor]:
        """One stream of shuffled images per repeat, (R, B) per step."""
        options, count = self.options, self.views.shape[1]
        steps = options.steps or default_steps(count, options.batch)
        size = min(round(options.batch * options.folds / (options.folds - 1)), count)
        passes = math.ceil(steps * size / count)
        streams = [torch.cat([torch.randperm(count, generator=draw) for _ in range(passes)]) for draw in self.draws]
        return list(torch.stack(streams)[:, : steps * size].split(size, dim=1))

    def train(self) -> None:
        options, device = self.options, self.views.device
        batches = self.batches()
        optimizer = torch.optim.Adam(self.parameters, lr=options.learning_rate, betas=(0.9, 0.999), fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, options.learning_rate, total_steps=max(len(batches), 2), pct_start=0.3
        )
        for index in batches:
            seen = self.folds.gather(1, index)[..., None] != torch.arange(options.folds)  # (R, B, F)
            view = torch.stack([torch.randint(len(self.views), index.shape[1:], generator=draw) for draw in self.draws])
            inputs = self.rows(view.to(device), index.to(device))
            if options.dropout:
                inputs = inputs * self.dropout(inputs.shape)
            losses = self.losses(inputs, self.labels[index.to(device)], seen.to(device))
            optimizer.zero_grad(set_to_none=True)
            losses.sum().backward()
            optimizer.step()
            schedule.step()

    def dropout(self, shape: torch.Size) -> Tensor:
        """Zeros and 1 / (1 − p)."""
        keep = 1 - self.options.dropout
        kept = torch.stack([torch.empty(shape[1:]).bernoulli_(keep, generator=draw) for draw in self.draws])
        return kept.div_(keep).to(self.views.device)

    def losses(self, inputs: Tensor, labels: Tensor, seen: Tensor) -> Tensor:
        """The mean loss of each head (R, F) over the rows that it may see: inputs (R, B, D), seen (R, B, F)."""
        share = seen / seen.sum(dim=1, keepdim=True).clamp_min(1)
        outputs = torch.bmm(inputs, self.weight)
        if self.options.loss == "softmax":
            logits = self.per_class(outputs + self.bias)[..., 0]
            losses = -logits.log_softmax(dim=-1).gather(-1, labels[:, :, None, None].expand(*seen.shape, 1))[..., 0]
        else:
            distances = self.distances(self.normalised(outputs, share))
            truth = labels[:, :, None, None] == torch.arange(self.num_classes, device=labels.device)
            truth = truth.expand_as(distances)
            losses = centripetal_loss(distances.flatten(0, 2), truth.flatten(0, 2)).view(seen.shape)
        return (losses * share).sum(dim=1)

    def normalised(self, outputs: Tensor, share: Tensor, momentum: float = 0.1) -> Tensor:
        """Batch normalisation over the rows that each head sees; share (R, B, F) is 1 / their number, or 0."""
        heads = outputs.unflatten(-1, (self.options.folds, -1))  # (R, B, F, K·n)
        mean = (heads * share[..., None]).sum(dim=1, keepdim=True)
        centred = heads - mean
        variance = (centred.square() * share[..., None]).sum(dim=1, keepdim=True)
        with torch.no_grad():
            self.running_mean.lerp_(mean.flatten(2), momentum)
            self.running_variance.lerp_(variance.flatten(2), momentum)
        return (centred * (variance + NORM_EPSILON).rsqrt()).flatten(2) * self.gain + self.bias

    def per_class(self, outputs: Tensor) -> Tensor:
        """(…, F·K·n) → (…, F, K, n)."""
        return outputs.unflatten(-1, (-1, self.num_classes, self.options.outputs))

    def distances(self, vectors: Tensor) -> Tensor:
        """Capsules' distances to the centre: (…, F·K·n) → (…, F, K)."""
        return torch.linalg.vector_norm(torch.sigmoid(self.per_class(vectors)) - CENTRE, dim=-1)

    @torch.no_grad()
    def judge(self, block: int = 2048) -> Tensor:
        """What the heads that have not seen an image say of it: (R, N, K)."""
        repeats, width = len(self.draws), self.num_classes * self.options.outputs
        found = torch.zeros(repeats, self.views.shape[1], self.num_classes)
        for repeat in range(repeats):
            for fold in range(-1, self.options.folds):
                columns = slice(None) if fold < 0 else slice(fold * width, (fold + 1) * width)
                for index in torch.nonzero(self.folds[repeat] == fold)[:, 0].split(block):
                    judged = [self.say(repeat, columns, view, index) for view in range(len(self.views))]
                    found[repeat, index] = torch.stack(judged).mean(dim=0).cpu()
        return found

    def say(self, repeat: int, columns: slice, view: int, index: Tensor) -> Tensor:
        """Distances or log-probabilities (B, K) of images, as the mean of the heads in these columns."""
        inputs = self.rows(torch.tensor(view), index.to(self.views.device))
        outputs = inputs @ self.weight[repeat, :, columns]
        gain, bias = self.gain[repeat, :, columns], self.bias[repeat, :, columns]
        if self.options.loss == "softmax":
            return self.per_class(outputs + bias)[..., 0].log_softmax(dim=-1).mean(dim=1)
        mean, variance = self.running_mean[repeat, :, columns], self.running_variance[repeat, :, columns]
        return self.distances((outputs - mean) * (variance + NORM_EPSILON).rsqrt() * gain + bias).mean(dim=1)
