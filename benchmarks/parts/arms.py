"""The arms of the synthesis benchmark: what is trained, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

import torch

import hitnet
from hitnet.models.decoders import ConvDecoder
from hitnet.models.network import Network
from hitnet.training import Recipe, step
from hitnet.training.step import Objective
from parts.decoder_phase import Phase


@dataclass(frozen=True)
class Arm:
    """One way to train a network.

    Attributes:
        name: What it is called in the record.
        model: The network.
        model_options: Changes to the network. They always name the decoder, so that a smaller network can replace the
            model.
        recipe: The recipe.
        epochs: None: the recipe's own.
        recipe_options: Changes to the recipe.
        phases: Further trainings of only the decoder, each of which gives its own row.
        conv: Sizes of the convolutional decoder that differ from its own.
        last_weight: α of the last epoch. α grows to it from the network's own, by the same factor every epoch.
    """

    name: str
    model: str
    model_options: dict[str, Any]
    recipe: str = "fast"
    epochs: int | None = None
    recipe_options: dict[str, Any] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    conv: dict[str, int] = field(default_factory=dict)
    last_weight: float | None = None

    @property
    def names(self) -> list[str]:
        """Its own name and those of its phases."""
        return [self.name, *(f"{self.name}, {phase.name}" for phase in self.phases)]

    @property
    def length(self) -> int:
        """Epochs; by default those of the recipe."""
        features = hitnet.choose_model(self.model, **self.model_options).config((3, 32, 32), 10).features
        return hitnet.choose_recipe(self.recipe, epochs=self.epochs).complete(features=features).epochs

    @property
    def work(self) -> float:
        """Epochs; those of only the decoder count by the time that they take."""
        return self.length + sum(phase.work for phase in self.phases)

    def lasting(self, epochs: int | None) -> Arm:
        return self if epochs is None else replace(self, name=f"{self.name}, {epochs} epochs", epochs=epochs)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Apply what no option of a network or a recipe offers to the trainings inside."""
        with ExitStack() as stack:
            if self.conv:
                stack.enter_context(mock.patch.multiple(ConvDecoder, **self.conv))
            if self.last_weight is not None:
                stack.enter_context(mock.patch.object(step, "Objective", partial(RisingWeight, last=self.last_weight)))
            yield


class RisingWeight(Objective):
    """The objective of an epoch under an α that grows geometrically from the network's own to `last`."""

    def __init__(self, model: Network, recipe: Recipe, *, epoch: int, last: float) -> None:
        super().__init__(model, recipe, epoch=epoch)
        first, progress = model.config.reconstruction_weight, (epoch - 1) / max(1, recipe.epochs - 1)
        if not hasattr(model, "weight_now"):
            model.weight_now = torch.zeros((), device=next(model.parameters()).device)  # type: ignore[assignment]
        # One tensor for all epochs: a step that is captured in a graph reads it again.
        self.weight = model.weight_now.fill_(first * (last / first) ** progress)  # type: ignore[assignment,operator]


def weighted(decoder: str, weight: float, *phases: Phase) -> Arm:
    options = {"decoder": decoder, "reconstruction_weight": weight}
    return Arm(f"{decoder}, α = {weight:g}", "hitnet", options, phases=phases)


FURTHER = Phase("decoder alone for 10 epochs")
NAMED, MORE = (Phase(f"decoder alone, naming {weight}", named=weight) for weight in (0.06, 0.2))
WIDE = Phase("decoder of twice the width, naming 0.06", named=0.06, width=2)

JUDGE = Arm("judge", "n1", {"head": "softmax", "decoder": "none"})
PAPER = Arm("paper, 250 epochs", "hitnet", {"decoder": "paper"}, recipe="paper")
DECODERS = (
    weighted("paper", 0.392),
    weighted("standardised", 1.5, FURTHER, NAMED, MORE),
    weighted("standardised", 3.92, FURTHER, NAMED, WIDE),
    weighted("standardised", 2.0, NAMED),
    weighted("standardised", 1.0),
    weighted("standardised", 0.392),
    weighted("conv", 1.5),
    replace(weighted("standardised", 0.392), name="standardised, α from 0.392 to 3.92", last_weight=3.92),
)

SOURCE = weighted("conv", 1.5)  # as in the network that is the default on a GPU


def hybrid_arm(strength: float, share: float) -> Arm:
    options = {"augment": "hybrid", "augment_strength": strength, "augment_share": share}
    return Arm(f"strength {strength:g}, share {share:g}", "hitnet", {"decoder": "paper"}, recipe_options=options)


NO_HYBRID = Arm("none", "hitnet", {"decoder": "paper"})
HYBRIDS = (
    NO_HYBRID,
    *(
        hybrid_arm(strength, share)
        for strength, share in ((1, 0.25), (2, 0.25), (1, 0.5), (0.5, 0.5), (0.5, 0.25), (0.2, 1))
    ),
)

BROAD = {"widest": 256, "narrowest": 64, "hidden": 512}


def photograph_arm(decoder: str, n: int, extra: int, weight: float, title: str = "", **conv: int) -> Arm:
    options = {"decoder": decoder, "capsule_dim": n, "extra_dim": extra, "reconstruction_weight": weight}
    name = f"{title or decoder}, n = {n}, extra {extra}, α = {weight:g}"
    return Arm(name, "hitnet-resnet9", options, conv=conv)


# Under this network's recipe (SGD, weight decay) a dense decoder hardly learns at the paper's α: each decoder is to be
# seen at a weight that suits it.
SIZES, BOTH = ((16, 0), (64, 64), (16, 64), (64, 0)), ("standardised", "conv")
PHOTOGRAPHS = (
    *(photograph_arm(decoder, *size, weight) for size in SIZES for weight in (39.2, 3.92) for decoder in BOTH),
    *(photograph_arm(decoder, 16, 0, 0.392) for decoder in BOTH),
    *(photograph_arm("conv", *size, 39.2, title="broad conv", **BROAD) for size in SIZES[:2]),
)
