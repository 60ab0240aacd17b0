"""Made-up audits for the tests of the page, the corrections and the exports, and quick real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor

import hitnet
from hitnet.audit import Audit, Judges, Opinion, Summary
from hitnet.audit.audit_table import make_table as table_of
from hitnet.audit.audit_table import summarise
from hitnet.audit.scoring import score_labels
from hitnet.data import Images
from hitnet.runtime.progress import Progress
from hitnet.training import RecipeChoice, choose_recipe
from toy import Stop, toy_images

MODELS = 8
HEADER = "id,path,given,decision,label\r\n"
FLIPPED = [5, 20, 33, 50, 71]  # wrong labels of `mislabelled`


def make_distances(labels: np.ndarray, classes: int, *, suspects: int, seed: int = 0) -> np.ndarray:
    """Distances (N, K): the given class hits, except for the first `suspects` images, where another does."""
    random = np.random.default_rng(seed)
    count = len(labels)
    distances = np.clip(random.normal(1.05, 0.16, (count, classes)), 0.3, 1.9)
    seen = labels.copy()
    seen[:suspects] = (labels[:suspects] + random.integers(1, classes, suspects)) % classes
    distances[np.arange(count), seen] = random.uniform(0.02, 0.15, count)
    split = np.arange(0, suspects, 3)
    distances[split, labels[split]] = random.uniform(0.06, 0.3, len(split))
    distances[split[::3], labels[split[::3]]] = 0.02  # ambiguous, but probably right
    distances[np.arange(1, suspects, 7)] += 0.4
    return distances.astype(np.float32)


def text(values: list[str]) -> pd.Series:
    """A column of plain Python strings, which may hold what UTF-8 cannot."""
    return pd.Series(values, dtype=object)


def make_table(labels: np.ndarray, distances: np.ndarray, names: list[str], paths: list[str]) -> pd.DataFrame:
    """A plausible audit table in the order of ids 0..N-1, scores rising with the row number."""
    count = len(labels)
    rows = np.arange(count)
    own = distances[rows, labels]
    others = distances.copy()
    others[rows, labels] = np.inf
    ghost = others.argmin(1)
    best = distances.argmin(1)
    margin = own - others.min(1)
    flag = np.where(margin > 0.25, "wrong", np.where(margin > -0.25, "ambiguous: two labels", "ok")).astype(object)
    flag[distances.min(1) > 0.4] = "none of the classes"
    suggested = np.where(flag == "ambiguous: two labels", ghost, best)
    rule = {
        "wrong": "another class is a hit in most models and the given class in few",
        "doubtful": "not sure enough",
        "ambiguous: two labels": "the given class and another are both hits",
        "none of the classes": "no class is a hit in any model",
        "ok": "the given class is a hit",
    }
    votes = np.clip(np.round(MODELS * (1 - others.min(1))), 0, MODELS).astype(int)
    table = pd.DataFrame(
        {
            "id": rows,
            "path": text(paths),
            "given": text([names[k] for k in labels]),
            "suggested": text([names[k] for k in suggested]),
            "score": 1 / (1 + np.exp(4 * margin)),
            "hits": np.where(own < 0.1, MODELS, np.where(own < 0.3, 3, 0)),
            "votes": votes,
            "models": MODELS,
            "margin_mean": margin,
            "margin_std": 0.05,
            "ghost": text([names[k] for k in ghost]),
            "ghost_distance": others.min(1),
            "flag": flag,
            "rule": [rule[f] for f in flag],
        }
    )
    return table


def make_audit(
    count: int = 60,
    classes: int = 5,
    *,
    suspects: int = 20,
    names: list[str] | None = None,
    paths: list[str] | None = None,
) -> tuple[pd.DataFrame, np.ndarray, Tensor, list[str]]:
    """(table, distances, pixels, class names), worst image first."""
    names = names or [f"class {k}" for k in range(classes)]
    labels = np.arange(count) % len(names)
    distances = make_distances(labels, len(names), suspects=suspects)
    table = make_table(labels, distances, names, paths or [f"{names[k]}/image-{i}.png" for i, k in enumerate(labels)])
    order = np.argsort(table["score"].to_numpy(), kind="stable")
    pixels = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (count, 1, 12, 12), dtype=np.uint8))
    return table.iloc[order].reset_index(drop=True), distances[order], pixels[torch.from_numpy(order)], names


def with_neighbours(audit: tuple[pd.DataFrame, np.ndarray, Tensor, list[str]]) -> Any:
    """The same audit with like_given and like_suggested: the next image of that label; −1 where there is none."""
    table, *rest = audit
    given = {number: name for number, name in zip(table["id"], table["given"], strict=True)}

    def next_with(number: int, label: str) -> int:
        others = [other for other in given if other != number and given[other] == label]
        return min(others, key=lambda other: (other - number) % len(given), default=-1)

    like = {
        f"like_{column}": [next_with(i, label) for i, label in zip(table["id"], table[column], strict=True)]
        for column in ("given", "suggested")
    }
    return table.assign(**like), *rest


def make_summary(table: pd.DataFrame, names: list[str], **about: Any) -> Summary:
    """The figures of a made-up audit."""
    made_up = {"data": "array", "source": "made up", "models": MODELS, "model": "hitnet-small", "seconds": 1.0}
    return summarise(table, names, **made_up | about)


def by_networks(distances: np.ndarray) -> tuple[Opinion, ...]:
    """Distances (M, N, K) as the opinions of networks that were trained on the labels."""
    return tuple(Opinion("networks", each, in_sample=True, capsules=True) for each in distances)


def judged_table(distances: np.ndarray, images: Images) -> pd.DataFrame:
    """The audit's table of images that networks with these distances judge."""
    opinions = by_networks(distances)
    return table_of(images, opinions, score_labels(opinions, images.labels.numpy()))[0]


def make_images(count: int = 60, classes: int = 5, *, paths: bool = False) -> Images:
    """The data set that `make_audit` audits: ids 0..N-1, label = id modulo classes."""
    labels = np.arange(count) % classes
    pixels = np.random.default_rng(1).integers(0, 256, (count, 1, 12, 12), dtype=np.uint8)
    names = [f"class {k}" for k in range(classes)]
    files = [f"{names[k]}/image-{i}.png" for i, k in enumerate(labels)] if paths else None
    return Images.from_arrays(pixels, labels, class_names=names, name="made up", paths=files)


def audit_of(images: Images) -> pd.DataFrame:
    """A made-up audit's table of these images."""
    labels = images.labels.numpy()
    distances = np.full((len(images), images.num_classes), 1.0, np.float32)
    table = make_table(labels, distances, list(images.class_names), list(images.paths or [""] * len(images)))
    return table.assign(id=images.ids.numpy()).iloc[::-1].reset_index(drop=True)


def write_csv(path: Path, table: pd.DataFrame, decisions: dict[int, tuple[str, str]]) -> Path:
    """A corrections file of {id: (decision, label)}, with the path and the given label that the audit has."""
    known = table.set_index("id")
    lines = []
    for number, (decision, label) in decisions.items():
        fields = known["path"][number], known["given"][number], decision, label
        lines.append(",".join([str(number), *('"' + f.replace('"', '""') + '"' for f in fields)]))
    path.write_bytes((HEADER + "".join(line + "\r\n" for line in lines)).encode())
    return path


def make_folder(root: Path, files: list[str]) -> Path:
    """Image files below a folder, each of another grey."""
    for i, file in enumerate(files):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 9 * i, np.uint8)).save(root / file)
    return root


def tree(root: Path) -> dict[str, bytes]:
    """The content of each file below a folder, by its path there."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def mislabelled(count: int = 96, **options: Any) -> Images:
    """The toy set with five labels moved on by one class."""
    images = toy_images(count, **options)
    labels = images.labels.clone()
    labels[FLIPPED] = (labels[FLIPPED] + 1) % 3
    return images.with_labels(labels)


def quick_recipe(epochs: int = 10) -> RecipeChoice:
    return choose_recipe("fast", epochs=epochs, batch_size=32, learning_rate=5e-3)


QUICK = Judges("scratch", networks=2, recipe=quick_recipe())


def quick_audit(data: Any, **options: Any) -> Audit:
    """An audit on the CPU, by two networks unless `judges` says otherwise."""
    return hitnet.audit_labels(data, **{"judges": QUICK, "device": "cpu", **options})


class Counting(Progress):
    """Counts what it is told, and stops the work after N steps."""

    def __init__(self, most: int = 10**9) -> None:
        self.most, self.planned, self.steps = most, list[int](), 0

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        if steps is not None:
            self.planned.append(steps)

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > self.most:
            raise Stop


def random_case(models, images, classes, seed=0):
    random = np.random.default_rng(seed)
    distances = random.uniform(0, 1.5, (models, images, classes))
    labels = random.integers(0, classes, images)
    distances[:, np.arange(images), labels] *= random.choice([0.05, 1.0], images)
    return distances, labels


CASES = [random_case(5, 40, 4), random_case(3, 30, 2, seed=1), random_case(1, 25, 10, seed=2), random_case(1, 9, 2)]


def nearest(row, leave_out=None):
    """The first class of the smallest distance."""
    best = None
    for k, value in enumerate(row):
        if k != leave_out and (best is None or value < row[best]):
            best = k
    return best
