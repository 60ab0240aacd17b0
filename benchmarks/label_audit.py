"""How well the label audit finds wrong labels, compared with cleanlab with the same backbone and as much training.

    python benchmarks/label_audit.py audit mnist-uniform mnist-alike --out arrays --data-dir DATA
    python benchmarks/label_audit.py rival mnist-uniform mnist-alike --out arrays --data-dir DATA
    python benchmarks/label_audit.py ghosts --out arrays --data-dir DATA
    python benchmarks/label_audit.py score --out arrays

`audit` runs the command `hitnet audit --judges scratch`, times the whole of it, and keeps the networks' distances.
`rival` comes after it: it trains softmax networks on the same features by the same recipe in 4-fold cross-validation,
for at least as many images and seconds in total, and keeps their probabilities, as means over the same views. If the
audit mixes two kinds of networks, each kind gets all of that time, and cleanlab also gets the mean of both. Both steps
need a GPU for all cases except `sample`. `score` needs cleanlab; it prints the table and writes
benchmarks/records/label_audit.json.

Cases: sample (MNIST's test set, 15 errors found by people), mnist-uniform (10 % of the labels replaced by another
one at random), mnist-alike (5 % replaced by a look-alike), cifar10n (people's labels; --cifar10n names an .npz with
the arrays `clean` and `aggregate` of CIFAR-10N, Wei et al. 2022). `ghosts` trains on mnist-alike with each rule.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

import hitnet
from hitnet.audit.networks import collect, mean_distances, plan
from hitnet.inference.ghosts import find_ghosts
from hitnet.models.network import class_distances
from hitnet.runtime import files
from hitnet.runtime.device import pick_device
from parts.label_audit_scores import read, score
from parts.record import about

FOLDS = 4
LOOK_ALIKES = np.array([6, 7, 7, 5, 9, 3, 0, 1, 3, 4])  # what each digit is taken for


def load_case(name: str, args: argparse.Namespace) -> tuple[hitnet.Images, np.ndarray | None]:
    """The images with the labels to judge, and the true labels (None for the sample)."""
    if name == "sample":
        return hitnet.open_data("mnist-sample").load("all"), None
    if name == "cifar10n":
        images = hitnet.open_data("cifar10", data_dir=args.data_dir).load("train")
        labels = np.load(args.cifar10n, allow_pickle=False)
        if not np.array_equal(labels["clean"], images.labels.numpy()):
            raise SystemExit("the clean labels of CIFAR-10N do not match CIFAR-10's order")
        return images.with_labels(torch.from_numpy(labels["aggregate"].astype(np.int64))), images.labels.numpy()
    images = hitnet.open_data("mnist", data_dir=args.data_dir).load("train")
    truth = images.labels.numpy()
    draw = np.random.default_rng(0)
    share = 0.10 if name == "mnist-uniform" else 0.05
    chosen = draw.choice(len(truth), round(share * len(truth)), replace=False)
    given = truth.copy()
    if name == "mnist-uniform":
        given[chosen] = (truth[chosen] + draw.integers(1, 10, len(chosen))) % 10
    else:
        given[chosen] = LOOK_ALIKES[truth[chosen]]
    return images.with_labels(torch.from_numpy(given)), truth


def rival(images: hitnet.Images, model: str, epochs: int) -> np.ndarray:
    """Out-of-sample class probabilities (N, K) of softmax networks, by 4-fold cross-validation."""
    probabilities = np.zeros((len(images), images.num_classes), dtype=np.float32)
    for fold, (inside, outside) in enumerate(folds(images)):
        run = train_softmax(images.select(inside), model, epochs, seed=fold)
        probabilities[outside] = mean_distances(run.model, images.pixels[outside], flip=images.flip).numpy()
    return probabilities


def train_softmax(images: hitnet.Images, model: str, epochs: int, *, seed: int = 0) -> hitnet.Run:
    """A network with the features of `model` and a softmax layer."""
    chosen = hitnet.choose_model(model, head="softmax", decoder="none")
    return hitnet.train(images, model=chosen, recipe=hitnet.choose_recipe("fast", epochs=epochs), seed=seed)


def folds(images: hitnet.Images) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(images.labels, images.labels))


def equal_epochs(images: hitnet.Images, model: str, epochs: int, seconds: float) -> int:
    """Epochs per fold that see as many images as `epochs` over all of them, and last at least as many seconds."""
    trial = train_softmax(images.select(folds(images)[0][0]), model, epochs=3)
    return max(math.ceil(epochs / (FOLDS - 1)), math.ceil(seconds / (FOLDS * trial.history[-1]["seconds"])))


def run_audit(name: str, args: argparse.Namespace) -> None:
    images, truth = load_case(name, args)
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, f"{name}.npz"), Path(folder, "audit")
        hitnet.data.save_npz(images, data)
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "hitnet", "audit", data, "--judges", "scratch", "--out", out], check=True)
        seconds = time.perf_counter() - started
        summary = files.read_json(out / "summary.json")
        trained = [hitnet.open_run(out / "models" / f"seed-{network['seed']}") for network in summary["networks"]]
        distances, _ = collect(trained, images, pick_device("auto"))
    kinds = Counter((network["model"], network["recipe"]["epochs"]) for network in summary["networks"])
    np.savez_compressed(
        args.out / f"{name}.audit.npz",
        given=images.labels.numpy(),
        truth=images.labels.numpy() if truth is None else truth,
        distances=distances.astype(np.float16),
        expected=summary["expected_errors"],
        seconds=seconds,
        networks=", ".join(f"{model}, {count} x {epochs} epochs" for (model, epochs), count in kinds.items()),
        **about(pick_device("auto")),
    )
    print(f"{name}: audit {seconds:.1f} s", flush=True)


def run_rival(name: str, args: argparse.Namespace) -> None:
    images, _ = load_case(name, args)
    audited = args.out / f"{name}.audit.npz"
    if not audited.is_file():
        raise SystemExit(f"{audited} is missing: run the step audit first; its seconds set those of the rival.")
    networks = plan(images, device=pick_device("auto"))
    probabilities, seconds, words = [], [], []
    for model in dict.fromkeys(str(network.choice.name) for network in networks):
        total = sum(network.epochs for network in networks)
        epochs = equal_epochs(images, model, total, float(read(audited)["seconds"]))
        started = time.perf_counter()
        probabilities.append(rival(images, model, epochs))
        seconds.append(time.perf_counter() - started)
        words.append(f"{model} with softmax, {FOLDS} folds x {epochs} epochs")
        print(f"{name}: rival {words[-1]} {seconds[-1]:.1f} s", flush=True)
    np.savez_compressed(
        args.out / f"{name}.rival.npz",
        probabilities=np.stack(probabilities),
        seconds=seconds,
        networks=words,
        **about(pick_device("auto")),
    )


def train_ghosts(args: argparse.Namespace) -> None:
    """The effect of each ghost rule on networks trained with look-alike noise, and what the paper's rule then finds."""
    images, truth = load_case("mnist-alike", args)
    test = hitnet.open_data("mnist", data_dir=args.data_dir).load("test")
    data = hitnet.open_data(images, test=test)
    bad, rows = images.labels.numpy() != truth, []
    for rule in ("none", "nearer", "always"):
        options = {} if rule == "none" else {"ghosts": 1, "ghost_rule": rule}
        recipe = hitnet.choose_recipe("fast", epochs=12, **options)
        runs = [
            hitnet.train(data, model=hitnet.choose_model("hitnet", norm="each"), recipe=recipe, seed=seed)
            for seed in range(2)
        ]
        distances = np.stack([class_distances(run.model, images.pixels).cpu().numpy() for run in runs]).astype(float)
        doubtful = find_ghosts(distances, images.labels.numpy(), images.class_names).doubtful().index.to_numpy()
        errors = [100 * run.history[-1]["test_error"] for run in runs]
        ghost_distance = np.where(np.eye(10, dtype=bool)[images.labels], np.inf, distances.mean(axis=0)).min(axis=1)
        rows.append(
            {
                "rule": rule,
                "test_errors": errors,
                "doubtful": len(doubtful),
                "precision": float(bad[doubtful].mean()) if len(doubtful) else None,
                "recall": float(bad[doubtful].sum() / bad.sum()),
                "average_precision_ghost_distance": float(average_precision_score(bad, -ghost_distance)),
                **about(pick_device("auto")),
            }
        )
        print(rows[-1], flush=True)
    files.write_json(args.out / "ghosts.json", rows)


CASES = ("sample", "mnist-uniform", "mnist-alike", "cifar10n")
OF_A_CASE = {"audit": run_audit, "rival": run_rival}
OF_ALL = {"ghosts": train_ghosts, "score": lambda args: score(args.out)}


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=[*OF_A_CASE, *OF_ALL])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--out", type=Path, default=Path("arrays"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cifar10n", type=Path)
    args = parser.parse_args(given)
    if args.step in OF_A_CASE and not args.cases:
        parser.error(f"{args.step} needs one case or more: {', '.join(CASES)}")
    if args.step in OF_ALL and args.cases:
        parser.error(f"{args.step} takes no cases")
    return args


def main(given: Sequence[str] | None = None) -> None:
    args = parse(given)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.cases:
        OF_A_CASE[args.step](name, args)
    if args.step in OF_ALL:
        OF_ALL[args.step](args)


if __name__ == "__main__":
    main()
