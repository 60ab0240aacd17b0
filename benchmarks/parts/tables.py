"""The tables of benchmarks/synthesis.py: means and deviations over networks, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

COLUMNS = {
    "decoders": {
        "error_percent": "test error %",
        "mse": "test MSE",
        "prototypes_named": "prototypes named",
        "paper_named_percent": "N(0.5, m/√n) named %",
        "fitted_named_percent": "fitted named %",
        "fitted_0.9_named_percent": "fitted at 0.9 named %",
        "fitted_0.8_named_percent": "fitted at 0.8 named %",
        "checked_named_percent": "checked named %",
        "checked_kept_percent": "checked kept %",
        "diagonal_named_percent": "diagonal named %",
        "fitted_distance_ratio": "fitted distance / real",
        "fitted_0.9_distance_ratio": "at 0.9",
        "fitted_0.8_distance_ratio": "at 0.8",
        "within_percent": "within 0.5 ± 2m/√n %",
        "component_sd": "sd",
    },
    "hybrid": {"error_percent": "held-out error %"},
    "hybrid-final": {"error_percent": "test error %", "images_per_second": "images/s"},
    "photographs": {
        "error_percent": "test error %",
        "mse": "test MSE",
        "decoder_parameters": "decoder's parameters",
        "images_per_second": "images/s",
    },
}
COLUMNS["paper-decoder"] = COLUMNS["decoders"]


def print_tables(rows: Sequence[dict[str, Any]]) -> None:
    for part, columns in COLUMNS.items():
        own = [row for row in rows if row["part"] == part]
        if own:
            print(f"\n{part}\n\n{table(own, columns)}")


def shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}"
    return "" if value is None else str(value)


def summary(values: Sequence[float]) -> str:
    """Mean and, if the values differ, standard deviation."""
    if len(set(values)) == 1:
        return shown(values[0])
    return f"{shown(float(statistics.mean(values)))} ± {shown(statistics.stdev(values))}"


def table(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> str:
    """Markdown: one line per arm and set, with the mean and standard deviation over its networks in each column.

    Args:
        rows: Rows of the record.
        columns: Entries of a row, and their titles.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["arm"]), []).append(row)
    lines = ["| data | arm | networks | " + " | ".join(columns.values()) + " |", "|---" * (3 + len(columns)) + "|"]
    for (data, arm), own in groups.items():
        cells = [[row[name] for row in own if row.get(name) is not None] for name in columns]
        written = [summary(values) if values else "" for values in cells]
        diverged = sum(bool(row.get("diverged")) for row in own)
        networks = f"{len(own) - diverged}, {diverged} diverged" if diverged else str(len(own))
        lines.append(f"| {data} | {arm} | {networks} | " + " | ".join(written) + " |")
    return "\n".join(lines)
