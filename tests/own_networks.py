"""Networks that are not hitnet's own, as another package would add them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hitnet import CentripetalLoss, HitOrMiss
from hitnet.capsules import CENTRE, NORMS, CapsuleLayer
from hitnet.models import Features, Head, register_features, register_head, register_model


class Dropping(nn.Module):
    """Sets half of the numbers (B, F) of an image to 0 in training."""

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(in_features))
        self.kept: dict[int, Tensor] = {}

    def draw(self, count: int) -> None:
        if count not in self.kept:
            self.kept[count] = torch.empty(count, len(self.scale), dtype=torch.bool, device=self.scale.device)
        self.kept[count].bernoulli_(0.5)

    def forward(self, features: Tensor) -> Tensor:
        if not self.training:
            return features * self.scale
        return features * self.scale * self.kept[len(features)]


class DroppingFeatures(Features):
    """The pixels, of which half are dropped in training, and a linear layer."""

    smallest = 4
    num_features = 12

    def __init__(self, in_shape: tuple[int, int, int]) -> None:
        super().__init__(in_shape)
        pixels = in_shape[0] * in_shape[1] * in_shape[2]
        self.drop, self.linear = Dropping(pixels), nn.Linear(pixels, self.num_features)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.linear(self.drop(images.flatten(1)))
        return features


class Pull(nn.Module):
    """The mean distance of the wrong classes minus that of the right one."""

    def forward(self, distances: Tensor, targets: Tensor) -> Tensor:
        right = distances.gather(1, targets[:, None]).mean()
        return distances.mean() - right


class FarHead(HitOrMiss, Head):
    """The capsule farthest from the centre wins."""

    loss = "pull"
    norms = NORMS
    centre = CENTRE

    def make_loss(self, **options: Any) -> nn.Module:
        return Pull()


class OriginHead(CapsuleLayer, Head):
    """Capsules in [-1, 1] that hit or miss 0."""

    loss = "centripetal"
    loss_options = ("miss_weight",)
    norms = ("each", "shared")
    nearest_wins = True

    def forward(self, features: Tensor) -> Tensor:
        return torch.tanh(self.vectors(features))

    def make_loss(self, **options: Any) -> nn.Module:
        return CentripetalLoss(capsule_dim=self.capsule_dim, farthest=2.0, **options)


register_features("own-dropping", DroppingFeatures)
register_head("own-far", FarHead)
register_head("own-origin", OriginHead)
register_model("own-far", "The farthest capsule wins", features="small", head="own-far")
register_model("own-origin", "Capsules hit or miss 0", features="small", head="own-origin")
register_model("own-dropping", "Drops pixels at random", features="own-dropping", decoder="none", capsule_dim=4)
