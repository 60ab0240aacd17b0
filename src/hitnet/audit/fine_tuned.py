"""Judges for photographs on a GPU: networks fine-tuned from a backbone, beside heads on that backbone as it was.

The networks have seen the labels that they judge, the heads have not. They make different mistakes: together they find
more wrong labels than either of them, and the heads say how many labels are wrong. With many images, the
networks find more without the heads (benchmarks/TRIALS.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hitnet.audit.feature_judges import FeatureHeads
from hitnet.audit.judges import Case, Judgement, Judges, NewNetworks
from hitnet.audit.plan import MANY_IMAGES
from hitnet.models import PRETRAINED, ModelChoice, choose_model
from hitnet.models.backbones import DEFAULT
from hitnet.training import Recipe, RecipeChoice


@dataclass(frozen=True)
class FineTuned(Judges):
    """A pretrained backbone, fine-tuned; for up to 20,000 images also heads on its features, frozen.

    Attributes:
        backbone: "efficientnet-lite0" (in the package), "timm:NAME" or "torchvision:NAME".
        weights: A .safetensors file with the backbone's weights. None: its published weights.
        count: How many networks. None: 4, or 3 for many images.
        recipe: How the networks are trained. `fast` uses the audit's own number of epochs.
        seed: Seed of the first network and of the heads; the other networks count on from it.
    """

    backbone: str = DEFAULT
    weights: str | Path | None = None
    count: int | None = None
    recipe: str | Recipe | RecipeChoice = "fast"
    seed: int = 0

    @property
    def model(self) -> ModelChoice:
        """The kind of network."""
        weights = None if self.weights is None else str(self.weights)
        return choose_model(PRETRAINED, features=self.backbone, weights=weights)

    def judge(self, case: Case) -> Judgement:
        networks = NewNetworks(self.model, self.count, self.recipe, self.seed).judge(case)
        if len(case.images) >= MANY_IMAGES:
            return networks
        heads = FeatureHeads(self.backbone, self.weights, seed=self.seed).judge(case)
        trained = len(networks.distances)
        about = networks.about | {
            "models": trained + len(heads.distances),
            "model": f"{networks.about['model']}, {heads.about['model']}",
            "networks": [*networks.about["networks"], *heads.about["networks"]],
        }
        if networks.prototypes is None:
            about["prototypes"] = heads.about["prototypes"]
        return Judgement(
            np.concatenate([networks.distances, heads.distances]),
            case.images,
            about,
            heads.prototypes if networks.prototypes is None else networks.prototypes,
            heads.features,
            trained=trained,
            capsules=trained + (heads.capsules or 0),
        )
