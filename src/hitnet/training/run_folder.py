"""Run folders, the hinge between training and everything after it.

config.json          the network, the recipe, the data and the seed: enough to build the network again
environment.json     where and when it was trained
history.json         one row per epoch
weights.safetensors  the trained weights, present once training has ended
calibration.json     temperature of probabilities and misfits of known images, where there are images to measure on
state.safetensors    weights and optimizer state at the last checkpoint, for resuming; removed at the end
.training            exists while a process trains the run, so that no other process does
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hitnet import __version__
from hitnet.errors import HitNetError, MissingFileError, finite
from hitnet.models.network import ModelConfig, Network
from hitnet.probabilities import fit_temperature
from hitnet.runtime import files, locks, schemas
from hitnet.runtime.tensor_files import read_metadata, read_shapes, read_tensors, write_tensors
from hitnet.training.run_config import RunConfig

MOST_THREADS = 1024
HISTORY_SCHEMA = [{"epoch": int, str: float}]
CALIBRATION_SCHEMA = {"temperature": float, "misfits": [float]}
MOST_MISFITS = 1_000
ENVIRONMENT_SCHEMA = {"threads": int}
History = list[dict[str, Any]]


class Calibration(NamedTuple):
    """Measured on images that were not trained on: the temperature of probabilities, and misfits in rising order."""

    temperature: float
    misfits: list[float]

    @classmethod
    def of(cls, distances: npt.NDArray[np.float64], misfits: npt.NDArray[np.float64], labels: Tensor) -> Calibration:
        """From distances (N, K), of which the smallest wins, misfits (N,) and labels (N,); at most 1,000 quantiles."""
        count = min(len(misfits), MOST_MISFITS)
        quantiles = np.quantile(misfits, np.arange(1, count + 1) / count, method="inverted_cdf")
        return cls(fit_temperature(distances, labels.numpy()), quantiles.tolist())


class Saved(NamedTuple):
    """A checkpoint: the finished epochs, the steps of the next one, and the threads that it began with, if known."""

    history: History
    step: int
    tensors: dict[str, Tensor]
    threads: int | None


class RunFolder:
    """A run on disk. Every file in it is written whole or not at all."""

    def __init__(self, path: str | Path) -> None:
        self.path = files.expand(path)
        self.config_file = self.path / "config.json"
        self.history_file = self.path / "history.json"
        self.calibration_file = self.path / "calibration.json"
        self.weights_file = self.path / "weights.safetensors"
        self.state_file = self.path / "state.safetensors"
        self.claim_file = self.path / ".training"

    @property
    def exists(self) -> bool:
        return self.config_file.is_file()

    @property
    def finished(self) -> bool:
        return self.exists and self.weights_file.is_file()

    @contextmanager
    def begun(self, config: RunConfig, *, resume: bool, device: torch.device) -> Iterator[None]:
        """Start this run here, or check that it can be resumed here; keep other processes out during the block."""
        if not self.finished and not self.claim():
            raise HitNetError(f"{self.path}: another process trains this run. Wait for it, or choose another folder.")
        try:
            if self.exists and not resume:
                raise HitNetError(
                    f"{self.path} already holds a run. Use `resume` to continue it, or choose another `out`."
                )
            if self.exists:
                self.check_same(config)
            else:
                # A run that never began may have left its environment.
                others = sorted({p.name for p in self.path.iterdir() if p.name[0] != "."} - {"environment.json"})
                if others:
                    raise HitNetError(f"{self.path} holds no run, but other files ({others[0]}); choose another `out`.")
                files.write_json(self.path / "environment.json", environment(device))
                files.write_json(self.config_file, config.to_dict())
            yield
        finally:
            self.release()

    def claim(self) -> bool:
        """Take the run for this process, until `release`; False if another process has it."""
        if self.path.exists() and not self.path.is_dir():
            raise HitNetError(f"{self.path} is a file; choose another `out`.")
        if not files.is_unicode(str(self.path)):  # safetensors would write there, but not read
            raise HitNetError(f"{self.path}: its name is not valid UTF-8; choose another `out`.")
        claimed = locks.claim(self.claim_file)
        if claimed:
            files.remove_litter(self.path)
        return claimed

    def release(self) -> None:
        locks.release(self.claim_file)

    def check_same(self, config: RunConfig) -> None:
        """Raise HitNetError unless this folder's run has this configuration, so that it can be resumed."""
        changed = self.config().differences(config)
        if set(changed) == {("data", "fingerprint")}:
            raise HitNetError(
                f"{self.path} cannot be resumed: its images or their labels have changed since. Choose another `out`."
            )
        if changed:
            raise HitNetError(
                f"{self.path} holds another run, which cannot be resumed as this one: {'; '.join(changed.values())}. "
                "Give the same options as before, or choose another folder."
            )
        if self.finished and not self.history():
            raise HitNetError(f"{self.history_file} of a finished run is missing. Restore it or choose another folder.")

    def config(self) -> RunConfig:
        if not self.exists:
            seeds = sorted(path.parent for path in self.path.glob("seed-*/config.json"))
            hint = f" It holds those of {len(seeds)} seeds; name one of them, e.g. {seeds[0]}." if seeds else ""
            raise MissingFileError(f"{self.path} is not a run folder: it has no config.json.{hint}")
        return RunConfig.from_dict(files.read_json(self.config_file), self.config_file)

    def history(self) -> History:
        rows: History | None = _read(self.history_file, HISTORY_SCHEMA)
        return rows or []

    def calibration(self) -> Calibration | None:
        """What was measured on images that the network was not trained on, if there were enough."""
        values = _read(self.calibration_file, CALIBRATION_SCHEMA)
        if values is None:
            return None
        finite(str(self.calibration_file), "temperature", values["temperature"], above_0=True)
        return Calibration(values["temperature"], values["misfits"])

    def threads(self) -> int | None:
        """How many threads of a CPU the run was begun with, if this is known: other numbers round otherwise."""
        recorded = _read(self.path / "environment.json", ENVIRONMENT_SCHEMA)
        return recorded["threads"] if recorded and 1 <= recorded["threads"] <= MOST_THREADS else None

    @contextmanager
    def present(self) -> Iterator[RunFolder]:
        """Yield the folder to write into: this one, or where it was moved to while it is trained; then, stop."""
        claimed = locks.moved_to(self.claim_file)
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
            epoch, step = int(metadata["epoch"]), int(metadata["step"])
            if min(epoch, step) < 0:
                raise ValueError(f"{epoch} epochs, {step} steps")
        except (KeyError, ValueError) as error:
            raise HitNetError(f"{self.state_file} is damaged: it does not say how far it is ({error!r}).") from error
        return epoch, step

    def saved(self) -> Saved | None:
        """The last checkpoint, or None."""
        if not self.state_file.is_file():
            return None
        (epoch, step), history = self.position(), self.history()
        if len(history) < epoch:
            raise HitNetError(
                f"{self.history_file} lacks epochs of the checkpoint beside it, which has done {epoch}. Put it back, "
                "or begin anew in another folder."
            )
        return Saved(history[:epoch], step, read_tensors(self.state_file)[0], self.threads())

    def finish(self, model: Network, history: History, calibration: Calibration | None = None) -> None:
        with self.present() as folder:
            files.write_json(folder.history_file, history)
            if calibration is not None:
                files.write_json(folder.calibration_file, calibration._asdict())
            epoch = history[-1]["epoch"] if history else 0
            write_tensors(folder.weights_file, model.state_dict(), {"epoch": str(epoch)})
            folder.state_file.unlink(missing_ok=True)

    def model(self) -> Network:
        """The trained network, in evaluation mode, on the CPU."""
        config = self.config()
        if not self.finished:
            raise HitNetError(f"{self.path} is unfinished. Resume training first (`resume`).")
        self._check_fit(config.model)
        tensors, _ = read_tensors(self.weights_file)
        with torch.random.fork_rng(devices=[]):  # weights are loaded below: leave the caller's random state alone
            model = Network(config.model)
        model.load_state_dict(tensors)
        return model.eval()

    def _check_fit(self, config: ModelConfig) -> None:
        """Raise unless the weights' header is that of the network, before either takes memory."""
        try:
            with torch.device("meta"):  # takes no memory
                expected = Network(config).state_dict()
        except (RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise HitNetError(f"{self.config_file} does not describe a network: {error}") from error
        wanted = {name: tuple(value.shape) for name, value in expected.items()}
        wrong = sorted({name for name, _ in wanted.items() ^ read_shapes(self.weights_file).items()})
        if wrong:
            raise HitNetError(
                f"{self.weights_file} does not fit the network in config.json: {len(wrong)} tensors are missing, "
                f"unknown or of another shape; the first is {wrong[0]}."
            )


def _read(file: Path, schema: Any) -> Any:
    """What a JSON file holds, after a check; None if it is not there."""
    if not file.is_file():
        return None
    value = files.read_json(file)
    schemas.check_schema(value, schema, file)
    return value


def environment(device: torch.device) -> dict[str, Any]:
    """The machine, the versions and the time of a training on this device."""
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
