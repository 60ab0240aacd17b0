"""Comparable times: contestants take turns, so that other work on the machine disturbs all equally."""

from __future__ import annotations

from collections.abc import Callable


def best_of(contestants: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The best time of each contestant, after one round to warm up."""
    for run in contestants.values():
        run()
    rounds = [{name: run() for name, run in contestants.items()} for _ in range(repeats)]
    return {name: min(times[name] for times in rounds) for name in contestants}
