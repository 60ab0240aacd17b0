"""HitNet's speed against CapsNet's, on the same device; HitNet's runs are those of table 1."""

from __future__ import annotations

import statistics

from hitnet.paper.book import Page, Result
from hitnet.paper.claims import CAPSNET_SLOWER
from hitnet.paper.markdown import table

HITNET, CAPSNET = "mnist-hitnet-constant", "mnist-capsnet"


def render(page: Page) -> str:
    fast, slow = by_device(page, HITNET), by_device(page, CAPSNET)
    rows = []
    for device in sorted(set(fast) & set(slow)):
        one, other = statistics.median(fast[device]), statistics.median(slow[device])
        counts = f"{len(fast[device])} and {len(slow[device])}"
        rows.append([device, f"{one:,.0f}", f"{other:,.0f}", f"{one / other:.1f}", f"{CAPSNET_SLOWER:.0f}", counts])
    if not rows:
        missing = [f"- {name}: {page.missing(name)}" for name in (HITNET, CAPSNET) if not page.records(name)]
        said = (
            f"The paper: Guo's CapsNet is about {CAPSNET_SLOWER:.0f} times slower than HitNet. Nothing to compare yet:"
        )
        return "\n".join([said, "", *(missing or ["- the runs were made on different devices"]), ""])
    header = ("device", "HitNet, images/s", "CapsNet, images/s", "HitNet is faster by", "paper", "runs")
    errors = page.records(CAPSNET)
    mean = statistics.mean(record.error for record in errors)
    epochs = page.experiment(CAPSNET).epochs
    end = f"\nCapsNet's error after {epochs} epochs, mean of {len(errors)} runs: {mean:.2f} %.\n"
    return table(header, rows) + end


def by_device(page: Page, name: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in page.records(name):
        found.setdefault(record.device, []).append(record.images_per_second)
    return found


RESULT = Result("speed", "Speed against CapsNet", "section 3.1", (CAPSNET,), render)
