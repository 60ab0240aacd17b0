"""How much fine-tuned networks help beside frozen heads: networks that have not seen an image, and those that have.

    python benchmarks/cross_fit.py judge KEPT [--clothing DIR] [--cifar10n NPZ] [--cifar100n NPZ] [--folders DIR …]
    python benchmarks/cross_fit.py score KEPT [--device NAME]

`judge` (on a GPU) keeps what the judges of a default audit say, and the seconds. `score` (anywhere) scores these
opinions: average precision of frozen judges, of networks that have not seen the image, of both, and of both with those
that have seen it, by their weight, as an audit does it. Rows go to benchmarks/records/cross_fit.json.

Data: the clothes of benchmarks/fine_tuning.py, 5 % uniform and look-alike; images of CIFAR-10N, labels of people
(`x`, `noisy`, `clean`), all and the first 12,000, and of CIFAR-100N; folders of classes, 5 % uniform and look-alike
(the class that heads' least squares confuse with the right one, parts/kept_features.py).
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score

import hitnet
from hitnet.audit.judgement import Case
from hitnet.audit.judges import Judges
from hitnet.audit.scoring import score_labels
from hitnet.data import Images
from hitnet.features.dataset_features import features_of
from hitnet.features.opinions import Opinion
from hitnet.models.backbones import DEFAULT, open_backbone
from hitnet.runtime.device import pick_device
from parts.kept_features import look_alikes
from parts.noisy_labels import KINDS, clothing_files, with_noise, write_table
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).parent / "records" / "cross_fit.json"
CASES = {
    "uniform": "clothing",
    "look-alike": "clothing",
    "cifar-few": "CIFAR-10N",
    "cifar": "CIFAR-10N",
    "cifar100": "CIFAR-100N",
}
OPTIONS = {"clothing": "clothing", "CIFAR-10N": "cifar10n", "CIFAR-100N": "cifar100n"}
FEW = 12_000


def opened(case: str, args: argparse.Namespace, folder: Path) -> tuple[hitnet.Data, np.ndarray]:
    """The data of a case of CASES under its noisy labels, and the true labels."""
    if CASES[case] == "clothing":
        files, truth = clothing_files(args.clothing)
        table = write_table(folder / "clothing.csv", files, with_noise(truth, case, 0))
        return hitnet.open_data(table, flip=True), truth
    arrays = np.load(args.cifar100n if case == "cifar100" else args.cifar10n, allow_pickle=False)
    x, noisy, clean = (arrays[name][: FEW if case == "cifar-few" else None] for name in ("x", "noisy", "clean"))
    images = Images.from_arrays(x, noisy.astype(np.int64), name=CASES[case], flip=True)
    return hitnet.open_data(images), clean.astype(np.int64)


def opened_folder(folder: Path, noise: str) -> tuple[hitnet.Data, np.ndarray]:
    """A folder of classes under noisy labels, and the true labels."""
    data = hitnet.open_data(folder, flip=True)
    images = data.load("all")
    truth = images.labels.numpy()
    features = features_of(data, images, open_backbone(DEFAULT), device=pick_device("auto"))
    labels = with_noise(truth, noise, 0, look_alikes(features.float().cpu(), truth))
    return hitnet.open_data(images.with_labels(torch.from_numpy(labels))), truth


def judge(args: argparse.Namespace) -> None:
    args.kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as spare:
        for case, data in CASES.items():
            if getattr(args, OPTIONS[data]) is not None:
                keep_opinions(args.kept / case, *opened(case, args, Path(spare)))
    for folder, noise in itertools.product(args.folders, KINDS):
        keep_opinions(args.kept / f"{folder.name}, {noise}", *opened_folder(folder, noise))


def keep_opinions(place: Path, data: hitnet.Data, truth: np.ndarray) -> None:
    """What the judges of a default audit say of data, and the true labels, in files that begin with `place`."""
    case = Case(data, data.load(data.audit_split), data.audit_split, pick_device("auto"))
    started = time.perf_counter()
    opinions = Judges(kind="fine-tuned").judge(case).opinions
    seconds = time.perf_counter() - started
    np.savez(f"{place}.npz", given=case.images.labels.numpy(), truth=truth, seconds=seconds)
    for j, each in enumerate(opinions):
        facts = {"kind": each.kind, "in_sample": each.in_sample, "capsules": each.capsules}
        facts |= {} if each.weight is None else {"weight": each.weight}
        facts |= {} if each.classes is None else {"classes": each.classes}
        np.savez_compressed(f"{place}-{j}.npz", d=each.distances.astype(np.float16), **facts)
    print(place.name, round(seconds), flush=True)


def read_opinion(path: Path) -> Opinion:
    kept = np.load(path, allow_pickle=False)
    weight = float(kept["weight"]) if "weight" in kept else None
    classes = kept.get("classes")
    distances, in_sample, capsules = kept["d"].astype(np.float32), bool(kept["in_sample"]), bool(kept["capsules"])
    return Opinion(str(kept["kind"]), distances, in_sample, capsules, weight, classes)


def scored(kept: Path, name: str) -> Row:
    """The figures of one case."""
    facts = np.load(kept / f"{name}.npz", allow_pickle=False)
    given = facts["given"].astype(np.int64)
    wrong = given != facts["truth"]
    opinions = [read_opinion(path) for path in sorted(kept.glob(f"{name}-[0-9].npz"))]
    networks = [each for each in opinions if each.kind == "networks"]
    frozen = [each for each in opinions if each.kind != "networks"]
    unseen, seen = ([each for each in networks if each.in_sample is kind] for kind in (False, True))
    row: Row = {"images": len(given), "classes": int(given.max()) + 1, "wrong": int(wrong.sum())}
    for who, judges in {"frozen": frozen, "networks": unseen, "both": [*unseen, *frozen], "all": opinions}.items():
        result = score_labels(judges, given)
        flagged = np.array(result.flag) == "wrong"
        row[who] = {
            "ap": float(average_precision_score(wrong, result.doubt)),
            "expected": float((1 - result.score).sum()),
            "flagged": int(flagged.sum()),
            "precision": float(wrong[flagged].mean()) if flagged.any() else None,
        }
    return row | {"weight": seen[0].weight if seen else None, "seconds": float(facts["seconds"])}


def score(args: argparse.Namespace) -> None:
    for file in sorted(args.kept.glob("*.npz")):
        if "truth" not in np.load(file, allow_pickle=False).files:
            continue  # an opinion
        name = file.stem
        row = {"case": name, "data": CASES.get(name, name.split(",")[0])} | scored(args.kept, name)
        facts = about(torch.device("cpu")) | {"judged_on": args.device, "note": args.note}
        replace_rows(RECORD, [row | facts], "case")
        print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    judging = steps.add_parser("judge")
    for option in OPTIONS.values():
        judging.add_argument(f"--{option}", type=Path)
    judging.add_argument("--folders", nargs="+", type=Path, default=[])
    judging.set_defaults(step=judge)
    scoring = steps.add_parser("score")
    scoring.add_argument("--device", default="NVIDIA H200", help="where the opinions were made")
    scoring.add_argument("--note", default="", help="what else the record should tell")
    scoring.set_defaults(step=score)
    for each in (judging, scoring):
        each.add_argument("kept", type=Path)
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
