"""The review page: one HTML file in which a person reviews the doubtful labels and decides.

The page opens from disk and never uses the network. It records decisions as steps in the browser until the person
exports them as a file, which `hitnet apply` and `hitnet review` read. Everything from the dataset (file names,
class names) enters the page as JSON and is shown only as text. The review server uses the same template and scripts.
"""

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from PIL import Image
from torch import Tensor

from hitnet.audit.audit_table import Summary
from hitnet.audit.rows import Rows
from hitnet.data.reading.decode import fetched, picture, shrunk
from hitnet.data.reading.entries import Checksums
from hitnet.data.reading.pictures import pixel_picture
from hitnet.data.reading.stored import AnyFile, UnreadableImageError, file_key
from hitnet.errors import HitNetError, log, one_line
from hitnet.features.opinions import Ints
from hitnet.runtime.files import write_text
from hitnet.runtime.threads import in_threads

ASSETS = Path(__file__).with_name("page")
SCRIPTS = (
    *("basics.js", "local.js", "server.js", "view.js", "row.js", "grid.js", "filters.js", "evidence.js"),
    *("dialogs.js", "history.js", "actions.js", "header.js", "count.js", "report.js"),
)
STYLES = ("report.css", "grid.css", "narrow.css")
LIKE = ("like_given", "like_suggested")  # columns that an audit has where features show which images are alike
SHOWN = (  # from the summary
    *("data", "images", "models", "model", "seconds", "expected_errors", "flags", "classes"),
    *("duplicates", "prototypes", "sentence"),
)
FEWEST_OTHERS = 200  # unsuspicious images to show at least, if there are that many
READABLE = 160  # pixels of the longest side: no larger picture is shown smaller than that
LADDER = (*((320, 75), (224, 75)), *((READABLE, quality) for quality in (80, 65, 50)))  # side and WebP quality
SAMPLE = 64  # pictures from which the size of all is estimated
SEPARATORS = 16  # bytes around each thumbnail in the page
AHEAD = 256  # thumbnails that threads make before they are asked for
Show = Callable[[int, int], Image.Image]  # the picture of a row, and the longest side that it may have


def write_page(
    path: str | Path,
    table: pd.DataFrame,
    distances: np.ndarray,
    images: Tensor,
    *,
    title: str,
    summary: Summary,
    classes: np.ndarray | None = None,
    prototypes: Tensor | None = None,
    typical: Sequence[Sequence[int]] = (),
    files: Sequence[AnyFile] | None = None,
    checksums: Checksums | None = None,
    limit: int = 10_000,
    max_bytes: int = 25_000_000,
) -> int:
    """Write the review page of an audit; returns the number of images on it.

    Distances (N, k), on all or some `classes` (N, k), images, uint8 (N, C, H, W), their `files` and these files' known
    `checksums` are in the table's order. Each class is shown by its decoded prototype, uint8 (K, C, H, W), or by the
    first of its `typical` rows. At most `limit` images are shown: suspects first, then the most doubtful of the rest.
    To fit into `max_bytes`, thumbnails become coarser, then fewer; none is made smaller than `READABLE`.
    """
    if prototypes is not None and len(prototypes) != len(summary.class_names):
        raise HitNetError(f"There are {len(prototypes)} prototypes for {len(summary.class_names)} classes.")
    rows = Rows(table, distances, tuple(summary.class_names), classes)
    head = page_head(rows, title, summary) | {"fingerprint": audit_fingerprint(table, summary.class_names)}
    show, changed = show_pixels(images), set[int]()  # rows
    if files is not None:
        show = show_files(files, checksums, changed, show)
    pictured: list[str] = []
    if typical:
        first = [own[0] if own else 0 for own in typical]
        of_row = picture_classes(show, first, budget=max_bytes // 5)
        pictured = [of_row[row] for row in first] if of_row else []
        show = partial(show_again, of_row, show)
    elif prototypes is not None:
        pictured = [*picture_classes(show_pixels(prototypes), range(len(prototypes)), budget=max_bytes // 5).values()]
    spare = max_bytes - len(render_page(title, "").encode()) - size_of(pictured)
    chosen, size = _fitting(head, rows, choose_rows(table["flag"].to_numpy(), limit=limit), budget=spare // 2)
    room = spare - size
    # Neighbours get a third of the room, unless this loses rows.
    others = neighbour_rows(table, chosen)
    thumbs = make_thumbnails(show, chosen.tolist(), budget=2 * room // 3 if len(others) else room, most=room)
    if not thumbs:
        raise HitNetError(f"A page of {max_bytes:,} bytes has no room for images. Raise max_bytes.")
    if len(thumbs) == len(chosen):
        thumbs += make_thumbnails(show, others.tolist(), budget=room - size_of(thumbs))
    chosen = chosen[: len(thumbs)]
    ids = rows.ids[np.concatenate([chosen, others])[: len(thumbs)]].tolist()
    data = _page_data(head, rows, chosen) | {
        "thumbs": dict(zip(ids, thumbs, strict=True)),
        "prototypes": pictured,
        "size": [*images.shape[:1:-1]],
    }
    write_text(path, render_page(title, finite_json(data)))
    if changed:
        text = "Files that have changed since they were judged: %d, the first %s. The page shows them as they are now."
        log.warning(f"{text} Audit again.", len(changed), one_line(rows.paths[min(changed)]))
    return len(chosen)


def picture_classes(show: Show, rows: Sequence[int], *, budget: int) -> dict[int, str]:
    """The thumbnails of the rows that stand for classes, each once; none if they do not all fit into the budget."""
    different = list(dict.fromkeys(rows))
    made = make_thumbnails(show, different, budget=budget)
    return dict(zip(different, made, strict=True)) if len(made) == len(different) else {}


def page_head(rows: Rows, title: str, summary: Summary) -> dict[str, Any]:
    figures = summary.to_json()
    return {"title": title, "names": list(rows.class_names), "summary": {key: figures[key] for key in SHOWN}}


def _page_data(head: Mapping[str, Any], rows: Rows, chosen: Ints) -> dict[str, Any]:
    return {**head, **rows.overview(chosen), "rows": rows.columns(chosen)}


def _fitting(head: Mapping[str, Any], rows: Rows, chosen: Ints, *, budget: int) -> tuple[Ints, int]:
    """The first rows whose text fits into the budget, and its size."""
    while True:
        size = len(finite_json(_page_data(head, rows, chosen)).encode())
        if size <= budget or len(chosen) <= 1:
            return chosen, size
        chosen = chosen[: max(1, int(len(chosen) * min(0.9, budget / size)))]


def choose_rows(flags: np.ndarray, *, limit: int) -> Ints:
    """Rows to show, in the table's order: all suspects, and the same number of others (at least 200), worst first."""
    if limit < 1:
        raise HitNetError(f"limit must be at least 1; got {limit}.")
    suspects, others = np.flatnonzero(flags != "ok"), np.flatnonzero(flags == "ok")
    more = max(FEWEST_OTHERS, len(suspects))
    return np.sort(np.concatenate([suspects, others[:more]])[:limit])


def neighbour_rows(table: pd.DataFrame, rows: Ints) -> Ints:
    """Rows of the images most like the shown ones, without the shown rows; neighbours of the first row come first."""
    columns = [column for column in LIKE if column in table.columns]
    place = pd.Series(np.arange(len(table)), index=table["id"])
    ids = table[columns].iloc[rows].to_numpy().ravel()
    wanted = place.reindex(pd.unique(ids)).dropna().astype(int)
    return np.asarray(wanted[~wanted.isin(rows)], np.int64)


def audit_fingerprint(table: pd.DataFrame, names: list[str]) -> str:
    """A hash that identifies this audit: the browser stores its decisions under it."""
    digest = hashlib.sha256(json.dumps(names).encode())
    for column in ("id", "path", "given", "suggested", "score"):
        digest.update(json.dumps(table[column].tolist()).encode())
    return digest.hexdigest()[:16]


def asset_text(names: Sequence[str]) -> str:
    """All scripts of the page, or all its styles, as one."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)


def render_page(title: str, data: str, *, server: bool = False) -> str:
    """The page with data from `finite_json`: one file with everything in it or, for the review `server`, without style
    and script, which come from the server. It also says what the page may do.
    """
    style, script = ("", "") if server else (asset_text(STYLES), asset_text(SCRIPTS))
    policy = (
        f"default-src 'none'; img-src data: blob:; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(ASSETS), autoescape=True)
    page = {"title": re.sub("[\ud800-\udfff]", "\ufffd", title), "data": data, "server": server}
    return environment.get_template("report.html.j2").render(page, policy=policy, style=style, script=script)


def _source(text: str) -> str:
    """The hash that allows an inline style or script in the content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def finite_json(value: object) -> str:
    """JSON that is safe inside a script element: no "<", no NaN, no half of a surrogate pair."""
    write = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text = write(value)
    except (TypeError, ValueError):  # numbers of NumPy, or not finite
        text = write(_finite(value))
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


def show_pixels(images: Tensor) -> Show:
    """Pictures of uint8 images (N, C, H, W)."""
    return lambda row, side: pixel_picture(images[row].cpu(), side)


def show_files(files: Sequence[AnyFile], checksums: Checksums | None, changed: set[int], otherwise: Show) -> Show:
    """Pictures of the rows' files, which may be larger than the judged images; of those where a file is gone.

    The rows whose files do not have their checksums any more are added to `changed`.
    """
    gone: list[int] = []

    def show(row: int, side: int) -> Image.Image:
        try:
            file = fetched(files[row])
            if checksums is not None and file_key(file) != checksums[row].tobytes():
                changed.add(row)
            return picture(file, side)
        except (UnreadableImageError, HitNetError) as error:
            if not gone:
                name = one_line(str(files[row]))
                log.warning("%s cannot be shown: %s. The page shows such images coarsely, or in black.", name, error)
            gone.append(row)
        return otherwise(row, side)

    return show


def show_again(thumbnails: Mapping[int, str], otherwise: Show, row: int, side: int) -> Image.Image:
    """The picture of a row: from its thumbnail, if it has one already."""
    return opened(thumbnails[row]) if row in thumbnails else otherwise(row, side)


def make_thumbnails(show: Show, rows: Sequence[int], *, budget: int, most: int | None = None) -> list[str]:
    """The thumbnails of different rows in base64, the best that fit into `budget` bytes. Each picture is shown once.

    If even the coarsest are too large, only the first rows are included: as many as fit into `most` bytes (None:
    `budget`).
    """
    some = {row: show(row, LADDER[0][0]) for row in rows[:: max(1, len(rows) // SAMPLE)]}
    longest = max((side for each in some.values() for side in each.size), default=1)
    steps = sorted({(max(READABLE, min(side, longest)), quality) for side, quality in LADDER}, reverse=True)

    def seems_too_large(step: tuple[int, int]) -> bool:
        size = size_of([encode(each.copy(), *step) for each in some.values()])
        return size * len(rows) > 0.95 * budget * len(some)

    while len(steps) > 1 and seems_too_large(steps[0]):
        del steps[0]

    def make(row: int) -> str:
        return encode(some.pop(row) if row in some else show(row, steps[0][0]), *steps[0])

    made = in_threads(make, rows, ahead=AHEAD)
    while len(steps) > 1:
        finer = list(made)
        if size_of(finer) <= budget:
            return finer
        del steps[0]
        made = in_threads(lambda thumbnail: encode(opened(thumbnail), *steps[0]), finer, ahead=AHEAD)
    thumbnails, left = list[str](), budget if most is None else most
    for thumbnail in made:
        left -= size_of([thumbnail])
        if left < 0:
            break
        thumbnails.append(thumbnail)
    return thumbnails


def size_of(thumbnails: Sequence[str]) -> int:
    return sum(len(each) + SEPARATORS for each in thumbnails)


def encode(image: Image.Image, side: int, quality: int) -> str:
    """A picture as WebP in base64, with a longest side of at most `side`. Small pictures keep their size."""
    file = io.BytesIO()
    # Method 2 takes half the time of 4, and 7 % more bytes: fewer rows on a page that is full.
    shrunk(image, side).save(file, "webp", quality=quality, method=2 if side > READABLE else 4)
    return base64.b64encode(file.getvalue()).decode("ascii")


def opened(thumbnail: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(thumbnail)))
