"""The DropConnect network of Wan et al. (2013), whose errors the paper quotes; importing this module registers it."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet import HitNetError
from hitnet.capsules import full_precision, in_precision_of
from hitnet.models import Features, Head, register_features, register_head, register_model


class DropConnect(nn.Module):
    """Fully connected layer with DropConnect and ReLU: (B, in_features) → (B, out_features) (Wan et al., 2013).

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
        self.masks: dict[int, list[Tensor]] = {}  # by batch size: a captured step reads them where they are
        self.drawn: int | None = None  # the size of a batch whose masks are drawn, but not yet used

    def draw(self, count: int) -> None:
        """Draw which weights (B, out, in) and biases (B, out) are kept; a training step calls this in advance."""
        if count not in self.masks:
            place: Any = {"dtype": torch.bool, "device": self.weight.device}
            self.masks[count] = [torch.empty(count, *each.shape, **place) for each in (self.weight, self.bias)]
        for mask in self.masks[count]:
            mask.bernoulli_(self.keep)
        self.drawn = count

    def forward(self, features: Tensor) -> Tensor:
        return self.masked(features) if self.training else self.expected(features)

    def masked(self, features: Tensor) -> Tensor:
        """The units of a training step, each image with its own weights."""
        if self.drawn != len(features):
            self.draw(len(features))
        self.drawn = None
        kept_weights, kept_biases = self.masks[len(features)]
        weight, bias = self.weight.to(features.dtype), self.bias.to(features.dtype)
        zero = weight.new_zeros(())
        kept = torch.where(kept_weights, weight, zero)
        units = torch.bmm(kept, features.unsqueeze(2)).squeeze(2)
        return F.relu(units + torch.where(kept_biases, bias, zero))

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


class DropConnectFeatures(Features):
    """Two 5x5 convolutions of 32 and 64 channels, each with ReLU and a 2x2 maximum, then 150 units with DropConnect.

    The network of Wan et al. (2013) for MNIST. They give the channels and the units; the kernels, the maximum and the
    starting weights (Keras') are our choice.
    """

    smallest = 16
    num_features = 150

    def __init__(self, in_shape: tuple[int, int, int]) -> None:
        super().__init__(in_shape)
        channels, height, width = in_shape
        self.conv1, self.conv2 = nn.Conv2d(channels, 32, kernel_size=5), nn.Conv2d(32, 64, kernel_size=5)
        for convolution in (self.conv1, self.conv2):
            nn.init.xavier_uniform_(convolution.weight)
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        pixels = math.prod(((size - 4) // 2 - 4) // 2 for size in (height, width))
        self.connect = DropConnect(64 * pixels, self.num_features)

    def forward(self, images: Tensor) -> Tensor:
        maps = F.max_pool2d(F.relu(self.conv1(images)), 2)
        maps = F.max_pool2d(F.relu(self.conv2(maps)), 2)
        units: Tensor = self.connect(maps.flatten(1))
        return units


class PlainSoftmaxHead(Head):
    """Linear → softmax, without batch-norm. The capsules are the K logits, with one component each."""

    loss = "cross-entropy"
    loss_options = ("label_smoothing",)

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 1) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, num_classes)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        logits = self.linear(in_precision_of(self.linear.weight, features))
        return full_precision(logits)[..., None]

    def make_loss(self, **options: Any) -> nn.Module:
        return nn.CrossEntropyLoss(**options)

    def loss_input(self, capsules: Tensor, distances: Tensor) -> Tensor:
        return capsules.squeeze(-1)

    def distances(self, capsules: Tensor) -> Tensor:
        return capsules.squeeze(-1).softmax(dim=1)


register_features("dropconnect", DropConnectFeatures)
register_head("plain-softmax", PlainSoftmaxHead)
register_model(
    "dropconnect",
    "DropConnect network of Wan et al. (2013): two convolutions, 150 units with DropConnect, softmax",
    features="dropconnect",
    head="plain-softmax",
    decoder="none",
)
