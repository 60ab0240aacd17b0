"""Run folders, the hinge between training and everything after it.

config.json          the network, the recipe, the data and the seed: enough to build the network again
environment.json     where and when it was trained
history.json         one row per epoch
weights.safetensors  the trained weights, present once training has ended
state.safetensors    weights and optimizer state at the last checkpoint, for resuming; removed at the end
.training            exists while a process trains the run, so that no other process does
"""

from __future__ import annotations

import operator
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hitnet import files, schemas
from hitnet.errors import HitNetError
from hitnet.models.network import ModelConfig, Network
from hitnet.training.recipes import Recipe
from hitnet.training.tensor_files import read_metadata, read_tensors, write_tensors

FORMAT = 1
MOST_THREADS = 1024
History = list[dict[str, Any]]


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


class Saved(NamedTuple):
    """A checkpoint: `epoch` epochs and `step` steps of the next are done."""

    epoch: int
    step: int
    tensors: dict[str, Tensor]


class RunFolder:
    """A run on disk. Every file in it is written whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = files.expand(path)
        self.config_file = self.path / "config.json"
        self.history_file = self.path / "history.json"
        self.weights_file = self.path / "weights.safetensors"
        self.state_file = self.path / "state.safetensors"
        self.claim_file = self.path / ".training"

    @property
    def exists(self) -> bool:
        return self.config_file.is_file()

    @property
    def finished(self) -> bool:
        return self.exists and self.weights_file.is_file()

    def claim(self) -> bool:
        """Take the run for this process, until `release`; False if another process has it."""
        if self.path.exists() and not self.path.is_dir():
            raise HitNetError(f"{self.path} is a file; choose another `out`.")
        if not files.is_unicode(str(self.path)):  # safetensors would write there, but not read
            raise HitNetError(f"{self.path}: its name is not valid UTF-8; choose another `out`.")
        claimed = files.claim(self.claim_file)
        if claimed:
            files.remove_litter(self.path)
        return claimed

    def release(self) -> None:
        files.release(self.claim_file)

    def create(self, config: RunConfig, device: torch.device) -> None:
        files.write_json(self.path / "environment.json", environment(device))
        files.write_json(self.config_file, config.to_dict())

    def config(self) -> RunConfig:
        if not self.exists:
            seeds = sorted(path.parent for path in self.path.glob("seed-*/config.json"))
            hint = f" It holds those of {len(seeds)} seeds; name one of them, e.g. {seeds[0]}." if seeds else ""
            raise HitNetError(f"{self.path} is not a run folder: it has no config.json.{hint}")
        return RunConfig.from_dict(files.read_json(self.config_file), self.config_file)

    def history(self) -> History:
        if not self.history_file.is_file():
            return []
        rows: History = files.read_json(self.history_file)
        schemas.check(rows, schemas.HISTORY, self.history_file)
        return rows

    def threads(self) -> int | None:
        """How many threads of a CPU the run was begun with, where this is known: other numbers round otherwise."""
        file = self.path / "environment.json"
        if not file.is_file():
            return None
        recorded = files.read_json(file)
        schemas.check(recorded, schemas.ENVIRONMENT, file)
        threads: int | None = recorded.get("threads")
        return threads if threads is not None and 1 <= threads <= MOST_THREADS else None

    @contextmanager
    def present(self) -> Iterator[RunFolder]:
        """Yield the folder to write into: this one, or where it was moved to while it is trained; then, stop."""
        claimed = files.moved_to(self.claim_file)
        if claimed is None:
            yield self
            return
        moved = RunFolder(claimed.parent)
        if not moved.exists:
            raise HitNetError(
                f"{self.path} was moved or removed while it was trained. Training stopped. If the folder still exists, "
                "resume the run there, from its last checkpoint."
            )
        yield moved
        raise HitNetError(
            f"{self.path} was moved to {moved.path} while it was trained. Training stopped, and nothing is lost: "
            "resume the run in its new place."
        )

    def save(self, state: dict[str, Tensor], history: History, *, step: int = 0) -> None:
        """Write a checkpoint, `step` steps after the last epoch in `history`.

        The state says how many epochs are done; on resuming, a longer history is cut to it.
        """
        with self.present() as folder:
            files.write_json(folder.history_file, history)
            write_tensors(folder.state_file, state, {"epoch": str(len(history)), "step": str(step)})

    def position(self) -> tuple[int, int]:
        """How many epochs, and how many steps of the next, the last checkpoint holds."""
        if not self.state_file.is_file():
            return 0, 0
        metadata = read_metadata(self.state_file)
        try:
            epoch, step = int(metadata["epoch"]), int(metadata.get("step", 0))
            if min(epoch, step) < 0:
                raise ValueError(f"{epoch} epochs, {step} steps")
        except (KeyError, ValueError) as error:
            raise HitNetError(f"{self.state_file} is damaged: it does not say how far it is ({error!r}).") from error
        return epoch, step

    def saved(self) -> Saved | None:
        """The last checkpoint, or None."""
        if not self.state_file.is_file():
            return None
        epoch, step = self.position()
        if len(self.history()) < epoch:
            raise HitNetError(
                f"{self.history_file} lacks epochs of the checkpoint beside it, which has done {epoch}. Put it back, "
                "or begin anew in another folder."
            )
        return Saved(epoch, step, read_tensors(self.state_file)[0])

    def finish(self, model: Network, history: History) -> None:
        with self.present() as folder:
            files.write_json(folder.history_file, history)
            write_tensors(folder.weights_file, model.state_dict(), {"epoch": str(history[-1]["epoch"])})
            folder.state_file.unlink(missing_ok=True)

    def model(self) -> Network:
        """The trained network, in evaluation mode, on the CPU."""
        config = self.config()
        if not self.finished:
            raise HitNetError(f"{self.path} has not been trained to its end. Train it with `resume`.")
        tensors, _ = read_tensors(self.weights_file)
        self._check_fit(config.model, tensors)
        with torch.random.fork_rng(devices=[]):  # weights are loaded below: leave the caller's random state alone
            model = Network(config.model)
        model.load_state_dict(tensors)
        return model.eval()

    def _check_fit(self, config: ModelConfig, tensors: dict[str, Tensor]) -> None:
        """Raise unless the weights are those of the network, before a damaged configuration makes a huge one."""
        try:
            with torch.device("meta"):  # takes no memory
                expected = Network(config).state_dict()
        except (RuntimeError, ValueError, OverflowError, MemoryError) as error:
            raise HitNetError(f"{self.config_file} does not describe a network: {error}") from error
        wrong = sorted(
            name
            for name in expected.keys() | tensors.keys()
            if name not in tensors or name not in expected or tensors[name].shape != expected[name].shape
        )
        if wrong:
            raise HitNetError(
                f"{self.weights_file} does not fit the network in config.json: {len(wrong)} tensors are missing, "
                f"unknown or of another shape; the first is {wrong[0]}."
            )


def environment(device: torch.device) -> dict[str, Any]:
    """The machine, the versions and the time of a training on this device."""
    from hitnet import __version__

    return {
        "hitnet": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "command": " ".join(sys.argv),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class Run:
    """A trained network.

    Attributes:
        model: The network.
        config: How it was trained.
        history: One row per epoch.
        folder: Its run folder; None if it was never written to disk.
    """

    model: Network
    config: RunConfig
    history: History
    folder: Path | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.config.data["class_names"])

    def save_pretrained(self, folder: str | Path, *, license: str | None = None) -> Path:
        """Write the run into a new folder, as it would be on the Hugging Face Hub.

        Args:
            folder: A run folder with a model card (README.md), which states data, error, runs and licence.
            license: The licence of the weights, e.g. "mit".
        """
        from hitnet.training import hub

        return hub.save_pretrained(self, folder, license=license)

    def push_to_hub(
        self, repository: str, *, license: str | None = None, private: bool | None = None, token: str | None = None
    ) -> str:
        """Upload the run to the Hugging Face Hub, with a model card.

        Args:
            repository: "user/name"; it is made where it does not exist.
            license: The licence of the weights, e.g. "mit".
            private: Whether a new repository is private. None: the account's default.
            token: None: that of `hf auth login`.

        Returns:
            The address of the repository.
        """
        from hitnet.training import hub

        return hub.push_to_hub(self, repository, license=license, private=private, token=token)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        token: str | None = None,
        local_files_only: bool = False,
    ) -> Run:
        """Open a run from the Hugging Face Hub, or from a folder.

        Args:
            source: "user/name" of a repository, or a run folder.
            revision: Branch, tag or commit of the repository.
            cache_dir: Where downloads are kept. None: the Hub's own cache.
            token: None: that of `hf auth login`.
            local_files_only: Take only what was downloaded before.
        """
        from hitnet.training import hub

        return hub.from_pretrained(
            source, revision=revision, cache_dir=cache_dir, token=token, local_files_only=local_files_only
        )


def open_run(run: str | Path) -> Run:
    """Open a finished run: its network in evaluation mode on the CPU, its configuration and history."""
    folder = RunFolder(run)
    return Run(folder.model(), folder.config(), folder.history(), folder.path)
