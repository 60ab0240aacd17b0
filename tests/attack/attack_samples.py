"""Sound files of every kind that the project reads, from which the attack makes damaged ones."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import torch
from PIL import Image
from safetensors.torch import save_file
from scipy.io import savemat
from toy_book import add, toy_book

import hitnet
from hitnet.audit import Case, Judgement, Opinion
from hitnet.audit.audit_folder import Kept, write_kept
from hitnet.audit.audit_table import summarise
from hitnet.audit.labels import judged_audit
from hitnet.audit.results import Audit
from hitnet.data import Images, save_npz
from hitnet.data.reading.decode import FORMATS
from hitnet.decisions.steps import Change, Step, StepLog
from hitnet.features.cache import FeatureCache
from hitnet.models.network import ModelConfig, Network
from hitnet.review.server import open_review
from hitnet.training import RunFolder, engine
from reproduction import Ledger
from toy import Interrupting, Stop, toy_images

MODEL = hitnet.choose_model("hitnet-small", capsule_dim=4)
RECIPE = hitnet.choose_recipe(epochs=2, batch_size=8)
COUNT = 24
PHOTOS, FIRST = "reviewed-photos", "a/0.png"  # files that are reviewed; the first is decided to be of another class
PICTURES = (
    "png",
    "jpg",
    "webp",
    "bmp",
    "gif",
    "tif",
    "ppm",
    *(name.lower() for name in ("AVIF", "HEIC") if name.replace("HEIC", "HEIF") in FORMATS),
)


def write_samples(root: Path) -> None:
    """Write a folder of samples: run, begun run, audit, ledger, tables, arrays, known sets, pictures, features."""
    images = toy_images(COUNT)
    save_npz(images, root / "set.npz", split=["train", "test"] * (COUNT // 2))
    np.savez(root / "plain.npz", images=images.pixels.numpy(), labels=np.array(["a", "b", "c"] * (COUNT // 3)))
    hitnet.train(root / "set.npz", out=root / "run", model=MODEL, recipe=RECIPE, device="cpu")
    engine.CHECKPOINT_SECONDS = 0.0
    with contextlib.suppress(Stop):
        hitnet.train(
            root / "set.npz", out=root / "begun", model=MODEL, recipe=RECIPE, device="cpu", progress=Interrupting(3)
        )
    RunFolder(root / "begun").release()
    hitnet.open_run(root / "run").export(root / "model.onnx")
    _write_stored_set(root, images)
    _write_audit(root, images)
    _write_ledger(root)
    _write_known(root)
    _write_pictures(root)
    _write_features(root)
    _write_lite(root)
    _write_reviewed(root)
    shutil.copyfile(root / "run" / "weights.safetensors", root / "weights.safetensors")


def _write_stored_set(root: Path, images: Images) -> None:
    pictures = [Image.fromarray(pixels.numpy()) for pixels in images.pixels[:, 0]]
    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=list(images.class_names)))
    columns = {"image": pictures, "label": images.labels.tolist()}
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(root / "stored")


def _write_audit(root: Path, images: Images) -> None:
    labels = images.labels.numpy()
    names = np.array(images.class_names, dtype=object)
    paths = [f"{names[k]}/{i}.png" for i, k in enumerate(labels)]
    table = pd.DataFrame(
        {
            "id": np.arange(COUNT),
            "path": paths,
            "given": names[labels],
            "suggested": names[(labels + 1) % 3],
            "score": np.linspace(0, 1, COUNT),
            "hits": 1,
            "votes": 2,
            "models": 4,
            "margin_mean": 0.1,
            "margin_std": 0.01,
            "ghost": names[(labels + 2) % 3],
            "ghost_distance": 0.5,
            "flag": ["wrong", "ok"] * (COUNT // 2),
            "rule": "a rule",
        }
    )
    about = {"data": "toy", "source": str(root / "set.npz"), "models": 4, "model": "m"}
    distances = np.random.default_rng(0).random((COUNT, 3)).astype(np.float32)
    audit = Audit(table, distances, images.class_names, summarise(table, images.class_names, **about))
    (root / "audit").mkdir()
    audit.write(root / "audit")
    _write_review(root / "audit", table, audit)
    _write_answers(root, table)
    _write_wide(root, audit)
    (root / "audit" / "settings.json").write_text(json.dumps({"source": "x", "split": "all", "images": COUNT}))
    rows = "".join(
        f'{i},"{path}",{names[k]},{("keep", "drop", "unsure")[i % 3]},\r\n'
        for i, (path, k) in enumerate(zip(paths, labels, strict=True))
    )
    (root / "corrections.csv").write_text("id,path,given,decision,label\r\n" + rows)


def _write_wide(root: Path, audit: Audit) -> None:
    """The same audit as if its classes were many: distances of the given class, one more, and all others."""
    given = audit.table["given"].map(audit.class_names.index).to_numpy()
    pairs = np.sort(np.stack([given, (given + 1) % 3], axis=1), axis=1)
    classes = np.pad(pairs, ((0, 0), (0, 1)), constant_values=3)
    (root / "wide").mkdir()
    replace(audit, classes=classes).write(root / "wide")
    _write_review(root / "wide", audit.table, audit, classes)


def _write_review(folder: Path, table: pd.DataFrame, audit: Audit, classes: np.ndarray | None = None) -> None:
    """What an audit keeps for its review, and decisions of two reviewers."""
    distances = torch.rand(2, COUNT, 3, generator=torch.Generator().manual_seed(0)).half().numpy()
    opinions = (
        Opinion("heads", distances[0], capsules=True, classes=classes),
        Opinion("neighbours", distances[1], classes=classes),
    )
    write_kept(folder, Kept(opinions, torch.rand(COUNT, 5).half()))
    pairs = {"id_a": [0, 1], "id_b": [2, 3], "similarity": [0.99, 0.98], "labels_differ": [True, False]}
    pd.DataFrame(pairs).to_csv(folder / "duplicates.csv", index=False)
    log = StepLog(folder / "decisions.jsonl")
    rows = list(table[["id", "path", "given"]].itertuples(index=False, name=None))
    for reviewer in ("anna", "ben"):
        for i, decision in enumerate(("keep", "relabel", "drop", "neither", "unsure")):
            label = audit.class_names[0] if decision == "relabel" else ""
            log.append(Step(reviewer, (Change(*rows[i], decision, label), Change(*rows[i + 5], "keep"))))
    log.append(Step("ben", undoes=log.read()[0].name))


def _write_answers(root: Path, table: pd.DataFrame) -> None:
    """Label Studio's answers on the audit, and what the page of its review sends."""
    rows = list(table[["id", "path", "given"]].itertuples(index=False, name=None))
    tasks = [
        {
            "data": {"image_id": number, "path": path, "given": given},
            "annotations": [{"result": [{"value": {"choices": ["band 0"]}}], "was_cancelled": False}],
        }
        for number, path, given in rows[:4]
    ]
    (root / "tasks.json").write_text(json.dumps(tasks))
    _write_requests(root / "requests", (root / "audit" / "decisions.jsonl").read_text(), str(rows[7][2]))


def _write_requests(folder: Path, log: str, given: str) -> None:
    """What the page of a review sends."""
    query = {
        "given": 1,
        "suggested": 2,
        "flags": [0, 4],
        "state": "undecided",
        "lowest": 0.1,
        "text": "a",
        "sort": "doubt",
    }
    bodies = {
        "decide": {"changes": [[7, "keep", ""], [8, "relabel", given], [9, "none", ""]]},
        "group": {"query": query, "given": 1, "suggested": 2, "decision": "relabel", "expected": 1},
        "undo": {"step": json.loads(log.splitlines()[0])["step"]},
        "import": {"text": log},
    }
    folder.mkdir()
    for name, body in bodies.items():
        (folder / f"{name}.json").write_text(json.dumps(body))


def _write_ledger(root: Path) -> None:
    book = toy_book(root)
    ledger = Ledger(root / "ledger.jsonl")
    for seed in range(3):
        add(ledger, book.experiments["toy"], seed)
    (root / "run" / "origin.json").write_text(json.dumps([{"device": "cpu", "torch": "2", "code": "c"}]))


def _write_known(root: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 9, 9), dtype=np.uint8)
    raw = bytes([0, 0, 8, 3]) + struct.pack(">3I", *pixels.shape) + pixels.tobytes()
    (root / "images.idx").write_bytes(raw)
    (root / "images.idx.gz").write_bytes(gzip.compress(raw, mtime=0))
    records = np.random.default_rng(1).integers(0, 256, (3, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    (root / "cifar.bin").write_bytes(records.tobytes())
    crop = np.random.default_rng(2).integers(0, 256, (32, 32, 3, 2), dtype=np.uint8)
    svhn = {"X": crop, "y": np.array([[1], [10]], np.uint8)}
    affnist = {"affNISTdata": {"other": "x", "image": np.zeros((1600, 2), np.uint8), "label_int": np.array([[1, 2]])}}
    for packed in (False, True):
        savemat(root / f"svhn{int(packed)}.mat", svhn, do_compression=packed)
        savemat(root / f"affnist{int(packed)}.mat", affnist, do_compression=packed)


def _write_pictures(root: Path) -> None:
    values = np.random.default_rng(3).integers(0, 256, (14, 11, 4), dtype=np.uint8)
    for kind in PICTURES:
        Image.fromarray(values[:, :, :3]).save(root / f"picture.{kind}")
    Image.fromarray(values).save(root / "alpha.png")
    Image.fromarray(values[:, :, 0].astype(np.uint16) * 200).save(root / "deep.png")
    Image.fromarray(values[:, :, :3]).quantize(8).save(root / "palette.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(values[:, :, :3]).save(root / "turned.jpg", exif=exif)
    for name in ("a", "b"):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(values[:, :, i]).save(root / "photos" / name / f"{i}.png")
    frame = pd.DataFrame(
        {
            "path": [f"photos/{name}/{i}.png" for name in "ab" for i in range(3)],
            "label": list("aaabbb"),
            "split": "train",
        }
    )
    frame.to_csv(root / "table.csv", index=False)
    frame.to_csv(root / "table.tsv", index=False, sep="\t")
    frame.to_parquet(root / "table.parquet", index=False)
    content = [{"bytes": (root / path).read_bytes(), "path": path} for path in frame["path"]]
    frame.assign(image=content).drop(columns="path").to_parquet(root / "images.parquet", index=False)
    frame.assign(label_1=frame["label"], label_2="a").drop(columns=["label", "split"]).to_csv(
        root / "votes.csv", index=False
    )


def _write_features(root: Path) -> None:
    rows = np.random.default_rng(4).random((COUNT, 5)).astype(np.float32)
    np.save(root / "features.npy", rows)
    np.savez(root / "features.npz", features=rows, id=np.arange(COUNT))
    pd.DataFrame(rows, columns=[f"f{i}" for i in range(5)]).assign(id=np.arange(COUNT)).to_parquet(
        root / "features.parquet", index=False
    )
    cache = FeatureCache(root / "cache", 5)
    cache.add([os.urandom(16) for _ in range(4)], torch.rand(4, 5))
    next((root / "cache").glob("*.safetensors")).rename(root / "cache" / "shard.safetensors")
    save_file({"weight": torch.rand(3, 4), "bias": torch.rand(3)}, root / "linear.safetensors")
    np.savez_compressed(
        root / "ghosts.npz",
        ghost=np.zeros(5, np.int16),
        distance=np.ones(5, np.float32),
        own=np.zeros(5, np.float32),
        fingerprint=np.array("f"),
        weights=np.array("w"),
    )


def _write_lite(root: Path) -> None:
    """A run of the backbone that ships, whose weights fit images of any size; calibration of the other run."""
    config = json.loads((root / "run" / "config.json").read_text())
    model = ModelConfig((3, 32, 32), 3, 4, features="efficientnet-lite0", decoder="none")
    (root / "lite").mkdir()
    (root / "lite" / "config.json").write_text(json.dumps(config | {"model": model.to_dict()}))
    RunFolder(root / "lite").finish(Network(model), [])
    (root / "run" / "calibration.json").write_text(json.dumps({"temperature": 0.5, "misfits": [0.1, 0.2, 0.3]}))


def _write_reviewed(root: Path) -> None:
    """An audit of image files, decisions on it, and rows of features that are named by files."""
    random = np.random.default_rng(5)
    for i in range(COUNT):
        path = root / PHOTOS / "abc"[i % 3] / f"{i // 3}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (14, 11, 3), dtype=np.uint8)).save(path)
    data = hitnet.open_data(root / PHOTOS)
    images = data.load("all")
    distances = random.random((2, COUNT, 3)).astype(np.float32)
    opinions = tuple(Opinion("networks", each, in_sample=True, capsules=True) for each in distances)
    case = Case(data, images, "all", torch.device("cpu"))
    audit = replace(judged_audit(case, Judgement(opinions, images, "m"), 0.0), images=None)
    (root / "reviewed").mkdir()
    audit.write(root / "reviewed")
    (root / "reviewed.csv").write_text(f"id,path,given,decision,label\n0,{FIRST},a,relabel,b\n1,a/1.png,a,drop,\n")
    shutil.copyfile(root / PHOTOS / FIRST, root / "sound.png")
    review = open_review(hitnet.open_audit(root / "audit"), reviewer="anna")
    review.board.draw(5)
    paths = [f"{name}/{i}.png" for name in "ab" for i in range(3)]
    np.save(root / "named.npy", np.zeros((6, 5), np.float32))
    (root / "named.paths.json").write_text(json.dumps(paths))
