"""Networks: feature extractors, heads and decoders, built by name; and how to add your own."""

from hitnet.models.choice import (
    MODELS,
    PRETRAINED,
    ModelChoice,
    build,
    choose_model,
    default_name,
    find_choice,
    list_models,
    register_model,
)
from hitnet.models.classifier import HitOrMissClassifier, with_backbone
from hitnet.models.features import Features, PaperFeatures
from hitnet.models.heads import Head
from hitnet.models.network import HitNet, ModelConfig, Network, Output, unit_images, weights_fingerprint
from hitnet.models.registry import register_features, register_head

__all__ = [
    "MODELS",
    "PRETRAINED",
    "Features",
    "Head",
    "HitNet",
    "HitOrMissClassifier",
    "ModelChoice",
    "ModelConfig",
    "Network",
    "Output",
    "PaperFeatures",
    "build",
    "choose_model",
    "default_name",
    "find_choice",
    "list_models",
    "register_features",
    "register_head",
    "register_model",
    "unit_images",
    "weights_fingerprint",
    "with_backbone",
]
