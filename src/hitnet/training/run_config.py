"""The configuration of a run: the network, the recipe, the data and the seed."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitnet.errors import HitNetError
from hitnet.models.network import ModelConfig
from hitnet.runtime import schemas
from hitnet.training.recipes import Recipe

FORMAT = 1


@dataclass(frozen=True)
class RunConfig:
    """The configuration of a run.

    Attributes:
        model_name: The name that the network was chosen by.
        model: The network.
        recipe: How it is trained.
        seed: Seed of everything that is random.
        data: The data; see `configuration.describe`.
        augment_from: The network behind hybrid augmentation: its `run` folder and a fingerprint of its `weights`.
    """

    model_name: str
    model: ModelConfig
    recipe: Recipe
    seed: int
    data: dict[str, Any]
    augment_from: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", operator.index(self.seed))  # numpy's whole numbers overflow
        if not -(2**63) <= self.seed < 2**64:  # what PyTorch's generators take
            raise HitNetError(f"A seed must lie between -2^63 and 2^64 - 1; got {self.seed}.")

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model_name": self.model_name,
            "model": self.model.to_dict(),
            "recipe": self.recipe.to_dict(),
            "seed": self.seed,
            "data": self.data,
            "augment_from": self.augment_from,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: Path) -> RunConfig:
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise HitNetError(f"{where} is not the configuration of a run that this version of hitnet can read.")
        schemas.check(values, schemas.RUN_CONFIG, where)
        try:
            config = cls(
                model_name=values["model_name"],
                model=ModelConfig.from_dict(values["model"]),
                recipe=Recipe.from_dict(values["recipe"]),
                seed=values["seed"],
                data=_data_entries(values["data"]),
                augment_from=values.get("augment_from"),
            )
        except HitNetError as error:
            raise HitNetError(f"{where} is not one that this version of hitnet can read. {error}") from error
        names, classes = config.data["class_names"], config.model.num_classes
        if len(names) != classes or len(set(names)) < len(names):
            raise HitNetError(f"{where} is damaged: it must name {classes} different classes; it names {len(names)}.")
        return config


def _data_entries(entries: dict[str, Any]) -> dict[str, Any]:
    """The description of the data; earlier versions called `flip` mirror."""
    renamed = {"flip" if name == "mirror" else name: value for name, value in entries.items()}
    return {**renamed, "class_names": list(entries["class_names"])}
