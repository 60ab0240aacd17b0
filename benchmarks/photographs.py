"""How well and how fast an audit finds wrong labels of photographs, with its defaults on this machine.

    python benchmarks/photographs.py --clothing DIR [--cifar10n FILE.npz --data-dir DATA] [--minutes N]

DIR is a clone of github.com/alexeygrigorev/clothing-dataset-small (3,781 photographs, CC0). FILE.npz holds the arrays
`clean` and `aggregate` of CIFAR-10N (Wei et al. 2022). Each case is one call of `audit_labels` with its defaults, timed
from the files on disk to the finished table. On a CPU, features that an earlier case has computed are not computed
again, and softmax heads on the same features and folds (cleanlab's way: self-confidence or margin, whichever is better)
and the 20 nearest neighbours rank the same labels in the same run. `features` measures photographs per second from JPEG
file to feature, beside a plain DataLoader and an eager network. Rows go to benchmarks/records/photographs.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.metrics import average_precision_score
from torch.utils.data import DataLoader, Dataset

import hitnet
from hitnet.features.cache import cached_features
from hitnet.features.extraction import extract
from hitnet.features.heads import HeadOptions, fit_heads
from hitnet.features.neighbours import neighbour_votes
from hitnet.models.backbones import Backbone, open_backbone
from hitnet.training.device import pick_device
from parts.noisy_labels import CLOTHES, KINDS, Labels, clothing_files, with_noise, write_table
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).parent / "records" / "photographs.json"
SEEDS = (0, 1, 2)
FEW = 1000  # images of CIFAR-10 in the case of few images


def audited(data: hitnet.Data, given: Labels, truth: Labels) -> Row:
    """One audit with its defaults: average precision, expected and true number of errors, flags, seconds."""
    started = time.perf_counter()
    audit = hitnet.audit_labels(data)
    seconds = time.perf_counter() - started
    wrong = (given != truth)[audit.table["id"].to_numpy()]
    rank = -np.arange(len(wrong))  # the table's order: worst first
    flagged = (audit.table["flag"] == "wrong").to_numpy()
    return {
        "average_precision": float(average_precision_score(wrong, rank)),
        "errors": int(wrong.sum()),
        "expected_errors": float(audit.summary["expected_errors"]),
        "flagged": int(flagged.sum()),
        "flag_precision": float(wrong[flagged].mean()) if flagged.any() else None,
        "seconds": seconds,
        "judges": audit.summary["model"],
    }


def rivals(features: torch.Tensor, given: Labels, truth: Labels) -> Row:
    """Average precision of softmax heads and of nearest neighbours on the same features, and the heads' seconds."""
    labels, wrong, rows = torch.from_numpy(given), given != truth, np.arange(len(given))
    classes = int(given.max()) + 1
    started = time.perf_counter()
    logarithms = fit_heads(features, labels, classes, options=HeadOptions(loss="softmax"))
    seconds = time.perf_counter() - started
    softmax = logarithms.exp().mean(dim=0).numpy()
    other = softmax.copy()
    other[rows, given] = -1
    votes = neighbour_votes(features, labels, classes, 20).numpy()
    scores = (1 - softmax[rows, given], other.max(axis=1) - softmax[rows, given])
    return {
        "softmax_average_precision": max(float(average_precision_score(wrong, score)) for score in scores),
        "softmax_seconds": seconds,
        "neighbours_average_precision": float(average_precision_score(wrong, 1 - votes[rows, given])),
    }


def clothing(root: Path, kind: str, seed: int, device: torch.device) -> Row:
    files, truth = clothing_files(root)
    given = with_noise(truth, kind, seed)
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder) / "clothing.csv", files, given)
        row = {"images": len(files), "classes": len(CLOTHES)} | audited(
            hitnet.open_data(table, flip=True), given, truth
        )
    if device.type == "cpu":
        row |= rivals(cached_features(files, open_backbone("efficientnet-lite0")), given, truth)
    return row


def cifar(data_dir: Path | None, limit: int | None, given: Labels, device: torch.device) -> Row:
    images = hitnet.open_data("cifar10", data_dir=data_dir, limit=limit).load("train")
    truth = images.labels.numpy()
    noisy = images.with_labels(torch.from_numpy(given))
    row = {"images": len(images), "classes": 10} | audited(hitnet.open_data(noisy), given, truth)
    if device.type == "cpu":
        row |= rivals(extract(images.pixels, open_backbone("efficientnet-lite0")), given, truth)
    return row


class Photographs(Dataset[torch.Tensor]):
    """What a plain script would do: Pillow, resize, to tensor."""

    def __init__(self, files: list[Path], backbone: Backbone) -> None:
        self.files, self.backbone = files, backbone

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> torch.Tensor:
        size = self.backbone.input_size
        with Image.open(self.files[index]) as image:
            pixels = np.array(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
        return self.backbone.normalise(torch.from_numpy(pixels).permute(2, 0, 1)[None])[0]


def features(root: Path, device: torch.device) -> Row:
    """Photographs per second from JPEG files to features, and the same by a plain DataLoader and eager float32."""
    backbone = open_backbone("efficientnet-lite0")
    files = clothing_files(root)[0]
    files = files * 4 if device.type == "cuda" else files[:512]
    extract(files[:64], backbone, device=device)  # warm up
    started = time.perf_counter()
    extract(files, backbone, device=device)
    seconds = time.perf_counter() - started
    loader = DataLoader(
        Photographs(files[:2048], backbone), batch_size=32, num_workers=min(16, torch.get_num_threads())
    )
    network = backbone.module.to(device)
    started = time.perf_counter()
    with torch.inference_mode():
        for batch in loader:
            network(batch.to(device)).cpu()
    plain = time.perf_counter() - started
    rate, plain_rate = len(files) / seconds, min(2048, len(files)) / plain
    row = {"images": len(files), "images_per_second": rate, "plain_images_per_second": plain_rate}
    return row | {"ratio": rate / plain_rate}


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
    cases: list[tuple[str, str, int, Any]] = [("features", "clothing", 0, lambda: features(args.clothing, device))]
    for seed in args.seeds:
        for kind in KINDS:
            cases.append((kind, "clothing", seed, lambda k=kind, s=seed: clothing(args.clothing, k, s, device)))
    if args.cifar10n is not None:
        labels = np.load(args.cifar10n, allow_pickle=False)
        clean, people = (labels[name].astype(np.int64) for name in ("clean", "aggregate"))
        for seed in args.seeds:
            given = with_noise(clean[:FEW], "uniform", seed)
            cases.append(("uniform", "CIFAR-10, 1,000", seed, lambda g=given: cifar(args.data_dir, FEW, g, device)))
        cases.append(("people", "CIFAR-10, 1,000", 0, lambda: cifar(args.data_dir, FEW, people[:FEW], device)))
        if device.type == "cuda":
            cases.append(("people", "CIFAR-10N", 0, lambda: cifar(args.data_dir, None, people, device)))
    for case, data, seed, measure in cases:
        if args.minutes is not None and time.perf_counter() - started > 60 * args.minutes:
            print(f"no time left for {data}, {case}, seed {seed}")
            continue
        row = {"case": case, "data": data, "seed": seed, "on": device.type} | measure() | about(device)
        replace_rows(args.record, [row], "case", "data", "seed", "on")
        print(row, flush=True)


if __name__ == "__main__":
    main()
