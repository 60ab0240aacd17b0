"""The training objective: a network's own classification loss plus α times the reconstruction error."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.errors import HitNetError
from hitnet.losses import MISS_WEIGHT, CentripetalLoss, MarginLoss
from hitnet.models.network import Network, Output
from hitnet.training.recipes import Recipe


class Objective:
    """Computes the terms of the loss by name; `loss` is their weighted sum.

    It is called with a network's output, the images that its decoder has to rebuild, and their labels. If it `draws`,
    it may be given the random numbers (B, 1) by which ghosts are excused.
    """

    def __init__(self, model: Network, recipe: Recipe, *, epoch: int) -> None:
        kind = model.head.loss
        if recipe.ghosts and kind != "centripetal":
            raise HitNetError(
                "Ghost capsules need the centripetal loss; train a network whose name starts with hitnet."
            )
        if recipe.label_smoothing and kind != "cross-entropy":
            raise HitNetError("label_smoothing needs a network with softmax and cross-entropy (head softmax).")
        if recipe.miss_weight != MISS_WEIGHT and kind != "centripetal":
            raise HitNetError("miss_weight needs the centripetal loss; train a network whose name starts with hitnet.")
        self.smoothing = recipe.label_smoothing
        self.weight = model.config.reconstruction_weight
        self.kind = kind
        self.ghosts = recipe.ghosts if epoch >= recipe.ghosts_from_epoch else 0
        self.classify: nn.Module = MarginLoss()
        if kind == "centripetal":
            self.classify = CentripetalLoss(
                model.config.capsule_dim,
                miss_weight=recipe.miss_weight,
                ghosts=self.ghosts,
                ghost_rule=recipe.ghost_rule,
                ghost_probability=recipe.ghost_probability,
                farthest=model.head.farthest,
            )

    @property
    def draws(self) -> bool:
        """Whether it is left to chance which ghosts are excused."""
        return isinstance(self.classify, CentripetalLoss) and self.ghosts > 0 and self.classify.ghost_probability < 1

    def __call__(
        self, output: Output, images: Tensor, targets: Tensor, chances: Tensor | None = None
    ) -> dict[str, Tensor]:
        if self.kind == "cross-entropy":
            logits = output.capsules.squeeze(-1)
            terms = {"classification": F.cross_entropy(logits, targets, label_smoothing=self.smoothing)}
        elif self.draws:
            terms = {"classification": self.classify(output.distances, targets, chances=chances)}
        else:
            terms = {"classification": self.classify(output.distances, targets)}
        loss = terms["classification"]
        if output.reconstruction is not None:
            terms["reconstruction"] = F.mse_loss(output.reconstruction, images.float())
            loss = loss + self.weight * terms["reconstruction"]
        return {"loss": loss, **terms}
