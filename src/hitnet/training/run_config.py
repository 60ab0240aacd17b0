"""The configuration of a run: the network, the recipe, the data and the seed."""

import operator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from hitnet.data.reading.decode import check_shape
from hitnet.errors import HitNetError
from hitnet.models.network import ModelConfig
from hitnet.runtime import schemas
from hitnet.runtime.schemas import ANYTHING
from hitnet.training.recipes import Recipe

FORMAT = 1
DATA_SCHEMA = {
    "source": str,
    "in_memory": bool,
    "name": str,
    "images": int,
    "test_images": (int, None),
    "class_names": [str],
    "flip": bool,
    "fingerprint": str,
    "limit": (int, None),
    "data_dir": (str, None),
}
SCHEMA = {
    "format": int,
    "model_name": str,
    "model": {str: ANYTHING},
    "recipe": {str: ANYTHING},
    "seed": int,
    "data": DATA_SCHEMA,
    "augment_from": ({"run": (str, None), "weights": str}, None),
}
# Fingerprints tell whether weights and images are the same, so their location does not matter.
NOT_COMPARED = {("augment_from", "run")}
NOT_COMPARED |= {("data", key) for key in ("limit", "source", "in_memory", "name", "data_dir")}


@dataclass(frozen=True)
class RunConfig:
    """The configuration of a run."""

    model_name: str  # that the network was chosen by
    model: ModelConfig
    recipe: Recipe
    seed: int  # of everything that is random
    data: dict[str, Any]  # see `configuration.describe`
    augment_from: dict[str, Any] | None = None  # whose network modifies images: `run` folder, hash of its `weights`

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", operator.index(self.seed))  # numpy's whole numbers overflow
        if not -(2**63) <= self.seed < 2**64:  # what PyTorch's generators take
            raise HitNetError(f"A seed must lie between -2^63 and 2^64 - 1; got {self.seed}.")

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self), "model": self.model.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: Path) -> Self:
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise HitNetError(f"{where} is not the configuration of a run that this version of hitnet can read.")
        schemas.check_schema(values, SCHEMA, where)
        try:
            parts = {"model": ModelConfig.from_dict(values["model"]), "recipe": Recipe.from_dict(values["recipe"])}
            config = cls(**{each.name: values[each.name] for each in fields(cls)} | parts)
            check_shape(config.model.in_shape)
        except HitNetError as error:
            raise HitNetError(f"{where} is not one that this version of hitnet can read. {error}") from error
        names, classes = config.data["class_names"], config.model.num_classes
        if len(names) != classes or len(set(names)) < len(names):
            raise HitNetError(f"{where} is damaged: it must name {classes} different classes; it names {len(names)}.")
        return config

    def differences(self, new: Self) -> dict[tuple[str, str], str]:
        """Where another configuration asks for another training, as (part, entry), each with its old and new value."""
        mine, other = (replace(config, recipe=config.recipe.in_effect()).to_dict() for config in (self, new))
        changed = {}
        for part, now in other.items():
            was = mine[part]
            nested = isinstance(was, dict) and isinstance(now, dict)
            for key in {**was, **now} if nested else ("",):
                a, b = (was.get(key), now.get(key)) if nested else (was, now)
                if a != b and (part, key) not in NOT_COMPARED:
                    changed[part, key] = f"{part}{'.' + key if key else ''} was {a!r}, now {b!r}"
        return changed
