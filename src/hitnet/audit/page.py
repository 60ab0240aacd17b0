"""The review page: one HTML file in which a person reviews the doubtful labels and decides.

The page opens from disk and never uses the network. It keeps the decisions in the browser until the person exports
them as a CSV file, which `hitnet.audit.corrections` applies. Everything from the data set (file names, class names)
enters the page as JSON and is shown only as text.
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
from hitnet.runtime.files import write_text

ASSETS = Path(__file__).with_name("page")
SCRIPTS = (
    *("basics.js", "store.js", "source.js", "remote.js", "view.js", "row.js", "grid.js", "filters.js", "evidence.js"),
    *("dialogs.js", "history.js", "actions.js", "header.js", "report.js"),
)
STYLES = ("report.css", "grid.css", "narrow.css")
COLUMNS = (
    *("id", "path", "given", "suggested", "score", "hits", "votes", "models"),
    *("margin_mean", "margin_std", "ghost", "ghost_distance", "flag", "rule"),
)
LIKE = ("like_given", "like_suggested")  # columns that an audit has where features show which images are alike
SHOWN = (  # from the summary, where it has them
    *("data", "images", "models", "model", "seconds", "expected_errors", "flags", "classes"),
    *("duplicates", "prototypes", "in_words"),
)
BARS = 10  # classes in an image's chart of distances
MARKUP = 20_000  # bytes reserved for the tags around the sheets
FEWEST_OTHERS = 200  # unsuspicious images to show at least, if there are that many


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
    """Write the review page of an audit.

    Args:
        path: The HTML file.
        table: The audit's table, worst image first. Its columns like_given and like_suggested, where it has them, are
            the ids of the images to show as evidence beside each image.
        distances: (N, K), mean distance of each class's capsule, in the table's order.
        images: uint8 (N, C, H, W) in the table's order, or a function that returns those at a list of rows.
        class_names: The K classes.
        title: Title of the page.
        summary: The audit's figures, as in summary.json. Its entry `prototypes` is "typical" where these are images of
            the data.
        prototypes: uint8 (K, C, H, W), a decoded prototype or a typical image of each class.
        limit: Show at most N images: suspects first, then the most doubtful of the rest.
        max_bytes: Largest size of the file. To fit, thumbnails become coarser, then fewer.

    Returns:
        The number of images on the page.
    """
    names = _checked(table, distances, class_names, prototypes)
    rows = choose_rows(table["flag"].to_numpy(), limit=limit)
    head = {
        "title": title,
        "fingerprint": audit_fingerprint(table, names),
        "names": names,
        "summary": {key: summary[key] for key in SHOWN if key in summary},
    }
    pick: Thumbnails = images if not isinstance(images, Tensor) else images.__getitem__
    prototype_sprites = _prototype_sprites(prototypes, max_bytes // 5)
    spare = max_bytes - len(render_page(title, "").encode()) - (prototype_sprites.size if prototype_sprites else 0)
    rows, text = _fitting_rows(head, table, distances, rows, budget=spare // 2)
    room = spare - len(text) - MARKUP
    sprites = _row_sprites(pick, rows, room, shared=len(neighbour_rows(table, rows)) > 0)
    if sprites.count == 0:
        raise HitNetError(f"A page of {max_bytes:,} bytes has no room for a sheet of images. Raise max_bytes.")
    rows = rows[: sprites.count]
    others = neighbour_rows(table, rows)
    neighbour_sprites = _sprites(pick, others, room - sprites.size) if len(others) else None
    groups = {"images": sprites, "neighbours": neighbour_sprites, "prototypes": prototype_sprites}
    data = page_data(head, table, distances, rows)
    data["neighbours"] = data["neighbours"][: neighbour_sprites.count if neighbour_sprites else 0]  # those with room
    data["tiles"] = {name: group.layout() if group else None for name, group in groups.items()}
    write_text(path, render_page(title, finite_json(data), list(groups.items())))
    return sprites.count


def choose_rows(flags: np.ndarray, *, limit: int) -> np.ndarray:
    """Rows to show, in the table's order: all suspects, and the same number of others (at least 200), worst first."""
    if limit < 1:
        raise HitNetError(f"limit must be at least 1; got {limit}.")
    suspects, others = np.flatnonzero(flags != "ok"), np.flatnonzero(flags == "ok")
    more = max(FEWEST_OTHERS, len(suspects))
    chosen: np.ndarray = np.concatenate([suspects, others[:more]])[:limit]
    return np.sort(chosen)


def neighbour_rows(table: pd.DataFrame, rows: np.ndarray) -> np.ndarray:
    """Rows of the images most like the shown ones, without the shown rows; neighbours of the first row come first."""
    columns = [column for column in LIKE if column in table.columns]
    place = pd.Series(np.arange(len(table)), index=table["id"])
    ids = table[columns].iloc[rows].to_numpy().ravel()
    wanted = place.reindex(pd.unique(ids)).dropna().astype(int)
    others: np.ndarray = wanted[~wanted.isin(rows)].to_numpy()
    return others


def audit_fingerprint(table: pd.DataFrame, names: Sequence[str]) -> str:
    """A hash that identifies this audit: the browser stores its decisions under it."""
    digest = hashlib.sha256(json.dumps(list(names)).encode())
    for column in ("id", "path", "given", "suggested", "score"):
        digest.update(json.dumps(table[column].tolist()).encode())
    return digest.hexdigest()[:16]


def page_data(head: Mapping[str, Any], table: pd.DataFrame, distances: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """The data for the page's script.

    It has the shown rows by column, class names as indices, the nearest classes, and the ids of the neighbours.
    """
    index = {name: k for k, name in enumerate(head["names"])}
    part = table.iloc[rows]
    columns: dict[str, Any] = {c: part[c].tolist() for c in ("id", "hits", "votes", "models", *LIKE) if c in part}
    columns["path"] = [str(path) for path in part["path"].fillna("")]
    for column in ("given", "suggested", "ghost"):
        columns[column] = [index[name] for name in part[column]]
    for column in ("score", "margin_mean", "margin_std", "ghost_distance"):
        columns[column] = part[column].astype(float).round(4).tolist()
    flags, columns["flag"] = _vocabulary(part["flag"], tuple(FLAGS))
    rules, columns["rule"] = _vocabulary(part["rule"])
    near = nearest_classes(distances[rows], np.array(columns["given"]), np.array(columns["suggested"]))
    columns["near"] = near.tolist()
    columns["near_distance"] = np.take_along_axis(distances[rows], near, 1).astype(float).round(3).tolist()
    others = table["id"].iloc[neighbour_rows(table, rows)].tolist()
    return {**head, "flags": flags, "rules": rules, "rows": columns, "neighbours": others}


def nearest_classes(distances: np.ndarray, given: np.ndarray, suggested: np.ndarray) -> np.ndarray:
    """The nearest classes per image (n, at most BARS), always with the given and the suggested class."""
    bars = min(BARS, distances.shape[1])
    rows = np.arange(len(distances))
    priority = distances.astype(float)
    priority[rows, given] = priority[rows, suggested] = -1.0
    chosen = np.argpartition(priority, bars - 1, axis=1)[:, :bars] if bars else np.zeros((len(rows), 0), int)
    order = np.argsort(np.take_along_axis(distances, chosen, 1), axis=1, kind="stable")
    nearest: np.ndarray = np.take_along_axis(chosen, order, 1)
    return nearest


def _vocabulary(values: pd.Series, known: Sequence[str] = ()) -> tuple[list[str], list[int]]:
    """Distinct texts, the known ones first, and the index of each value among them."""
    index_of = {word: i for i, word in enumerate(known)}
    indices = [index_of.setdefault(str(value), len(index_of)) for value in values]
    return list(index_of), indices


def _fitting_rows(
    head: Mapping[str, Any], table: pd.DataFrame, distances: np.ndarray, rows: np.ndarray, *, budget: int
) -> tuple[np.ndarray, bytes]:
    """The first rows whose text fits into the budget, and that text."""
    while True:
        text = finite_json(page_data(head, table, distances, rows)).encode()
        if len(text) <= budget or len(rows) <= 1:
            return rows, text
        rows = rows[: max(1, int(len(rows) * min(0.9, budget / len(text))))]


def _prototype_sprites(prototypes: Tensor | None, budget: int) -> Sprites | None:
    """Thumbnails of the prototypes: of all of them, or none."""
    if prototypes is None:
        return None
    sprites = make_sprites(prototypes.__getitem__, len(prototypes), budget=budget)
    return sprites if sprites.count == len(prototypes) else None


def _row_sprites(pick: Thumbnails, rows: np.ndarray, room: int, *, shared: bool) -> Sprites:
    """Thumbnails of the rows; if `room` is shared with neighbours, in two thirds of it, unless this loses rows."""
    sprites = _sprites(pick, rows, 2 * room // 3 if shared else room)
    return sprites if sprites.count == len(rows) or not shared else _sprites(pick, rows, room)


def _sprites(pick: Thumbnails, rows: np.ndarray, budget: int) -> Sprites:
    return make_sprites(lambda indices: pick([int(rows[i]) for i in indices]), len(rows), budget=budget)


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
        raise HitNetError("Two classes have the same name. Give every class a different name.")
    if prototypes is not None and len(prototypes) != len(names):
        raise HitNetError(f"There are {len(prototypes)} prototypes for {len(names)} classes.")
    unknown = (set(table["given"]) | set(table["suggested"]) | set(table["ghost"])) - set(names)
    if unknown:
        first = sorted(map(str, unknown))[0]
        raise HitNetError(f"The audit table names a class that is not in class_names: {first!r}.")
    return names


def script_text() -> str:
    """All scripts of the page as one."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)


def style_text() -> str:
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in STYLES)


def render_page(
    title: str, data: str, groups: Sequence[tuple[str, Sprites | None]] = (), *, server: bool = False
) -> str:
    """The page: one file with everything in it or, for the review server, one that asks for the rest.

    Args:
        title: Title of the page.
        data: JSON from `finite_json`.
        groups: Sheets of thumbnails.
        server: Whether style and script come from the review server, which also says what the page may do.
    """
    style, script = ("", "") if server else (style_text(), script_text())
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
        server=server,
        sheets=[{"name": name, "sheets": sprites.sheets} for name, sprites in groups if sprites],
    )


def _source(text: str) -> str:
    """The hash that allows an inline style or script in the content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def finite_json(value: object) -> str:
    """JSON that is safe inside a script element: no "<", no NaN, no half of a surrogate pair."""
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
