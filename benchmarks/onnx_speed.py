"""Prediction on a CPU: ONNX Runtime beside PyTorch, on the same network and the same images.

    python benchmarks/onnx_speed.py [--threads 1 2] [--repeats 5]

Each network is exported by `Run.export`. Both programs get uint8 images in memory and give distances, one image
at a time and in batches. They take turns, and each figure is the best of `--repeats`, so that other work on the machine
disturbs both equally. Weights are random, except those of the pretrained backbone: they do not change the work.
Writes benchmarks/records/onnx_speed.json: one row per network, batch size and number of threads, with the load of the
machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor

import hitnet
from hitnet.inference import open_onnx
from hitnet.models import choose_model
from hitnet.models.network import class_distances
from hitnet.runtime import files
from hitnet.training import Recipe, Run, RunConfig
from parts.record import about
from parts.timing import best_of

RECORDS = Path(__file__).with_name("records") / "onnx_speed.json"
CLASSES = 10
NETWORKS = {"hitnet-small": (1, 28, 28), "hitnet": (1, 28, 28), "hitnet-pretrained": (3, 160, 120)}
IMAGES = {"hitnet-small": 512, "hitnet": 64, "hitnet-pretrained": 64}
BATCHES = (1, 64)


def untrained_run(name: str) -> Run:
    torch.manual_seed(0)
    config = choose_model(name).config(NETWORKS[name], CLASSES)
    network = hitnet.Network(config).eval()
    network.load_pretrained()
    data = {"name": "random", "source": "random", "images": 0, "class_names": [str(k) for k in range(CLASSES)]}
    return Run(network, RunConfig(name, config, Recipe(), 0, data), [])


def timed(work: Callable[[Any], object], batches: list[Any]) -> Callable[[], float]:
    """Measures the seconds that all batches take."""

    def measure() -> float:
        started = time.perf_counter()
        for batch in batches:
            work(batch)
        return time.perf_counter() - started

    return measure


def compare(name: str, batch: int, threads: int, pixels: Tensor, run: Run, file: Path, repeats: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    network = open_onnx(file, threads=threads)
    parts = list(pixels.split(batch))
    contestants = {
        "pytorch": timed(lambda part: class_distances(run.model, part), parts),
        "onnxruntime": timed(network.distances, [part.numpy() for part in parts]),
    }
    seconds = best_of(contestants, repeats)
    difference = np.abs(network.distances(pixels.numpy()) - class_distances(run.model, pixels).numpy()).max()
    row = {
        "network": name,
        "shape": list(NETWORKS[name]),
        "batch": batch,
        "images": len(pixels),
        "images_per_second": {key: round(len(pixels) / value, 1) for key, value in seconds.items()},
        "onnxruntime_is_faster_by": round(seconds["pytorch"] / seconds["onnxruntime"], 2),
        "largest_difference": float(f"{difference:.1e}"),
        "file_megabytes": round(file.stat().st_size / 1e6, 1),
        "onnxruntime": onnxruntime.__version__,
        "load": round(os.getloadavg()[0], 1),
    }
    print(row, flush=True)
    return row | about(torch.device("cpu"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RECORDS)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in NETWORKS.items():
            run = untrained_run(name)
            file = run.export(Path(folder) / f"{name}.onnx")
            pixels = torch.randint(0, 256, (IMAGES[name], *shape), dtype=torch.uint8)
            for threads, batch in product(args.threads, BATCHES):
                rows.append(compare(name, batch, threads, pixels, run, file, args.repeats))
    files.write_json(args.out, rows)


if __name__ == "__main__":
    main()
