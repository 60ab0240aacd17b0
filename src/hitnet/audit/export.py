"""An audit for other tools: tasks for Label Studio, probabilities for cleanlab.

Both rest on one map from distances to probabilities, the softmax of -distance / 0.1. The nearer its capsule,
the likelier a class, so that the likeliest class is the nearest capsule's. The temperature is the hit radius:
each hit radius by which one capsule is farther than another makes its class e times less likely. An image with
one capsule on the hit radius (0.1) and nine on the miss radius (0.9) gets 0.997 for the hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np
import pandas as pd

from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError
from hitnet.files import replacing, write_json, write_text

TEMPERATURE = HIT_RADIUS


def pred_probs(distances: np.ndarray) -> np.ndarray:
    """Class probabilities (N, K) of mean capsule distances (N, K), in the same order; each row sums to 1."""
    if distances.ndim != 2 or not np.isfinite(distances).all():
        raise HitNetError(f"distances must be finite, images by classes; got shape {distances.shape}.")
    exponents = -distances.astype(np.float64) / TEMPERATURE
    likely = np.exp(exponents - exponents.max(1, keepdims=True, initial=-np.inf))
    probabilities: np.ndarray = likely / likely.sum(1, keepdims=True)
    return probabilities


def write_pred_probs(table: pd.DataFrame, distances: np.ndarray, path: str | Path) -> None:
    """Write the probabilities as .npy, images by ascending id and classes in their order.

    With labels in the order of ids, `cleanlab.filter.find_label_issues(labels, np.load(path))` takes it so.
    """
    _check(table, distances)
    if Path(path).suffix.lower() != ".npy":
        raise HitNetError(f"{path}: the name of a file of probabilities ends in .npy.")
    order = np.argsort(table["id"].to_numpy(), kind="stable")
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, pred_probs(distances)[order], allow_pickle=False)


def label_studio(
    table: pd.DataFrame,
    distances: np.ndarray,
    class_names: Sequence[str],
    path: str | Path,
    *,
    image_root: str = "/data/local-files/?d=",
) -> list[Path]:
    """Write the audit as Label Studio tasks, worst image first, and beside them the labelling set-up as .xml; gives
    both files.

    Each task predicts the suggested class, with its probability as score; the given label, the audit's
    score, flag and rule are columns of the task. `image_root` goes before each file's path: by default the
    address at which Label Studio serves a folder of its local storage.
    """
    _check(table, distances)
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise HitNetError(f"{path}: the name of a file of Label Studio tasks ends in .json.")
    set_up, setting = target.with_suffix(".xml"), label_studio_config(class_names)
    if set_up.exists() and (not set_up.is_file() or set_up.read_bytes() != setting.encode()):
        raise HitNetError(f"{set_up} exists, and is not this audit's labelling set-up. Choose another name.")
    files = table["path"].fillna("").astype(str).tolist()
    if not all(files):
        raise HitNetError("Label Studio needs an image file for each task; this audit's images have none.")
    index = {name: k for k, name in enumerate(class_names)}
    chances = pred_probs(distances)
    columns = ("id", "given", "suggested", "score", "flag", "rule")
    records = zip(files, *(table[column].tolist() for column in columns), strict=True)
    root = image_root if image_root.endswith(("/", "=")) else f"{image_root}/"
    tasks = []
    for row, (file, number, given, suggested, score, flag, rule) in enumerate(records):
        address = root + quote(file.encode("utf-8", "surrogateescape"))
        choice = {
            "id": f"suggested-{number}",
            "type": "choices",
            "from_name": "label",
            "to_name": "image",
            "value": {"choices": [suggested]},
        }
        prediction = {
            "model_version": "hitnet-audit",
            "score": float(chances[row, index[suggested]]),
            "result": [choice],
        }
        facts = {"given": given, "label_score": score, "flag": flag, "rule": rule}
        data = {"image": address, "image_id": number, **facts}
        tasks.append({"data": data, "predictions": [prediction]})
    write_json(target, tasks)
    write_text(set_up, setting)
    return [target, set_up]


def label_studio_config(class_names: Sequence[str]) -> str:
    """The labelling set-up that the tasks of `label_studio` fit: one image, one choice of class."""
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


def _check(table: pd.DataFrame, distances: np.ndarray) -> None:
    if len(table) != len(distances):
        raise HitNetError(f"The audit table has {len(table)} rows, the distances have {len(distances)}.")
