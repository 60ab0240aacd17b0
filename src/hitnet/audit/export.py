"""Export an audit to other tools: tasks for Label Studio, probabilities for cleanlab."""

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
import pandas as pd

from hitnet.audit.audit_table import class_codes
from hitnet.data.formats.table import TABLES
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand, replacing, write_json, write_text
from hitnet.runtime.spreadsheets import without_formulas

Rows = Callable[[slice], np.ndarray]  # the probabilities (n, K) of some rows of the table
BLOCK = 16_384  # rows
LOCAL_FILES = "/data/local-files/?d="  # where Label Studio serves files below its document root


def write_pred_probs(
    table: pd.DataFrame, probabilities: Rows, class_names: Sequence[str], path: str | Path
) -> list[Path]:
    """Write class probabilities (N, K) for cleanlab, a .npy file, by id, and what each row is beside it (.rows.csv)."""
    target = _target(path, ".npy")
    order = np.argsort(table["id"].to_numpy(), kind="stable")
    rows = table.iloc[order][["id", "path", "given"]].reset_index(drop=True)
    rows.insert(0, "row", rows.index)
    rows["label"] = class_codes(rows["given"], class_names)
    text = without_formulas(rows).to_csv(index=False, lineterminator="\n")
    beside = _free(target.with_suffix(".rows.csv"), text.encode("utf-8", "backslashreplace").decode("utf-8"))
    place = np.argsort(order)
    with replacing(target) as temporary:
        written = np.lib.format.open_memmap(temporary, "w+", np.float64, (len(table), len(class_names)))
        for part in _parts(table):
            written[place[part]] = probabilities(part)
        written.flush()
    write_text(*beside)
    return [target, beside[0]]


def label_studio(
    table: pd.DataFrame,
    probabilities: Rows,
    class_names: Sequence[str],
    path: str | Path,
    *,
    image_root: str = LOCAL_FILES,
) -> list[Path]:
    """Write the audit as Label Studio tasks (.json), worst image first, and the labelling set-up beside them as .xml.

    Each task predicts the suggested class, with its probability (N, K) as score. The given label and the audit's score,
    flag and rule are columns of the task. `image_root` is put before each image's path (see `local_files`); an absolute
    path is put behind `LOCAL_FILES`, without its first "/".
    """
    target = _target(path, ".json")
    beside = _free(target.with_suffix(".xml"), label_studio_config(class_names))
    if not all(table["path"].fillna("")):
        raise HitNetError("Label Studio needs an image file for each task, but this audit's images have no files.")
    suggested = class_codes(table["suggested"], class_names)[:, None]
    sure = [np.take_along_axis(probabilities(part), suggested[part], 1)[:, 0].tolist() for part in _parts(table)]
    root = image_root if image_root.endswith(("/", "=")) else f"{image_root}/"
    rows = zip(table.to_dict("records"), chain.from_iterable(sure), strict=True)
    write_json(target, [_task(row, probability, root) for row, probability in rows])
    write_text(*beside)
    return [target, beside[0]]


def _task(row: dict[Any, Any], probability: float, root: str) -> dict[str, Any]:
    path = str(row["path"])
    address = (LOCAL_FILES if path.startswith("/") else root) + _quoted(path.lstrip("/"))
    data = {"image": address, "image_id": row["id"], "path": path, "given": row["given"], "label_score": row["score"]}
    choice = {"id": f"suggested-{row['id']}", "type": "choices", "from_name": "label", "to_name": "image"}
    predicted = [choice | {"value": {"choices": [row["suggested"]]}}]
    prediction = {"model_version": "hitnet-audit", "score": probability, "result": predicted}
    return {"data": data | {"flag": row["flag"], "rule": row["rule"]}, "predictions": [prediction]}


def local_files(source: str) -> str:
    """Where Label Studio serves the files of a folder or table, if its document root is the folder above.

    Label Studio serves only folders *below* its document root, so the address must name the set's own folder.
    """
    path = Path(source)
    folder = path.parent if path.suffix.lower() in TABLES else path
    return f"{LOCAL_FILES}{_quoted(folder.name)}/"


def _quoted(path: str) -> str:
    """A path in an address; Python keeps bytes of a name that are not valid UTF-8 as surrogates."""
    try:
        return quote(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise HitNetError(f"{path!r} is no name that a file can have, so it has no address.") from error


def label_studio_config(class_names: Sequence[str]) -> str:
    """The labelling set-up for the tasks of `label_studio`: one image, one choice of class."""
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in class_names)
    return f"""<View>
  <Image name="image" value="$image"/>
  <Header value="Given: $given"/>
  <Choices name="label" toName="image" choice="single" showInLine="true">
{choices}  </Choices>
</View>
"""


def _parts(table: pd.DataFrame) -> list[slice]:
    """Rows whose probabilities are computed at once."""
    return [slice(start, start + BLOCK) for start in range(0, len(table), BLOCK)]


def _target(path: str | Path, suffix: str) -> Path:
    """The file to write; raises HitNetError for a name with another suffix."""
    if expand(path).suffix.lower() != suffix:
        raise HitNetError(f"{path}: choose a file name that ends in {suffix}.")
    return expand(path)


def _free(path: Path, content: str) -> tuple[Path, str]:
    """A file that is written beside another one; raises HitNetError if it exists with other content."""
    if path.exists() and (not path.is_file() or path.read_bytes() != content.encode()):
        raise HitNetError(f"{path} exists and is not of this audit. Choose another name.")
    return path, content
