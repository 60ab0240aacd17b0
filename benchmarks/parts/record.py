"""Records of benchmarks, what their rows tell of a run, and the time budget of a call."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import hitnet
from hitnet.runtime import files
from hitnet.runtime.device import pick_device
from parts.tables import shown

Row = dict[str, Any]
KEY = ("part", "data", "arm", "seed")


def about(device: torch.device) -> Row:
    """The device, the versions and the date of a measurement."""
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "hitnet": hitnet.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }


def replace_rows(path: Path, new: Sequence[Row], *names: str) -> list[Row]:
    """Write rows into a record; they replace those with the same values under `names`. Returns the record's rows."""
    replaced = {tuple(row[name] for name in names) for row in new}
    old: list[Row] = files.read_json(path) if path.is_file() else []
    rows = [row for row in old if tuple(row[name] for name in names) not in replaced] + list(new)
    files.write_json(path, rows)
    return rows


class Record:
    """Rows of figures, one per trained network, in a JSON file that is written whole after each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = files.read_json(path) if path.is_file() else []
        self.known = {self.key(row) for row in self.rows}

    @staticmethod
    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in KEY)

    def missing(self, part: str, data: str, arms: Sequence[str], seeds: Iterable[int]) -> list[int]:
        """The seeds for which the row of at least one of these arms is missing."""
        return [seed for seed in seeds if any((part, data, arm, seed) not in self.known for arm in arms)]

    def add(self, row: Row) -> None:
        """Add a row, unless there is already a row of the same network."""
        if self.key(row) in self.known:
            return
        self.known.add(self.key(row))
        self.rows.append(row | about(pick_device("auto")))
        files.write_json(self.path, self.rows)
        print({name: shown(value) for name, value in row.items()}, flush=True)


class Budget:
    """Minutes of work from now on: tells whether a training may still start.

    The first training of a part starts if there is any time left; later ones only if, at the pace of that part so far,
    they would also end in time.
    """

    def __init__(self, minutes: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.end = None if minutes is None else clock() + 60 * minutes
        self.pace: dict[str, float] = {}  # seconds per image in training, with everything that belongs to it

    def allows(self, part: str, images: float) -> bool:
        return self.end is None or self.clock() + self.pace.get(part, 0.0) * images < self.end

    def took(self, part: str, images: float, seconds: float) -> None:
        self.pace[part] = seconds / images
