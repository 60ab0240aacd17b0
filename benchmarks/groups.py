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

from audits import with_errors
from hitnet.audit.feature_judges import judge_features
from hitnet.audit.scoring import score_labels
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "groups.json"
RATE = 0.05


def accepted(chosen: np.ndarray, suggested: np.ndarray, given: np.ndarray, truth: np.ndarray) -> Row:
    """How many labels are right afterwards that were wrong, and the other way round."""
    fixed = chosen & (given != truth) & (suggested == truth)
    broken = chosen & (given == truth) & (suggested != truth)
    return {"relabelled": int(chosen.sum()), "fixed": int(fixed.sum()), "broken": int(broken.sum())}


def measure(features: torch.Tensor, truth: np.ndarray, seed: int) -> Row:
    given = with_errors(truth, RATE, seed)
    scored = score_labels(judge_features(features, torch.from_numpy(given), int(truth.max()) + 1, seed=seed), given)
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
        arrays = np.load(file, allow_pickle=False)
        some = np.random.RandomState(0).permutation(len(arrays["y"]))[: args.images]
        features, truth = torch.from_numpy(arrays["x"][some].astype(np.float32)), arrays["y"][some].astype(np.int64)
        for seed in args.seeds:
            row = {"set": file.stem, "seed": seed, "images": len(truth)} | measure(features, truth, seed)
            print(row, flush=True)
            replace_rows(RECORD, [row | about(torch.device("cpu"))], "set", "seed")


if __name__ == "__main__":
    main()
