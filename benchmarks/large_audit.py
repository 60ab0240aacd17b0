"""An audit of a million images with a thousand classes: seconds and memory of each part.

    PYTHONPATH=src python benchmarks/large_audit.py --images 1280000 --classes 1000 --dim 512 --device cuda
    PYTHONPATH=src python benchmarks/large_audit.py --images 1280000 --classes 1000 --photos FOLDER --device cuda

Features are clusters, four of which lie near each other; 8 % of the labels are wrong, half of them within these four.
`--spread` says how far images lie from their centres, and so how often judges err. With `--photos`, the audit reads
JPEG files instead, which are made in a new folder: of each class a pattern of its own, in other colours and noise. The
folder also keeps their features: if the call is stopped, the same call resumes, and its row tells only its own seconds.
A line tells each part that begins and ends; every ten seconds one tells that it still runs. The audit's own lines tell
how fast files are read. At the end: average
precision of the order, the number of wrong labels that the audit says, and the true one. Adds a row to
benchmarks/records/large_audit.json.
"""

from __future__ import annotations

import argparse
import functools
import io
import os
import resource
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import hitnet
from hitnet.audit import audit_table, feature_judges, judges, labels, scoring
from hitnet.audit.results import Audit
from hitnet.runtime.device import pick_device
from parts.record import about, replace_rows

RECORDS = Path(__file__).with_name("records") / "large_audit.json"
NEAR, RATE, BLOCK = 4, 0.08, 100_000
SIDE, CELLS, PER_TASK = 64, 8, 2000  # pixels of a photograph, cells of a class's pattern, files that a task makes
WATCHED = (
    (labels, "images_to_audit"),
    *((judges, name) for name in ("read_features", "nearest", "judge_features", "typical_images")),
    *((feature_judges, name) for name in ("train_heads", "keep_near", "fit_noise_model", "fit_softmax_heads")),
    (labels, "score_labels"),
    *((audit_table, name) for name in ("make_table", "add_likeness", "duplicate_table", "summarise")),
    *(
        (scoring, "fit_noise_model"),
        (scoring, "margins"),
        (audit_table, "near_duplicates"),
        (Audit, "write"),
        (Audit, "_write_page"),
    ),
)


class Clock:
    """Prints what runs, for how long, and the memory that it takes."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.running, self.seconds = device, list[tuple[str, float]](), dict[str, float]()
        threading.Thread(target=self.tick, daemon=True).start()

    def gigabytes(self) -> dict[str, float]:
        """The most memory so far, and of the GPU."""
        most = {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}
        if self.device.type == "cuda":
            most["gpu_memory"] = torch.cuda.max_memory_allocated() / 1e9
        return {name: round(value, 2) for name, value in most.items()}

    def memory(self) -> str:
        return f"peak {' and '.join(map(str, self.gigabytes().values()))} GB"

    def tick(self) -> None:
        while True:
            time.sleep(10)
            for name, began in self.running[-1:]:
                print(f"    … {name} {time.perf_counter() - began:.0f} s, {self.memory()}", flush=True)

    def watch(self, owner: Any, name: str) -> None:
        """Time all calls of a function."""
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def timed(*args: Any, **options: Any) -> Any:
            depth = "  " * len(self.running)
            print(f"{depth}{name} …", flush=True)
            self.running.append((name, time.perf_counter()))
            try:
                return inner(*args, **options)
            finally:
                if self.device.type == "cuda":
                    torch.cuda.synchronize()
                took = time.perf_counter() - self.running.pop()[1]
                self.seconds[name] = self.seconds.get(name, 0.0) + took
                print(f"{depth}{name} {took:.1f} s, {self.memory()}", flush=True)

        setattr(owner, name, timed)


def make(args: argparse.Namespace, path: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """The given and the true labels (N,); writes features as .npy, if a path is given."""
    draw, count, classes = np.random.default_rng(args.seed), args.images, args.classes
    truth = draw.integers(0, classes, count)
    if path is not None:
        groups = draw.normal(size=(classes, args.dim)), draw.normal(size=(classes, args.dim))
        centres = groups[0] + groups[1][np.arange(classes) // NEAR]
        file = np.lib.format.open_memmap(path, "w+", np.float32, (count, args.dim))
        for start in range(0, count, BLOCK):
            own = truth[start : start + BLOCK]
            far = args.spread * draw.uniform(0.5, 1.5, (len(own), 1)).astype(np.float32)
            file[start : start + len(own)] = centres[own] + far * draw.standard_normal((len(own), args.dim), np.float32)
    near = np.minimum(truth // NEAR * NEAR + (truth + draw.integers(1, NEAR, count)) % NEAR, classes - 1)
    other = np.where(draw.random(count) < 0.5, near, (truth + draw.integers(1, classes, count)) % classes)
    return np.where(draw.random(count) < RATE, other, truth), truth


def make_photos(folder: Path, given: np.ndarray, truth: np.ndarray, start: int) -> None:
    """Write some JPEG files into folders of their given classes, each named after its number."""
    for i in range(start, min(start + PER_TASK, len(truth))):
        draw, pattern, near = (np.random.default_rng(key) for key in ([0, i], [1, truth[i]], [2, truth[i] // NEAR]))
        cells = pattern.random((CELLS, CELLS, 3)) + near.random((CELLS, CELLS, 3))
        cells = 100 * cells * draw.uniform(0.5, 1.0, 3) + draw.normal(0, 10, (CELLS, CELLS, 3))
        picture = Image.fromarray(cells.clip(0, 255).astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        content = io.BytesIO()
        picture.save(content, "jpeg", quality=85)
        (folder / f"{given[i]:04d}" / f"{i:08d}.jpg").write_bytes(content.getvalue())


def photographs(args: argparse.Namespace, given: np.ndarray, truth: np.ndarray) -> Path:
    """The folder of the photographs, which are made unless they are there."""
    folder, made = args.photos / "photos", args.photos / "made"
    os.environ["HITNET_CACHE"] = str(args.photos / "cache")
    if not made.exists():
        for name in range(args.classes):
            (folder / f"{name:04d}").mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(min(os.cpu_count() or 1, -(-args.images // PER_TASK))) as pool:
            tasks = [pool.submit(make_photos, folder, given, truth, i) for i in range(0, args.images, PER_TASK)]
            for task in tasks:
                task.result()
        made.touch()
    return folder


def average_precision(wrong: np.ndarray) -> float:
    """Of labels in an order, of which some are wrong (N,)."""
    return float((np.cumsum(wrong) / np.arange(1, len(wrong) + 1))[wrong].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--spread", type=float, default=2.0)
    parser.add_argument("--photos", type=Path, help="a new folder: photographs are made there, and audited")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--out", type=Path, default=RECORDS, help=f"the record (default: {RECORDS.name})")
    args = parser.parse_args()
    device = pick_device(args.device)
    with tempfile.TemporaryDirectory() as folder:
        how: dict[str, Any] = {"out": Path(folder) / "audit", "device": device}
        features = None if args.photos else Path(folder) / "features.npy"
        with get_context("fork").Pool(1) as other:  # the memory that it takes is not that of an audit
            given, truth = other.apply(make, (args, features))
        if features is not None:
            pixels, names = np.zeros((args.images, 4, 4), np.uint8), [f"class {k}" for k in range(args.classes)]
            data: Any = hitnet.Images.from_arrays(pixels, given, class_names=names)
        else:
            data = photographs(args, given, truth)
        clock = Clock(device)
        for owner, name in WATCHED:
            clock.watch(owner, name)
        print(f"{args.images:,} images made, {clock.memory()}", flush=True)
        began = time.perf_counter()
        audit = hitnet.audit_labels(data, judges=hitnet.Judges("features", features=features), **how)
        seconds = time.perf_counter() - began
    table = audit.table
    places = table["id"] if args.photos is None else table["path"].str[-12:-4].astype(int)
    wrong, score = (given != truth)[places.to_numpy()], table["score"].to_numpy()
    row = {
        **{name: getattr(args, name) for name in ("images", "classes", "dim", "spread", "seed")},
        **({} if args.photos is None else {"dim": None, "spread": None}),
        "seconds": round(seconds, 1),
        "parts": {name: round(value, 1) for name, value in clock.seconds.items()},
        **clock.gigabytes(),
        "average_precision": round(average_precision(wrong), 4),
        "said": round(float((1 - score).sum())),
        "wrong": int(wrong.sum()),
    }
    print(row, flush=True)
    replace_rows(args.out, [row | about(device)], "images", "classes", "dim", "spread", "seed", "device")


if __name__ == "__main__":
    main()
