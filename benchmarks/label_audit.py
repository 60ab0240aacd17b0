"""How well the label audit finds wrong labels, against cleanlab with the same backbone and as much training.

    python benchmarks/label_audit.py audit mnist-uniform mnist-alike --out arrays --data-dir DATA
    python benchmarks/label_audit.py rival mnist-uniform mnist-alike --out arrays --data-dir DATA
    python benchmarks/label_audit.py ghosts --out arrays --data-dir DATA
    python benchmarks/label_audit.py score --out arrays

`audit` audits and keeps the networks' distances; `rival` trains softmax networks on the same features by the same
recipe in 4-fold cross-validation, over as many images in all, and keeps their probabilities; both want a GPU for
all cases but `sample`. `score` needs cleanlab; it prints the table and writes benchmarks/records/label_audit.json.

Cases: sample (MNIST's test set, 15 errors found by people), mnist-uniform (10 % of the labels replaced by another
at random), mnist-alike (5 % replaced by a look-alike), cifar10n (people's labels; --cifar10n names an .npz with
the arrays `clean` and `aggregate` of CIFAR-10N, Wei et al. 2022). `ghosts` trains on mnist-alike with each rule.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

import hitnet
from hitnet.audit import scores
from hitnet.audit.audit import collect, plan_for
from hitnet.audit.ghosts import find_ghosts
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances

FOLDS = 4
LOOK_ALIKES = np.array([6, 7, 7, 5, 9, 3, 0, 1, 3, 4])  # what each digit is taken for
RECORDS = Path(__file__).with_name("records") / "label_audit.json"


def load_case(name: str, args: argparse.Namespace) -> tuple[hitnet.Images, np.ndarray | None]:
    """Images under the labels to be judged, and the true labels (None for the sample)."""
    if name == "sample":
        return hitnet.data.load("mnist-sample", "all"), None
    if name == "cifar10n":
        images = hitnet.data.load("cifar10", "train", data_dir=args.data_dir)
        labels = np.load(args.cifar10n, allow_pickle=False)
        if not np.array_equal(labels["clean"], images.labels.numpy()):
            raise SystemExit("the clean labels of CIFAR-10N do not match CIFAR-10's order")
        return images.with_labels(torch.from_numpy(labels["aggregate"].astype(np.int64))), images.labels.numpy()
    images = hitnet.data.load("mnist", "train", data_dir=args.data_dir)
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
    found = np.zeros((len(images), images.num_classes), dtype=np.float32)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(images.labels, images.labels)
    for fold, (inside, outside) in enumerate(folds):
        run = hitnet.train(
            images.select(inside), model=model, epochs=epochs, seed=fold,
            model_options={"head": "softmax", "decoder": "none"},
        )  # fmt: skip
        held = images.pixels[outside]
        views = [held, held.flip(-1)] if images.flip else [held]
        found[outside] = np.mean([class_distances(run.model, view).cpu().numpy() for view in views], axis=0)
    return found


def about() -> dict[str, str]:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    return {"device": device, "date": datetime.now(UTC).date().isoformat(), "hitnet": hitnet.__version__}


def run_audit(name: str, args: argparse.Namespace) -> None:
    images, truth = load_case(name, args)
    model, plan = plan_for(images, None, "auto")
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        result = hitnet.audit(images, out=folder)
        seconds = time.perf_counter() - started
        trained = [hitnet.load(run) for run in sorted(Path(folder, "models").iterdir())]
        distances = collect(trained, images, pick_device("auto"))
    np.savez_compressed(
        args.out / f"{name}.audit.npz",
        given=images.labels.numpy(),
        truth=images.labels.numpy() if truth is None else truth,
        distances=distances.astype(np.float16),
        expected=result.summary["expected_errors"],
        seconds=seconds,
        networks=f"{model}, {plan.models} x {plan.epochs} epochs",
        **about(),
    )
    print(f"{name}: audit {seconds:.1f} s", flush=True)


def run_rival(name: str, args: argparse.Namespace) -> None:
    images, _ = load_case(name, args)
    model, plan = plan_for(images, None, "auto")
    # Each fold trains on 3/4 of the images: with so many epochs both sides see as many images.
    epochs = round(plan.models * plan.epochs / (FOLDS - 1))
    started = time.perf_counter()
    probabilities = rival(images, model, epochs)
    seconds = time.perf_counter() - started
    np.savez_compressed(
        args.out / f"{name}.rival.npz",
        probabilities=probabilities,
        seconds=seconds,
        networks=f"{model} with softmax, {FOLDS} folds x {epochs} epochs",
        **about(),
    )
    print(f"{name}: rival {seconds:.1f} s", flush=True)


def train_ghosts(args: argparse.Namespace) -> None:
    """What each ghost rule does to the networks on look-alike noise, and what the paper's rule then finds."""
    images, truth = load_case("mnist-alike", args)
    test = hitnet.data.load("mnist", "test", data_dir=args.data_dir)
    bad, rows = images.labels.numpy() != truth, []
    for rule in ("none", "nearer", "always"):
        options = {} if rule == "none" else {"ghosts": 1, "ghost_rule": rule}
        runs = [
            hitnet.train(images, test=test, model="hitnet", epochs=12, seed=seed, recipe_options=options)
            for seed in range(2)
        ]
        found = np.stack([class_distances(run.model, images.pixels).cpu().numpy() for run in runs]).astype(float)
        doubtful = find_ghosts(found, images.labels.numpy(), images.class_names).doubtful().index.to_numpy()
        errors = [run.history[-1]["test_error"] for run in runs]
        ghost_distance = np.where(np.eye(10, dtype=bool)[images.labels], np.inf, found.mean(axis=0)).min(axis=1)
        rows.append(
            {
                "rule": rule,
                "test_errors": errors,
                "doubtful": len(doubtful),
                "precision": float(bad[doubtful].mean()) if len(doubtful) else None,
                "recall": float(bad[doubtful].sum() / bad.sum()),
                "average_precision_ghost_distance": float(average_precision_score(bad, -ghost_distance)),
                **about(),
            }
        )
        print(rows[-1], flush=True)
    (args.out / "ghosts.json").write_text(json.dumps(rows, indent=1))


def measures(doubt: np.ndarray, suggested: np.ndarray, case: dict[str, np.ndarray]) -> dict[str, float]:
    """AUROC, AP, P@n and how often the suggestion is right among the true errors in the first n."""
    bad = case["given"] != case["truth"]
    top = np.argsort(-doubt, kind="stable")[: bad.sum()]
    caught = top[bad[top]]
    return {
        "auroc": float(roc_auc_score(bad, doubt)),
        "ap": float(average_precision_score(bad, doubt)),
        "p_at_n": float(bad[top].mean()),
        "suggestion": float((suggested[caught] == case["truth"][caught]).mean()),
    }


def verified(doubt: np.ndarray) -> dict[str, float]:
    wrong = set(hitnet.data.sample.label_errors()["id"])
    order = np.argsort(-doubt, kind="stable")
    return {f"top_{most}": len(wrong & set(order[:most].tolist())) for most in (100, 200)}


def flagged(evidence: scores.Evidence, case: dict[str, np.ndarray]) -> dict[str, float]:
    """What the flag "wrong" catches, and the number of errors that the scores add up to."""
    bad = case["given"] != case["truth"]
    values = scores.score(scores.doubt(evidence, case["given"]))
    marked = np.array(scores.flags(evidence, values)) == "wrong"
    caught = marked & bad
    return {
        "flagged": int(marked.sum()),
        "precision": float(bad[marked].mean()),
        "recall": float(caught.sum() / bad.sum()),
        "suggestion_of_flagged": float((evidence.ghost[caught] == case["truth"][caught]).mean()),
        "expected_errors": float((1 - values).sum()),
        "errors": int(bad.sum()),
    }


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def score(folder: Path) -> None:
    """Judge the arrays in a folder and keep the figures in the records."""
    from cleanlab.rank import get_label_quality_scores

    rows = []
    for path in sorted(folder.glob("*.audit.npz")):
        name = path.name.removesuffix(".audit.npz")
        case, other = read(path), read(folder / f"{name}.rival.npz")
        evidence = scores.gather(case["distances"].astype(np.float64), case["given"])
        probabilities = other["probabilities"].astype(np.float64)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        judged = [(f"hitnet {m}", scores.doubt(evidence, case["given"], m), evidence.ghost) for m in scores.METHODS]
        for fewer in range(1, len(case["distances"])):
            part = scores.gather(case["distances"][:fewer].astype(np.float64), case["given"])
            judged.append((f"hitnet margin, first {fewer}", scores.doubt(part, case["given"]), part.ghost))
        for method in ("self_confidence", "normalized_margin"):
            quality = get_label_quality_scores(case["given"].astype(int), probabilities, method=method)
            judged.append((f"cleanlab {method}", -quality, probabilities.argmax(axis=1)))
        for method, doubt, suggested in judged:
            source = case if method.startswith("hitnet") else other
            row = {
                "case": name,
                "method": method,
                **(verified(doubt) if name == "sample" else measures(doubt, suggested, case)),
                **(flagged(evidence, case) if method == "hitnet margin" and name != "sample" else {}),
                "seconds": None if "first" in method else float(source["seconds"]),
                **{key: str(source[key]) for key in ("networks", "device", "date", "hitnet")},
            }
            rows.append(row)
    if (ghosts := folder / "ghosts.json").is_file():
        rows += [{"case": "ghosts", **row} for row in json.loads(ghosts.read_text())]
    RECORDS.write_text(json.dumps(rows, indent=1) + "\n")
    print_table(rows)


def print_table(rows: list[dict[str, object]]) -> None:
    """The figures as Markdown, a table for each kind of case."""
    columns = {
        "sample": ("method", "top_100", "top_200", "seconds", "networks"),
        "ghosts": ("rule", "test_errors", "doubtful", "precision", "recall", "average_precision_ghost_distance"),
        "others": ("case", "method", "auroc", "ap", "p_at_n", "suggestion", "seconds", "networks"),
    }
    for kind, names in columns.items():
        chosen = [row for row in rows if (row["case"] if row["case"] in columns else "others") == kind]
        if chosen:
            print("\n| " + " | ".join(names) + " |\n|" + "---|" * len(names))
        for row in chosen:
            print("| " + " | ".join(shown(row[name]) for name in names) + " |")


def shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"{one:.2f}" for one in value)
    if isinstance(value, float):
        return f"{value:.0f}" if value > 1.5 else f"{value:.4f}"
    return "" if value is None else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["audit", "rival", "ghosts", "score"])
    parser.add_argument("cases", nargs="*", choices=["sample", "mnist-uniform", "mnist-alike", "cifar10n", []])
    parser.add_argument("--out", type=Path, default=Path("arrays"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cifar10n", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.step == "score":
        score(args.out)
    elif args.step == "ghosts":
        train_ghosts(args)
    for name in args.cases:
        (run_audit if args.step == "audit" else run_rival)(name, args)


if __name__ == "__main__":
    main()
