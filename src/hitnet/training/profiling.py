"""Where a training step's time goes, measured by PyTorch's profiler over a few steps of a real training."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from hitnet import files

WARM_UP, STEPS = 5, 20
LISTED = 25
PARTS = ("batch", "modify", "augment", "forward", "loss", "backward", "update", "count")


def part(name: str) -> AbstractContextManager[object]:
    """A part of a step by its name in a profile; while nothing is profiled, naming it would only take time."""
    return record_function(name) if torch.autograd.profiler._is_profiler_enabled else nullcontext()


class Profiling:
    """Told of every step of a training; watches `STEPS` of them after `WARM_UP`, then writes profile.json and
    profile.txt into a folder. It changes nothing in the training."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.folder, self.device = folder, device
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
        self.profiler = profile(activities=activities)
        self.seen, self.images, self.started = 0, 0, 0.0
        self.watching = self.written = False

    def step(self, images: int) -> None:
        """After each step, of so many images."""
        self.seen += 1
        if self.watching:
            self.images += images
            if self.seen == WARM_UP + STEPS:
                self.end()
        elif self.seen == WARM_UP:
            self.profiler.start()
            self.watching, self.started = True, time.perf_counter()

    def end(self) -> None:
        """Write what was seen, also of a training that ends before its time; nothing if that is no step."""
        if not self.watching or self.written:
            return
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.started
        self.profiler.stop()
        self.watching, self.written = False, True
        if self.images:
            found = self.figures(seconds)
            files.write_json(self.folder / "profile.json", found)
            files.write_text(self.folder / "profile.txt", as_text(found))

    def figures(self, seconds: float) -> dict[str, Any]:
        steps = self.seen - WARM_UP
        events = self.profiler.key_averages()
        on_gpu = self.device.type == "cuda"
        parts = {event.key: event.cpu_time_total for event in events if event.key in PARTS and event.cpu_time_total}
        operators = []
        for event in events:
            own = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            if event.key not in PARTS and own > 0:
                operators.append(
                    {"name": event.key, "calls_per_step": event.count / steps, **share(own, steps, seconds)}
                )
        operators.sort(key=lambda row: -row["milliseconds_per_step"])
        return {
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "steps": steps,
            "milliseconds_per_step": 1e3 * seconds / steps,
            "images_per_second": self.images / seconds,
            "parts": [{"name": name, **share(parts[name], steps, seconds)} for name in PARTS if name in parts],
            "operators": operators[:LISTED],
        }


def share(microseconds: float, steps: int, seconds: float) -> dict[str, float]:
    return {
        "milliseconds_per_step": microseconds / 1e3 / steps,
        "percent": 100 * microseconds / 1e6 / seconds,
    }


def as_text(found: dict[str, Any]) -> str:
    """The figures as a table for people."""
    lines = [
        f"{found['steps']} steps on {found['device']}: {found['milliseconds_per_step']:.2f} ms a step, "
        f"{found['images_per_second']:,.0f} images/s (while being watched, which slows the work)",
    ]
    for title in ("parts", "operators"):
        lines += ["", f"{title:<48}{'ms/step':>10}{'%':>8}"]
        for row in found[title]:
            calls = f"{row['calls_per_step']:>8.1f} calls" if "calls_per_step" in row else ""
            lines.append(f"{row['name'][:47]:<48}{row['milliseconds_per_step']:>10.3f}{row['percent']:>8.1f}{calls}")
    return "\n".join(lines) + "\n"
