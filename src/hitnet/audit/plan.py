"""Which networks an audit trains, how many and how long. Networks of several kinds err on different images: together
they judge better than as many of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import torch

from hitnet import models
from hitnet.data.images import Images
from hitnet.errors import HitNetError
from hitnet.models.registry import HEADS
from hitnet.training.recipes import complete_recipe

Model = str | models.ModelChoice


@dataclass(frozen=True)
class Planned:
    """One network to train: its kind, and for how many epochs."""

    choice: models.ModelChoice
    epochs: int


# By kind of features; see docs/audit.md for what more or less of it gives.
EPOCHS = {"small": 8, "paper": 12, "resnet9": 40, "pretrained": 8}
MANY_IMAGES, FEWER_EPOCHS = 20_000, 4  # of a pretrained network: longer, it learns wrong labels by heart
GREY_EPOCHS = EPOCHS | {"resnet9": 12}  # digits and the like are learned sooner than photographs
SINGLE_KIND, OF_EACH = 4, 2  # networks of the only kind, and of each where there are several
MANY_PRETRAINED = 3  # networks of the only kind if it is pretrained and there are many images
# Small sets get more epochs, but not too many: a network that has hardly learned doubts every label, one that knows
# them all by heart none.
LEAST_STEPS = {"small": 100, "paper": 300, "resnet9": 300, "pretrained": 100}


def plan(
    images: Images, *, model: Model | Sequence[Model] | None = None, count: int | None = None, device: torch.device
) -> list[Planned]:
    """The networks in the order of their seeds, kinds in turn.

    Args:
        images: The images to judge.
        model: The kind of network, or several. None: those that suit the images and the device.
        count: How many networks in all.
        device: Where they are trained.
    """
    given = [model] if isinstance(model, Model) else list(model or default_kinds(images, device))
    kinds: list[Planned] = []
    for each in given:
        planned_kind = planned(models.find_choice(each), images)
        if planned_kind not in kinds:
            kinds.append(planned_kind)
    if count is None:
        many = kinds[0].choice.pretrained and len(images) >= MANY_IMAGES
        single = MANY_PRETRAINED if many else SINGLE_KIND
        count = single if len(kinds) == 1 else OF_EACH * len(kinds)
    if count < 1:
        raise HitNetError(f"count must be at least 1; got {count}.")
    return list(islice(cycle(kinds), count))


def default_kinds(images: Images, device: torch.device) -> list[Model]:
    """On a GPU, grey images are judged by the paper's network and a deep one, colour images only by the deep one.

    The paper's network judges with batch-norm of each class, as it was measured (docs/audit.md).
    """
    if device.type == "cuda" and images.shape[0] == 1:
        return [models.choose_model("hitnet", norm="each"), "hitnet-resnet9"]
    return [models.default_name(images.shape, device.type)]


def planned(choice: models.ModelChoice, images: Images) -> Planned:
    built = choice.config(images.shape, images.num_classes)
    need_hit_or_miss(str(choice.name), HEADS[built.head].loss)
    epochs = GREY_EPOCHS if images.shape[0] == 1 else EPOCHS
    kind = "pretrained" if choice.pretrained else built.features
    kind = kind if kind in EPOCHS else "paper"
    most = FEWER_EPOCHS if choice.pretrained and len(images) >= MANY_IMAGES else epochs[kind]
    least = complete_recipe("fast", features=built.features).epochs_for(LEAST_STEPS[kind], len(images))
    return Planned(choice, max(most, least))


def need_hit_or_miss(model_name: str, loss: str) -> None:
    if loss != "centripetal":
        raise HitNetError(f"{model_name} has no Hit-or-Miss layer; audit with a network named hitnet….")
