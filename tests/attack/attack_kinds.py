"""The kinds of files that the project reads: how a file of each kind is read, as a command would read it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from attack_samples import COUNT, PICTURES
from starlette.testclient import TestClient
from toy_book import toy_book

import hitnet
from hitnet.audit.audit_folder import CHECKSUMS, CLASSES, DISTANCES, SUMMARY, TABLE, Settings, claimed, write_settings
from hitnet.data import check_data, open_data, read_image
from hitnet.data.known.makers import read_cifar, read_idx, read_svhn
from hitnet.decisions.correction_files import read_corrections
from hitnet.decisions.corrections import audited_images, check_corrections
from hitnet.decisions.rules import Decisions, settled
from hitnet.decisions.steps import read_steps
from hitnet.errors import HitNetError
from hitnet.features.cache import FeatureCache
from hitnet.features.dataset_features import read_features
from hitnet.models.backbones import open_backbone
from hitnet.models.network import Network
from hitnet.plots import plot_history
from hitnet.review.selection import Query
from hitnet.review.server import open_review
from hitnet.runtime.files import checksum, write_json
from hitnet.training import RunFolder
from hitnet.training.batches import Feed
from hitnet.training.engine import Trainer
from reproduction import Ledger, write_page
from reproduction.affnist import read_affnist
from reproduction.ghosts import load_readings
from reproduction.provenance import read_origin
from reproduction.records import all_records, diverged_runs, full_runs, history_facts
from toy import toy_images


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: What to call it.
        samples: Sound files, from the folder of samples on.
        place: Where the damaged file is put, from the folder of samples on.
        read: Reads it, given the folder; raises HitNetError for what it refuses.
        structured: How it is also taken apart, changed and put together again: "json", "lines", "npz", "gz", "mat",
            "parquet", "tensors", "csv" or "".
        make: Makes the content on purpose, from the folder of sound samples; then, none of these is damaged.
    """

    name: str
    samples: tuple[str, ...]
    place: str
    read: Callable[[Path], object]
    structured: str = ""
    make: Callable[[Path, random.Random], bytes] | None = None


def read_run(root: Path) -> object:
    return hitnet.open_run(root / "run")


def read_history(root: Path) -> object:
    plot_history([root / "run"])
    return history_facts(RunFolder(root / "run").history(), 10, 1.0)


@cache
def feed() -> Feed:
    return Feed(toy_images(COUNT), torch.device("cpu"))


def resume_run(root: Path) -> None:
    """Resume a begun run, up to its first step."""
    folder = RunFolder(root / "begun")
    folder.position()
    config = folder.config()
    Trainer(Network(config.model), feed(), None, config.recipe, seed=0, device=torch.device("cpu"), run=folder)


def read_audit(root: Path, folder: str = "audit") -> None:
    audit = hitnet.open_audit(root / folder)
    audit.export(root / "out" / "tasks.json")
    audit.export(root / "out" / "probabilities.npy", format="pred-probs")


def read_sums_again(root: Path) -> None:
    """The audit with checksums of its files as they are now: damage must be found without them."""
    sums = {name: checksum(root / "audit" / name) for name in (TABLE, DISTANCES, SUMMARY)}
    write_json(root / "audit" / CHECKSUMS, sums)
    read_audit(root)


def read_settings(root: Path) -> None:
    with claimed(root / "audit", resume=True) as folder:
        write_settings(folder, Settings("x", "all", COUNT))


def read_ledger(root: Path) -> None:
    ledger = Ledger(root / "ledger.jsonl")
    all_records(ledger)
    book = toy_book(root)
    for experiment in book.experiments.values():
        full_runs(ledger, experiment)
        diverged_runs(ledger, experiment)
    write_page(book, ledger, root / "out" / "pages")


def read_table(name: str) -> Callable[[Path], object]:
    def read(root: Path) -> None:
        data = open_data(root / name)
        data.report("all")
        data.annotations()

    return read


def read_check(root: Path) -> None:
    corrections = read_corrections(root / "corrections.csv").corrections
    audited = audited_images(hitnet.open_audit(root / "audit").table)
    check_corrections(audited, corrections, ["band 0", "band 1", "band 2"], name="corrections.csv")


def read_review(root: Path, folder: str = "audit") -> None:
    """What a review shows of an audit's own files, and what is applied of its decisions."""
    audit = hitnet.open_audit(root / folder)
    review = open_review(audit, reviewer="anna")
    board = review.board
    board.history()
    board.window(Query(grouped=True), offset=0, limit=COUNT, near=None)
    board.state()
    for row in range(COUNT):
        board.record(row)
        review.evidence.of(row, board.labels)
    settled(Decisions(read_steps(root / folder)), audited_images(audit.table))


def read_classes(root: Path) -> None:
    """An audit with many classes, with checksums of its files as they are now."""
    sums = {name: checksum(root / "wide" / name) for name in (TABLE, DISTANCES, CLASSES, SUMMARY)}
    write_json(root / "wide" / CHECKSUMS, sums)
    read_audit(root, "wide")
    read_review(root, "wide")


def read_request(root: Path) -> None:
    """A request's body, sent to every address of the review server that changes something."""
    log = root / "audit" / "decisions.jsonl"
    before, body = log.read_bytes(), (root / "request.json").read_bytes()
    app = open_review(hitnet.open_audit(root / "audit"), reviewer="anna").build(port=1, token="t")
    own = {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1", "cookie": "hitnet-review-1=t"}
    client = TestClient(app, base_url="http://127.0.0.1:1", headers={**own, "content-type": "application/json"})
    try:
        answers = [client.post(f"/api/{name}", content=body) for name in ("decide", "decide-group", "undo", "import")]
        answers.append(client.get("/api/state"))
    finally:
        log.write_bytes(before)
    if any(answer.status_code not in (200, 400, 409) for answer in answers):
        raise RuntimeError(f"answered {[answer.status_code for answer in answers]}")
    if all(answer.status_code != 200 for answer in answers[:-1]):
        raise HitNetError(answers[0].text)


def read_tasks(root: Path) -> None:
    read_corrections(root / "tasks.json")


def read_model(root: Path) -> None:
    hitnet.predict(root / "model.onnx", [root / "picture.png"])


def read_stored_set(root: Path) -> None:
    """A folder that `save_to_disk` of Hugging Face's datasets wrote."""
    open_data(root / "stored").report("all")


def read_cache(root: Path) -> None:
    cache = FeatureCache(root / "cache", 5)
    count = len(cache.keys)
    cache.read(np.arange(count), np.empty((count, 5), np.float16))


def picture_kind(kind: str, samples: tuple[str, ...]) -> Kind:
    def read(root: Path) -> None:
        read_image(root / f"broken.{kind}", (3, 8, 8))
        read_image(root / f"broken.{kind}", (1, 5, 9))

    return Kind(f"picture .{kind}", samples, f"broken.{kind}", read)


KINDS = (
    Kind("run: config.json", ("run/config.json",), "run/config.json", read_run, "json"),
    Kind("run: history.json", ("run/history.json",), "run/history.json", read_history, "json"),
    Kind("run: environment.json", ("begun/environment.json",), "begun/environment.json", resume_run, "json"),
    Kind("run: weights", ("run/weights.safetensors",), "run/weights.safetensors", read_run, "tensors"),
    Kind("run: checkpoint", ("begun/state.safetensors",), "begun/state.safetensors", resume_run, "tensors"),
    Kind("run: origin.json", ("run/origin.json",), "run/origin.json", lambda root: read_origin(root / "run"), "json"),
    Kind("audit: summary.json", ("audit/summary.json",), "audit/summary.json", read_sums_again, "json"),
    Kind("audit: checksums.json", ("audit/checksums.json",), "audit/checksums.json", read_audit, "json"),
    Kind("audit: settings.json", ("audit/settings.json",), "audit/settings.json", read_settings, "json"),
    Kind("audit: audit.parquet", ("audit/audit.parquet",), "audit/audit.parquet", read_sums_again, "parquet"),
    Kind("audit: distances.npy", ("audit/distances.npy",), "audit/distances.npy", read_sums_again),
    Kind("audit: classes.npy", ("wide/classes.npy",), "wide/classes.npy", read_classes),
    Kind(
        "audit: judged.safetensors, many classes",
        ("wide/judged.safetensors",),
        "wide/judged.safetensors",
        partial(read_review, folder="wide"),
        "tensors",
    ),
    Kind("audit: decisions.jsonl", ("audit/decisions.jsonl",), "audit/decisions.jsonl", read_review, "lines"),
    Kind("audit: duplicates.csv", ("audit/duplicates.csv",), "audit/duplicates.csv", read_review, "csv"),
    Kind(
        "audit: judged.safetensors",
        ("audit/judged.safetensors",),
        "audit/judged.safetensors",
        read_review,
        "tensors",
    ),
    Kind(
        "review: requests",
        tuple(f"requests/{name}.json" for name in ("decide", "group", "undo", "import")),
        "request.json",
        read_request,
        "json",
    ),
    Kind("Label Studio's tasks", ("tasks.json",), "tasks.json", read_tasks, "json"),
    Kind("corrections.csv", ("corrections.csv",), "corrections.csv", read_check, "csv"),
    Kind("ledger", ("ledger.jsonl",), "ledger.jsonl", read_ledger, "lines"),
    Kind(
        "ghost readings",
        ("ghosts.npz",),
        "ghosts.npz",
        lambda r: load_readings([r / "ghosts.npz"], np.zeros(5, int), 3),
        "npz",
    ),
    Kind("model .onnx", ("model.onnx",), "model.onnx", read_model),
    *(
        Kind(f"stored set: {name}", (f"stored/{name}",), f"stored/{name}", read_stored_set, structured)
        for name, structured in {
            "state.json": "json",
            "dataset_info.json": "json",
            "data-00000-of-00001.arrow": "",
        }.items()
    ),
    Kind("table .csv", ("table.csv", "votes.csv"), "broken.csv", read_table("broken.csv"), "csv"),
    Kind("table .tsv", ("table.tsv",), "broken.tsv", read_table("broken.tsv"), "csv"),
    Kind(
        "table .parquet", ("table.parquet", "images.parquet"), "broken.parquet", read_table("broken.parquet"), "parquet"
    ),
    Kind("arrays .npz", ("set.npz", "plain.npz"), "broken.npz", lambda root: check_data(root / "broken.npz"), "npz"),
    Kind("idx", ("images.idx",), "broken.idx", lambda root: read_idx(root / "broken.idx", ndim=3)),
    Kind(
        "idx, gzipped", ("images.idx.gz",), "broken.idx.gz", lambda root: read_idx(root / "broken.idx.gz", ndim=3), "gz"
    ),
    Kind("CIFAR-10", ("cifar.bin",), "broken.bin", lambda root: read_cifar([root / "broken.bin"])),
    Kind("SVHN .mat", ("svhn0.mat", "svhn1.mat"), "broken.mat", lambda root: read_svhn(root / "broken.mat"), "mat"),
    Kind("affNIST .mat", ("affnist0.mat", "affnist1.mat"), "b.mat", lambda root: read_affnist(root / "b.mat"), "mat"),
    *(
        picture_kind(
            kind,
            (
                f"picture.{kind}",
                *{"png": ("alpha.png", "deep.png", "palette.png"), "jpg": ("turned.jpg",)}.get(kind, ()),
            ),
        )
        for kind in PICTURES
    ),
    Kind("features .npy", ("features.npy",), "f.npy", lambda root: read_features(root / "f.npy", toy_images(COUNT))),
    Kind(
        "features .npz",
        ("features.npz",),
        "f.npz",
        lambda root: read_features(root / "f.npz", toy_images(COUNT)),
        "npz",
    ),
    Kind(
        "features .parquet",
        ("features.parquet",),
        "f.parquet",
        lambda root: read_features(root / "f.parquet", toy_images(COUNT)),
        "parquet",
    ),
    Kind("kept features", ("cache/shard.safetensors",), "cache/shard.safetensors", read_cache, "tensors"),
    Kind(
        "backbone weights",
        ("linear.safetensors",),
        "w.safetensors",
        lambda root: open_backbone(Pooled(), root / "w.safetensors", input_size=8),
        "tensors",
    ),
)
BY_NAME = {kind.name: kind for kind in KINDS}


class Pooled(torch.nn.Linear):
    """A module from images to features, as a user's own backbone would be."""

    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images.mean(dim=(1, 2, 3))[:, None].expand(-1, 4))
