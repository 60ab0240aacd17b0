"""How well features of a frozen backbone find wrong labels of photographs, against cleanlab and neighbours on the same.

    python benchmarks/photographs.py labels --photos CLOTHING --data-dir DATA --cifar10n FILE.npz --cache FOLDER
    python benchmarks/photographs.py features --photos CLOTHING
    python benchmarks/photographs.py heads

CLOTHING is a copy of github.com/alexeygrigorev/clothing-dataset-small (CC0): 3,781 photographs of ten classes, its
three splits taken together. Each step prints its rows and puts them into benchmarks/records/photographs.json.

`labels`: average precision of ranking labels that were made wrong, for noise seeds 0, 1 and 2. What was tuned was tuned
on seeds from 100 on. Cases: clothing-uniform (5 % of the labels replaced by another class at random), clothing-alike
(5 % replaced by the class that heads on the true labels confuse most with the true one: LOOK_ALIKES), cifar10-uniform
and cifar10-people (the first 1,000 training images of CIFAR-10 at 224 px; 5 % random, and the aggregate labels of
CIFAR-10N; there the seed is only that of the heads). The rival is cleanlab's `get_label_quality_scores` on softmax
heads of the same features and folds: as many as all of our heads, each trained for longer.

`features`: images per second from JPEG files to features, against a DataLoader and an eager float32 network.
`heads`: seconds of all heads for 10,000 images and ten classes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from cleanlab.rank import get_label_quality_scores
from PIL import Image, ImageOps
from sklearn.metrics import average_precision_score

import hitnet
from hitnet.audit import scores
from hitnet.audit.calibration import calibrate
from hitnet.features.cache import cached_features
from hitnet.features.extraction import extract
from hitnet.features.heads import fit_heads
from hitnet.features.judges import SOFTMAX, judge_features
from hitnet.features.neighbours import neighbour_votes
from hitnet.models.backbones import Backbone, open_backbone
from hitnet.models.efficientnet_lite import MEAN, STD, efficientnet_lite0
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "photographs.json"
CLASSES = ("dress", "hat", "longsleeve", "outwear", "pants", "shirt", "shoes", "shorts", "skirt", "t-shirt")
# For each class, the one that Hit-or-Miss heads (5 folds x 4, seed 0) on the true labels name most often in its place.
LOOK_ALIKES = np.array([9, 6, 9, 5, 7, 2, 9, 4, 7, 2])
SEEDS = (0, 1, 2)
SHARE = 0.05
RIVAL = replace(SOFTMAX, repeats=6, steps=200)  # as many heads as our judges have in all, trained for longer


def photographs(folder: Path) -> tuple[list[Path], np.ndarray]:
    """Files of all splits, ordered by path, and their classes."""
    files = sorted(
        path
        for split in ("train", "validation", "test")
        for path in (folder / split).rglob("*")
        if path.suffix.lower() in (".jpg", ".jpeg", ".png")
    )
    return files, np.array([CLASSES.index(path.parent.name) for path in files])


def noisy(truth: np.ndarray, kind: str, seed: int) -> np.ndarray:
    """Labels of which 5 % are wrong."""
    draw = np.random.default_rng(seed)
    chosen = draw.choice(len(truth), round(SHARE * len(truth)), replace=False)
    given = truth.copy()
    if kind == "uniform":
        given[chosen] = (truth[chosen] + draw.integers(1, 10, len(chosen))) % 10
    else:
        given[chosen] = LOOK_ALIKES[truth[chosen]]
    return given


def judged(case: str, features: torch.Tensor, given: np.ndarray, truth: np.ndarray, seed: int) -> list[Row]:
    """Average precision of every method on one case and seed."""
    labels, wrong, rows = torch.from_numpy(given), given != truth, np.arange(len(given))

    def row(method: str, doubt: np.ndarray, seconds: float) -> Row:
        precision = float(average_precision_score(wrong, doubt))
        found = {"case": case, "method": method, "seed": seed, "ap": precision, "errors": int(wrong.sum())}
        print(f"{case} seed {seed}: {method} {precision:.4f} ({seconds:.1f} s)", flush=True)
        return found | {"images": len(given), "seconds": seconds} | about(torch.device("cpu"))

    started = time.perf_counter()
    judgement = judge_features(features, labels, 10, seed=seed)
    ours = time.perf_counter() - started
    distances = judgement.distances.numpy().astype(np.float64)
    found = []
    for method, part in (("hitnet", distances), ("hitnet, capsules only", distances[: judgement.capsules])):
        doubt = scores.doubt(scores.gather(part, given), given).value
        calibration = calibrate(part, given, doubt)
        flagged = calibration.flagged
        found.append(
            row(method, doubt, ours)
            | {
                "expected_errors": calibration.expected,
                "flagged": int(flagged.sum()),
                "precision": float(wrong[flagged].mean()) if flagged.any() else None,
            }
        )
        print(f"    {calibration.sentence} True: {wrong.sum()}, {wrong[flagged].mean():.2f}", flush=True)
    started = time.perf_counter()
    probabilities = rival(features, labels, seed)
    seconds = time.perf_counter() - started
    for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        quality = get_label_quality_scores(given, probabilities, method=method)
        found.append(row(f"cleanlab {method}, softmax heads", -quality, seconds))
    started = time.perf_counter()
    votes = neighbour_votes(features, labels, 10, 20).numpy()
    found.append(row("20 neighbours", -votes[rows, given], time.perf_counter() - started))
    return found


def rival(features: torch.Tensor, labels: torch.Tensor, seed: int) -> np.ndarray:
    """Probabilities (N, K) of softmax heads."""
    mean = fit_heads(features, labels, 10, options=RIVAL, seed=seed).exp().mean(dim=0)
    return (mean / mean.sum(dim=1, keepdim=True)).numpy()


def measure_labels(args: argparse.Namespace) -> list[Row]:
    backbone, found = open_backbone("efficientnet-lite0"), []
    if args.photos is not None:
        files, truth = photographs(args.photos)
        features = cached_features(files, backbone, folder=args.cache)
        for kind in ("uniform", "alike"):
            for seed in SEEDS:
                found += judged(f"clothing-{kind}", features, noisy(truth, kind, seed), truth, seed)
    if args.cifar10n is not None:
        images = hitnet.data.load("cifar10", "train", data_dir=args.data_dir).first(1000)
        people = np.load(args.cifar10n, allow_pickle=False)["aggregate"][:1000].astype(np.int64)
        features, truth = extract(images.pixels, backbone), images.labels.numpy()
        for seed in SEEDS:
            found += judged("cifar10-uniform", features, noisy(truth, "uniform", seed), truth, seed)
            found += judged("cifar10-people", features, people, truth, seed)
    return found


class Plain(torch.utils.data.Dataset[torch.Tensor]):
    """What one would write without this package: the same middle of each photograph, decoded whole."""

    def __init__(self, files: Sequence[Path], size: int) -> None:
        self.files, self.size = files, size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> torch.Tensor:
        image = ImageOps.exif_transpose(Image.open(self.files[i])).convert("RGB")
        image = ImageOps.fit(image, (self.size, self.size), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def plain(files: Sequence[Path], size: int) -> torch.Tensor:
    network = efficientnet_lite0()
    loader = torch.utils.data.DataLoader(Plain(files, size), batch_size=32, num_workers=torch.get_num_threads())
    with torch.inference_mode():
        return torch.cat([network.forward_features(batch) for batch in loader])


def measure_features(args: argparse.Namespace) -> list[Row]:
    """Both ways in turn, three times: the machine may be busy with other things."""
    backbone: Backbone = open_backbone("efficientnet-lite0")
    files = photographs(args.photos)[0][:: 3781 // args.images][: args.images]
    speeds: dict[str, list[float]] = {"DataLoader, eager float32": [], "hitnet": []}
    for _ in range(3):
        for name, work in zip(speeds, (lambda: plain(files, 224), lambda: extract(files, backbone)), strict=True):
            started = time.perf_counter()
            work()
            speeds[name].append(len(files) / (time.perf_counter() - started))
    device = about(torch.device("cpu"))
    return [
        {"case": "features", "method": name, "seed": None, "images": len(files), "images_per_second": values} | device
        for name, values in speeds.items()
    ]


def measure_heads(args: argparse.Namespace) -> list[Row]:
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (10_000,), generator=draw)
    features = torch.randn(10, 2560, generator=draw)[labels] + 3 * torch.randn(10_000, 2560, generator=draw)
    found = []
    for name, work in (
        ("hit-or-miss heads, 5 folds x 4", lambda: fit_heads(features, labels, 10)),
        ("softmax heads, 5 folds x 4", lambda: fit_heads(features, labels, 10, options=replace(SOFTMAX, repeats=4))),
        ("all judges", lambda: judge_features(features, labels, 10)),
    ):
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        row = {"case": "heads", "method": name, "seed": None, "images": 10_000, "features": 2560, "seconds": seconds}
        found.append(row | about(torch.device("cpu")))
    return found


STEPS = {"labels": measure_labels, "features": measure_features, "heads": measure_heads}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cifar10n", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--images", type=int, default=400)
    args = parser.parse_args(given)
    rows = STEPS[args.step](args)
    for row in rows:
        print({name: value for name, value in row.items() if name not in ("torch", "hitnet", "date")})
    replace_rows(RECORD, rows, "case", "method", "seed")


if __name__ == "__main__":
    main()
