"""How well the audit finds wrong labels, on many datasets: ranking, number of errors, flags and suggestions.

    python benchmarks/audits.py features FOLDER... --out KEPT
    python benchmarks/audits.py labels KEPT/*.npz [--noise uniform] [--images 3000] [--rates 0.05] [--seeds 0]

`features` computes features of folders of images, one folder per class, by the frozen EfficientNet-Lite0, and writes
KEPT/NAME.npz with the arrays `x` (N, D) and `y` (N,). A file may also have `given`, the labels of people.

`labels` makes a share of the labels wrong: each becomes any other class (`uniform`), or the class that looks most alike
(`look-alike`, parts/kept_features.py); labels of people stay as they are (`people`). Then it lets the audit's heads and
neighbours judge them, as by default on a CPU. The rivals get the same probabilities, those that our judges, none of
which has seen the label, give together: cleanlab's `get_label_quality_scores`, all three methods, and the labels that
its `Datalab` reports by default. `softmax` are these methods on softmax heads alone, which learn the labels as they
are. Rows go to benchmarks/records/audits.json. The sets CHOSEN_ON were used to choose how heads are fitted; the others
are only reported.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from cleanlab import Datalab
from cleanlab.rank import get_label_quality_scores
from sklearn.metrics import average_precision_score

import hitnet
from hitnet.audit.feature_judges import judge_features
from hitnet.audit.noise_model import fit_noise_model
from hitnet.audit.scoring import logits_by_kind, score_labels
from hitnet.features.opinions import Opinion, on_all_classes
from hitnet.features.softmax_heads import fit_softmax_heads
from parts.kept_features import Case, read_case
from parts.noisy_labels import KINDS
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "audits.json"
CHOSEN_ON = ("clothing", "caltech", "tiny", "cifar10n", "imagenette")
SHARES = (0.01, 0.02, 0.05, 0.1)  # of the images, most doubtful first, after which wrong labels are counted
METHODS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def keep_features(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    for folder in args.folders:
        data = hitnet.open_data(folder)
        with tempfile.TemporaryDirectory(dir=args.out) as spare:
            features = np.asarray(hitnet.extract_features(data, out=Path(spare) / "features.npy", split="all"))
        np.savez(args.out / f"{Path(folder).name}.npz", x=features, y=data.load("all").labels.numpy())


def datalab(given: np.ndarray, probabilities: np.ndarray, wrong: np.ndarray) -> Row:
    """What cleanlab's Datalab reports by default."""
    with contextlib.redirect_stdout(io.StringIO()):
        lab = Datalab(data={"label": given}, label_name="label")
        lab.find_issues(pred_probs=probabilities, issue_types={"label": {}})
    flagged = lab.get_issues("label")["is_label_issue"].to_numpy()
    return {"flagged": int(flagged.sum()), "precision": float(wrong[flagged].mean()) if flagged.any() else None}


def probabilities(opinions: Sequence[Opinion], labels: torch.Tensor, number: int) -> np.ndarray:
    """Those of all classes (N, K) by the judges together."""
    classes = opinions[0].classes
    at = None if classes is None else torch.from_numpy(classes)
    logs = fit_noise_model(logits_by_kind(opinions), labels, at).log_prior.numpy()
    if classes is not None:  # the last is that of all others together
        logs[:, -1] -= np.log(number - classes.shape[1] + 1)
    return np.exp(on_all_classes(logs, classes, number))


def softmax_alone(case: Case, seed: int) -> np.ndarray:
    """Probabilities (N, K) by plain softmax heads, each of which has not seen the image."""
    labels, no_errors = torch.from_numpy(case.given), torch.eye(case.classes)
    judge = fit_softmax_heads(case.features, labels, no_errors, seed=seed)
    return judge(torch.arange(len(labels))).double().softmax(dim=1).numpy()


def by_cleanlab(given: np.ndarray, probabilities: np.ndarray, wrong: np.ndarray) -> dict[str, float]:
    """Average precision by each of cleanlab's scores."""
    scores = {method: get_label_quality_scores(given, probabilities, method=method) for method in METHODS}
    return {method: float(average_precision_score(wrong, -score)) for method, score in scores.items()}


def judged(case: Case, seed: int) -> Row:
    """The figures of one case."""
    given, truth, wrong, labels = case.given, case.truth, case.wrong, torch.from_numpy(case.given)
    started = time.perf_counter()
    opinions = judge_features(case.features, labels, case.classes, seed=seed)
    scored = score_labels(opinions, given)
    seconds = time.perf_counter() - started
    flagged = np.array(scored.flag) == "wrong"
    same = probabilities(opinions, labels, case.classes)
    found, order = flagged & wrong, np.argsort(-scored.doubt, kind="stable")
    low, high = scored.error_range or (0.0, float(len(given)))
    return {
        "ap": float(average_precision_score(wrong, scored.doubt)),
        "cleanlab": by_cleanlab(given, same, wrong),
        "softmax": by_cleanlab(given, softmax_alone(case, seed), wrong),
        "datalab": datalab(given, same, wrong),
        "wrong": int(wrong.sum()),
        "expected": float((1 - scored.score).sum()),
        "range": [low, high],
        "flagged": int(flagged.sum()),
        "precision": float(wrong[flagged].mean()) if flagged.any() else None,
        "suggestion": float((scored.suggested[found] == truth[found]).mean()) if found.any() else None,
        "found_after": {f"{share:.0%}": int(wrong[order[: round(share * len(order))]].sum()) for share in SHARES},
        "seconds": seconds,
    }


def measure_labels(args: argparse.Namespace) -> None:
    for file in args.files:
        people = "given" in np.load(file, allow_pickle=False).files
        kinds = [("people", 0.0)] if people else [(noise, rate) for noise in args.noise for rate in args.rates]
        for seed, (noise, rate) in itertools.product(args.seeds, kinds):
            case = read_case(file, noise, images=args.images, rate=rate, seed=seed)
            size = {"images": len(case.truth), "classes": case.classes, "chosen_on": file.stem in CHOSEN_ON}
            kind = noise if people else f"{noise}, {rate:.0%}"
            row = {"set": file.stem, "noise": kind, "seed": seed} | size | judged(case, seed)
            print(row, flush=True)
            replace_rows(RECORD, [row | about(torch.device("cpu"))], "set", "noise", "seed", "images")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    features = steps.add_parser("features")
    features.add_argument("folders", nargs="+")
    features.add_argument("--out", type=Path, required=True)
    features.set_defaults(step=keep_features)
    labels = steps.add_parser("labels")
    labels.add_argument("files", nargs="+", type=Path)
    labels.add_argument("--noise", nargs="+", choices=KINDS, default=["uniform"])
    labels.add_argument("--images", type=int, default=3000)
    labels.add_argument("--rates", nargs="+", type=float, default=[0.05])
    labels.add_argument("--seeds", nargs="+", type=int, default=[0])
    labels.set_defaults(step=measure_labels)
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
