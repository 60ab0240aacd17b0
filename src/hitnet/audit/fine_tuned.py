"""Judges for photographs on a GPU: networks fine-tuned from a backbone, beside heads on that backbone as it was.

With many images, the networks find more without the heads (benchmarks/TRIALS.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hitnet.audit.feature_judges import FeatureHeads
from hitnet.audit.judges import Case, Judgement, Judges, NewNetworks
from hitnet.audit.mixed import NetworksAndHeads
from hitnet.audit.plan import MANY_IMAGES
from hitnet.models import PRETRAINED, ModelChoice, choose_model
from hitnet.models.backbones import DEFAULT
from hitnet.training import Recipe, RecipeChoice


@dataclass(frozen=True)
class FineTuned(Judges):
    """A pretrained backbone, fine-tuned; for fewer than 20,000 images also heads on its features, frozen.

    Attributes:
        backbone: "efficientnet-lite0" (in the package) or "timm:NAME".
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
        networks = NewNetworks(self.model, self.count, self.recipe, self.seed)
        if len(case.images) >= MANY_IMAGES:
            return networks.judge(case)
        return NetworksAndHeads(networks, FeatureHeads(self.backbone, self.weights, seed=self.seed)).judge(case)
