"""The Hit-or-Miss layer on any network, with the methods that timm's networks have."""

from pathlib import Path

import torch
from torch import Tensor, nn

from hitnet.capsules import QUICK_MOMENTUM, HitOrMiss, Norm, distances
from hitnet.errors import HitNetError, whole
from hitnet.models import backbones


class HitOrMissClassifier(nn.Module):
    """A backbone and the Hit-or-Miss layer: images → distances (B, K), of which the smallest wins.

    `with_backbone` builds it. As in timm, `forward` is `forward_head(forward_features(images))`.

    Attributes:
        backbone: Images → features (B, num_features).
        head: The Hit-or-Miss layer, or an identity after `reset_classifier(0)`.
        num_features: Number of features per image.
        num_classes: K, or 0.
        capsule_dim: n.
        norm: Which values share a mean and a variance in batch-norm (see `HitOrMiss`).
        settings: Size, mean and standard deviation that images must have, for a backbone by name; else None.
    """

    head: nn.Module

    def __init__(
        self,
        backbone: nn.Module,
        num_features: int,
        num_classes: int,
        capsule_dim: int = 16,
        settings: backbones.Settings | None = None,
        *,
        norm: Norm = "each",
    ) -> None:
        super().__init__()
        self.backbone, self.num_features, self.settings, self.norm = backbone, num_features, settings, norm
        self.capsule_dim = whole("HitOrMissClassifier", "capsule_dim", capsule_dim, 1)
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the head by a new one for `num_classes` classes; 0 leaves the features as they are."""
        self.num_classes = whole("HitOrMissClassifier", "num_classes", num_classes, 0)
        self.head = nn.Identity()
        if self.num_classes:
            place = next(self.backbone.parameters(), torch.zeros(0)).device
            sizes = self.num_features, self.num_classes, self.capsule_dim
            self.head = HitOrMiss(*sizes, norm=self.norm, momentum=QUICK_MOMENTUM).to(place)

    def get_classifier(self) -> nn.Module:
        return self.head

    def forward_features(self, images: Tensor) -> Tensor:
        """Images as the backbone takes them → features (B, num_features)."""
        names = "forward_head", "forward_features"
        forward_head, forward_features = (getattr(self.backbone, name, None) for name in names)
        if callable(forward_head) and callable(forward_features):  # as in timm: what its own classifier would get
            return forward_head(forward_features(images), pre_logits=True)
        return self.backbone(images)

    def forward_head(self, features: Tensor, pre_logits: bool = False) -> Tensor:
        """Features (B, num_features) → distances (B, K), or the features themselves if `pre_logits`."""
        return features if pre_logits or not self.num_classes else distances(self.head(features))

    def capsules(self, images: Tensor) -> Tensor:
        """Images → capsules (B, K, n)."""
        if not self.num_classes:
            raise HitNetError("HitOrMissClassifier: there is no head. `reset_classifier(classes)` makes one.")
        return self.head(self.forward_features(images))

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


def with_backbone(
    backbone: str | nn.Module,
    num_classes: int,
    *,
    capsule_dim: int = 16,
    num_features: int | None = None,
    weights: str | Path | None = None,
    pretrained: bool = True,
    norm: Norm = "each",
) -> HitOrMissClassifier:
    """The Hit-or-Miss layer on a backbone, as a module to train like any other.

    Train it with `CentripetalLoss`. It takes what the backbone takes: for a backbone by name, normalised images, as
    `settings` of the result says.

    Args:
        backbone: "efficientnet-lite0" (ships), "timm:NAME", or a module: one of timm's, or any that gives features
            (B, F).
        num_classes: K.
        capsule_dim: n (paper: 16).
        num_features: F of a module. None: its attribute `num_features` or, without one, found by a trial with a colour
            image of 224 x 224 pixels.
        weights: For a name, a .safetensors file. None: the published weights.
        pretrained: For a name, False starts from random weights.
        norm: Which values share a mean and a variance in batch-norm (see `HitOrMiss`).

    Raises:
        HitNetError: The name is unknown, weights cannot be had, or the module does not give features (B, F).
    """
    whole("with_backbone", "num_classes", num_classes, 2)
    if isinstance(backbone, nn.Module):
        if weights is not None:
            raise HitNetError("with_backbone: `weights` are for a backbone by name. A module keeps those that it has.")
        count = _count(backbone) if num_features is None else whole("with_backbone", "num_features", num_features, 1)
        return HitOrMissClassifier(backbone, count, num_classes, capsule_dim, norm=norm)
    if not isinstance(backbone, str):
        raise HitNetError(f"with_backbone: backbone must be a name or a module; got {type(backbone).__name__}.")
    if weights is not None and not pretrained:
        raise HitNetError("with_backbone: `weights` are read, but `pretrained` is False. Leave one of them out.")
    module, settings = backbones.architecture(backbone)
    if pretrained:
        backbones.load_weights(module, backbone, weights)
    size = settings.input_size
    count = backbones.count_features(module, backbone, (size, size), "Choose another backbone.")
    return HitOrMissClassifier(module, count, num_classes, capsule_dim, settings, norm=norm)


def _count(module: nn.Module) -> int:
    """Number of features per image that a module gives."""
    for name in ("head_hidden_size", "num_features"):  # timm's names; the first is what its classifiers get
        if isinstance(getattr(module, name, None), int):
            return int(getattr(module, name))
    advice = "Set `num_features` if the module takes other images."
    return backbones.count_features(module, type(module).__name__, (224, 224), advice)
