"""HitNet's speed against CapsNet's, on the same device; runs of table 1 are shown beside those made for it."""

from __future__ import annotations

import statistics

from hitnet.paper.book import Page, Result
from hitnet.paper.claims import CAPSNET_SLOWER
from hitnet.paper.markdown import NONE, table
from hitnet.paper.records import RunRecord

HITNET, CAPSNET, TABLE_1 = "mnist-hitnet-50", "mnist-capsnet", "mnist-hitnet-constant"


def render(page: Page) -> str:
    fast, slow = by_place(page, HITNET, TABLE_1), by_place(page, CAPSNET)
    said = f"The paper: Guo's CapsNet is about {CAPSNET_SLOWER:.0f} times slower than HitNet. Here both are ours.\n\n"
    rows = [row(*place, fast.get(place, []), slow.get(place, [])) for place in sorted(fast.keys() | slow.keys())]
    header = ("device", "side by side", "HitNet, images/s", "CapsNet, images/s", "HitNet is faster by", "runs")
    missing = [f"- {name}: {page.missing(name)}" for name in (HITNET, CAPSNET) if page.missing(name)]
    return said + "\n".join([(table(header, rows) if rows else "") + error(page), *missing]).strip() + "\n"


def row(device: str, beside: int, fast: list[RunRecord], slow: list[RunRecord]) -> list[str]:
    """Both speeds; their ratio where as many networks were trained side by side, for few do not fill a GPU."""
    speeds = [statistics.median(one.images_per_second for one in runs) if runs else None for runs in (fast, slow)]
    ratio = NONE if None in speeds else f"{speeds[0] / speeds[1]:.1f}"  # type: ignore[operator]
    cells = [NONE if speed is None else f"{speed:,.0f}" for speed in speeds]
    return [device, str(beside), *cells, ratio, f"{len(fast)} and {len(slow)}"]


def error(page: Page) -> str:
    errors = [record.error for record in page.records(CAPSNET)]
    if not errors:
        return ""
    of = "one run" if len(errors) == 1 else f"mean of {len(errors)} runs"
    epochs = page.experiment(CAPSNET).epochs
    return f"\nCapsNet's error after {epochs} epochs, {of}: {statistics.mean(errors):.2f} %.\n"


def by_place(page: Page, *names: str) -> dict[tuple[str, int], list[RunRecord]]:
    """Runs by device, and by how many networks were trained side by side."""
    found: dict[tuple[str, int], list[RunRecord]] = {}
    for record in (record for name in names for record in page.records(name)):
        found.setdefault((record.device, record.beside), []).append(record)
    return found


RESULT = Result("speed", "Speed against CapsNet", "section 3.1", (HITNET, CAPSNET), render)
