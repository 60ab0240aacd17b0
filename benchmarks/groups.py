"""What happens if all groups of the review's grid are accepted unseen: labels fixed, and labels broken.

    python benchmarks/groups.py KEPT/clothing.npz KEPT/caltech.npz KEPT/trash.npz [--images 3000] [--seeds 0 1 2]

The features are those that `benchmarks/audits.py features` keeps; 5 % of the labels are made wrong. `suggested` accepts
every suggestion that differs from the label, `probable` only those of labels that are more probably wrong than right:
the groups of the page. Rows go to benchmarks/records/groups.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from hitnet.audit.feature_judges import judge_features
from hitnet.audit.scoring import score_labels
from parts.kept_features import Case, read_case
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "groups.json"
RATE = 0.05


def accepted(chosen: np.ndarray, suggested: np.ndarray, given: np.ndarray, truth: np.ndarray) -> Row:
    """How many labels are right afterwards that were wrong, and the other way round."""
    fixed = chosen & (given != truth) & (suggested == truth)
    broken = chosen & (given == truth) & (suggested != truth)
    return {"relabelled": int(chosen.sum()), "fixed": int(fixed.sum()), "broken": int(broken.sum())}


def measure(case: Case, seed: int) -> Row:
    given, truth = case.given, case.truth
    scored = score_labels(judge_features(case.features, torch.from_numpy(given), case.classes, seed=seed), given)
    differ = scored.suggested != given
    probable = differ & (scored.score < 0.5)
    return {
        "wrong": int((given != truth).sum()),
        "suggested": accepted(differ, scored.suggested, given, truth),
        "probable": accepted(probable, scored.suggested, given, truth)
        | {"expected_wrong": float((1 - scored.score)[probable].sum())},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    for file in args.files:
        for seed in args.seeds:
            case = read_case(file, "uniform", images=args.images, rate=RATE, seed=seed)
            row = {"set": file.stem, "seed": seed, "images": len(case.truth)} | measure(case, seed)
            print(row, flush=True)
            replace_rows(RECORD, [row | about(torch.device("cpu"))], "set", "seed")


if __name__ == "__main__":
    main()
