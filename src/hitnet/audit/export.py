"""Export an audit to other tools: tasks for Label Studio, probabilities for cleanlab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
import pandas as pd

from hitnet.data.formats.table import TABLES
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand, replacing, write_json, write_text
from hitnet.runtime.spreadsheets import without_formulas

LOCAL_FILES = "/data/local-files/?d="  # where Label Studio serves files below its document root


def write_pred_probs(
    table: pd.DataFrame, probabilities: np.ndarray, class_names: Sequence[str], path: str | Path
) -> list[Path]:
    """Write class probabilities as a .npy file, images sorted by id, and what each row is beside them as .rows.csv.

    The columns of that table: `row` of the array, `id` and `path` of the image, `given` label and `label`, its column
    in the array. Texts that a spreadsheet would run as formulas have a ' before them. Call
    `cleanlab.filter.find_label_issues(rows["label"], np.load(path))`.

    Args:
        table: The audit's table.
        probabilities: (N, K) of classes, in the table's order.
        class_names: The K classes.
        path: A file whose name ends in .npy.

    Returns:
        The two files.
    """
    _check(table, probabilities)
    target = expand(path)
    if target.suffix.lower() != ".npy":
        raise HitNetError(f"{path}: choose a file name for the probabilities that ends in .npy.")
    order = np.argsort(table["id"].to_numpy(), kind="stable")
    index = {name: k for k, name in enumerate(class_names)}
    rows = table.iloc[order][["id", "path", "given"]].reset_index(drop=True)
    rows.insert(0, "row", rows.index)
    rows["label"] = rows["given"].map(index)
    rows_file = target.with_suffix(".rows.csv")
    text = without_formulas(rows).to_csv(index=False, lineterminator="\n")
    content = text.encode("utf-8", "backslashreplace").decode("utf-8")
    _check_free(rows_file, content, "this audit's rows")
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.save(file, probabilities[order], allow_pickle=False)
    write_text(rows_file, content)
    return [target, rows_file]


def label_studio(
    table: pd.DataFrame,
    probabilities: np.ndarray,
    class_names: Sequence[str],
    path: str | Path,
    *,
    image_root: str = LOCAL_FILES,
) -> list[Path]:
    """Write the audit as Label Studio tasks, worst image first, and the labelling set-up beside them as .xml.

    Each task predicts the suggested class, with its probability as score. The given label and the audit's score, flag
    and rule are columns of the task.

    Args:
        table: The audit's table.
        probabilities: (N, K) of classes, in the table's order.
        class_names: The K classes.
        path: A file whose name ends in .json.
        image_root: Prefix of each image's path; see `local_files`. An absolute path is put behind `LOCAL_FILES`,
            without its first "/".

    Returns:
        The two files.
    """
    _check(table, probabilities)
    target = expand(path)
    if target.suffix.lower() != ".json":
        raise HitNetError(f"{path}: choose a file name for the Label Studio tasks that ends in .json.")
    config_file, config = target.with_suffix(".xml"), label_studio_config(class_names)
    _check_free(config_file, config, "this audit's labelling set-up")
    files = table["path"].fillna("").astype(str).tolist()
    if not all(files):
        raise HitNetError("Label Studio needs an image file for each task, but this audit's images have no files.")
    index = {name: k for k, name in enumerate(class_names)}
    sure = probabilities[np.arange(len(table)), table["suggested"].map(index).to_numpy()]
    columns = ("id", "given", "suggested", "score", "flag", "rule")
    records = zip(files, sure.tolist(), *(table[column].tolist() for column in columns), strict=True)
    root = image_root if image_root.endswith(("/", "=")) else f"{image_root}/"
    write_json(target, [_task(root, *record) for record in records])
    write_text(config_file, config)
    return [target, config_file]


def _task(
    root: str, file: str, sure: float, number: int, given: str, suggested: str, score: float, flag: str, rule: str
) -> dict[str, Any]:
    """One task of Label Studio; `sure` is the probability of the suggested class."""
    prefix = LOCAL_FILES if file.startswith("/") else root
    data = {
        "image": prefix + quote(file.lstrip("/").encode("utf-8", "surrogateescape")),
        "image_id": number,
        "path": file,
        "given": given,
        "label_score": score,
        "flag": flag,
        "rule": rule,
    }
    choice = {
        "id": f"suggested-{number}",
        "type": "choices",
        "from_name": "label",
        "to_name": "image",
        "value": {"choices": [suggested]},
    }
    return {"data": data, "predictions": [{"model_version": "hitnet-audit", "score": sure, "result": [choice]}]}


def local_files(source: str) -> str:
    """Where Label Studio serves the files of a folder or table, if its document root is the folder above.

    Label Studio serves only folders *below* its document root, so the address must name the set's own folder.
    """
    path = Path(source)
    folder = path.parent if path.suffix.lower() in TABLES else path
    return f"{LOCAL_FILES}{quote(folder.name)}/"


def label_studio_config(class_names: Sequence[str]) -> str:
    """The labelling set-up for the tasks of `label_studio`: one image, one choice of class."""
    lines = [
        "<View>",
        '  <Image name="image" value="$image"/>',
        '  <Header value="Given: $given"/>',
        '  <Choices name="label" toName="image" choice="single" showInLine="true">',
        *(f"    <Choice value={quoteattr(name)}/>" for name in class_names),
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def _check_free(path: Path, content: str, what: str) -> None:
    """Raise if a file that is written beside another one exists with other content."""
    if path.exists() and (not path.is_file() or path.read_bytes() != content.encode()):
        raise HitNetError(f"{path} exists and is not {what}. Choose another name.")


def _check(table: pd.DataFrame, probabilities: np.ndarray) -> None:
    if len(table) != len(probabilities):
        raise HitNetError(f"The audit table has {len(table)} rows, but probabilities has {len(probabilities)}.")
