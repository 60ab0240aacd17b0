"""Times that can be compared: contestants take turns, so that other work on the machine disturbs all alike."""

from __future__ import annotations

from collections.abc import Callable


def best_of(contestants: dict[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The best time of each contestant, after one to warm up."""
    for run in contestants.values():
        run()
    rounds = [{name: run() for name, run in contestants.items()} for _ in range(repeats)]
    return {name: min(one[name] for one in rounds) for name in contestants}
