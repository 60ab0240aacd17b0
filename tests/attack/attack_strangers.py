"""What strangers may send: configurations, graphs, requests and pictures made to do harm, and what is no regular file.

Inputs of these kinds are made on purpose, not only damaged; `attack_fuzz` watches that none of them contacts a network,
starts a process or opens a forbidden file.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import onnx
import torch._dynamo  # noqa: F401  networks without memory need it: each worker would load it anew
from attack_kinds import (
    BY_NAME,
    Kind,
    read_audit,
    read_cache,
    read_history,
    read_model,
    read_review,
    read_run,
    read_settings,
    read_table,
    read_tasks,
    resume_run,
)
from attack_mutations import HOSTILE, NUMBERS, mutate
from attack_samples import COUNT, FIRST, PHOTOS
from onnx import helper, numpy_helper
from starlette.testclient import TestClient

import hitnet
from hitnet.audit.audit_folder import own_file
from hitnet.data import check_data, read_image
from hitnet.errors import HitNetError
from hitnet.features.dataset_features import read_features
from hitnet.inference import onnx_file
from hitnet.review.server import open_review
from toy import toy_images

onnx_file.LARGEST_VALUES = 512 << 20  # less than the attack's own limit, which must not be what stops a graph
FEATURES = (
    *("timm:hf-hub:attacker/model", "timm:hf_hub:a/b", "timm:local-dir:/tmp", "timm:../x", "timm:https://x.invalid/m"),
    *("timm:resnet18", "timm:vit_giant_patch14_224", "timm:resnet18.no_such_tag", "timm:", "timm", "hf-hub:a/b"),
    *("efficientnet-lite0", "small", "paper", "resnet9", "../small"),
)
LONGEST_ADDRESS = 60_000  # that the client sends
SOURCES = ("https://x.invalid/data.csv", "s3://x/y", "hf://datasets/x/y", "/etc", "/dev/zero", "mnist", "..", "\0")


def strange_config(root: Path, rng: random.Random) -> bytes:
    """A run's configuration that names another network, sizes without end, or data elsewhere."""
    config = json.loads((root / "lite" / "config.json").read_text())
    model = config["model"]
    for _ in range(rng.choice((1, 1, 2, 4))):
        how = rng.randrange(6)
        if how == 0:
            model["features"] = rng.choice(FEATURES)
        elif how == 1:
            model["in_shape"][rng.randrange(3)] = rng.choice((1, 3, 500, 4096, 5000, *NUMBERS))
            model["typical"] = rng.random() < 0.5  # such a network brings images to the size of its backbone
        elif how == 2:
            model[rng.choice(("capsule_dim", "extra_dim"))] = rng.choice((1, 5, 10**4, *NUMBERS))
        elif how == 3:
            model["num_classes"] = rng.choice((2, 3, 10**4, *NUMBERS))
            config["data"]["class_names"] = [str(k) for k in range(min(model["num_classes"], 10**4))]
        elif how == 4:
            model[rng.choice(("weights", "decoder", "head", "norm"))] = rng.choice((*HOSTILE, "paper", "conv", "none"))
        else:
            config["data"] |= {"source": rng.choice(SOURCES), "in_memory": False, "data_dir": rng.choice(SOURCES)}
    return json.dumps(config).encode()


def open_strange(root: Path) -> None:
    run = hitnet.open_run(root / "lite")
    if run.config.data["source"] not in ("mnist", ".."):  # known sets come from where this project says
        run.evaluate(device="cpu")


def use_weights(root: Path) -> None:
    """Predict and evaluate with the weights as they are: figures are numbers, or there are none."""
    run = hitnet.open_run(root / "run")
    figures = run.evaluate(toy_images(COUNT), device="cpu")
    told = [value for each in run.predict(toy_images(4), device="cpu") for value in (each.distance, each.misfit)]
    if not np.isfinite([figures.error, figures.mse, *told]).all():
        raise RuntimeError(f"figures that are no numbers: {figures.mse}, {told}")


def strange_graph(root: Path, rng: random.Random) -> bytes:
    """An ONNX file whose graph is changed, with the checksum removed as for one that was changed on purpose."""
    model = onnx.load_model_from_string((root / "model.onnx").read_bytes())
    kept = [entry for entry in model.metadata_props if entry.key != onnx_file.CHECKSUM]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(GRAPH_CHANGES)(model, rng)
    return model.SerializeToString()


def _add_huge(model: Any, rng: random.Random) -> None:
    """A constant, or ones, of any size, whose mean is added to the distances."""
    sizes = [rng.choice((1, 7, 1000, 50_000, *NUMBERS)) % 2**63 for _ in range(rng.choice((1, 2, 3)))]
    operator = rng.choice(("ConstantOfShape", "Expand", "Tile", "RandomNormal", "Pad"))
    graph, last = model.graph, model.graph.node[-1]
    graph.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), "sizes"))
    graph.initializer.append(numpy_helper.from_array(np.ones([1] * len(sizes), np.float32), "ones"))
    pads = numpy_helper.from_array(np.array(sizes * 2, np.int64), "pads")
    graph.initializer.append(pads)
    inputs = {"ConstantOfShape": ["sizes"], "RandomNormal": [], "Pad": ["ones", "pads"]}.get(
        operator, ["ones", "sizes"]
    )
    shape = {"shape": sizes} if operator == "RandomNormal" else {}
    graph.node.append(helper.make_node(operator, inputs, ["huge"], **shape))
    graph.node.append(helper.make_node("ReduceMean", ["huge"], ["mean"], keepdims=0))
    name, last.output[0] = last.output[0], "before"
    graph.node.append(helper.make_node("Add", ["before", "mean"], [name]))


def _add_loop(model: Any, rng: random.Random) -> None:
    def value(name: str, kind: int, shape: list[int] | None = None) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    number, boolean, count = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL, onnx.TensorProto.INT64
    nodes = [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Identity", ["x"], ["y"])]
    inputs = [value("i", count, []), value("go", boolean, []), value("x", number)]
    body = helper.make_graph(nodes, "body", inputs, [value("again", boolean, []), value("y", number)])
    graph, last = model.graph, model.graph.node[-1]
    graph.initializer.append(numpy_helper.from_array(np.array(True), "true"))
    name, last.output[0] = last.output[0], "before"
    loop = helper.make_node("Loop", ["", "true", "before"], [name], body=body)
    if rng.random() < 0.3:
        branch = helper.make_graph([loop], "branch", [], [value(name, number)])
        loop = helper.make_node("If", ["true"], [name], then_branch=branch, else_branch=branch)
    graph.node.append(loop)


def _change_node(model: Any, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    how = rng.randrange(5)
    if how == 0:
        node.op_type = rng.choice(("Relu", "Reshape", "Softmax", "MatMul", "Expand", "NonZero", "Scan", "x", "Range"))
    elif how == 1 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(
            ("", "images", "x", *rng.choice(model.graph.node).output)
        )
    elif how == 2 and node.attribute:
        attribute = rng.choice(node.attribute)
        for i in range(len(attribute.ints)):
            attribute.ints[i] = rng.choice((-1, *NUMBERS)) % 2**63
        attribute.i = rng.choice((-1, *NUMBERS)) % 2**63
    elif how == 3:
        node.domain = rng.choice(("", "com.microsoft", "ai.onnx.ml", "x"))
    else:
        model.graph.node.remove(node)


def _change_weights(model: Any, rng: random.Random) -> None:
    graph = model.graph
    if not graph.initializer:
        return
    tensor = rng.choice(graph.initializer)
    how = rng.randrange(4)
    if how == 0:
        tensor.dims[:] = [rng.choice(NUMBERS) % 2**63 for _ in range(rng.choice((0, 1, 3)))]
    elif how == 1:
        values = numpy_helper.to_array(tensor)
        filled = np.full_like(values, rng.choice((0, 1, 3e38, np.nan))) if values.dtype.kind == "f" else values * 10**9
        tensor.CopyFrom(numpy_helper.from_array(filled, tensor.name))
    elif how == 2:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=rng.choice(("/etc/passwd", "../x", "/dev/zero")))
    else:
        one, place = (
            numpy_helper.from_array(np.ones(1, np.float32), tensor.name),
            numpy_helper.from_array(np.zeros(1, int)),
        )
        graph.sparse_initializer.append(helper.make_sparse_tensor(one, place, [rng.choice(NUMBERS) % 2**63]))


GRAPH_CHANGES = (_add_huge, _add_loop, _change_node, _change_node, _change_weights)


def client(folder: Path) -> TestClient:
    review = open_review(hitnet.open_audit(folder), reviewer="anna", data=folder.parent / PHOTOS)
    app = review.build(port=1, token="t")
    own = {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1", "cookie": "hitnet-review-1=t"}
    return TestClient(app, base_url="http://127.0.0.1:1", headers=own, follow_redirects=False)


PATHS = (
    "/api/rows",
    "/api/state",
    "/api/steps",
    "/api/export",
    "/api/evidence/{}",
    "/thumb/{}",
    "/image/{}",
    "/typical/{}",
)
QUERY = (
    *(
        "offset",
        "limit",
        "near",
        "given",
        "suggested",
        "flags",
        "state",
        "lowest",
        "highest",
        "text",
        "sort",
        "grouped",
    ),
    *("either", "token"),
)


def strange_address(root: Path, rng: random.Random) -> bytes:
    """An address of the review server, with values that are none."""

    def value() -> str:
        return quote(str(rng.choice((*HOSTILE, *NUMBERS, "1", "-3", "doubt"))), safe="", errors="surrogatepass")[
            :60_000
        ]

    address = rng.choice((*PATHS, "/", "/page.js", "/../x", "//", "/thumb/", "/api/decide", "/%2e%2e/x")).format(
        value()
    )
    query = "&".join(f"{rng.choice(QUERY)}={value()}" for _ in range(rng.randrange(4)))
    return f"{address}?{query}".encode()


def ask_address(root: Path) -> None:
    answer = client(root / "reviewed").get((root / "address.txt").read_text()[:LONGEST_ADDRESS])
    if answer.status_code not in (200, 303, 400, 403, 404, 405, 503):
        raise RuntimeError(f"answered {answer.status_code}: {answer.text[:500]}")
    if answer.status_code != 200:
        raise HitNetError(answer.text or str(answer.status_code))


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(/etc/passwd) (r) file pop showpage\n"


def strange_picture(root: Path, rng: random.Random) -> bytes:
    """A picture of any kind under the name of a PNG, often damaged."""
    samples = [path.read_bytes() for path in sorted(root.glob("picture.*"))]
    content = rng.choice((*samples, EPS, b"<svg onload=alert(1)>", b""))
    return content if rng.random() < 0.3 else mutate(content, "", rng, rng.choice(samples))


def look_at_picture(root: Path) -> None:
    page = client(root / "reviewed")
    answers = [page.get(f"/{kind}/0") for kind in ("thumb", "image")]
    if any(answer.status_code not in (200, 404) for answer in answers):
        raise RuntimeError(f"answered {[answer.status_code for answer in answers]}")
    kinds = {answer.headers["content-type"] for answer in answers if answer.status_code == 200}
    if any(not kind.startswith("image/") or "svg" in kind for kind in kinds):
        raise RuntimeError(f"sent {kinds}")
    if answers[0].status_code == 404:
        raise HitNetError(answers[0].text)


def apply_changed(root: Path) -> None:
    """A decided picture that has changed since the audit keeps its label, or the copy is refused."""
    before = {path: path.read_bytes() for path in sorted((root / PHOTOS).rglob("*.png"))}
    options = {"out": root / "out" / "copy", "data": root / PHOTOS}
    hitnet.open_audit(root / "reviewed").apply(root / "reviewed.csv", **options)
    if {path: path.read_bytes() for path in sorted((root / PHOTOS).rglob("*.png"))} != before:
        raise RuntimeError("originals were changed")
    if (
        not (root / "out" / "copy" / FIRST).is_file()
        and before[root / PHOTOS / FIRST] != (root / "sound.png").read_bytes()
    ):
        raise RuntimeError(f"{FIRST} has changed since the audit, but was moved to another class")


# Where something else than a regular file may lie, and what reads it.
ODD = {
    "runs": {
        **dict.fromkeys(("run/config.json", "run/weights.safetensors", "run/calibration.json"), read_run),
        "run/history.json": read_history,
        **dict.fromkeys(("begun/state.safetensors", "begun/environment.json"), resume_run),
    },
    "audits": {
        **dict.fromkeys(("audit/audit.parquet", "audit/distances.npy", "audit/summary.json"), read_audit),
        "audit/checksums.json": read_audit,
        **dict.fromkeys(("audit/decisions.jsonl", "audit/duplicates.csv", "audit/count.json"), read_review),
        "audit/judged.safetensors": read_review,
        "audit/settings.json": read_settings,
        "tasks.json": read_tasks,
        "corrections.csv": BY_NAME["corrections.csv"].read,
    },
    "data": {
        **{f"broken.{kind}": read_table(f"broken.{kind}") for kind in ("csv", "tsv", "parquet")},
        "broken.npz": BY_NAME["arrays .npz"].read,
        "broken.png": lambda root: read_image(root / "broken.png", (3, 8, 8)),
        "photos/a/0.png": lambda root: check_data(root / "photos"),
        "stored/state.json": BY_NAME["stored set: state.json"].read,
        f"{PHOTOS}/{FIRST}": look_at_picture,
    },
    "features and models": {
        "model.onnx": read_model,
        "cache/shard.safetensors": read_cache,
        "w.safetensors": BY_NAME["backbone weights"].read,
        **{f"f.{kind}": BY_NAME[f"features .{kind}"].read for kind in ("npy", "npz", "parquet")},
        "ghosts.npz": BY_NAME["ghost readings"].read,
        "ledger.jsonl": BY_NAME["ledger"].read,
        "images.idx": lambda root: BY_NAME["idx"].read(root),
    },
}
HOW = ("pipe", "folder", "full folder", "zeros", "random", "itself", "nothing", "socket", "sparse", "passwd")


def make_odd(target: Path, how: str) -> None:
    """Put something that is no regular file, or no sound one, where a file is expected."""
    target.unlink(missing_ok=True)
    if how == "pipe":
        os.mkfifo(target)
    elif how.endswith("folder"):
        target.mkdir()
        (target / "x").touch() if how == "full folder" else None
    elif how == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            here = os.getcwd()
            os.chdir(target.parent)  # the names of sockets are short
            opened.bind(target.name)
            os.chdir(here)
    elif how == "sparse":
        with target.open("wb") as file:
            file.truncate(1 << 40)
    else:
        links = {"zeros": "/dev/zero", "random": "/dev/urandom", "itself": target.name, "nothing": "no-such-file"}
        target.symlink_to(links.get(how, "/etc/passwd"))


def odd_kind(group: str) -> Kind:
    readers: dict[str, Callable[[Path], object]] = ODD[group]

    def make(root: Path, rng: random.Random) -> bytes:
        return json.dumps([rng.choice(list(readers)), rng.choice(HOW)]).encode()

    def read(root: Path) -> None:
        place, how = json.loads((root / "odd.json").read_text())
        target, sound = root / place, root / "odd-sound"
        if target.exists():
            shutil.copyfile(target, sound)
        try:
            make_odd(target, how)
            readers[place](root)
        finally:
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink(missing_ok=True)
            if sound.exists():
                sound.rename(target)

    return Kind(f"no regular file: {group}", (), "odd.json", read, make=make)


def read_count(root: Path) -> None:
    own_file(root / "audit", "count.json")
    read_review(root)


STRANGERS = (
    Kind("run: a stranger's configuration", (), "lite/config.json", open_strange, make=strange_config),
    Kind("run: weights in use", ("run/weights.safetensors",), "run/weights.safetensors", use_weights, "tensors"),
    Kind("run: calibration.json", ("run/calibration.json",), "run/calibration.json", read_run, "json"),
    Kind("audit: count.json", ("audit/count.json",), "audit/count.json", read_count, "json"),
    Kind("model .onnx: graph", (), "model.onnx", read_model, make=strange_graph),
    Kind(
        "features: names of rows",
        ("named.paths.json",),
        "named.paths.json",
        lambda root: read_features(root / "named.npy", hitnet.open_data(root / "photos").load("all")),
        "json",
    ),
    Kind("review: addresses", (), "address.txt", ask_address, make=strange_address),
    Kind("review: pictures", (), f"{PHOTOS}/{FIRST}", look_at_picture, make=strange_picture),
    Kind("apply: changed pictures", (), f"{PHOTOS}/{FIRST}", apply_changed, make=strange_picture),
    *(odd_kind(group) for group in ODD),
)
