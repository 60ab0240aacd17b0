"""Recipes: how a network is trained, as a frozen value that is stored beside the weights."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from hitnet.data.augment import Augmentation
from hitnet.errors import HitNetError, check_choice, check_entries, finite, unknown_name, whole
from hitnet.losses import MISS_WEIGHT, GhostRule

Schedule = Literal["constant", "exponential", "cosine", "one-cycle"]


@dataclass(frozen=True)
class Recipe:
    """All choices of a training, the data and the network apart.

    learning_rate  the highest one; `schedule` says how it changes:
                   constant, exponential (times `decay` after each epoch), cosine (to 0),
                   one-cycle (up from 0 over the first fifth, then down to 0, in straight lines)
    shift, flip, cutout, warp, invert
                   augmentation (see data.augment); flip acts only on sets whose images may be mirrored
    average        the network that is tested and kept has the average of the weights over the last steps: what one step
                   leaves of the steps before it, e.g. 0.998 for about the last 500; 0: the weights of the last step.
                   More than a tenth of all steps is too many
    miss_weight    for the centripetal loss alone: λ, what capsules that must miss weigh beside the one that must hit
    label_smoothing  for cross-entropy alone
    augment        "hybrid": images are modified by a trained network, as in the paper, before they are shifted;
                   `augment_strength` is the spread of the noise on its capsules in units of m/√n, `augment_share` the
                   part of each batch
    precision      "mixed": matrix work in bfloat16 on GPUs and on CPUs with instructions for it; or "float32", on a GPU
                   as PyTorch sets it, which is TF32 in convolutions
    ghosts...      ghost capsules: how many, by which rule, with what probability, from which epoch on
    """

    name: str = "fast"
    epochs: int = 20
    batch_size: int = 128
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    schedule: Schedule = "cosine"
    decay: float = 0.95
    weight_decay: float = 0.0
    adam_epsilon: float = 1e-7
    shift: int = 2
    flip: bool = False
    cutout: int = 0
    warp: float = 0.0
    invert: bool = False
    average: float = 0.0
    miss_weight: float = MISS_WEIGHT
    label_smoothing: float = 0.0
    augment: Literal["none", "hybrid"] = "none"
    augment_strength: float = 0.5
    augment_share: float = 0.25
    ghosts: int = 0
    ghost_rule: GhostRule = "always"
    ghost_probability: float = 1.0
    ghosts_from_epoch: int = 1
    precision: Literal["mixed", "float32"] = "mixed"

    def __post_init__(self) -> None:
        owner = f"Recipe {self.name!r}"
        for name in ("epochs", "batch_size", "ghosts_from_epoch"):
            object.__setattr__(self, name, whole(owner, name, getattr(self, name), 1))
        for name in ("shift", "cutout", "ghosts"):
            object.__setattr__(self, name, whole(owner, name, getattr(self, name), 0))
        for name in ("learning_rate", "decay", "adam_epsilon"):
            object.__setattr__(self, name, finite(owner, name, getattr(self, name), above_0=True))
        for name in ("weight_decay", "miss_weight", "augment_strength"):
            object.__setattr__(self, name, finite(owner, name, getattr(self, name)))
        check_choice("Recipe", "optimizer", self.optimizer, ("adam", "sgd"))
        check_choice("Recipe", "schedule", self.schedule, ("constant", "exponential", "cosine", "one-cycle"))
        check_choice("Recipe", "ghost_rule", self.ghost_rule, ("always", "nearer"))
        check_choice("Recipe", "augment", self.augment, ("none", "hybrid"))
        check_choice("Recipe", "precision", self.precision, ("mixed", "float32"))
        for name in ("warp", "average", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise HitNetError(f"{owner}: {name} must be at least 0 and below 1; got {getattr(self, name)}.")
        if not 0 <= self.ghost_probability <= 1:
            raise HitNetError(f"{owner}: ghost_probability must be in [0, 1]; got {self.ghost_probability}.")
        if not 0 < self.augment_share <= 1:
            raise HitNetError(f"{owner}: augment_share must be above 0 and at most 1; got {self.augment_share}.")

    def rate(self, step: int, steps_per_epoch: int) -> float:
        """The learning rate at a step, counted from 0."""
        progress = step / (self.epochs * steps_per_epoch)
        if self.schedule == "exponential":
            return self.learning_rate * self.decay ** (step // steps_per_epoch)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
        if self.schedule == "one-cycle":
            return self.learning_rate * min(progress / 0.2, (1 - progress) / 0.8)
        return self.learning_rate

    def steps_per_epoch(self, images: int) -> int:
        return -(-images // self.batch_size)

    def epochs_for(self, steps: int, images: int) -> int:
        """How many epochs make at least so many steps."""
        return -(-steps // self.steps_per_epoch(images))

    def augmentation(self, *, mirrored_ok: bool) -> Augmentation:
        return Augmentation(self.shift, self.flip and mirrored_ok, self.cutout, self.warp, self.invert)

    def in_effect(self) -> Recipe:
        """The same training, with the options of what is switched off at their defaults, since they change nothing."""
        off: tuple[str, ...] = () if self.augment == "hybrid" else ("augment_strength", "augment_share")
        off += () if self.ghosts else ("ghost_rule", "ghost_probability", "ghosts_from_epoch")
        return replace(self, **{name: getattr(Recipe, name) for name in off})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Recipe:
        check_entries("entry of a recipe", values, (f.name for f in fields(cls)))
        return cls(**values)


# `fast` for each kind of features: what reaches the best error in the fewest epochs there.
FAST: dict[str, Recipe] = {
    "paper": Recipe(),
    "small": Recipe(epochs=12, learning_rate=1e-2, schedule="one-cycle"),
    "resnet9": Recipe(
        epochs=24,
        batch_size=512,
        optimizer="sgd",
        learning_rate=0.4,
        schedule="one-cycle",
        weight_decay=1e-3,
        shift=4,
        flip=True,
        cutout=12,
    ),
}

LEAST_STEPS = 750  # of `fast`: sets of few images are gone through more often, or next to nothing would be learned

RECIPES: dict[str, Recipe] = {
    "fast": FAST["paper"],
    "paper": Recipe(name="paper", epochs=250, schedule="constant"),
    "paper-decay": Recipe(name="paper-decay", epochs=250, schedule="exponential"),
}


def recipe(
    name: str | Recipe = "fast", *, features: str = "paper", images: int | None = None, **overrides: Any
) -> Recipe:
    """A recipe by name, with single entries replaced; entries given as None keep the recipe's own value.

    `fast` depends on the network's features (see FAST) and, unless epochs are given, takes as many as `images` need for
    LEAST_STEPS; the paper's recipes are the same for all.
    """
    if isinstance(name, str) and name not in RECIPES:
        raise unknown_name("recipe", name, RECIPES)
    base = name if isinstance(name, Recipe) else RECIPES[name]
    if name == "fast":
        base = FAST.get(features, base)
    check_entries("entry of a recipe", overrides, (f.name for f in fields(Recipe)))
    changes = {key: value for key, value in overrides.items() if value is not None}
    try:
        made = replace(base, **changes)
    except TypeError as error:
        raise HitNetError(f"Recipe {base.name!r}: {error}") from None
    if name != "fast" or images is None or "epochs" in changes:
        return made
    return replace(made, epochs=max(made.epochs, made.epochs_for(LEAST_STEPS, images)))
