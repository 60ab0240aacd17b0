"""How well and how fast an audit on a GPU finds wrong labels of photographs, with a fine-tuned backbone.

    python benchmarks/fine_tuning.py --clothing DIR --cifar10n FILE.npz --data-dir DATA

DIR is a clone of github.com/alexeygrigorev/clothing-dataset-small (3,781 photographs, CC0). FILE.npz holds the arrays
`clean` and `aggregate` of CIFAR-10N (Wei et al. 2022). Each case is one call of `audit_labels` with its defaults, timed
from the files on disk to the finished table; `features` measures how many photographs per second become features.
Rows go to benchmarks/records/fine_tuning.json. `--minutes` stops before a case that would not fit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score

import hitnet
from hitnet.features.one_pass import cached_features
from hitnet.models import open_backbone
from hitnet.runtime.device import pick_device
from parts.noisy_labels import CLOTHES, KINDS, clothing_files, with_noise, write_table
from parts.record import about, replace_rows

RECORD = Path(__file__).parent / "records" / "fine_tuning.json"
SEEDS = (0, 1, 2)


def measured(data: hitnet.Data, given: np.ndarray, truth: np.ndarray) -> dict[str, object]:
    """One audit with its defaults: average precision, expected and true number of errors, seconds."""
    started = time.perf_counter()
    audit = hitnet.audit_labels(data)
    seconds = time.perf_counter() - started
    wrong = (given != truth)[audit.table["id"].to_numpy()]
    flagged = (audit.table["flag"] == "wrong").to_numpy()
    return {
        "average_precision": float(average_precision_score(wrong, -audit.table["score"].to_numpy())),
        "errors": int(wrong.sum()),
        "expected_errors": float(audit.summary.expected_errors),
        "flagged": int(flagged.sum()),
        "flag_precision": float(wrong[flagged].mean()) if flagged.any() else None,
        "seconds": seconds,
        "judges": audit.summary.model,
    }


def clothing(root: Path, kind: str, seed: int) -> dict[str, object]:
    files, truth = clothing_files(root)
    given = with_noise(truth, kind, seed)
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder) / "clothing.csv", files, given)
        return {"images": len(files), "classes": len(CLOTHES)} | measured(
            hitnet.open_data(table, flip=True), given, truth
        )


def cifar10n(file: Path, data_dir: Path | None) -> dict[str, object]:
    images = hitnet.open_data("cifar10", data_dir=data_dir).load("train")
    labels = np.load(file, allow_pickle=False)
    given, truth = labels["aggregate"].astype(np.int64), labels["clean"].astype(np.int64)
    if not np.array_equal(truth, images.labels.numpy()):
        raise SystemExit("the clean labels of CIFAR-10N do not match CIFAR-10's order")
    noisy = images.with_labels(torch.from_numpy(given))
    return {"images": len(images), "classes": 10} | measured(hitnet.open_data(noisy), given, truth)


def features(root: Path, device: torch.device, repeats: int = 4) -> dict[str, object]:
    """Photographs per second from JPEG files to features; the files are read several times over."""
    files = clothing_files(root)[0]
    backbone = open_backbone("efficientnet-lite0")
    started = time.perf_counter()
    for number in range(-1, repeats):
        started = started if number else time.perf_counter()  # the first pass warms up
        with tempfile.TemporaryDirectory() as folder:
            cached_features(files, backbone, device=device, folder=folder)
    seconds = time.perf_counter() - started
    return {"images": len(files) * repeats, "seconds": seconds, "images_per_second": len(files) * repeats / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clothing", type=Path, required=True)
    parser.add_argument("--cifar10n", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--minutes", type=float, help="start no case after N minutes")
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args()
    device, started = pick_device("auto"), time.perf_counter()
    cases = [("features", "clothing", 0, lambda: features(args.clothing, device))]
    for seed in args.seeds:
        for kind in KINDS:
            cases.append((kind, "clothing", seed, lambda kind=kind, seed=seed: clothing(args.clothing, kind, seed)))
        if args.cifar10n is not None and seed == args.seeds[0]:
            cases.append(("people", "CIFAR-10N", 0, lambda: cifar10n(args.cifar10n, args.data_dir)))
    for case, data, seed, measure in cases:
        if args.minutes is not None and time.perf_counter() - started > 60 * args.minutes:
            print(f"no time left for {data}, {case}, seed {seed}")
            continue
        row = {"case": case, "data": data, "seed": seed} | measure() | about(device)
        replace_rows(args.record, [row], "case", "data", "seed")
        print(row, flush=True)


if __name__ == "__main__":
    main()
