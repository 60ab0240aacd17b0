"""The centripetal loss of HitNet with ghost capsules, and the ghost loss on logits."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS, check_tensor, full_precision, one_hot
from hitnet.errors import HitNetError, check_choice, finite, share, whole

__all__ = [
    "MISS_WEIGHT",
    "CentripetalLoss",
    "Reduction",
    "centripetal_loss",
    "matching_truth",
    "misfit",
    "reduce",
    "staircase",
]

Reduction = Literal["mean", "sum", "none"]
GhostRule = Literal["always", "nearer"]
MISS_WEIGHT = 0.5  # λ of the paper


def staircase(x: Tensor, *, step: float, height: float, start: float) -> Tensor:
    """L_{l,h,m}(x) = H{x−m} (f+1) h (x − m − 0.5 f l), f = ⌊(x−m)/l⌋ (Eq. 2).

    The derivative is zero on [0, m] and then rises by h every l. x has any shape; l is `step`, h `height`, m `start`.
    """
    excess = (x - start).clamp_min(0)
    stairs = torch.floor(excess.detach() / step)
    return (stairs + 1) * height * (excess - 0.5 * step * stairs)


def ghost_mask(
    distances: Tensor,
    truth: Tensor,
    *,
    ghosts: int,
    rule: GhostRule = "always",
    probability: float = 1.0,
    chances: Tensor | None = None,
) -> Tensor:
    """Choose the ghost capsules: per image, the wrong-class capsules that are closest to the centre.

    Distances (B, K) and truth (B, K), booleans that are true for the true classes, give booleans (B, K). `chances`
    (B, 1) are drawn evenly from [0, 1); None: here. The other options are those of `CentripetalLoss`.
    """
    wrong_distances = distances.detach().masked_fill(truth, math.inf)
    nearest = wrong_distances.topk(min(ghosts, distances.shape[1]), dim=1, largest=False).indices
    chosen = torch.zeros_like(truth).scatter_(1, nearest, True) & ~truth
    if rule == "nearer":
        true_distance = distances.detach().masked_fill(~truth, math.inf).amin(dim=1, keepdim=True)
        chosen = chosen & (distances.detach() < true_distance)
    if probability < 1:
        chances = torch.rand(len(distances), 1, device=distances.device) if chances is None else chances
        chosen = chosen & (chances < probability)
    return chosen


def centripetal_loss(
    distances: Tensor,
    truth: Tensor,
    *,
    hit_radius: float = HIT_RADIUS,
    miss_radius: float = MISS_RADIUS,
    hit_step: float = 0.1,
    hit_height: float = 0.2,
    miss_step: float = 0.1,
    miss_height: float = 0.2,
    miss_weight: float = MISS_WEIGHT,
    excused: Tensor | None = None,
) -> Tensor:
    """The centripetal loss per image (Eq. 3): Σ_k y_k L_{l,h,m}(d_k) + λ (1 − y_k) L_{l',h',√n/2−m'}(√n/2 − d_k).

    The argument of the second staircase minus its start is m' − d_k for every n, so the code uses m' − d_k. The options
    that are not explained here are those of `CentripetalLoss`.

    Args:
        distances: d (B, K).
        truth: y (B, K), booleans.
        excused: (B, K) booleans: capsules without loss (ghosts, Eq. 4).

    Returns:
        (B,).
    """
    d = full_precision(distances)
    hit = staircase(d, step=hit_step, height=hit_height, start=hit_radius)
    miss = miss_weight * staircase(miss_radius - d, step=miss_step, height=miss_height, start=0.0)
    if excused is not None:
        miss = miss.masked_fill(excused, 0)
    return torch.where(truth, hit, miss).sum(dim=1)


def misfit(distances: Tensor) -> Tensor:
    """How far images are from what training asks for: their centripetal loss, if the winning class were the true one.

    It is 0 if one capsule hits and all others miss. It is large if no capsule hits, and also if several are near the
    centre: both say that an image is unlike those of any class. Distances (B, K) give (B,).
    """
    check_tensor("misfit: distances", distances, 2, "(B, K)")
    return centripetal_loss(distances, one_hot(distances.argmin(dim=1), distances.shape[1]))


def reduce(values: Tensor, reduction: Reduction) -> Tensor:
    """Values (B,) as a mean, as a sum, or as they are."""
    if reduction == "mean":
        return values.mean()
    return values.sum() if reduction == "sum" else values


class CentripetalLoss(nn.Module):
    """Centripetal loss (Eqs. 2 and 3), summed over classes; with ghosts > 0, Eq. 4.

    Call it as loss(distances, targets): distances (B, K), targets class indices (B,) or zeros and ones (B, K). With
    `chances` (B, 1), it excuses the ghosts of the images whose number is below `ghost_probability`, and draws none.

    Args:
        capsule_dim: n (paper: 16).
        hit_radius: m (paper: 0.1).
        miss_radius: m' (paper: 0.9).
        hit_step: l (paper: 0.1).
        hit_height: h (paper: 0.2).
        miss_step: l' (paper: 0.1).
        miss_height: h' (paper: 0.2).
        miss_weight: λ (paper: 0.5).
        reduction: "mean" or "sum" over the batch, or "none".
        ghosts: Number of closest wrong-class capsules per image that cost nothing (paper: 1; 0 = off). With two
            classes, one ghost leaves no capsule that must miss.
        ghost_rule: "always" (paper), or "nearer": only ghosts that are nearer than the true class's capsule.
        ghost_probability: Chance per image that its ghosts are excused at a step (paper: 1).
        farthest: Largest distance that a capsule can have. None: √n/2, for capsules in [0, 1].
    """

    def __init__(
        self,
        *,
        capsule_dim: int = 16,
        hit_radius: float = HIT_RADIUS,
        miss_radius: float = MISS_RADIUS,
        hit_step: float = 0.1,
        hit_height: float = 0.2,
        miss_step: float = 0.1,
        miss_height: float = 0.2,
        miss_weight: float = MISS_WEIGHT,
        reduction: Reduction = "mean",
        ghosts: int = 0,
        ghost_rule: GhostRule = "always",
        ghost_probability: float = 1.0,
        farthest: float | None = None,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        check_choice(owner, "reduction", reduction, ("mean", "sum", "none"))
        check_choice(owner, "ghost_rule", ghost_rule, ("always", "nearer"))
        self.ghosts, self.ghost_rule = whole(owner, "ghosts", ghosts, 0), ghost_rule
        self.ghost_probability = share(owner, "ghost_probability", ghost_probability)
        self.reduction: Reduction = reduction
        self.capsule_dim = whole(owner, "capsule_dim", capsule_dim, 1)
        steps = {"hit_step": hit_step, "miss_step": miss_step}
        others = {"hit_radius": hit_radius, "miss_radius": miss_radius, "miss_weight": miss_weight}
        others |= {"hit_height": hit_height, "miss_height": miss_height}
        self.options = {name: finite(owner, name, value, above_0=True) for name, value in steps.items()}
        self.options |= {name: finite(owner, name, value) for name, value in others.items()}
        farthest = math.sqrt(self.capsule_dim) / 2 if farthest is None else finite(owner, "farthest", farthest)
        if self.options["miss_radius"] >= farthest:
            raise HitNetError(
                f"CentripetalLoss: capsules of {capsule_dim} components are at most {farthest:.2f} from the centre, so "
                f"none could miss it by {miss_radius}. Use a larger `capsule_dim` or a smaller `miss_radius`."
            )

    @property
    def draws(self) -> bool:
        """Whether it is left to chance which ghosts are excused."""
        return self.ghosts > 0 and self.ghost_probability < 1

    def excused(self, distances: Tensor, truth: Tensor, chances: Tensor | None = None) -> Tensor | None:
        """The ghosts (B, K), booleans, from distances of which the smallest are nearest; None without ghosts."""
        if not self.ghosts:
            return None
        count, rule, probability = self.ghosts, self.ghost_rule, self.ghost_probability
        return ghost_mask(distances, truth, ghosts=count, rule=rule, probability=probability, chances=chances)

    def forward(self, distances: Tensor, targets: Tensor, *, chances: Tensor | None = None) -> Tensor:
        truth = matching_truth(distances, targets)
        excused = self.excused(distances, truth, chances)
        return reduce(centripetal_loss(distances, truth, excused=excused, **self.options), self.reduction)


def matching_truth(predictions: Tensor, targets: Tensor) -> Tensor:
    """Convert targets to booleans (B, K); raise HitNetError unless they fit the predictions (B, K)."""
    check_tensor("The loss's first argument", predictions, 2, "(B, K)")
    truth = one_hot(targets, predictions.shape[1])
    if len(truth) != len(predictions):
        raise HitNetError(f"The loss got {len(predictions)} images but {len(truth)} targets.")
    return truth
