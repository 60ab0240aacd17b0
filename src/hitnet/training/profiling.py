"""Where a training step's time goes, measured by PyTorch's profiler over a few steps of a real training."""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from hitnet.runtime import files

log = logging.getLogger("hitnet")
WARM_UP, STEPS = 5, 20
LISTED = 25
PARTS = ("batch", "modify", "augment", "forward", "loss", "backward", "update", "count")


def part(name: str) -> AbstractContextManager[object]:
    """Name a part of a step for the profile; without a running profiler it does nothing, because naming takes time."""
    return record_function(name) if torch.autograd.profiler._is_profiler_enabled else nullcontext()


@dataclass
class Cost:
    """What the profiler has measured under one name.

    Attributes:
        calls: Number of calls.
        total: Microseconds in all.
        own: Microseconds of its own, without what it called.
    """

    calls: int = 0
    total: float = 0.0
    own: float = 0.0


class Profiling:
    """Profiles `STEPS` steps of a training after `WARM_UP` steps, then writes profile.json and profile.txt.

    It is told of every step. It changes nothing in the training, and pauses while a network is tested.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.folder, self.device = folder, device
        self.costs: defaultdict[str, Cost] = defaultdict(Cost)
        self.left, self.steps, self.images, self.seconds = WARM_UP, 0, 0, 0.0
        self.profiler: profile | None = None  # while it runs
        self.started, self.begun = 0.0, 0  # when the profiler started, and after how many steps

    def watch(self) -> None:
        """Start the profiler, if it is time: steps follow."""
        if self.left or self.steps == STEPS:
            return
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise it logs about itself and missing GPUs
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self.device.type == "cuda" else [])]
        self.profiler = profile(activities=activities)
        self.profiler.start()
        self.started, self.begun = time.perf_counter(), self.steps

    def step(self, images: int) -> None:
        """Count a step of `images` images; called after each step."""
        if self.profiler is None:
            self.left = max(0, self.left - 1)
            self.watch()
            return
        self.steps += 1
        self.images += images
        if self.steps == STEPS:
            self.write()

    def pause(self) -> None:
        """Stop the profiler, because no step follows, and add up what it has measured."""
        if self.profiler is None:
            return
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.started
        self.profiler.stop()
        if self.steps > self.begun:
            self.seconds += seconds
            for event in self.profiler.key_averages():
                cost = self.costs[event.key]
                cost.calls += event.count
                cost.total += event.cpu_time_total
                on_gpu = self.device.type == "cuda"
                cost.own += event.self_device_time_total if on_gpu else event.self_cpu_time_total
        self.profiler = None

    def write(self) -> None:
        """Write the profile, even if the training had fewer steps than planned."""
        self.pause()
        if not self.steps:
            log.warning("No profile is written: the first %d steps only warm up, and there were no more.", WARM_UP)
            return
        figures = self.figures()
        files.write_json(self.folder / "profile.json", figures)
        files.write_text(self.folder / "profile.txt", as_text(figures))

    def figures(self) -> dict[str, Any]:
        steps, seconds = self.steps, self.seconds
        parts = {name: self.costs[name].total for name in PARTS if name in self.costs and self.costs[name].total}
        operators: list[dict[str, Any]] = [
            {"name": name, "calls_per_step": cost.calls / steps, **share(cost.own, steps, seconds)}
            for name, cost in self.costs.items()
            if name not in PARTS and cost.own > 0
        ]
        operators.sort(key=lambda row: -row["milliseconds_per_step"])
        return {
            "device": torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu",
            "steps": steps,
            "milliseconds_per_step": 1e3 * seconds / steps,
            "images_per_second": self.images / seconds,
            "parts": [{"name": name, **share(value, steps, seconds)} for name, value in parts.items()],
            "operators": operators[:LISTED],
        }


def share(microseconds: float, steps: int, seconds: float) -> dict[str, float]:
    return {
        "milliseconds_per_step": microseconds / 1e3 / steps,
        "percent": 100 * microseconds / 1e6 / seconds,
    }


def as_text(figures: dict[str, Any]) -> str:
    """The figures as a table for people."""
    lines = [
        f"{figures['steps']} steps on {figures['device']}: {figures['milliseconds_per_step']:.2f} ms per step, "
        f"{figures['images_per_second']:,.0f} images/s (with the profiler, which slows the training)",
    ]
    for title in ("parts", "operators"):
        lines += ["", f"{title:<48}{'ms/step':>10}{'%':>8}"]
        for row in figures[title]:
            calls = f"{row['calls_per_step']:>8.1f} calls" if "calls_per_step" in row else ""
            lines.append(f"{row['name'][:47]:<48}{row['milliseconds_per_step']:>10.3f}{row['percent']:>8.1f}{calls}")
    return "\n".join(lines) + "\n"
