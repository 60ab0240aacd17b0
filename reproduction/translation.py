"""Old lines of the ledger in today's words. The lines themselves are never changed: each has a checksum.

At first, a network's batch-norm had statistics of each class unless `shared_norm` said otherwise, experiments of that
reading had the plain names, and those with shared statistics were lines of the kind "arm". Today, a line tells the
network's options in full, an experiment's name says its reading, and the plan says which experiment is an arm.
"""

from __future__ import annotations

from typing import Any

# Experiments of the first reading, and others that have another name today.
NAMES = {
    "affnist-hitnet": "affnist-still-each",
    "affnist-hitnet-shifts": "affnist-each",
    "affnist-shift4": "affnist-each-shift4",
    "cifar10-float32-60": "cifar10-each-float32-60",
    "cifar10-hitnet": "cifar10-each",
    "cifar10-shift3-nearest": "cifar10-each-shift3-nearest",
    "fashion-hitnet": "fashion-each",
    "fashion-hybrid": "fashion-hybrid-each",
    "mnist-ghosts": "mnist-ghosts-each",
    "mnist-ghosts-250": "mnist-ghosts-each-250",
    "mnist-ghosts-bfloat16": "mnist-ghosts-each-bfloat16",
    "mnist-ghosts-decay": "mnist-ghosts-each-decay",
    "mnist-ghosts-float32": "mnist-ghosts-each-float32",
    "mnist-ghosts-still": "mnist-ghosts-each-still",
    "mnist-hitnet-50": "mnist-hitnet-each-50",
    "mnist-hitnet-60": "mnist-hitnet-each-60",
    "mnist-hitnet-constant": "mnist-hitnet-each",
    "mnist-hitnet-decay": "mnist-hitnet-each-decay",
    "mnist-hybrid": "mnist-hybrid-each",
    "mnist-hybrid-component": "mnist-hybrid-each-component",
    "mnist-hybrid-component-decay": "mnist-hybrid-each-component-decay",
    "mnist-n2-constant": "mnist-n2-each",
    "mnist-n2-decay": "mnist-n2-each-decay",
    "mnist-n2b-constant": "mnist-n2b-each",
    "mnist-n2b-decay": "mnist-n2b-each-decay",
    "mnist-squash": "mnist-squash-each",
    "svhn-ghosts": "svhn-ghosts-shared",
    "svhn-hitnet": "svhn-each",
}
# What the names of networks stood for, entry by entry; today's defaults do not matter.
HITNET = {
    "capsule_dim": 16,
    "features": "paper",
    "head": "hit-or-miss",
    "decoder": "paper",
    "reconstruction_weight": 0.392,
    "extra_dim": 0,
    "weights": None,
}
NETWORKS: dict[str, dict[str, Any]] = {
    "hitnet": {},
    "n1": {"head": "softmax", "decoder": "none"},
    "n2": {"head": "squash"},
    "n2b": {"head": "centrifugal"},
    "hitnet-squash": {"head": "hit-or-miss-squash"},
    "capsnet": {"features": "primary-capsules", "head": "routing"},
    "dropconnect": {"features": "dropconnect", "head": "plain-softmax", "decoder": "none"},
    "hitnet-conv": {"decoder": "conv", "reconstruction_weight": 1.5},
    "hitnet-resnet9": {"features": "resnet9", "decoder": "standardised"},
    "hitnet-small": {"features": "small", "decoder": "standardised"},
}
WITHOUT_NORM = ("routing", "plain-softmax")  # heads
OLD_IMAGES, IMAGES = "images/paper/", "images/"


def translated(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a line in today's words; those of a new line stay as they are."""
    old, facts = values["experiment"], dict(values["facts"])
    name = NAMES.get(old, old)
    network, options = facts.get("network"), facts.get("model_options", {})
    if isinstance(network, str) and isinstance(options, dict) and "norm" not in options:
        facts["model_options"] = full_options(network, options)
    if isinstance(facts.get("files"), list):
        facts["files"] = [image_place(file, old, name) for file in facts["files"]]
    return {**values, "kind": "run" if values["kind"] == "arm" else values["kind"], "experiment": name, "facts": facts}


def full_options(network: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of an old line in full."""
    given = {name: value for name, value in options.items() if name != "shared_norm"}
    full = {**HITNET, **NETWORKS.get(network, {}), **given}
    norm = "shared" if options.get("shared_norm") else "each"
    return {**full, "norm": None if full["head"] in WITHOUT_NORM else norm}


def image_place(file: Any, old: str, name: str) -> Any:
    """Where the picture of an old line is today: its name begins with that of the experiment."""
    if not isinstance(file, str) or not file.startswith(OLD_IMAGES):
        return file
    picture = file.removeprefix(OLD_IMAGES)
    return IMAGES + (name + picture.removeprefix(old) if picture.startswith(f"{old}-") else picture)
