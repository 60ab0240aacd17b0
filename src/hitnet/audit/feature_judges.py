"""Judges for photographs without a GPU: a frozen backbone, heads fitted on its features, and nearest neighbours.

Each image is judged by heads that have not seen its label. The features are computed once and kept; they also show
near-duplicates, the most typical images of a class and the nearest neighbours of a doubtful one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hitnet.audit.judges import Case, Judgement, Judges
from hitnet.data import Images
from hitnet.errors import HitNetError, whole
from hitnet.features.judges import judge_features
from hitnet.features.neighbours import most_typical
from hitnet.features.of_data import features_of
from hitnet.features.user_features import read_features
from hitnet.models.backbones import DEFAULT, Backbone, open_backbone


@dataclass(frozen=True)
class FeatureHeads(Judges):
    """Hit-or-Miss heads on the features of a frozen backbone; for photographs, on any machine.

    Attributes:
        backbone: "efficientnet-lite0" (in the package), "timm:NAME", or a `Backbone` from
            `open_backbone`.
        weights: A .safetensors file with the backbone's weights. None: its published weights.
        features: Your own features instead: an .npy, .npz or .parquet file with one row per image.
        repeats: Heads of each kind that judge an image, none of which has seen its label.
        seed: Seed of folds and heads.
    """

    backbone: str | Backbone = DEFAULT
    weights: str | Path | None = None
    features: str | Path | None = None
    repeats: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        whole("FeatureHeads", "repeats", self.repeats, 1)
        if self.features is not None and (self.weights is not None or self.backbone != DEFAULT):
            raise HitNetError("`features` take the place of a backbone. Leave out `backbone` and `weights`.")

    def judge(self, case: Case) -> Judgement:
        images = case.images
        case.progress.plan({"features": 5, "fitting heads": 4, "results": 1})
        features, name = self._features(case)
        case.progress.part("fitting heads")
        judged = judge_features(
            features, images.labels, images.num_classes, repeats=self.repeats, seed=self.seed, device=case.device
        )
        about = {
            "models": len(judged.distances),
            "model": f"heads and neighbours on {name}",
            "networks": [{"features": name}],
            "prototypes": "typical",
        }
        return Judgement(
            judged.distances.numpy(),
            images,
            about,
            typical_images(features, images),
            features,
            trained=0,
            capsules=judged.capsules,
            kinds=judged.kinds,
        )

    def _features(self, case: Case) -> tuple[Tensor, str]:
        """Features of the images, (N, D), and what to call them."""
        if self.features is not None:
            return read_features(self.features, case.images), Path(self.features).name
        backbone = open_backbone(self.backbone, self.weights)
        features = features_of(case.data, case.images, backbone, device=case.device, progress=case.progress)
        return features, backbone.name


def typical_images(features: Tensor, images: Images) -> Tensor:
    """The most typical image of each class, uint8 (K, C, H, W); black for a class without images."""
    typical = torch.zeros(images.num_classes, *images.shape, dtype=torch.uint8)
    for k, members in enumerate(most_typical(features, images.labels, images.num_classes, 1)):
        if len(members):
            typical[k] = images.pixels[members[0]]
    return typical
