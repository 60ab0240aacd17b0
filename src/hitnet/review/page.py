"""The page of the review server: the same template, style and scripts as report.html, with rows from the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hitnet.audit.page import SHOWN, finite_json, render_page, script_text, style_text
from hitnet.audit.results import Audit
from hitnet.review.rows import Rows


@dataclass(frozen=True)
class PageFiles:
    """What the browser loads first."""

    html: str
    script: str
    style: str


def make_page(audit: Audit, rows: Rows, reviewer: str) -> PageFiles:
    """The page of an audit. Everything from the data set enters it as JSON and is shown only as text."""
    title = f"Label review: {audit.summary['data']}"
    classes = len(rows.class_names)
    pairs = rows.given * classes + rows.own_ranking.suggested
    values, counts = np.unique(pairs, return_counts=True)
    head: dict[str, Any] = {
        "title": title,
        "server": True,
        "reviewer": reviewer,
        "names": list(rows.class_names),
        "summary": {key: audit.summary[key] for key in SHOWN if key in audit.summary} | {"prototypes": "typical"},
        "flags": rows.flags,
        "flag_counts": np.bincount(rows.flag[rows.flag >= 0], minlength=len(rows.flags)).tolist(),
        "pairs": [
            [int(value // classes), int(value % classes), int(count)]
            for value, count in zip(values, counts, strict=True)
            if value // classes != value % classes
        ],
        "images": len(rows),
        "with_neighbours": "like_given" in rows.table.columns,
        "ranks_anew": rows.kept is not None and rows.kept.features is not None,
    }
    return PageFiles(render_page(title, finite_json(head), server=True), script_text(), style_text())
