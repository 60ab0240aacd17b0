"""How well probabilities are calibrated: those of `HitNetClassifier`, and those that an audit exports.

python benchmarks/probabilities.py classifier [--seeds 0 1 2] [--data-dir DATA]
python benchmarks/probabilities.py audit [--seeds 0 30] [--folder FOLDER] [--data-dir DATA]
python benchmarks/probabilities.py heads [--seeds 0 1 2]

classifier   trains on 5,000 images of MNIST and Fashion-MNIST, and on the pixels of Fashion-MNIST as features. Measures
             the expected calibration error (ECE, 15 intervals) on the 10,000 test images, at the fitted temperature and
             at 0.1.
audit        audits `mnist-sample` as `hitnet audit mnist-sample` does on a CPU, and exports probabilities. Measures the
             ECE of the same networks on 10,000 other images, the first of MNIST's training set, and that of the
             exported rows on their given labels. Counts what cleanlab's find_label_issues returns with its defaults:
             all labels, and those that people found wrong or right. Audits are kept in FOLDER and resumed. PULL and
             TEMPERATURE were chosen on the seeds 10 and 20.
heads        audits `clothing-sample` by heads on features. Measures the ECE on one half of the images after the
             temperature was fitted on the other half, and the same with the halves exchanged; and the ECE that
             perfectly calibrated probabilities have by chance on so few images (labels drawn from them).

Rows are added to records/probabilities.json.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from cleanlab.filter import find_label_issues

import hitnet
from hitnet.audit.networks import GREY_SHIFT, collect
from hitnet.audit.results import TEMPERATURE
from hitnet.capsules import HIT_RADIUS
from hitnet.data.known import datasets as samples
from hitnet.probabilities import class_probabilities, fit_temperature
from hitnet.sklearn import HitNetClassifier
from parts.calibration import expected_calibration_error
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "probabilities.json"
CPU = torch.device("cpu")
TRAINED, HELD_OUT = 5_000, 10_000
CHOSEN_ON = (10, 20)  # seeds


def classifier(seed: int, args: argparse.Namespace) -> list[Row]:
    rows = []
    for data, kind in (("mnist", "images"), ("fashion-mnist", "images"), ("fashion-mnist", "features")):
        train, test = (hitnet.open_data(data, data_dir=args.data_dir).load(split) for split in ("train", "test"))
        X, X_test = train.pixels[:TRAINED].numpy(), test.pixels.numpy()
        if kind == "features":
            X, X_test = X.reshape(len(X), -1) / 255, X_test.reshape(len(X_test), -1) / 255
        truth = test.labels.numpy()
        fitted = HitNetClassifier(random_state=seed, device="cpu").fit(X, train.labels[:TRAINED].numpy())
        distances = fitted.distances(X_test)
        rows.append(
            {
                "part": "classifier",
                "data": data,
                "arm": kind,
                "error": float((distances.argmin(axis=1) != truth).mean()),
                "temperature": fitted.temperature_,
                "ece": expected_calibration_error(class_probabilities(distances, fitted.temperature_), truth),
                "ece_at_hit_radius": expected_calibration_error(class_probabilities(distances), truth),
            }
        )
    return rows


def audit(seed: int, args: argparse.Namespace) -> list[Row]:
    folder = args.folder / f"seed-{seed}"
    result = hitnet.audit_labels(
        "mnist-sample", judges=hitnet.Judges(seed=seed), device="cpu", out=folder, resume=folder.exists()
    )
    runs = [hitnet.open_run(path) for path in sorted((folder / "models").iterdir())]
    others = hitnet.open_data("mnist", data_dir=args.data_dir).load("train").first(HELD_OUT)
    distances, truth = collect(runs, others, CPU, grey_shift=GREY_SHIFT)[0].mean(axis=0), others.labels.numpy()
    rate = result.summary.expected_errors / len(result.table)
    exported = class_probabilities(distances, TEMPERATURE, error_rate=rate)
    with tempfile.TemporaryDirectory() as temporary:
        array, table = result.export(Path(temporary) / "probabilities.npy", format="pred-probs")
        probabilities, rows = np.load(array), pd.read_csv(table)
    plain = class_probabilities(result.distances[np.argsort(result.table["id"].to_numpy(), kind="stable")])
    row = {
        "part": "audit",
        "data": "mnist-sample",
        "arm": "chosen on" if seed in CHOSEN_ON else "reported",
        "error": float((distances.argmin(axis=1) != truth).mean()),
        "ece": expected_calibration_error(exported, truth),
        "ece_at_hit_radius": expected_calibration_error(class_probabilities(distances, HIT_RADIUS), truth),
        "ece_of_rows": expected_calibration_error(probabilities, rows["label"].to_numpy()),
        "best_temperature": fit_temperature(distances, truth),
        **cleanlab_finds(probabilities, rows),
        **{f"{name}_at_hit_radius": count for name, count in cleanlab_finds(plain, rows).items()},
        "flagged": result.summary.flags.get("wrong", 0),
    }
    return [row]


def cleanlab_finds(probabilities: np.ndarray, rows: pd.DataFrame) -> dict[str, int]:
    """How many labels cleanlab calls wrong, and how many of them people found wrong (of 15) and right (of 85)."""
    issues = rows["id"][find_label_issues(rows["label"], probabilities, n_jobs=1)]
    judgements = samples.judgements()
    wrong = judgements["consensus"] == "error"
    return {
        "issues": len(issues),
        "known_errors": int(issues.isin(judgements["id"][wrong]).sum()),
        "known_right": int(issues.isin(judgements["id"][~wrong]).sum()),
    }


def heads(seed: int, args: argparse.Namespace) -> list[Row]:
    result = hitnet.audit_labels("clothing-sample", judges=hitnet.Judges("features", seed=seed), device="cpu")
    labels = result.table["given"].map(result.class_names.index).to_numpy()
    random = np.random.default_rng(seed)
    half = random.permutation(len(labels)) % 2
    errors, by_chance = [], []
    for part in (0, 1):
        temperature = fit_temperature(result.distances[half == part], labels[half == part])
        probabilities = class_probabilities(result.distances[half != part], temperature)
        errors.append(expected_calibration_error(probabilities, labels[half != part]))
        for _ in range(200):
            drawn = (random.uniform(size=(len(probabilities), 1)) > probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
            by_chance.append(expected_calibration_error(probabilities, drawn))
    row = {
        "part": "heads",
        "data": "clothing-sample",
        "arm": "out of sample",
        "error": float((result.distances.argmin(axis=1) != labels).mean()),
        "ece": float(np.mean(errors)),
        "ece_by_chance": float(np.mean(by_chance)),
        "temperature": fit_temperature(result.distances, labels),
    }
    return [row]


PARTS = {"classifier": (classifier, [0, 1, 2]), "audit": (audit, [0, 30]), "heads": (heads, [0, 1, 2])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--folder", type=Path, default=Path("audits/probabilities"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=RECORD)
    args = parser.parse_args()
    measure, seeds = PARTS[args.part]
    for seed in args.seeds or seeds:
        rows = [row | {"seed": seed} for row in measure(seed, args)]
        for row in rows:
            print(row, flush=True)
        replace_rows(args.out, [row | about(CPU) for row in rows], "part", "data", "arm", "seed")


if __name__ == "__main__":
    main()
