"""The review page: one HTML file in which a person goes through the doubtful labels and decides.

The page opens from disk, asks nothing of the network, and keeps the decisions in the browser until they are
exported as a CSV that `hitnet.audit.corrections` applies. Everything from the data set (file names, class
names) enters it as JSON and is shown as text only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from torch import Tensor

from hitnet.audit.scores import FLAGS
from hitnet.audit.sprites import Sprites, Thumbnails, make_sprites
from hitnet.errors import HitNetError
from hitnet.files import write_text

ASSETS = Path(__file__).with_name("page")
SCRIPTS = ("store.js", "list.js", "row.js", "filters.js", "dialogs.js", "actions.js", "report.js")
COLUMNS = (
    *("id", "path", "given", "suggested", "score", "hits", "votes", "models"),
    *("margin_mean", "margin_std", "ghost", "ghost_distance", "flag", "rule"),
)
SHOWN = ("data", "images", "models", "model", "seconds", "expected_errors", "flags", "classes")  # of the summary
BARS = 10  # classes in an image's chart of distances
MARKUP = 20_000  # bytes kept for the tags around the sheets
FEWEST = 200  # images on a page, where there are as many, however few are suspect


def write_page(
    path: str | Path,
    table: pd.DataFrame,
    distances: np.ndarray,
    images: Tensor | Thumbnails,
    *,
    class_names: Sequence[str],
    title: str,
    summary: Mapping[str, Any],
    prototypes: Tensor | None = None,
    limit: int = 10_000,
    max_bytes: int = 25_000_000,
) -> int:
    """Write the review page of an audit and return how many images it shows.

    table       the audit's table, worst image first
    distances   (N, K), mean distance of each class's capsule, in the table's order
    images      uint8 (N, C, H, W) in the table's order, or a function that gives those at a list of rows
    summary     the audit's figures, as in summary.json
    prototypes  uint8 (K, C, H, W), a typical image of each class
    limit       the most images to show: suspects first, then the most doubtful of the rest
    max_bytes   the most that the file may weigh: thumbnails become coarser, then fewer
    """
    names = _checked(table, distances, class_names, prototypes)
    rows = choose_rows(table["flag"].to_numpy(), limit=limit)
    head = {
        "title": title,
        "fingerprint": fingerprint(table, names),
        "names": names,
        "summary": {key: summary[key] for key in SHOWN if key in summary},
    }
    pick: Thumbnails = images if not isinstance(images, Tensor) else images.__getitem__
    typical = None
    if prototypes is not None:
        typical = make_sprites(prototypes.__getitem__, len(prototypes), budget=max_bytes // 5)
        typical = typical if typical.count == len(prototypes) else None
    spare = max_bytes - len(_render(title, "", []).encode()) - (typical.size if typical else 0)
    rows, text = _fitting_rows(head, table, distances, rows, budget=spare // 2)
    room = spare - len(text) - MARKUP
    shown = make_sprites(lambda places: pick([int(rows[i]) for i in places]), len(rows), budget=room)
    if shown.count == 0:
        raise HitNetError(f"A page of {max_bytes:,} bytes has no room for a single image. Raise max_bytes.")
    data = page_data(head, table, distances, rows[: shown.count])
    data["tiles"] = {"images": shown.layout(), "prototypes": typical.layout() if typical else None}
    write_text(path, _render(title, _json(data), [("images", shown), ("prototypes", typical)]))
    return shown.count


def choose_rows(flags: np.ndarray, *, limit: int) -> np.ndarray:
    """Rows to show, in the table's order: the suspects, and as many others, 200 at least, worst first."""
    if limit < 1:
        raise HitNetError(f"limit must be at least 1; got {limit}.")
    suspects, others = np.flatnonzero(flags != "ok"), np.flatnonzero(flags == "ok")
    more = max(FEWEST, len(suspects))
    chosen: np.ndarray = np.concatenate([suspects, others[:more]])[:limit]
    return np.sort(chosen)


def fingerprint(table: pd.DataFrame, names: Sequence[str]) -> str:
    """What tells this audit from another: decisions stored in a browser are kept under it."""
    digest = hashlib.sha256(json.dumps(list(names)).encode())
    for column in ("id", "path", "given", "suggested", "score"):
        digest.update(json.dumps(table[column].tolist()).encode())
    return digest.hexdigest()[:16]


def page_data(head: Mapping[str, Any], table: pd.DataFrame, distances: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """What the page's script reads: the shown rows by column, names as indices, the nearest classes."""
    index = {name: k for k, name in enumerate(head["names"])}
    part = table.iloc[rows]
    columns: dict[str, Any] = {c: part[c].tolist() for c in ("id", "hits", "votes", "models")}
    columns["path"] = [str(path) for path in part["path"].fillna("")]
    for column in ("given", "suggested", "ghost"):
        columns[column] = [index[name] for name in part[column]]
    for column in ("score", "margin_mean", "margin_std", "ghost_distance"):
        columns[column] = part[column].astype(float).round(4).tolist()
    flags, columns["flag"] = _vocabulary(part["flag"], tuple(FLAGS))
    rules, columns["rule"] = _vocabulary(part["rule"])
    near = _nearest(distances[rows], np.array(columns["given"]), np.array(columns["suggested"]))
    columns["near"] = near.tolist()
    columns["near_distance"] = np.take_along_axis(distances[rows], near, 1).astype(float).round(3).tolist()
    return {**head, "flags": flags, "rules": rules, "rows": columns}


def _nearest(distances: np.ndarray, given: np.ndarray, suggested: np.ndarray) -> np.ndarray:
    """The nearest classes of each image (n, at most BARS); the given and the suggested one are among them."""
    bars = min(BARS, distances.shape[1])
    at = np.arange(len(distances))
    urgent = distances.astype(float)
    urgent[at, given] = urgent[at, suggested] = -1.0
    chosen = np.argpartition(urgent, bars - 1, axis=1)[:, :bars] if bars else np.zeros((len(at), 0), int)
    order = np.argsort(np.take_along_axis(distances, chosen, 1), axis=1, kind="stable")
    nearest: np.ndarray = np.take_along_axis(chosen, order, 1)
    return nearest


def _vocabulary(values: pd.Series, known: Sequence[str] = ()) -> tuple[list[str], list[int]]:
    places = {word: i for i, word in enumerate(known)}
    indices = [places.setdefault(str(value), len(places)) for value in values]
    return list(places), indices


def _fitting_rows(
    head: Mapping[str, Any], table: pd.DataFrame, distances: np.ndarray, rows: np.ndarray, *, budget: int
) -> tuple[np.ndarray, bytes]:
    """As many of the rows as their text leaves room for, and that text."""
    while True:
        text = _json(page_data(head, table, distances, rows)).encode()
        if len(text) <= budget or len(rows) <= 1:
            return rows, text
        rows = rows[: max(1, int(len(rows) * min(0.9, budget / len(text))))]


def _checked(
    table: pd.DataFrame, distances: np.ndarray, class_names: Sequence[str], prototypes: Tensor | None
) -> list[str]:
    names = [str(name) for name in class_names]
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise HitNetError(f"The audit table lacks the columns {', '.join(missing)}. Run the audit again.")
    if not len(table):
        raise HitNetError("The audit table has no rows: there is nothing to review.")
    if distances.shape != (len(table), len(names)):
        expected = (len(table), len(names))
        raise HitNetError(f"distances must be {expected}, images by classes; got {distances.shape}.")
    if len(set(names)) < len(names):
        raise HitNetError("Two classes have the same name. Give every class a name of its own.")
    if prototypes is not None and len(prototypes) != len(names):
        raise HitNetError(f"There are {len(prototypes)} prototypes for {len(names)} classes.")
    unknown = (set(table["given"]) | set(table["suggested"]) | set(table["ghost"])) - set(names)
    if unknown:
        first = sorted(map(str, unknown))[0]
        raise HitNetError(f"The audit table names a class that is not in class_names: {first!r}.")
    return names


def _render(title: str, data: str, groups: Sequence[tuple[str, Sprites | None]]) -> str:
    style = (ASSETS / "report.css").read_text(encoding="utf-8")
    script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data: blob:; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(ASSETS), autoescape=True)
    return environment.get_template("report.html.j2").render(
        title=_well_formed(title),
        policy=policy,
        style=style,
        script=script,
        data=data,
        sheets=[{"name": name, "sheets": sprites.sheets} for name, sprites in groups if sprites],
    )


def _source(text: str) -> str:
    """The hash by which the content security policy knows an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    """JSON that can stand inside a script element: no "<", no NaN, no half of a surrogate pair."""
    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = text.replace("<", "\\u003c")
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _well_formed(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)
