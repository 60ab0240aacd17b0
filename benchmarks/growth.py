"""How cost grows: time with the number of images, memory with files on disk, and the head with the classes.

    python benchmarks/growth.py [--parts images memory head] [--steps N] [--repeats 3] [--threads N] [--tiny]

    images  seconds of an epoch of hitnet-small over N, 2N, 4N and 8N images in memory
    memory  peak memory of training hitnet-small from a folder of 10,000 and of 200,000 JPEG files, which the script
            makes and removes, and the share of an epoch that steps wait for a batch; each in its own process
    head    a training step of a ResNet-9 with Hit-or-Miss layer and centripetal loss (n = 16) compared with one with a
            linear layer, softmax and cross-entropy, for 10, 100 and 1000 classes

Runs on a GPU if there is one, otherwise on the CPU. Contestants take turns and each time is the best of `--repeats`.
`--steps N` ends the epoch of `memory` after N steps; the whole set is still listed, labelled and shuffled. Writes
benchmarks/records/growth.json: one row per measurement, which replaces those of the same part and device. `--tiny`
only checks that everything works.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import hitnet
from hitnet import models
from hitnet.runtime.device import pick_device
from hitnet.runtime.progress import Progress
from hitnet.training.augmentation import draw
from hitnet.training.batches import Feed
from hitnet.training.engine import Trainer
from hitnet.training.step import Step
from parts.record import about, replace_rows
from parts.streamed import BATCH, measured, write_files
from parts.timing import best_of

RECORDS = Path(__file__).with_name("records") / "growth.json"
PARTS = ("images", "memory", "head")


def finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


class Count(Progress):
    """Counts the steps."""

    steps = 0

    def step(self) -> None:
        self.steps += 1


def epochs_clock(images: hitnet.Images, epochs: int, device: torch.device) -> Callable[[], float]:
    """Measures the seconds of N epochs of hitnet-small; each call trains the next epochs of the same training."""
    torch.manual_seed(0)
    network, count = models.build("hitnet-small", images.shape, images.num_classes), Count()
    choice = hitnet.choose_recipe("fast", epochs=1000, batch_size=BATCH)
    recipe = choice.complete(features=network.config.features)
    work = Trainer(network, Feed(images, device), None, recipe, seed=0, device=device, progress=count).work()

    def run() -> float:
        finish(device)
        started, end = time.perf_counter(), count.steps + epochs * recipe.steps_per_epoch(len(images))
        while count.steps < end:
            next(work)
        finish(device)
        return time.perf_counter() - started

    return run


def images_part(device: torch.device, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds per epoch over N, 2N, 4N and 8N images; a relative time per image of 1.0 is linear growth.

    All train equally long, in 8, 4, 2 and 1 epochs, so that other work on the machine disturbs all equally.
    """
    smallest = BATCH if args.tiny else 1024 if device.type == "cpu" else 16_384
    sample = hitnet.open_data("mnist-sample").load("train")
    sets = {str(times): sample.select(torch.arange(smallest * times) % len(sample)) for times in (1, 2, 4, 8)}
    clocks = {times: epochs_clock(images, 8 // int(times), device) for times, images in sets.items()}
    seconds = {times: value * int(times) / 8 for times, value in best_of(clocks, args.repeats).items()}
    row = {
        "experiment": "images",
        "network": "hitnet-small",
        "batch_size": BATCH,
        "images": smallest,
        "seconds_an_epoch_by_multiple": {times: round(value, 4) for times, value in seconds.items()},
        "milliseconds_a_step_by_multiple": {
            times: round(1e3 * value * BATCH / len(sets[times]), 3) for times, value in seconds.items()
        },
        "time_an_image_relative_to_smallest": {
            times: round(value / int(times) / seconds["1"], 3) for times, value in seconds.items()
        },
    }
    print(row, flush=True)
    return [row]


def memory_part(device: torch.device, args: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        written = 0
        for count in (400, 800) if args.tiny else (10_000, 200_000):
            write_files(Path(temporary), written, count)
            written = count
            row = {"experiment": "memory", "network": "hitnet-small", "batch_size": BATCH, "files": count}
            rows.append(row | {"kind": "28x28 grey JPEG, 80 % to train on"} | measured(Path(temporary), args))
            print(rows[-1], flush=True)
    small, large = rows
    grown = (large["peak_bytes"] - small["peak_bytes"]) / (large["files"] - small["files"])
    large["bytes_an_image_more"] = round(grown, 1)
    return rows


def head_step(
    head: str, classes: int, device: torch.device, shape: tuple[int, int, int], batch: int
) -> Callable[[], None]:
    """A training step of a ResNet-9 with one of the two heads, as the engine does it."""
    torch.manual_seed(0)
    network = models.build("hitnet-resnet9", shape, classes, decoder="none", head=head)
    network = network.to(device=device, memory_format=torch.channels_last)
    recipe = hitnet.choose_recipe("fast").complete(features="resnet9")
    step = Step(network, recipe, device)
    images = torch.randint(0, 256, (batch, *shape), dtype=torch.uint8, device=device)
    labels = torch.randint(0, classes, (batch,), device=device)
    draws = draw(recipe, batch, shape[1:], torch.Generator().manual_seed(0)).to(device)
    return lambda: step((images, labels, draws), 0.01)


def head_clock(step: Callable[[], None], device: torch.device, steps: int) -> Callable[[], float]:
    def run() -> float:
        finish(device)
        started = time.perf_counter()
        for _ in range(steps):
            step()
        finish(device)
        return (time.perf_counter() - started) / steps

    return run


def head_part(device: torch.device, args: argparse.Namespace) -> list[dict[str, Any]]:
    on_gpu = device.type == "cuda"
    shape, batch = ((3, 64, 64), 256) if on_gpu else ((3, 32, 32), 64)
    counts: tuple[int, ...] = (10, 100, 1000)
    if args.tiny:
        shape, batch, counts = (3, 8, 8), 8, (10,)
    rows = []
    for classes in counts:
        clocks = {
            kind: head_clock(head_step(kind, classes, device, shape, batch), device, 50 if on_gpu else 1)
            for kind in ("softmax", "hit-or-miss")
        }
        seconds = best_of(clocks, args.repeats)
        rows.append(
            {
                "experiment": "head",
                "network": "resnet9",
                "in_shape": shape,
                "batch_size": batch,
                "classes": classes,
                "capsule_dim": 16,
                "milliseconds_a_step": {kind: round(1e3 * value, 3) for kind, value in seconds.items()},
                "hit_or_miss_relative_to_softmax": round(seconds["hit-or-miss"] / seconds["softmax"], 3),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, help="of the streamed epochs (default: all)")
    parser.add_argument("--threads", type=int, help="PyTorch's threads (default: its own choice)")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, help=f"the record (default: {RECORDS.name} in benchmarks/records)")
    args = parser.parse_args()
    if args.out is None:
        args.out = Path(tempfile.mkdtemp()) / RECORDS.name if args.tiny else RECORDS
    if args.threads:
        torch.set_num_threads(args.threads)
    device = pick_device(args.device)
    measure = {"images": images_part, "memory": memory_part, "head": head_part}
    told = about(device) | {"cores": os.cpu_count(), "repeats": args.repeats}
    for part in args.parts:
        replace_rows(args.out, [row | told for row in measure[part](device, args)], "experiment", "device")


if __name__ == "__main__":
    main()
