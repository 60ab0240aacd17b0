"""Run folders, the hinge between training and everything after it.

config.json          the network, the recipe, the data and the seed: enough to build the network again
environment.json     where and when it was trained
history.json         one row an epoch
weights.safetensors  the trained weights, present once training has ended
state.safetensors    weights and optimizer state at the last checkpoint, for resuming; removed at the end
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from hitnet import files
from hitnet.errors import HitNetError
from hitnet.models.network import ModelConfig, Network
from hitnet.training.recipe import Recipe

FORMAT = 1


@dataclass(frozen=True)
class RunConfig:
    """What a run was asked to do."""

    model_name: str
    model: ModelConfig
    recipe: Recipe
    seed: int
    data: dict[str, Any]  # source, name, images, class_names, fingerprint
    augment_from: dict[str, Any] | None = None  # run, weights: the trained network behind hybrid augmentation

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
        try:
            return cls(
                model_name=values["model_name"],
                model=ModelConfig.from_dict(values["model"]),
                recipe=Recipe.from_dict(values["recipe"]),
                seed=values["seed"],
                data=values["data"],
                augment_from=values.get("augment_from"),
            )
        except (KeyError, TypeError) as error:
            raise HitNetError(f"{where} is damaged: {error!r}.") from error


class RunFolder:
    """A run on disk. Every file in it is written whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.history_file = self.path / "history.json"
        self.weights_file = self.path / "weights.safetensors"
        self.state_file = self.path / "state.safetensors"

    @property
    def exists(self) -> bool:
        return self.config_file.is_file()

    @property
    def finished(self) -> bool:
        return self.exists and self.weights_file.is_file()

    def create(self, config: RunConfig) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise HitNetError(f"{self.path} is a file; choose another --out.")
        files.write_json(self.path / "environment.json", environment())
        files.write_json(self.config_file, config.to_dict())

    def config(self) -> RunConfig:
        if not self.exists:
            raise HitNetError(f"{self.path} is not a run folder: it has no config.json.")
        return RunConfig.from_dict(files.read_json(self.config_file), self.config_file)

    def history(self) -> list[dict[str, Any]]:
        return list(files.read_json(self.history_file)) if self.history_file.is_file() else []

    def save(self, state: dict[str, Tensor], history: list[dict[str, Any]]) -> None:
        """Checkpoint after the last epoch in `history`. The state alone says how far it is: history is cut to it."""
        files.write_json(self.history_file, history)
        write_tensors(self.state_file, state, {"epoch": str(history[-1]["epoch"])})

    def saved(self) -> tuple[int, dict[str, Tensor]] | None:
        """The epoch of the last checkpoint and its tensors, or None."""
        if not self.state_file.is_file():
            return None
        tensors, metadata = read_tensors(self.state_file)
        return int(metadata["epoch"]), tensors

    def finish(self, model: Network, history: list[dict[str, Any]]) -> None:
        files.write_json(self.history_file, history)
        write_tensors(self.weights_file, model.state_dict(), {"epoch": str(history[-1]["epoch"])})
        self.state_file.unlink(missing_ok=True)

    def model(self) -> Network:
        """The trained network, in evaluation mode, on the CPU."""
        config = self.config()
        if not self.finished:
            raise HitNetError(f"{self.path} has not been trained to its end. Go on with --resume.")
        model = Network(config.model)
        tensors, _ = read_tensors(self.weights_file)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise HitNetError(f"{self.weights_file} does not fit the network in config.json: {error}") from error
        return model.eval()


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    with files.replacing(path) as temporary:
        save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, temporary, metadata)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as opened:
            metadata = opened.metadata() or {}
        return load_file(path), metadata
    except (SafetensorError, OSError) as error:
        raise HitNetError(f"{path} is damaged or no safetensors file: {error}") from error


def environment() -> dict[str, Any]:
    from hitnet import __version__

    return {
        "hitnet": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "cpu",
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "command": " ".join(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
