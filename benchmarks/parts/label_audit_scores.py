"""The figures of benchmarks/label_audit.py, from the arrays that its steps write."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

import hitnet
from hitnet.audit.margins import margins
from hitnet.audit.scoring import Scores, score_labels
from hitnet.capsules import HIT_RADIUS
from hitnet.features.opinions import Opinion
from hitnet.runtime import files
from parts.record import replace_rows

RECORDS = Path(__file__).parents[1] / "records" / "label_audit.json"
MADE = ("device", "threads", "torch", "hitnet", "date")  # how the arrays were made; older arrays lack some of it


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


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
    wrong = set(hitnet.data.known.datasets.label_errors("mnist-sample")["id"])
    order = np.argsort(-doubt, kind="stable")
    return {f"top_{most}": len(wrong & set(order[:most].tolist())) for most in (100, 200)}


class Doubt(NamedTuple):
    """How doubtful labels are (N,), and the strongest other class of each (N,)."""

    value: np.ndarray
    rival: np.ndarray


def scored(case: dict[str, np.ndarray], networks: int | None = None) -> Scores:
    """The audit's own scores by all networks, or by the first few."""
    return score_labels([Opinion("networks", each, True, True) for each in case["distances"][:networks]], case["given"])


def flagged(case: dict[str, np.ndarray]) -> dict[str, float]:
    """What the flag "wrong" catches, and the number of errors that the scores add up to."""
    bad, found = case["given"] != case["truth"], scored(case)
    marked = np.array(found.flag) == "wrong"
    caught = marked & bad
    return {
        "flagged": int(marked.sum()),
        "precision": float(bad[marked].mean()),
        "recall": float(caught.sum() / bad.sum()),
        "suggestion_of_flagged": float((found.suggested[caught] == case["truth"][caught]).mean()),
        "expected_errors": float((1 - found.score).sum()),
        "errors": int(bad.sum()),
    }


def judged_by_us(case: dict[str, np.ndarray]) -> list[tuple[str, Doubt]]:
    """The audit's own score by all networks and by the first few, and two simpler ones: the mean margin alone, and the
    paper's: how near the nearest other capsule is, regardless of the given class."""
    evidence = margins(case["distances"], case["given"])
    judged = [
        ("hitnet", Doubt(scored(case).doubt, evidence.ghost)),
        ("hitnet plain-margin", Doubt(evidence.margin_mean, evidence.ghost)),
        ("hitnet ghost-distance", Doubt(HIT_RADIUS - evidence.ghost_distance, evidence.ghost)),
    ]
    for fewer in range(1, len(case["distances"])):
        judged.append((f"hitnet, first {fewer}", Doubt(scored(case, fewer).doubt, evidence.ghost)))
    return judged


def judged_by_cleanlab(given: np.ndarray, other: dict[str, np.ndarray]) -> list[tuple[str, Doubt, dict]]:
    """Cleanlab's scores for each kind of network and for the mean of all kinds, with the cost of each."""
    from cleanlab.rank import get_label_quality_scores

    kinds = other["probabilities"].astype(np.float64).reshape(-1, len(given), other["probabilities"].shape[-1])
    sources = list(zip(kinds, np.atleast_1d(other["networks"]), np.atleast_1d(other["seconds"]), strict=True))
    if len(sources) > 1:
        sources.append((kinds.mean(axis=0), "; ".join(other["networks"]), other["seconds"].sum()))
    judged = []
    for probabilities, networks, seconds in sources:
        shares = probabilities / probabilities.sum(axis=1, keepdims=True)
        for method in ("self_confidence", "normalized_margin"):
            quality = get_label_quality_scores(given.astype(int), shares, method=method)
            doubts = Doubt(-quality, shares.argmax(axis=1))
            judged.append((f"cleanlab {method}", doubts, {"networks": str(networks), "seconds": float(seconds)}))
    return judged


def score_case(path: Path) -> list[dict[str, object]]:
    """One row per way to judge; the audit's own row has its lead over the best of cleanlab's."""
    name = path.name.removesuffix(".audit.npz")
    case, other = read(path), read(path.with_name(f"{name}.rival.npz"))

    def row(method: str, doubts: Doubt, cost: dict[str, object], origin: dict[str, np.ndarray]) -> dict:
        figures = verified(doubts.value) if name == "sample" else measures(doubts.value, doubts.rival, case)
        made = {key: origin[key].item() for key in MADE if key in origin}
        return {"case": name, "method": method, **figures, **cost, **made}

    cost = {"networks": str(case["networks"]), "seconds": float(case["seconds"])}
    rivals = [row(*judged, other) for judged in judged_by_cleanlab(case["given"], other)]
    rows = []
    for method, doubts in judged_by_us(case):
        rows.append(row(method, doubts, cost | ({"seconds": None} if "first" in method else {}), case))
        if method == "hitnet" and name != "sample":
            rows[-1] |= flagged(case)
            rows[-1]["ap_above_best_rival"] = rows[-1]["ap"] - max(rival["ap"] for rival in rivals)
    return rows + rivals


def score(folder: Path, *, record: Path = RECORDS) -> None:
    """Judge the arrays in a folder and write the figures to the record; they replace those of the same cases."""
    rows = [row for path in sorted(folder.glob("*.audit.npz")) for row in score_case(path)]
    if (ghosts := folder / "ghosts.json").is_file():
        rows += [{"case": "ghosts", **row} for row in files.read_json(ghosts)]
    if not rows:
        raise SystemExit(f"{folder} holds no arrays to score: run the steps audit and rival first.")
    replace_rows(record, rows, "case")
    print_table(rows)


def print_table(rows: list[dict[str, object]]) -> None:
    """Print the figures as Markdown, one table per kind of case."""
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
        return ", ".join(f"{number:.2f}" for number in value)
    if isinstance(value, float):
        return f"{value:.0f}" if value > 1.5 else f"{value:.4f}"
    return "" if value is None else str(value)
