"""Training on a GPU: error of the fast recipe, speed of every network, and parity of the captured step.

    python benchmarks/training.py --data-dir DATA [--seeds 5] [--parts fast speed parity]

Writes benchmarks/records/training.json: one row a run or a measurement.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import hitnet
from hitnet import models
from hitnet.training import step as steps

RECORDS = Path(__file__).with_name("records") / "training.json"
PARITY_STEPS = 100


def fast(train: hitnet.Images, test: hitnet.Images, seeds: int) -> list[dict[str, Any]]:
    """Test error of the paper's network after the fast recipe, one row a seed."""
    rows = []
    for seed in range(seeds):
        started = time.perf_counter()
        run = hitnet.train(train, test=test, model="hitnet", recipe="fast", seed=seed)
        rows.append(
            {
                "experiment": "fast recipe",
                "network": "hitnet",
                "data": "mnist",
                "seed": seed,
                "epochs": len(run.history),
                "error_percent": round(run.history[-1]["test_error"], 2),
                "error_percent_by_epoch": [round(row["test_error"], 2) for row in run.history],
                "seconds": round(time.perf_counter() - started, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def speed(train: hitnet.Images) -> list[dict[str, Any]]:
    """Training images a second in the third epoch of 25,600 MNIST images, with each network's fast recipe."""
    rows = []
    for name in models.MODELS:
        run = hitnet.train(train.first(25_600), model=name, epochs=3)
        rate = round(run.history[-1]["images_per_second"])
        batch = run.config.recipe.batch_size
        rows.append({"experiment": "speed", "network": name, "batch_size": batch, "images_per_second": rate})
        print(rows[-1], flush=True)
    return rows


def losses(train: hitnet.Images, *, capture: bool, mixed: bool) -> torch.Tensor:
    """The loss of each of the first 100 steps of the paper's recipe."""
    device = torch.device("cuda")
    torch.manual_seed(0)
    network = models.build("hitnet", train.shape, train.num_classes)
    network = network.to(device=device, memory_format=torch.channels_last)
    recipe = hitnet.recipe("paper", precision="mixed" if mixed else "float32")
    augmentation = recipe.augmentation(mirrored_ok=False)
    step = steps.Step(network, recipe, augmentation, device)
    step.capture = capture
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(train), generator=generator)[: PARITY_STEPS * 128].split(128)
    draws = augmentation.draw(PARITY_STEPS * 128, train.shape[1:], generator).split(128)
    found = []
    for index, drawn in zip(order, draws, strict=True):
        step.totals.zero_()
        step((train.pixels[index].to(device), train.labels[index].to(device), drawn.to(device)), 1e-3)
        found.append(float(step.totals[0]) / len(index))
    return torch.tensor(found)


def parity(train: hitnet.Images) -> list[dict[str, Any]]:
    """How far the captured bfloat16 step strays from an eager float32 one over 100 steps."""
    captured, eager, exact = (
        losses(train, capture=capture, mixed=mixed) for capture, mixed in ((True, True), (False, True), (False, False))
    )
    relative = (captured - exact).abs() / exact
    row = {
        "experiment": "parity",
        "network": "hitnet",
        "steps": PARITY_STEPS,
        "largest_relative_difference_to_float32": float(relative.max()),
        "mean_relative_difference_to_float32": float(relative.mean()),
        "largest_difference_to_eager_bfloat16": float((captured - eager).abs().max()),
    }
    print(row, flush=True)
    return [row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=["fast", "speed", "parity"], default=["fast", "speed", "parity"])
    parser.add_argument("--out", type=Path, default=RECORDS)
    args = parser.parse_args()
    train = hitnet.data.load("mnist", "train", data_dir=args.data_dir)
    test = hitnet.data.load("mnist", "test", data_dir=args.data_dir)
    rows: list[dict[str, Any]] = []
    if "fast" in args.parts:
        rows += fast(train, test, args.seeds)
    if "speed" in args.parts:
        rows += speed(train)
    if "parity" in args.parts:
        rows += parity(train)
    about = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "hitnet": hitnet.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }
    args.out.write_text(json.dumps([row | about for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
