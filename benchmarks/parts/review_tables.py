"""Table and plot of docs/review.md, from the record of benchmarks/review.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from hitnet.runtime import files

Row = dict[str, Any]
NAMES = {"clothing": "clothing, 5 % wrong", "cifar10n": "CIFAR-10N, first 5,000"}
WAYS = {"random": "random order", "fixed": "the audit's order", "anew": "ranked anew after every 50"}
BEGIN, END = "<!-- table: benchmarks/review.py tables -->", "<!-- end of table -->"


def mean_of(rows: list[Row], key: str, share: str) -> float:
    return float(np.mean([row[key][share] for row in rows]))


def table(rows: list[Row]) -> str:
    """Errors found, and the share of labels still wrong, as the mean over seeds."""
    shares = list(rows[0]["found"])
    lines = [
        f"| data | order | {' | '.join(f'after {share}' for share in shares)} |",
        f"|---|---|{'---|' * len(shares)}",
    ]
    for case, name in NAMES.items():
        for way, words in WAYS.items():
            part = [row for row in rows if (row["case"], row["way"]) == (case, way)]
            if not part:
                continue
            cells = [
                f"{mean_of(part, 'found', share):.0f} ({100 * mean_of(part, 'still_wrong', share):.2f} %)"
                for share in shares
            ]
            what = f"{name}: {part[0]['wrong']} of {part[0]['images']:,}" if way == "random" else ""
            lines.append(f"| {what} | {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def left_table(rows: list[Row]) -> str:
    """What the review expected to be left, and what was left, after every 100 decisions; seeds in ascending order."""
    lines = ["| data | decisions | left, by estimate (90 % interval) | left, in truth |", "|---|---|---|---|"]
    for case, name in NAMES.items():
        part = [row for row in rows if (row["case"], row["way"]) == (case, "anew")]
        part.sort(key=lambda row: row["seed"])
        for step in range(100, 501, 100):
            seeds = [each for row in part for each in row["steps"] if each["seen"] == step and "expected" in each]
            if seeds:
                said = ", ".join(f"{each['expected']:.0f} ({each['low']} to {each['high']})" for each in seeds)
                lines.append(f"| {name} | {step} | {said} | {', '.join(str(each['left']) for each in seeds)} |")
    return "\n".join(lines)


def coverage(rows: list[Row]) -> dict[str, tuple[int, int]]:
    """Per data set: in how many of all estimates the truth was in the interval."""
    covered = {}
    for case in NAMES:
        steps = [
            step
            for row in rows
            if (row["case"], row["way"]) == (case, "anew")
            for step in row["steps"]
            if "expected" in step
        ]
        covered[case] = (sum(step["low"] <= step["left"] <= step["high"] for step in steps), len(steps))
    return covered


def plot(rows: list[Row], path: Path) -> None:
    """Share of labels still wrong over the share of images reviewed, and what is left by estimate."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    colours = {"random": "0.55", "fixed": "tab:orange", "anew": "tab:blue"}
    for column, (case, name) in enumerate(NAMES.items()):
        for way, words in WAYS.items():
            for row in (row for row in rows if (row["case"], row["way"]) == (case, way)):
                shares = [0.0, *(float(share.rstrip("%")) for share in row["found"])]
                wrong = [100 * row["wrong"] / row["images"], *(100 * value for value in row["still_wrong"].values())]
                label = words if row["seed"] == 0 else None
                axes[0, column].plot(shares, wrong, color=colours[way], marker="o", markersize=3, label=label)
        axes[0, column].set(title=name, xlabel="images reviewed (%)", ylabel="labels still wrong (%)", ylim=(0, None))
        for row in (row for row in rows if (row["case"], row["way"]) == (case, "anew")):
            steps = [step for step in row["steps"] if "expected" in step and step["seen"] >= 100]
            seen = [step["seen"] for step in steps]
            low, high = ([step[key] for step in steps] for key in ("low", "high"))
            first = row["seed"] == 0
            axes[1, column].fill_between(seen, low, high, color="tab:blue", alpha=0.12, linewidth=0)
            axes[1, column].plot(
                seen, [s["expected"] for s in steps], color="tab:blue", label="estimate" if first else None
            )
            axes[1, column].plot(seen, [s["left"] for s in steps], "k--", linewidth=1, label="truth" if first else None)
        axes[1, column].set(xlabel="decisions", ylabel="wrong labels left", ylim=(0, None))
    axes[0, 0].axhline(0.5, color="0.8", linewidth=1)
    axes[0, 0].legend(fontsize=8)
    axes[1, 0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write_tables(record: Path, docs: Path) -> None:
    rows = [row for row in files.read_json(record) if row["case"] in NAMES]
    page = docs / "review.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    files.write_text(page, f"{before}{BEGIN}\n{table(rows)}\n\n{left_table(rows)}\n{END}{after}")
    plot(rows, docs / "images" / "review-simulation.png")
    print(coverage(rows))
