"""Recipes: how a network is trained, as a frozen value that is stored with the weights."""

import math
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from hitnet.errors import HitNetError, check_choice, check_entries, finite, share, unknown_name, whole
from hitnet.features.heads import HeadOptions
from hitnet.losses import MISS_WEIGHT, GhostRule
from hitnet.models.backbones import DEFAULT
from hitnet.models.hybrid import Noise
from hitnet.models.network import PRETRAINED_BATCH
from hitnet.models.registry import is_backbone
from hitnet.runtime import schemas

Fill = Literal["zeros", "nearest"]
Schedule = Literal["constant", "exponential", "cosine", "one-cycle"]


@dataclass(frozen=True)
class Recipe:
    """All choices of a training, apart from the data and the network.

    Attributes:
        name: What it is called.
        epochs: Passes over the training images.
        batch_size: Images per step (paper: 128).
        whole_batches: Leave out the images that do not fill a last batch, others in each epoch.
        optimizer: adam, adamw (decoupled weight decay) or sgd.
        learning_rate: The highest learning rate (paper: 0.001).
        backbone_rate: Factor on the learning rate of the feature extractor. With 0, a pretrained backbone stays frozen,
            and a head is fitted on its features, which takes epochs, batch size, learning rate and ghosts from here.
        schedule: How the rate changes: constant, exponential (times `decay` after each epoch), cosine (to 0) or
            one-cycle (up from 0 over the first fifth, then down to 0, in straight lines).
        decay: Factor per epoch of the exponential schedule (paper: 0.95).
        weight_decay: Weight decay of the optimizer.
        adam_epsilon: ε of Adam (Keras' default: 1e-7).
        shift: Shift images by up to N pixels in each direction (paper: 2).
        shift_fill: What a shift fills the edge with: zeros (paper) or the nearest pixel.
        flip: Mirror half of the images, on datasets whose images may be mirrored.
        cutout: Side of a square that is set to 0.
        warp: Apply a linear map about the middle of the image, whose matrix differs from the identity by up to this
            much in each of its four entries: rotation, scaling and shear at once.
        rotate: Turn images by up to this many degrees.
        scale: Make images larger or smaller by up to this share, e.g. 0.15 for 85 to 115 %.
        invert: Turn half of the images into their negatives.
        average: Keep the average of the weights over the last steps: the share that one step leaves of the average
            before it, e.g. 0.998 for about the last 500. 0 keeps the weights of the last step. More than a tenth of
            all steps is too many.
        miss_weight: λ of the centripetal loss: the weight of the capsules that must miss, relative to the capsule that
            must hit (paper: 0.5).
        label_smoothing: Label smoothing of the cross-entropy.
        augment: hybrid: train on images that the network of another run modifies, before they are shifted.
        augment_strength: Spread of the noise on that network's capsules, in units of m/√n (default 0.5).
        augment_share: Part of each batch that is modified (default 0.25).
        augment_noise: normal (on all components of a capsule) or component (on one of them, uniform within twice the
            spread).
        ghosts: Ghost capsules: classes that an image may hit unpunished.
        ghost_rule: always (paper) or nearer (only where the ghost is nearer than the true class).
        ghost_probability: Chance that a ghost goes unpunished.
        ghosts_from_epoch: First epoch with ghosts.
        precision: mixed (matrix work in bfloat16 on GPUs and on CPUs with instructions for it) or float32, which on
            a GPU means TF32 in convolutions, as PyTorch sets it.
    """

    name: str = "fast"
    epochs: int = 20
    batch_size: int = 128
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 1e-3
    backbone_rate: float = 1.0
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
    shift_fill: Fill = "zeros"
    rotate: float = 0.0
    scale: float = 0.0
    augment_noise: Noise = "normal"
    whole_batches: bool = False

    def __post_init__(self) -> None:
        owner = f"Recipe {self.name!r}"
        for name in ("epochs", "batch_size", "ghosts_from_epoch"):
            object.__setattr__(self, name, whole(owner, name, getattr(self, name), 1))
        for name in ("shift", "cutout", "ghosts"):
            object.__setattr__(self, name, whole(owner, name, getattr(self, name), 0))
        for name in ("learning_rate", "decay", "adam_epsilon"):
            object.__setattr__(self, name, finite(owner, name, getattr(self, name), above_0=True))
        for name in ("backbone_rate", "weight_decay", "miss_weight", "augment_strength", "rotate"):
            object.__setattr__(self, name, finite(owner, name, getattr(self, name)))
        for name, choices in named_choices().items():
            check_choice("Recipe", name, getattr(self, name), choices)
        for name in ("warp", "scale", "average", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise HitNetError(f"{owner}: {name} must be at least 0 and below 1; got {getattr(self, name)}.")
        share(owner, "ghost_probability", self.ghost_probability)
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
        return max(1, images // self.batch_size) if self.whole_batches else -(-images // self.batch_size)

    def images_per_epoch(self, images: int) -> int:
        """How many of the images an epoch trains on."""
        return min(images, self.steps_per_epoch(images) * self.batch_size)

    def epochs_for(self, steps: int, images: int) -> int:
        """The smallest number of epochs with at least this many steps."""
        return -(-steps // self.steps_per_epoch(images))

    def in_effect(self) -> Self:
        """The same training, with the options of what is switched off at their defaults, since they change nothing."""
        hybrid = ("augment_strength", "augment_share", "augment_noise")
        off: tuple[str, ...] = () if self.augment == "hybrid" else hybrid
        off += () if self.ghosts else ("ghost_rule", "ghost_probability", "ghosts_from_epoch")
        off += () if self.shift else ("shift_fill",)
        return replace(self, **{name: getattr(Recipe, name) for name in off})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        check_entries("entry of a recipe", values, (f.name for f in fields(cls)))
        schemas.check_schema(values, schemas.schema_of(cls), "the recipe")
        return cls(**values)


@cache
def named_choices() -> dict[str, tuple[str, ...]]:
    """What each entry of a recipe may be that is chosen by name."""
    hints = get_type_hints(Recipe).items()
    return {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}


FINE_TUNING = 1 / 3  # factor on the learning rate of a pretrained backbone

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
    "pretrained": Recipe(
        epochs=8,
        batch_size=PRETRAINED_BATCH,
        optimizer="adamw",
        learning_rate=3e-3,
        backbone_rate=FINE_TUNING,
        schedule="one-cycle",
        weight_decay=1e-2,
        shift=16,
        flip=True,
        cutout=56,
        whole_batches=True,  # a GPU takes seconds to prepare another size, and few images make poor statistics
    ),
}

FROZEN = Recipe(
    epochs=1,
    batch_size=HeadOptions.batch,
    learning_rate=HeadOptions.learning_rate,
    backbone_rate=0,
    schedule="one-cycle",
    shift=0,
)
OF_FROZEN = ("name", "epochs", "batch_size", "learning_rate", "ghosts")  # what may differ from FROZEN

LEAST_STEPS = 750  # on small datasets, `fast` trains for more epochs

RECIPES: dict[str, Recipe] = {
    "fast": FAST["paper"],
    "paper": Recipe(name="paper", epochs=250, schedule="constant"),
    "paper-decay": Recipe(name="paper-decay", epochs=250, schedule="exponential"),
}


@dataclass(frozen=True)
class RecipeChoice:
    """A recipe by name, with entries that differ; it is complete once the network and the images are known."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in RECIPES:
            raise unknown_name("recipe", self.name, RECIPES)
        check_entries("entry of a recipe", self.changes, (f.name for f in fields(Recipe)))
        self.complete(features=DEFAULT)  # raises for values that no recipe takes

    def complete(
        self, *, features: str = "paper", images: int | None = None, side: int = 224, device: str = "cuda"
    ) -> Recipe:
        """The whole recipe for a network's features, a number of images, their longest side in pixels and a device.

        `fast` depends on the network's features (see FAST) and, unless epochs are given, uses as many as `images` need
        for LEAST_STEPS; on a CPU, it leaves a pretrained backbone frozen. The paper's recipes are the same for all.
        """
        kind = "pretrained" if is_backbone(features) else features
        base = FAST.get(kind, RECIPES[self.name]) if self.name == "fast" else RECIPES[self.name]
        rate = self.changes.get("backbone_rate", 0 if base is FAST["pretrained"] and device == "cpu" else 1)
        base = base if rate else replace(FROZEN, name=self.name)
        scaled = {"shift": side // 14, "cutout": side // 4} if base is FAST["pretrained"] else {}
        try:
            recipe = replace(base, **{**scaled, **self.changes})
        except TypeError as error:
            raise HitNetError(f"Recipe {base.name!r}: {error}") from None
        check_frozen(recipe, features)
        if self.name != "fast" or images is None or "epochs" in self.changes:
            return recipe
        least = LEAST_STEPS if recipe.backbone_rate else HeadOptions().steps_for(images)
        return replace(recipe, epochs=max(recipe.epochs, recipe.epochs_for(least, images)))


def check_frozen(recipe: Recipe, features: str) -> None:
    """Raise if a recipe asks for what the head of a frozen backbone cannot do."""
    if recipe.backbone_rate:
        return
    if not is_backbone(features):
        raise HitNetError("`backbone_rate` = 0 keeps a pretrained backbone frozen, but this network has none.")
    for each in fields(Recipe):
        value = getattr(recipe, each.name)
        if each.name not in OF_FROZEN and value != getattr(FROZEN, each.name):
            raise HitNetError(
                f"{each.name} = {value} needs a network that is trained as a whole, but `backbone_rate` is 0. Leave it "
                "out, or give a `backbone_rate` above 0, e.g. 0.3."
            )


def choose_recipe(name: str = "fast", **changes: Any) -> RecipeChoice:
    """A recipe by name, with single entries replaced, e.g. epochs=40; entries given as None keep the recipe's own."""
    check_entries("entry of a recipe", changes, (f.name for f in fields(Recipe)))
    return RecipeChoice(name, {key: value for key, value in changes.items() if value is not None})


def complete_recipe(recipe: str | Recipe | RecipeChoice, **facts: Any) -> Recipe:
    """The whole recipe that a name, a choice or a recipe stands for (see `RecipeChoice.complete`)."""
    if isinstance(recipe, Recipe):
        return recipe
    return (RecipeChoice(recipe) if isinstance(recipe, str) else recipe).complete(**facts)
