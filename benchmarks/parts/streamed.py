"""Training from files on disk: its memory, its speed, and how long its steps wait for a batch.

    python benchmarks/parts/streamed.py FOLDER [--device auto] [--steps N] [--threads N]

trains one epoch of hitnet-small on the image files of FOLDER and prints figures as JSON. benchmarks/growth.py runs it.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torch import Tensor

import hitnet
from hitnet.data.images import Streamed
from hitnet.runtime.device import pick_device
from hitnet.runtime.progress import Progress

BATCH = 128
PICTURES = 1000  # different pictures; the files repeat them
SAMPLING_SECONDS = 0.1


def write_files(folder: Path, start: int, stop: int) -> None:
    """Write 28 x 28 grey JPEG files, numbers `start` to `stop` - 1, into ten class folders."""
    random = np.random.default_rng(0)
    pictures = []
    for i in range(PICTURES):
        pixels = random.integers(0, 64, (28, 28)) + np.linspace(0, 19 * (i % 10), 28)
        packed = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(packed, "JPEG")
        pictures.append(packed.getvalue())
    for k in range(10):
        (folder / f"class-{k}").mkdir(parents=True, exist_ok=True)
    for i in range(start, stop):
        (folder / f"class-{i % 10}" / f"{i:06}.jpg").write_bytes(pictures[i % PICTURES])


def tree_memory(root: int) -> int:
    """Bytes of memory that a process and all its children hold now."""
    parents, resident = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # the process has ended
            continue
        parents[int(folder.name)] = int(words[1])
        resident[int(folder.name)] = int(words[21]) * resource.getpagesize()
    tree = {root} & parents.keys()
    while more := {process for process, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(resident[process] for process in tree)


def own_peak() -> int:
    """The peak memory of this process; getrusage would also count what its parent held before the start."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


class EnoughError(Exception):
    """Ends an epoch early."""


class Watch(Progress):
    """Records when each step ended, and how long steps have waited for their batches."""

    def __init__(self, most: int | None) -> None:
        self.most, self.waited, self.images = most, 0.0, 0
        self.steps: list[tuple[float, float, int]] = []  # after each step: the clock, `waited`, `images`

    def step(self) -> None:
        self.steps.append((time.perf_counter(), self.waited, self.images))
        if len(self.steps) == self.most:
            raise EnoughError

    def timed(self, read: Callable[..., Iterator[Tensor]]) -> Callable[..., Iterator[Tensor]]:
        def reading(images: Streamed, parts: Sequence[Tensor]) -> Iterator[Tensor]:
            batches = read(images, parts)
            for _ in parts:
                started = time.perf_counter()
                batch = next(batches)
                self.waited += time.perf_counter() - started
                self.images += len(batch)
                yield batch

        return reading


def streamed(folder: Path, device: torch.device, most: int | None) -> dict[str, Any]:
    """Train one epoch from files; figures of all steps except the first, which waits for decoding to begin."""
    watch, started = Watch(most), time.perf_counter()
    with mock.patch.object(Streamed, "read", watch.timed(Streamed.read)):
        try:
            data = hitnet.open_data(folder, stream=True)
            recipe = hitnet.choose_recipe("fast", epochs=1, batch_size=BATCH)
            hitnet.train(data, model="hitnet-small", recipe=recipe, device=device.type, progress=watch)
        except EnoughError:
            pass
    (first, waited_first, images_first), (last, waited_last, images_last) = watch.steps[0], watch.steps[-1]
    return {
        "steps": len(watch.steps),
        "seconds_before_the_first_step_ended": round(first - started, 1),
        "images_per_second": round((images_last - images_first) / (last - first), 1),
        "share_of_time_waiting_for_a_batch": round((waited_last - waited_first) / (last - first), 3),
        "own_peak_bytes": own_peak(),
        "gpu_peak_bytes": torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
    }


def measured(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures of `streamed` in its own process, with the memory of that process and its workers."""
    command = [sys.executable, __file__, str(folder), "--device", args.device]
    command += [
        part for name in ("steps", "threads") if (value := getattr(args, name)) for part in (f"--{name}", str(value))
    ]
    process, peak = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), 0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        time.sleep(SAMPLING_SECONDS)
    output = process.communicate()[0]
    if process.returncode:
        raise SystemExit(process.returncode)
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    # Samples may miss the peak of the process itself, which it knows.
    return figures | {"peak_bytes": max(peak, figures.pop("own_peak_bytes"))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--steps", type=int, help="end the epoch after N steps (default: all)")
    parser.add_argument("--threads", type=int, help="PyTorch's threads (default: its own choice)")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    print(json.dumps(streamed(args.folder, pick_device(args.device), args.steps)))


if __name__ == "__main__":
    main()
