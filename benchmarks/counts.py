"""Whether the certified count of a review keeps its word, and what it saves, in simulated reviews.

    python benchmarks/counts.py KEPT [--reviews 1000] [--decisions 100 300]

KEPT holds the features that `benchmarks/audits.py features` wrote. Each set of SETS is audited by heads and neighbours
on these; a made-up person then judges N images, drawn as `hitnet review` draws them, without mistakes. A row of
benchmarks/records/counts.json has: in which share of the reviews the true number lies between both bounds (95 % are
promised); the means of bounds and estimate; the standard deviation of the estimate; and how many images, drawn
without regard to scores, a person would have to judge for a Clopper-Pearson interval of the same mean width, and for
an estimate with the same standard deviation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from scipy import stats

from hitnet.audit.feature_judges import judge_features
from hitnet.audit.scoring import score_labels
from hitnet.review.certified import count_bounds, count_estimate, draw_images, draw_weights, follow_draws
from parts.kept_features import read_case
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).with_name("records") / "counts.json"
RATE = 0.05
SETS = (  # file, noise, most images
    ("clothing", "uniform", 4000),
    ("clothing", "look-alike", 4000),
    ("cifar10n", "people", 12000),
    ("caltech", "uniform", 9200),
    ("tiny", "uniform", 8000),
)


def simulated(expected: np.ndarray, wrong: np.ndarray, decisions: int, reviews: int) -> Row:
    """The figures of many reviews of labels (N,) that are wrong or not, with the probabilities that the audit gives."""
    weights, results = draw_weights(expected), []
    for seed in range(reviews):
        order = draw_images(weights, seed)[:decisions]
        draws, answers = follow_draws(weights, expected, order), wrong[order].astype(float)
        results.append((*count_bounds(draws, answers, answers, images=len(wrong)), count_estimate(draws, answers)))
    low, high, estimate = np.array(results).T
    rate, deviation = float(wrong.mean()), float(estimate.std()) / len(wrong)
    return {
        "decisions": decisions,
        "reviews": reviews,
        "coverage": float(((low <= wrong.sum()) & (wrong.sum() <= high)).mean()),
        "low": float(low.mean()),
        "high": float(high.mean()),
        "estimate": float(estimate.mean()),
        "deviation": deviation * len(wrong),
        "plain_for_interval": plain_decisions(rate, float((high - low).mean()) / len(wrong)),
        "plain_for_deviation": round(rate * (1 - rate) / deviation**2),
    }


def plain_decisions(rate: float, width: float) -> int:
    """How many images drawn at random give a Clopper-Pearson interval of this mean width, in steps of 1 %."""
    count = 20
    while True:
        found = np.arange(count + 1)
        low = np.where(found > 0, stats.beta.ppf(0.025, found, count - found + 1), 0)
        high = np.where(found < count, stats.beta.ppf(0.975, found + 1, count - found), 1)
        if (stats.binom.pmf(found, count, rate) * (high - low)).sum() <= width:
            return count
        count += max(1, count // 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept", type=Path)
    parser.add_argument("--reviews", type=int, default=1000)
    parser.add_argument("--decisions", nargs="+", type=int, default=[100, 300])
    args = parser.parse_args()
    for name, noise, images in SETS:
        case = read_case(args.kept / f"{name}.npz", noise, images=images, rate=RATE, seed=0)
        opinions = judge_features(case.features, torch.from_numpy(case.given), case.classes)
        scored = score_labels(opinions, case.given)
        size = {"images": len(case.truth), "wrong": int(case.wrong.sum()), "expected": float((1 - scored.score).sum())}
        for decisions in args.decisions:
            row = (
                {"set": name, "noise": noise} | size | simulated(1 - scored.score, case.wrong, decisions, args.reviews)
            )
            print(row, flush=True)
            replace_rows(RECORD, [row | about(torch.device("cpu"))], "set", "noise", "decisions")


if __name__ == "__main__":
    main()
