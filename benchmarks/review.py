"""How quickly a review finds wrong labels: in random order, in the audit's order, and ranked anew as one decides.

    python benchmarks/review.py clothing --photos CLOTHING --cache FOLDER
    python benchmarks/review.py cifar10n --data-dir DATA --cifar10n FILE.npz
    python benchmarks/review.py rows
    python benchmarks/review.py tables

A simulated reviewer looks at one image after the other and always decides right. `clothing`: the 3,781 photographs of
github.com/alexeygrigorev/clothing-dataset-small (CC0), 5 % of whose labels were replaced by another class at random
(noise seeds 0, 1, 2). `cifar10n`: the first 5,000 training images of CIFAR-10 with the aggregate labels of CIFAR-10N.
What people got wrong there is given, so seeds 0, 1, 2 are only those of the heads. All stand on features of the frozen
backbone efficientnet-lite0. What was chosen was chosen on clothing, with noise seeds from 100 on.

After 1, 2, 5, 6, 7 and 10 % of the images, and after every 50 decisions in between: errors found, share of labels still
wrong, and how many errors the review expects among the images not yet seen, with its interval.

`rows`: an audit folder of 1,000,000 made-up rows, reviewed in Chromium: seconds to the first rows, and of filters.
`tables` writes the table and the plot of docs/review.md from the record.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

import hitnet
from hitnet.audit import scores
from hitnet.audit.margins import margins
from hitnet.features.cache import cached_features
from hitnet.features.extraction import extract
from hitnet.features.opinions import all_distances
from hitnet.models.backbones import open_backbone
from hitnet.review.estimate import Left
from hitnet.review.ranking import EVERY, fit_judges, rank_again
from parts.noisy_labels import Labels, clothing_files, with_noise
from parts.record import Row, about, replace_rows
from parts.review_tables import write_tables

RECORD = Path(__file__).with_name("records") / "review.json"
SEEDS = (0, 1, 2)
SHARES = (0.01, 0.02, 0.05, 0.06, 0.07, 0.10)
MOST = 0.10  # of the images are reviewed
CIFAR_IMAGES = 5000


def simulate(features: torch.Tensor, given: Labels, truth: Labels, seed: int) -> Iterator[tuple[Labels, Left | None]]:
    """A review that is ranked anew: after every 50 decisions, all rows decided so far and what is left by estimate."""
    known, none = np.zeros(0, np.int64), np.zeros(0, np.int64)
    classes = int(truth.max()) + 1
    first = all_distances(fit_judges(features, given, none, none, classes, seed=seed))
    order = np.argsort(-scores.doubt(margins(first, given), given).value, kind="stable")
    left = None
    while True:
        yield known, left
        seen = np.isin(order, known)
        known = np.concatenate([known, order[~seen][:EVERY]])
        judged = fit_judges(features, given, known, truth[known], classes, seed=seed + 1000 + len(known))
        ranking, left = rank_again(judged, given, known, truth[known])
        order = ranking.order


def review(case: str, features: torch.Tensor, given: Labels, truth: Labels, seed: int) -> list[Row]:
    """One row per way to review."""
    wrong = given != truth
    count, most = len(given), round(MOST * len(given))
    started = time.perf_counter()
    steps, path = [], np.zeros(0, np.int64)
    fixed = None
    for known, left in simulate(features, given, truth, seed):
        path = known
        found = int(wrong[known].sum())
        steps.append(
            {"seen": len(known), "found": found, "left": int(wrong.sum()) - found}
            | ({} if left is None else {"expected": left.expected, "low": left.low, "high": left.high})
        )
        print(case, seed, steps[-1], flush=True)
        if len(known) >= most:
            break
    fits = len(steps) - 1
    seconds = (time.perf_counter() - started) / (fits + 1)
    first = all_distances(fit_judges(features, given, path[:0], path[:0], int(truth.max()) + 1, seed=seed))
    doubt = scores.doubt(margins(first, given), given).value
    fixed = np.argsort(-doubt, kind="stable")
    random = np.random.default_rng(seed).permutation(count)
    rows = []
    for way, order in (("random", random), ("fixed", fixed), ("anew", path)):
        marks = {share: order[: round(share * count)] for share in SHARES}
        row: Row = {
            "case": case,
            "way": way,
            "seed": seed,
            "images": count,
            "wrong": int(wrong.sum()),
            "found": {f"{share:.0%}": int(wrong[rows_seen].sum()) for share, rows_seen in marks.items()},
            "still_wrong": {
                f"{share:.0%}": float((wrong.sum() - wrong[rows_seen].sum()) / count)
                for share, rows_seen in marks.items()
            },
        }
        if way == "anew":
            row |= {"every": EVERY, "seconds_per_fit": seconds, "steps": steps}
        rows.append(row | about(torch.device("cpu")))
    return rows


def measure_clothing(args: argparse.Namespace) -> list[Row]:
    files, truth = clothing_files(args.photos)
    features = cached_features(files, open_backbone("efficientnet-lite0"), folder=args.cache).float()
    seeds = args.seed or SEEDS
    return [row for s in seeds for row in review("clothing", features, with_noise(truth, "uniform", s), truth, s)]


def measure_cifar10n(args: argparse.Namespace) -> list[Row]:
    images = hitnet.open_data("cifar10", data_dir=args.data_dir, limit=CIFAR_IMAGES).load("train")
    people = np.load(args.cifar10n, allow_pickle=False)["aggregate"][:CIFAR_IMAGES].astype(np.int64)
    if args.features is not None and args.features.is_file():
        features = torch.from_numpy(np.load(args.features, allow_pickle=False))
    else:
        features = extract(images.pixels, open_backbone("efficientnet-lite0"))
        if args.features is not None:
            np.save(args.features, features.numpy(), allow_pickle=False)
    truth = images.labels.numpy()
    return [row for s in args.seed or SEEDS for row in review("cifar10n", features.float(), people, truth, s)]


def measure_rows(args: argparse.Namespace) -> list[Row]:
    from parts.many_rows import measure

    return measure(args.images, args.folder)


STEPS = {"clothing": measure_clothing, "cifar10n": measure_cifar10n, "rows": measure_rows}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=[*STEPS, "tables"])
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cifar10n", type=Path)
    parser.add_argument("--features", type=Path, help="CIFAR's features: read from this .npy, or written to it")
    parser.add_argument("--seed", type=int, action="append")
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep the made-up audit here, and read it from here")
    parser.add_argument("--record", type=Path, default=RECORD)
    args = parser.parse_args(given)
    if args.step == "tables":
        write_tables(args.record, Path(__file__).parents[1] / "docs")
        return
    replace_rows(args.record, STEPS[args.step](args), "case", "way", "seed")


if __name__ == "__main__":
    main()
