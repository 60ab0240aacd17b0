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
from hitnet.models.heads import HEADS
from hitnet.training.recipes import complete_recipe


@dataclass(frozen=True)
class Planned:
    """One network to train, by the name of its kind."""

    model: str
    epochs: int


# By kind of features; see docs/audit.md for what more or less of it gives.
EPOCHS = {"small": 8, "paper": 12, "resnet9": 40, "pretrained": 8}
GREY_EPOCHS = EPOCHS | {"resnet9": 12}  # digits and the like are learned sooner than photographs
SINGLE_KIND, OF_EACH = 4, 2  # networks of the only kind, and of each where there are several
# Small sets get more epochs, but not too many: a network that has hardly learned doubts every label, one that knows
# them all by heart none.
LEAST_STEPS = {"small": 100, "paper": 300, "resnet9": 300}


def plan(
    images: Images, *, model: str | Sequence[str] | None = None, count: int | None = None, device: torch.device
) -> list[Planned]:
    """The networks in the order of their seeds, kinds in turn.

    model  the kind of network, or several; by default those that suit the images and the device
    count  how many networks in all
    """
    names = list(dict.fromkeys([model] if isinstance(model, str) else model or default_kinds(images, device)))
    kinds = [planned(name, images) for name in names]
    if count is None:
        count = SINGLE_KIND if len(names) == 1 else OF_EACH * len(names)
    if count < 1:
        raise HitNetError(f"count must be at least 1; got {count}.")
    return list(islice(cycle(kinds), count))


def default_kinds(images: Images, device: torch.device) -> list[str]:
    """On a GPU, grey images are judged by the paper's network and a deep one, colour images only by the deep one."""
    if device.type == "cuda" and images.shape[0] == 1:
        return ["hitnet", "hitnet-resnet9"]
    return [models.default_name(images.shape, device.type)]


def planned(name: str, images: Images) -> Planned:
    built = models.find_choice(name).config(images.shape, images.num_classes)
    need_hit_or_miss(name, HEADS[built.head].loss)
    epochs = GREY_EPOCHS if images.shape[0] == 1 else EPOCHS
    kind = built.features if built.features in EPOCHS else "paper"
    least = complete_recipe("fast", features=built.features).epochs_for(LEAST_STEPS[kind], len(images))
    return Planned(name, max(epochs[kind], least))


def need_hit_or_miss(model_name: str, loss: str) -> None:
    if loss != "centripetal":
        raise HitNetError(f"{model_name} has no Hit-or-Miss layer; audit with a network named hitnet….")
