"""What corrections by the audit alone are worth: test error of a classifier that learns from labels as given,
relabelled where the audit flags them as wrong or is sure of it, without the flagged images, and true.

    python benchmarks/corrections.py networks --clothing DIR --cifar10n FILE.npz --cifar100n FILE.npz     # on a GPU
    python benchmarks/corrections.py heads KEPT/*.npz

The data are those of benchmarks/cross_fit.py, or features that `benchmarks/audits.py features` kept. Every fifth image,
of each class, is kept for testing, with its true label. The others are judged by a frozen backbone, as an audit without
a GPU does it. Then a head on the same features and, with `networks`, the fine-tuned backbone and, for CIFAR, a network
from scratch learn from each kind of labels; the seed decides which labels are made wrong (of kept features), which
images test, and the training. "trusted" are labels as `hitnet apply --trust 0.95` corrects them. Rows go to
benchmarks/records/corrections.json.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import hitnet
from cross_fit import CASES, opened
from hitnet.audit.feature_judges import judge_features
from hitnet.audit.networks import FEWER_EPOCHS, MANY_IMAGES, collect
from hitnet.audit.scoring import score_labels
from hitnet.capsules import distances
from hitnet.data import Images
from hitnet.features.dataset_features import features_of
from hitnet.features.heads import HeadOptions, deal, fit_heads
from hitnet.features.opinions import class_at
from hitnet.models import PRETRAINED, choose_model
from hitnet.models.backbones import open_backbone
from hitnet.runtime.device import pick_device
from hitnet.training.configuration import at_backbone_size, configure
from hitnet.training.jobs import Job, train_runs
from hitnet.training.recipes import FINE_TUNING, choose_recipe
from parts.kept_features import read_case
from parts.noisy_labels import KINDS
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).parent / "records" / "corrections.json"
DEVICE = pick_device("auto")
TRUST, IMAGES = 0.95, 3000
SCRATCH_EPOCHS = 24


def kinds_of_labels(features: Tensor, given: Tensor, truth: Tensor, classes: int) -> dict[str, tuple[Tensor, Tensor]]:
    """The rows to learn from, and their labels, by what was done to the labels."""
    result = score_labels(judge_features(features, given, classes, device=DEVICE), given.numpy())
    wrong = torch.from_numpy(np.array(result.flag) == "wrong")
    sure = wrong & torch.from_numpy(result.score <= 1 - TRUST)
    everything, suggested = torch.arange(len(given)), torch.from_numpy(result.suggested)
    return {
        "given": (everything, given),
        "relabelled": (everything, torch.where(wrong, suggested, given)),
        "trusted": (everything, torch.where(sure, suggested, given)),
        "left out": (everything[~wrong], given[~wrong]),
        "true": (everything, truth),
    }


def head_error(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, classes: int, seed: int) -> float:
    layer = fit_heads(train, labels, classes, options=HeadOptions(dropout=0.5), seed=seed, device=DEVICE).layer
    with torch.no_grad():
        said = distances(layer(test.double().cpu())).argmin(dim=1)
    return float((said != truth).double().mean())


def network_errors(data: hitnet.Data, sets: list[Images], test: Images, model: str, seed: int) -> list[float]:
    """The error of a network per set to learn from; they are trained side by side."""
    if model == PRETRAINED:  # as long as an audit fine-tunes
        epochs = FEWER_EPOCHS if len(sets[0]) + len(test) >= MANY_IMAGES else 8
        recipe = choose_recipe("fast", epochs=epochs, backbone_rate=FINE_TUNING)
    else:
        recipe = choose_recipe("fast", epochs=SCRATCH_EPOCHS)
    jobs = []
    for images in sets:
        config, _ = configure(data, images, None, device=DEVICE, model=choose_model(model), recipe=recipe)
        config = replace(config, seed=seed, model=replace(config.model, decoder="none", extra_dim=0))
        jobs.append(Job(config, images))
    distances, classes = collect(train_runs(jobs, resume=False, device=DEVICE), test, DEVICE)
    said = np.stack([class_at(each.argmin(axis=1), classes) for each in distances])
    return [float(each) for each in (said != test.labels.numpy()).mean(axis=1)]


def split(truth: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The images to learn from, and those to test on."""
    testing = deal(truth, 5, torch.Generator().manual_seed(seed)) == 0
    return torch.nonzero(~testing)[:, 0], torch.nonzero(testing)[:, 0]


def head_rows(
    case: str,
    features: Tensor,
    truth: Tensor,
    rows: Tensor,
    test: Tensor,
    labelled: dict[str, tuple[Tensor, Tensor]],
    seed: int,
) -> list[Row]:
    """A row with the error of a head for each kind of labels."""
    classes, answers, asked = int(truth.max()) + 1, truth[test], features[test.to(DEVICE)]
    return [
        {
            "case": case,
            "seed": seed,
            "labels": kind,
            "images": len(kept),
            "wrong": float((labels != truth[rows[kept]]).double().mean()),
            "head": head_error(features[rows[kept].to(DEVICE)], labels, asked, answers, classes, seed),
        }
        for kind, (kept, labels) in labelled.items()
    ]


def measured_heads(file: Path, noise: str, seed: int) -> list[Row]:
    """A row for each kind of labels, of kept features."""
    people = "given" in np.load(file, allow_pickle=False).files
    case = read_case(file, "people" if people else noise, images=IMAGES, rate=0.05, seed=seed)
    features, truth, given = case.features.to(DEVICE), torch.from_numpy(case.truth), torch.from_numpy(case.given)
    rows, test = split(truth, seed)
    labelled = kinds_of_labels(features[rows.to(DEVICE)], given[rows], truth[rows], case.classes)
    name = f"{file.stem}, {'people' if people else noise}"
    found = head_rows(name, features, truth, rows, test, labelled, seed)
    print(*found, sep="\n", flush=True)
    return found


def measured(case: str, args: argparse.Namespace, seed: int) -> list[Row]:
    """A row for each kind of labels."""
    with tempfile.TemporaryDirectory() as folder:
        data, truth_array = opened(case, args, Path(folder))
        images, truth = data.load(data.audit_split), torch.from_numpy(truth_array)
        sizes = {PRETRAINED: at_backbone_size(data, PRETRAINED).load(data.audit_split)}
        features = features_of(data, images, open_backbone("efficientnet-lite0"), device=DEVICE).to(DEVICE)
    if CASES[case].startswith("CIFAR"):
        sizes["hitnet-resnet9"] = images
    rows, test = split(truth, seed)
    labelled = kinds_of_labels(features[rows.to(DEVICE)], images.labels[rows], truth[rows], images.num_classes)
    found = head_rows(case, features, truth, rows, test, labelled, seed)
    for model, each in sizes.items():
        sets = [replace(each.select(rows[kept]), labels=labels) for kept, labels in labelled.values()]
        errors = network_errors(data, sets, replace(each.select(test), labels=truth[test]), model, seed)
        for row, error in zip(found, errors, strict=True):
            row[model] = error
    print(*found, sep="\n", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    networks, heads = ways.add_parser("networks"), ways.add_parser("heads")
    for option in ("clothing", "cifar10n", "cifar100n"):
        networks.add_argument(f"--{option}", type=Path, required=True)
    networks.add_argument("--cases", nargs="+", default=["uniform", "look-alike", "cifar-few", "cifar100"])
    heads.add_argument("files", nargs="+", type=Path)
    heads.add_argument("--noise", nargs="+", choices=KINDS, default=list(KINDS))
    for way in (networks, heads):
        way.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    if args.way == "networks":
        work = [partial(measured, case, args) for case in args.cases]
    else:
        work = [partial(measured_heads, file, noise) for file in args.files for noise in args.noise]
    for measure, seed in itertools.product(work, range(args.seeds)):
        replace_rows(RECORD, [row | about(DEVICE) for row in measure(seed)], "case", "seed", "labels")


if __name__ == "__main__":
    main()
