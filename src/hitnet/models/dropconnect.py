"""DropConnect (Wan et al., 2013): a fully connected layer that forgets each of its weights at random in training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.capsules import full_precision
from hitnet.errors import HitNetError

Masks = tuple[Tensor, Tensor]  # which weights (B, out, in) and biases (B, out) are kept, booleans


class DropConnect(nn.Module):
    """Fully connected layer with DropConnect and ReLU: (B, in_features) → (B, out_features).

    In training, each weight and each bias is kept with probability `keep`, drawn anew for each image:
    relu((M ∘ W) v + m ∘ b). In evaluation, the units before ReLU are taken as normal numbers with the mean and the
    variance that this has over all masks (the authors' moment matching), and the mean of their ReLU is computed. The
    authors estimate that mean from samples; this is what infinitely many samples give.

    Args:
        in_features: Numbers per image.
        out_features: Units.
        keep: Probability with which a weight is kept (theirs: 0.5).
    """

    def __init__(self, in_features: int, out_features: int, *, keep: float = 0.5) -> None:
        super().__init__()
        if not 0 < keep <= 1:
            raise HitNetError(f"DropConnect: keep must be above 0 and at most 1; got {keep}.")
        self.keep = keep
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(out_features, in_features)))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.given: Masks | None = None  # masks that were drawn in advance, for steps that cannot draw themselves

    def empty_masks(self, count: int) -> Masks:
        """Masks for `count` images, not drawn yet."""
        shapes = (count, *self.weight.shape), (count, *self.bias.shape)
        weights, biases = (torch.empty(shape, dtype=torch.bool, device=self.weight.device) for shape in shapes)
        return weights, biases

    def draw(self, masks: Masks) -> None:
        """Draw masks, in place."""
        for mask in masks:
            mask.bernoulli_(self.keep)

    def forward(self, features: Tensor) -> Tensor:
        return self.masked(features) if self.training else self.expected(features)

    def masked(self, features: Tensor) -> Tensor:
        """The units of a training step, each image with its own weights."""
        masks = self.given
        if masks is None:
            masks = self.empty_masks(len(features))
            self.draw(masks)
        weight, bias = self.weight.to(features.dtype), self.bias.to(features.dtype)
        zero = weight.new_zeros(())
        kept = torch.where(masks[0], weight, zero)
        units = torch.bmm(kept, features.unsqueeze(2)).squeeze(2)
        return F.relu(units + torch.where(masks[1], bias, zero))

    def expected(self, features: Tensor) -> Tensor:
        """The mean of the units over all masks, by a normal distribution of the same mean and variance."""
        features = features.to(self.weight.dtype)
        mean = self.keep * full_precision(F.linear(features, self.weight, self.bias))
        squares = F.linear(features.square(), self.weight.square(), self.bias.square())
        variance = self.keep * (1 - self.keep) * full_precision(squares)
        spread = variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()
        ratio = mean / spread
        below = 0.5 * (1 + torch.erf(ratio / math.sqrt(2)))
        density = torch.exp(-0.5 * ratio.square()) / math.sqrt(2 * math.pi)
        return mean * below + spread * density


def dropconnect_layers(model: nn.Module) -> list[DropConnect]:
    """The layers of a network that draw random numbers in training."""
    return [layer for layer in model.modules() if isinstance(layer, DropConnect)]


@contextmanager
def given_masks(layers: Sequence[DropConnect], masks: Sequence[Masks]) -> Iterator[None]:
    """Let layers use masks that were drawn in advance."""
    for layer, own in zip(layers, masks, strict=True):
        layer.given = own
    try:
        yield
    finally:
        for layer in layers:
            layer.given = None
