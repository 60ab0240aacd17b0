"""HitNet's speed against CapsNet's, on the same device; HitNet's runs are those of table 1."""

from __future__ import annotations

import statistics

from hitnet.paper.book import Page, Result
from hitnet.paper.claims import CAPSNET_SLOWER
from hitnet.paper.markdown import table
from hitnet.paper.records import RunRecord

HITNET, CAPSNET = "mnist-hitnet-constant", "mnist-capsnet"


def render(page: Page) -> str:
    fast, slow = by_device(page, HITNET), by_device(page, CAPSNET)
    rows = []
    for device in sorted(set(fast) & set(slow)):
        speeds = [statistics.median(one.images_per_second for one in runs[device]) for runs in (fast, slow)]
        cells = [f"{speed:,.0f} ({beside(runs[device])})" for speed, runs in zip(speeds, (fast, slow), strict=True)]
        counts = f"{len(fast[device])} and {len(slow[device])}"
        rows.append([device, *cells, f"{speeds[0] / speeds[1]:.1f}", f"{CAPSNET_SLOWER:.0f}", counts])
    said = f"The paper: Guo's CapsNet is about {CAPSNET_SLOWER:.0f} times slower than HitNet. "
    if not rows:
        missing = [f"- {name}: {page.missing(name)}" for name in (HITNET, CAPSNET) if not page.records(name)]
        return "\n".join(
            [f"{said}Nothing to compare yet:", "", *(missing or ["- the runs were made on different devices"]), ""]
        )
    said += (
        "Here both are ours. In brackets: how many networks were trained side by side, which fill a GPU better than "
        "one; one against one, and against plain eager loops: [benchmarks](benchmarks.md#training-on-an-h200).\n\n"
    )
    header = ("device", "HitNet, images/s", "CapsNet, images/s", "HitNet is faster by", "paper", "runs")
    errors = page.records(CAPSNET)
    mean = statistics.mean(record.error for record in errors)
    epochs = page.experiment(CAPSNET).epochs
    of = "one run" if len(errors) == 1 else f"mean of {len(errors)} runs"
    end = f"\nCapsNet's error after {epochs} epochs, {of}: {mean:.2f} %.\n"
    return said + table(header, rows) + end


def by_device(page: Page, name: str) -> dict[str, list[RunRecord]]:
    found: dict[str, list[RunRecord]] = {}
    for record in page.records(name):
        found.setdefault(record.device, []).append(record)
    return found


def beside(runs: list[RunRecord]) -> str:
    """How many networks were trained side by side: "8", or "5 to 8"."""
    counts = sorted({run.beside for run in runs})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))


RESULT = Result("speed", "Speed against CapsNet", "section 3.1", (CAPSNET,), render)
