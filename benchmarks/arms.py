"""The arms of the synthesis benchmark: what is trained, by name."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import hitnet
from decoder_phase import Phase
from hitnet.models import config
from hitnet.models.decoders import ConvDecoder


@dataclass(frozen=True)
class Arm:
    """One way to train a network.

    model_options  always names the decoder, so that a smaller network may stand in for the model
    phases         further trainings of the decoder alone, each of which gives a row of its own
    conv           sizes of the convolutional decoder that differ from its own
    """

    name: str
    model: str
    model_options: dict[str, Any]
    recipe: str = "fast"
    epochs: int | None = None
    recipe_options: dict[str, Any] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    conv: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Its own name and those of its phases."""
        return [self.name, *(f"{self.name}, {phase.name}" for phase in self.phases)]

    @property
    def length(self) -> int:
        """Epochs, by the recipe where nothing else is said."""
        features = config(self.model, (3, 32, 32), 10, **self.model_options).features
        return hitnet.recipe(self.recipe, features=features, epochs=self.epochs).epochs

    def shortened(self, epochs: int | None) -> Arm:
        return self if epochs is None else replace(self, name=f"{self.name}, {epochs} epochs", epochs=epochs)

    def patched(self) -> AbstractContextManager[object]:
        return mock.patch.multiple(ConvDecoder, **self.conv) if self.conv else nullcontext()


def weighted(decoder: str, weight: float, *phases: Phase, title: str | None = None) -> Arm:
    options = {"decoder": decoder, "reconstruction_weight": weight}
    return Arm(f"{title or decoder}, α = {weight:g}", "hitnet", options, phases=phases)


FURTHER, WIDE = Phase("decoder alone for 10 epochs"), Phase("a decoder of twice the width for 10 epochs", width=2)

JUDGE = Arm("judge", "n1", {"head": "softmax", "decoder": "none"})
PAPER = Arm("paper, 250 epochs", "hitnet", {"decoder": "paper"}, recipe="paper")
DECODERS = (
    weighted("paper", 0.392),
    weighted("standardised", 1.5, FURTHER, WIDE),
    weighted("standardised", 3.92, FURTHER, WIDE),
    weighted("standardised", 2.0),
    weighted("standardised", 1.0),
    weighted("standardised", 0.392),
    weighted("conv", 1.5),
)

SOURCE = weighted("standardised", 1.5)


def hybrid_arm(strength: float, share: float) -> Arm:
    options = {"augment": "hybrid", "augment_strength": strength, "augment_share": share}
    return Arm(f"strength {strength:g}, share {share:g}", "hitnet", {"decoder": "paper"}, recipe_options=options)


NO_HYBRID = Arm("none", "hitnet", {"decoder": "paper"})
HYBRIDS = (
    NO_HYBRID,
    *(hybrid_arm(*one) for one in ((1, 0.25), (0.5, 0.25), (1, 0.5), (2, 0.25), (0.5, 0.5), (0.2, 1))),
)

BROAD = {"widest": 256, "narrowest": 64, "hidden": 512}


def photograph_arm(decoder: str, n: int, extra: int, weight: float = 3.92, title: str = "", **conv: int) -> Arm:
    options = {"decoder": decoder, "capsule_dim": n, "extra_dim": extra, "reconstruction_weight": weight}
    name = f"{title or decoder}, n = {n}, extra {extra}, α = {weight:g}"
    return Arm(name, "hitnet-resnet9", options, conv=conv)


PHOTOGRAPHS = (
    *(photograph_arm(decoder, n, e) for n in (16, 64) for e in (0, 64) for decoder in ("standardised", "conv")),
    *(photograph_arm(decoder, 16, 0, 0.392) for decoder in ("standardised", "conv")),
    *(photograph_arm("conv", n, e, title="broad conv", **BROAD) for n, e in ((16, 0), (64, 64))),
)
