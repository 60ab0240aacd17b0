"""How quickly a review finds wrong labels, in random order and in the audit's order.

    python benchmarks/review.py clothing --photos CLOTHING --cache FOLDER
    python benchmarks/review.py cifar10n --data-dir DATA --cifar10n FILE.npz
    python benchmarks/review.py rows
    python benchmarks/review.py tables

A simulated reviewer looks at one image after the other and always decides right. `clothing`: the 3,781 photographs of
github.com/alexeygrigorev/clothing-dataset-small (CC0), 5 % of whose labels were replaced by another class at random
(noise seeds 0, 1, 2). `cifar10n`: the first 5,000 training images of CIFAR-10 with the aggregate labels of CIFAR-10N.
What people got wrong there is given, so seeds 0, 1, 2 are only those of the heads. All stand on features of the frozen
backbone efficientnet-lite0.

After 1, 2, 5, 6, 7 and 10 % of the images: errors found, share of labels still wrong, and how many errors the page
expects among the images not yet seen.

`rows`: an audit folder of 1,000,000 made-up rows, reviewed in Chromium: seconds to the first rows, and of filters.
`tables` writes the tables of docs/review.md from the record.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import hitnet
from hitnet.audit.scoring import score_labels
from hitnet.features.cache import cached_features
from hitnet.features.extraction import extract
from hitnet.features.opinions import judge_features
from hitnet.models.backbones import open_backbone
from hitnet.runtime import files
from parts.noisy_labels import Labels, clothing_files, with_noise
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "review.json"
PAGE = Path(__file__).parents[1] / "docs" / "review.md"
SEEDS = (0, 1, 2)
SHARES = (0.01, 0.02, 0.05, 0.06, 0.07, 0.10)
CIFAR_IMAGES = 5000
NAMES = {"clothing": "clothing, 5 % wrong", "cifar10n": "CIFAR-10N, first 5,000"}
WAYS = {"random": "random order", "fixed": "the audit's order"}
BEGIN, END = "<!-- table: benchmarks/review.py tables -->", "<!-- end of table -->"


def review(case: str, features: torch.Tensor, given: Labels, truth: Labels, seed: int) -> list[Row]:
    """One row per way to review: errors found, share still wrong and errors expected to be left, per share reviewed."""
    wrong, count = given != truth, len(given)
    opinions = judge_features(features, torch.from_numpy(given), int(truth.max()) + 1, seed=seed)
    scores = score_labels(opinions, given)
    orders = {
        "random": np.random.default_rng(seed).permutation(count),
        "fixed": np.argsort(-scores.doubt, kind="stable"),
    }
    rows = []
    for way, order in orders.items():
        left = {f"{share:.0%}": order[round(share * count) :] for share in SHARES}
        row: Row = {
            "case": case,
            "way": way,
            "seed": seed,
            "images": count,
            "wrong": int(wrong.sum()),
            "found": {share: int(wrong.sum() - wrong[unseen].sum()) for share, unseen in left.items()},
            "still_wrong": {share: float(wrong[unseen].sum() / count) for share, unseen in left.items()},
            "expected_left": {share: float((1 - scores.score[unseen]).sum()) for share, unseen in left.items()},
        }
        print(case, way, seed, row["found"], row["expected_left"], flush=True)
        rows.append(row | about(torch.device("cpu")))
    return rows


def measure_clothing(args: argparse.Namespace) -> list[Row]:
    photos, truth = clothing_files(args.photos)
    features = cached_features(photos, open_backbone("efficientnet-lite0"), folder=args.cache).float()
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


def found_table(rows: list[Row]) -> str:
    """Errors found, and the share of labels still wrong, as the mean over seeds."""
    shares = list(rows[0]["found"])
    lines = [
        f"| data | order | {' | '.join(f'after {share}' for share in shares)} |",
        "|---|---|" + "---|" * len(shares),
    ]
    for case, name in NAMES.items():
        for way, words in WAYS.items():
            part = [row for row in rows if (row["case"], row["way"]) == (case, way)]
            if not part:
                continue
            found, still = (
                {s: np.mean([row[key][s] for row in part]) for s in shares} for key in ("found", "still_wrong")
            )
            what = f"{name}: {part[0]['wrong']} of {part[0]['images']:,}" if way == "random" else ""
            cells = [f"{found[share]:.0f} ({100 * still[share]:.2f} %)" for share in shares]
            lines.append(f"| {what} | {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def left_table(rows: list[Row]) -> str:
    """What the page expects to be left in the audit's order, and what is left; seeds in ascending order."""
    lines = ["| data | reviewed | left, as the page tells | left, in truth |", "|---|---|---|---|"]
    for case, name in NAMES.items():
        part = [row for row in rows if (row["case"], row["way"]) == (case, "fixed")]
        part.sort(key=lambda row: row["seed"])
        for share in part[0]["found"] if part else ():
            told = ", ".join(f"{row['expected_left'][share]:.0f}" for row in part)
            lines.append(
                f"| {name} | {share} | {told} | {', '.join(str(r['wrong'] - r['found'][share]) for r in part)} |"
            )
    return "\n".join(lines)


def write_tables(record: Path) -> None:
    rows = [row for row in files.read_json(record) if row["case"] in NAMES]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    files.write_text(PAGE, f"{before}{BEGIN}\n{found_table(rows)}\n\n{left_table(rows)}\n{END}{after}")


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
        write_tables(args.record)
        return
    replace_rows(args.record, STEPS[args.step](args), "case", "way", "seed")


if __name__ == "__main__":
    main()
