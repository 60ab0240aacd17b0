"""The training objective: the classification loss of a network's head plus α times the reconstruction error."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from hitnet.errors import HitNetError
from hitnet.models.network import Network, Output
from hitnet.training.recipes import Recipe

# What the losses of heads may take from a recipe, and what a network must have for it.
LOSS_OPTIONS = {
    "ghosts": "Ghost capsules need the centripetal loss; train a network whose name starts with hitnet.",
    "miss_weight": "miss_weight needs the centripetal loss; train a network whose name starts with hitnet.",
    "label_smoothing": "label_smoothing needs a network with softmax and cross-entropy (head softmax).",
}


class Objective:
    """Computes the terms of the loss by name; `loss` is their weighted sum.

    It is called with a network's output, the images that its decoder has to rebuild, and their labels. If it `draws`,
    it may be given the random numbers (B, 1) by which ghosts are excused.
    """

    def __init__(self, model: Network, recipe: Recipe, *, epoch: int) -> None:
        self.head, self.weight = model.head, model.config.reconstruction_weight
        for name, needed in LOSS_OPTIONS.items():
            if name not in self.head.loss_options and getattr(recipe, name) != getattr(Recipe, name):
                raise HitNetError(needed)
        self.ghosts = recipe.ghosts if epoch >= recipe.ghosts_from_epoch else 0
        options = {name: getattr(recipe, name) for name in self.head.loss_options}
        self.classify = self.head.make_loss(**options | ({"ghosts": self.ghosts} if "ghosts" in options else {}))
        self.draws = bool(getattr(self.classify, "draws", False))  # whether it is left to chance which are excused

    def __call__(
        self, output: Output, images: Tensor, targets: Tensor, chances: Tensor | None = None
    ) -> dict[str, Tensor]:
        given = {"chances": chances} if self.draws else {}
        loss = self.classify(self.head.loss_input(output.capsules, output.distances), targets, **given)
        terms = {"classification": loss}
        if output.reconstruction is not None:
            terms["reconstruction"] = F.mse_loss(output.reconstruction, images.float())
            loss = loss + self.weight * terms["reconstruction"]
        return {"loss": loss, **terms}
