"""Draw docs/images/audit-growth.png: seconds and memory of audits of many images and classes.

    python tools/draw_growth.py

The rows are those of benchmarks/records/large_audit.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hitnet.plots import save
from hitnet.plots.sheet import WIDTH, blank_figure, tidy
from hitnet.plots.style import BLUE, INK, RED, SOFT

HOME = Path(__file__).parents[1]
RECORD, TARGET = HOME / "benchmarks" / "records" / "large_audit.json", HOME / "docs" / "images" / "audit-growth.png"
COLOURS = {10: SOFT, 100: BLUE, 1000: RED}  # by the number of classes
PANELS = {"seconds": "seconds", "memory": "memory, GB"}


def growth_figure(rows: list[dict[str, Any]]) -> Figure:
    """Two panels over the number of images: a line for each number of classes and each device."""
    figure = blank_figure(WIDTH, WIDTH / 2.4)
    lines = sorted({(row["device"], row["classes"]) for row in rows}, key=lambda line: (line[0] < "a", line[1]))
    for axes, (name, title) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        for device, classes in lines:
            points = sorted(
                (row["images"], row[name]) for row in rows if (row["device"], row["classes"]) == (device, classes)
            )
            gpu = device.startswith("NVIDIA")
            label = f"{classes:,} classes, {device.removeprefix('NVIDIA ') if gpu else 'two CPU cores'}"
            axes.loglog(
                *zip(*points, strict=True), "s--" if gpu else "o-", color=COLOURS[classes], markersize=4, label=label
            )
        tidy(axes, x="images", y=title, sides=("left", "bottom"))
    figure.axes[0].legend(fontsize=6.5, edgecolor="none", labelcolor=INK)
    return figure


if __name__ == "__main__":
    save([growth_figure(json.loads(RECORD.read_text()))], TARGET)
    print(f"written: {TARGET}")
