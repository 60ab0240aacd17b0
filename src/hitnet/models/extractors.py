"""Feature extractors by name."""

from __future__ import annotations

from hitnet.models.backbone_features import BackboneFeatures
from hitnet.models.features import (
    DropConnectFeatures,
    Features,
    PaperFeatures,
    PrimaryCapsules,
    ResNet9Features,
    SmallFeatures,
)


def is_backbone(name: str) -> bool:
    """Whether a feature extractor is a pretrained backbone (see models.backbones)."""
    return name == "efficientnet-lite0" or name.partition(":")[0] in ("timm", "torchvision")


FEATURES: dict[str, type[Features]] = {
    "paper": PaperFeatures,
    "primary-capsules": PrimaryCapsules,
    "small": SmallFeatures,
    "resnet9": ResNet9Features,
    "dropconnect": DropConnectFeatures,
}


def build_features(name: str, in_shape: tuple[int, int, int]) -> Features:
    """A feature extractor by name: a key of FEATURES, or a backbone (see `is_backbone`)."""
    if is_backbone(name):
        return BackboneFeatures(in_shape, name)
    return FEATURES[name](in_shape)
