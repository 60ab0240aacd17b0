"""What `hitnet train photos/` fits on kept features: its error against logistic regression, and foreign images.

    python benchmarks/kept_heads.py KEPT/clothing.npz KEPT/caltech.npz … [--images 2000] [--seeds 0 1 2 3 4]

The features are those that `benchmarks/audits.py features` keeps. Half of the images train the head; the other half is
counted. Logistic regression gets the same standardised features, and the best of five penalties on a fifth of the
images that train it. The images of the next set in the list are foreign: `rejected` is the share of them that answers
"none" where 95 or 99 % of known images keep their class. Rows go to benchmarks/records/kept_heads.json.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from hitnet.capsules import distances
from hitnet.features.heads import CLEAN_DROPOUT, HeadOptions, fit_heads
from hitnet.inference.prediction import misfit_limit
from hitnet.probabilities import class_probabilities, fit_temperature
from hitnet.training.frozen import class_sums, unseen_misfits
from parts.calibration import expected_calibration_error
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "kept_heads.json"
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


def opened(file: Path, images: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """At most this many images, by a draw."""
    arrays = np.load(file, allow_pickle=False)
    some = np.random.RandomState(seed).permutation(len(arrays["y"]))[:images]
    labels = np.unique(arrays["y"], return_inverse=True)[1][some]
    return torch.from_numpy(arrays["x"][some].astype(np.float32)), torch.from_numpy(labels.astype(np.int64))


def regression_error(train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    """The error of logistic regression with the penalty that is best on a fifth of the images."""
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    cut = len(train) // 5

    def error(penalty: float) -> float:
        fitted = LogisticRegression(C=penalty, max_iter=300).fit(train[cut:], labels[cut:])
        return float((fitted.predict(train[:cut]) != labels[:cut]).mean())

    best = LogisticRegression(C=min(PENALTIES, key=error), max_iter=300).fit(train, labels)
    return float((best.predict(test) != truth).mean())


def measure(features: torch.Tensor, labels: torch.Tensor, foreign: torch.Tensor, seed: int) -> Row:
    half, classes = len(labels) // 2, int(labels.max()) + 1
    train, test = (features[:half], labels[:half]), (features[half:], labels[half:])
    began = time.perf_counter()
    fit = fit_heads(*train, classes, options=HeadOptions(dropout=CLEAN_DROPOUT, capsule_dim=16), seed=seed)
    seconds = time.perf_counter() - began
    found = distances(fit.layer(test[0].double())).detach().numpy()
    temperature = fit_temperature(fit.distances.double().numpy(), train[1].numpy())
    sums = class_sums(*train, classes)
    known = unseen_misfits(*train, sums).numpy()
    typical = torch.nn.functional.normalize(sums, dim=1)
    unlike = [1 - (torch.nn.functional.normalize(rows, dim=1) @ typical.T).amax(dim=1) for rows in (test[0], foreign)]
    row: Row = {
        "error": float((found.argmin(axis=1) != test[1].numpy()).mean()),
        "regression_error": regression_error(*(part.numpy() for part in (*train, *test))),
        "ece": expected_calibration_error(class_probabilities(found, temperature), test[1].numpy()),
        "seconds": seconds,
    }
    for keep in (0.95, 0.99):
        limit = misfit_limit(known, keep)
        row[f"known_rejected_at_{keep}"], row[f"foreign_rejected_at_{keep}"] = (
            float((each > limit).double().mean()) for each in unlike
        )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    args = parser.parse_args()
    for seed in args.seeds:
        for file, other in zip(args.files, [*args.files[1:], args.files[0]], strict=True):
            features, labels = opened(file, args.images, seed)
            row = measure(features, labels, opened(other, args.images, seed)[0], seed)
            print(file.stem, other.stem, row, flush=True)
            names = {"set": file.stem, "foreign": other.stem, "seed": seed, "images": len(labels)}
            replace_rows(RECORD, [names | row | about(torch.device("cpu"))], "set", "seed")


if __name__ == "__main__":
    main()
