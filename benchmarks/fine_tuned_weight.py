"""How much fine-tuned networks, which were trained on the labels that they judge, help beside frozen heads.

    python benchmarks/fine_tuned_weight.py judge KEPT --clothing DIR --cifar10n FILE.npz --tiny DIR      # on a GPU
    python benchmarks/fine_tuned_weight.py weigh KEPT [--device NAME]                                    # anywhere

`judge` keeps what heads say, what networks trained on the labels as given say, and what networks say that were trained
with planted errors (hitnet.audit.planted), and the seconds of each. `weigh` scores these opinions: average precision of
both kinds of networks for several fixed weights, and by the weight that the planted errors tell, as the audit does it
below 20,000 images. Rows go to benchmarks/records/fine_tuned_weight.json.

Data: the clothes of benchmarks/fine_tuning.py, 5 % uniform and look-alike; 12,000 images of CIFAR-10N, labels of
people (`x`, `noisy`, `clean`); a folder of Tiny ImageNet's classes (40 images of each of the 200), 5 % uniform.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score

import hitnet
from hitnet.audit.judgement import Case
from hitnet.audit.judges import Judges
from hitnet.audit.noise_model import fit_noise_model
from hitnet.audit.planted import plant_errors, weigh_networks
from hitnet.audit.scoring import freed_logits, log_odds, logits_by_kind, score_labels
from hitnet.data import Images
from hitnet.features.opinions import Opinion
from hitnet.runtime.device import pick_device
from parts.noisy_labels import clothing_files, with_noise, write_table
from parts.record import Row, about, replace_rows

RECORD = Path(__file__).parent / "records" / "fine_tuned_weight.json"
FIXED = (0.0, 0.25, 0.5, 0.7, 1.0)
CASES = {"uniform": "clothing", "look-alike": "clothing", "cifar": "CIFAR-10N", "tiny": "Tiny ImageNet"}
NOISE = {"uniform": "uniform, 5%", "look-alike": "look-alike, 5%", "cifar": "people", "tiny": "uniform, 5%"}


def opened(case: str, args: argparse.Namespace, folder: Path) -> tuple[hitnet.Data, np.ndarray]:
    """The data of a case under its noisy labels, and the true labels."""
    if CASES[case] == "clothing":
        files, truth = clothing_files(args.clothing)
        table = write_table(folder / "clothing.csv", files, with_noise(truth, case, 0))
        return hitnet.open_data(table, flip=True), truth
    if case == "cifar":
        arrays = np.load(args.cifar10n, allow_pickle=False)
        images = Images.from_arrays(arrays["x"], arrays["noisy"].astype(np.int64), name="CIFAR-10N", flip=True)
        return hitnet.open_data(images), arrays["clean"].astype(np.int64)
    images = hitnet.open_data(args.tiny, flip=True).load("all")
    truth = images.labels.numpy()
    return hitnet.open_data(images.with_labels(torch.from_numpy(with_noise(truth, "uniform", 0)))), truth


def judge(args: argparse.Namespace) -> None:
    judges, device = Judges(kind="fine-tuned"), pick_device("auto")
    args.kept.mkdir(parents=True, exist_ok=True)
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            data, truth = opened(name, args, Path(folder))
            case = Case(data, data.load(data.audit_split), data.audit_split, device)
            labels, marks = case.images.labels, [time.perf_counter()]
            planted = plant_errors(labels, case.images.num_classes, 0)
            parts = {"heads": judges._judge_by_heads(case).opinions}
            marks.append(time.perf_counter())
            for part, seen in (("a", labels), ("c", planted)):
                trained = replace(case, images=case.images.with_labels(seen))
                parts[part] = judges._judge_by_networks(trained, judges._tuned_model()).opinions
                marks.append(time.perf_counter())
        facts = {"given": labels.numpy(), "truth": truth, "planted": planted.numpy(), "seconds": np.diff(marks)}
        for part, opinions in parts.items():
            distances = np.stack([each.distances for each in opinions]).astype(np.float16)
            more = facts | {"kinds": np.array([each.kind for each in opinions])} if part == "heads" else {}
            np.savez_compressed(args.kept / f"{name}-{part}.npz", d=distances, **more)
        print(name, np.diff(marks), flush=True)


def weighed(name: str, kept: Path) -> Row:
    """The figures of one case."""
    arrays = np.load(kept / f"{name}-heads.npz", allow_pickle=False)
    given, planted = (torch.from_numpy(arrays[key].astype(np.int64)) for key in ("given", "planted"))
    wrong = arrays["given"] != arrays["truth"]
    heads = [
        Opinion(str(kind), each.astype(np.float32), capsules=str(kind).startswith("Hit"))
        for kind, each in zip(arrays["kinds"], arrays["d"], strict=True)
    ]
    a, c = (
        [Opinion("networks", each, True, True) for each in np.load(kept / f"{name}-{part}.npz")["d"].astype(np.float32)]
        for part in "ac"
    )
    rule = weigh_networks(c, heads, given, planted)
    result = score_labels([*rule, *heads], given.numpy())
    model = fit_noise_model(logits_by_kind(heads), given)
    joint = (model.log_prior + model.errors.log().T[given]).double()
    kinds = {
        "as given": freed_logits(a, given),
        "planted": freed_logits(rule, given) * (planted == given)[:, None],
    }
    fixed = {
        kind: {str(weight): precision(log_odds(joint + weight * freed, given)[0], wrong) for weight in FIXED}
        for kind, freed in kinds.items()
    }
    flagged, found = np.array(result.flag) == "wrong", arrays["seconds"]
    return {
        "fixed weights": fixed,
        "weight": float(rule[0].weight.max()),
        "average_precision": precision(result.doubt, wrong),
        "errors": int(wrong.sum()),
        "expected_errors": float((1 - result.score).sum()),
        "flagged": int(flagged.sum()),
        "flag_precision": float(wrong[flagged].mean()) if flagged.any() else None,
        "seconds": {"heads": float(found[0]), "networks": float(found[1]), "with planted errors": float(found[2])},
        "images": len(given),
        "classes": heads[0].distances.shape[1],
        "planted": int((planted != given).sum()),
    }


def precision(doubt: np.ndarray, wrong: np.ndarray) -> float:
    return float(average_precision_score(wrong, doubt))


def weigh(args: argparse.Namespace) -> None:
    for name, data in CASES.items():
        row = {"case": NOISE[name], "data": data} | weighed(name, args.kept)
        facts = about(torch.device("cpu")) | {"judged_on": args.device, "note": args.note}
        replace_rows(RECORD, [row | facts], "case", "data")
        print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    judging = steps.add_parser("judge")
    for option in ("clothing", "cifar10n", "tiny"):
        judging.add_argument(f"--{option}", type=Path, required=True)
    judging.set_defaults(step=judge)
    weighing = steps.add_parser("weigh")
    weighing.add_argument("--device", default="NVIDIA H200", help="where the opinions were made")
    weighing.add_argument("--note", default="", help="what else the record should tell")
    weighing.set_defaults(step=weigh)
    for each in (judging, weighing):
        each.add_argument("kept", type=Path)
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
