"""The networks that the paper compares HitNet with, and their parts: N2, N2b, HitNet with squash, CapsNet, DropConnect.

Importing this module registers them with hitnet, which knows only HitNet and the baseline N1.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet import CentripetalLoss, HitNetError, HitOrMiss
from hitnet.capsules import CENTRE, NORMS, CapsuleLayer, check_tensor, full_precision, in_precision_of
from hitnet.errors import check_choice
from hitnet.losses import Reduction, matching_truth, reduce
from hitnet.models import (
    Draws,
    Features,
    Head,
    PaperFeatures,
    RandomLayer,
    register_features,
    register_head,
    register_model,
)


def squash(vectors: Tensor, dim: int = -1) -> Tensor:
    """Shrink vectors to a length below 1: |s|² / (1 + |s|²) · s / |s| (Sabour et al., 2017, Eq. 1)."""
    vectors = full_precision(vectors)
    norm = torch.linalg.vector_norm(vectors, dim=dim, keepdim=True)
    return vectors * (norm / (1 + norm * norm))


def dynamic_routing(votes: Tensor, iterations: int = 3) -> Tensor:
    """Routing by agreement (Sabour et al., 2017, procedure 1).

    The coupling coefficients are constants for autograd: gradients flow only through the last weighted sum.

    Args:
        votes: (B, I, K, n), the prediction of each of I lower capsules for each of K classes.
        iterations: Number of routing iterations (paper: 3).

    Returns:
        Capsules (B, K, n).
    """
    if iterations < 1:
        raise HitNetError(f"dynamic_routing: iterations must be at least 1; got {iterations}.")
    check_tensor("dynamic_routing: votes", votes, 4, "(B, I, K, n)")
    votes = full_precision(votes)
    fixed = votes.detach()
    logits = votes.new_zeros(1, *votes.shape[1:3])  # the same for all images: a batch of any size can be exported
    for _ in range(iterations - 1):
        capsules = squash(torch.einsum("bik,bikn->bkn", logits.softmax(dim=2), fixed))
        logits = logits + torch.einsum("bikn,bkn->bik", fixed, capsules)
    return squash(torch.einsum("bik,bikn->bkn", logits.softmax(dim=2), votes))


def margin_loss(
    lengths: Tensor, truth: Tensor, *, upper: float = 0.9, lower: float = 0.1, down_weight: float = 0.5
) -> Tensor:
    """The margin loss per image: Σ_k T_k max(0, m⁺ − |v_k|)² + λ (1 − T_k) max(0, |v_k| − m⁻)².

    Args:
        lengths: |v| (B, K).
        truth: T (B, K), booleans.
        upper: m⁺ (paper: 0.9).
        lower: m⁻ (paper: 0.1).
        down_weight: λ (paper: 0.5).

    Returns:
        (B,).
    """
    v = full_precision(lengths)
    present = (upper - v).clamp_min(0).square()
    absent = down_weight * (v - lower).clamp_min(0).square()
    return torch.where(truth, present, absent).sum(dim=1)


class MarginLoss(nn.Module):
    """The margin loss of Sabour et al., 2017 (Eq. 4).

    Call it as loss(lengths, targets): lengths (B, K), targets class indices (B,) or zeros and ones (B, K).

    Args:
        upper, lower, down_weight: As in `margin_loss`.
        reduction: "mean" or "sum" over the batch, or "none".
    """

    def __init__(
        self, upper: float = 0.9, lower: float = 0.1, down_weight: float = 0.5, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        check_choice("MarginLoss", "reduction", reduction, ("mean", "sum", "none"))
        self.upper, self.lower, self.down_weight = upper, lower, down_weight
        self.reduction: Reduction = reduction

    def forward(self, lengths: Tensor, targets: Tensor) -> Tensor:
        truth = matching_truth(lengths, targets)
        losses = margin_loss(lengths, truth, upper=self.upper, lower=self.lower, down_weight=self.down_weight)
        return reduce(losses, self.reduction)


class MarginHead(Head):
    """Base class of the heads whose true class's capsule is driven away from the centre."""

    loss = "margin"

    def make_loss(self, **options: Any) -> nn.Module:
        return MarginLoss()


class SquashedHead(CapsuleLayer, MarginHead):
    """N2, CapsNet-like: linear → batch-norm → squash; the longest capsule wins (margin loss)."""

    norms = NORMS

    def forward(self, features: Tensor) -> Tensor:
        return squash(self.vectors(features))


class CentrifugalHead(HitOrMiss, MarginHead):
    """N2b: the capsules of HitNet, but the capsule farthest from the centre wins (margin loss)."""

    norms = NORMS
    centre = CENTRE


class SquashedHitOrMissHead(CapsuleLayer, Head):
    """HitNet with squash: linear → batch-norm → squash, centripetal towards O = (0, …, 0).

    The paper gives one sentence ("if the squashing function is used in HitNet"). This is our reading: squash replaces
    the sigmoid, so capsules fill the unit ball with the centre O. The true class's capsule must hit O (m = 0.1), and
    the others must miss it (m' = 0.9 of at most 1). The loss and the rest do not change.
    """

    loss = "centripetal"
    loss_options = ("miss_weight", "ghosts", "ghost_rule", "ghost_probability")
    norms = NORMS
    nearest_wins = True

    def forward(self, features: Tensor) -> Tensor:
        return squash(self.vectors(features))

    def make_loss(self, **options: Any) -> nn.Module:
        return CentripetalLoss(self.capsule_dim, farthest=1.0, **options)


class PrimaryCapsules(PaperFeatures):
    """CapsNet's features: the paper's convolutions without the second ReLU, 8 channels of a place side by side."""

    def forward(self, images: Tensor) -> Tensor:
        maps = self.maps(images, relu=False)
        return maps.unflatten(1, (32, 8)).permute(0, 1, 3, 4, 2).flatten(1)


class RoutingHead(MarginHead):
    """CapsNet: squashed primary capsules of 8 components vote for K capsules; routing takes three iterations."""

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 16) -> None:
        super().__init__()
        if in_features % 8:
            raise HitNetError(f"RoutingHead: in_features must be a multiple of 8; got {in_features}.")
        weight = torch.empty(in_features // 8, 8, num_classes, capsule_dim)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=0.1))

    def forward(self, features: Tensor) -> Tensor:
        primary = squash(features.unflatten(1, (-1, 8)))
        votes = torch.einsum("bip,ipkn->bikn", primary.to(self.weight.dtype), self.weight)
        return dynamic_routing(votes)


class DropConnect(RandomLayer):
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

    def empty_draws(self, count: int) -> Draws:
        """Masks of the weights (B, out, in) and of the biases (B, out) that are kept, booleans."""
        shapes = (count, *self.weight.shape), (count, *self.bias.shape)
        return tuple(torch.empty(shape, dtype=torch.bool, device=self.weight.device) for shape in shapes)

    def draw(self, draws: Draws) -> None:
        for mask in draws:
            mask.bernoulli_(self.keep)

    def forward(self, features: Tensor) -> Tensor:
        return self.masked(features) if self.training else self.expected(features)

    def masked(self, features: Tensor) -> Tensor:
        """The units of a training step, each image with its own weights."""
        kept_weights, kept_biases = self.draws_for(len(features))
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


register_features("primary-capsules", PrimaryCapsules)
register_features("dropconnect", DropConnectFeatures)
register_head("squash", SquashedHead)
register_head("centrifugal", CentrifugalHead)
register_head("hit-or-miss-squash", SquashedHitOrMissHead)
register_head("routing", RoutingHead)
register_head("plain-softmax", PlainSoftmaxHead)
register_model("n2", "CapsNet-like network of the paper: squash, margin loss, same decoder", head="squash")
register_model("n2b", "HitNet's capsules with the centrifugal margin loss, same decoder", head="centrifugal")
register_model(
    "hitnet-squash",
    "HitNet with squash for sigmoid: capsules hit the centre of the unit ball",
    head="hit-or-miss-squash",
)
register_model(
    "capsnet",
    "CapsNet of Sabour et al. (2017) with dynamic routing in three iterations",
    features="primary-capsules",
    head="routing",
)
register_model(
    "dropconnect",
    "DropConnect network of Wan et al. (2013): two convolutions, 150 units with DropConnect, softmax",
    features="dropconnect",
    head="plain-softmax",
    decoder="none",
)
