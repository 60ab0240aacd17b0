"""How far reviewers agree: per pair of them, the share of images that both decided alike, and Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from hitnet.review.board import Board


def kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Cohen's kappa of two lists of answers: 1 = they always agree, 0 = as often as by chance; None if undefined."""
    count = len(first)
    if not count:
        return None
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / count
    firsts, seconds = Counter(first), Counter(second)
    expected = sum(firsts[answer] * seconds[answer] for answer in firsts) / count**2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def agreement(board: Board) -> list[dict[str, Any]]:
    """Per pair of reviewers: how many images both decided on, on how many they agree, and kappa."""
    if len(board.decisions.reviewers) < 2:
        return []
    with board.lock:
        if board.agreed is None or board.agreed[0] != board.changed:
            board.agreed = (board.changed, _agreement(board.answers))
        return board.agreed[1]


def _agreement(by_reviewer: dict[str, dict[int, str]]) -> list[dict[str, Any]]:
    pairs = []
    for one, other in combinations(sorted(by_reviewer), 2):
        both = sorted(by_reviewer[one].keys() & by_reviewer[other].keys())
        if not both:
            continue
        first, second = ([by_reviewer[name][row] for row in both] for name in (one, other))
        agree = sum(a == b for a, b in zip(first, second, strict=True))
        pairs.append({"reviewers": [one, other], "images": len(both), "agree": agree, "kappa": kappa(first, second)})
    return pairs
