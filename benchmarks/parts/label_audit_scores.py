"""The figures of benchmarks/label_audit.py, from the arrays that its steps write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

import hitnet
from hitnet.audit import scores
from hitnet.audit.margins import Margins, margins
from hitnet.capsules import HIT_RADIUS
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
    wrong = set(hitnet.data.known.samples.label_errors("mnist-sample")["id"])
    order = np.argsort(-doubt, kind="stable")
    return {f"top_{most}": len(wrong & set(order[:most].tolist())) for most in (100, 200)}


def flagged(evidence: Margins, case: dict[str, np.ndarray]) -> dict[str, float]:
    """What the flag "wrong" catches, and the number of errors that the scores add up to."""
    bad = case["given"] != case["truth"]
    doubts = scores.doubt(evidence, case["given"])
    values = scores.score(doubts.value)
    marked = np.array(scores.flags(evidence, doubts)) == "wrong"
    caught = marked & bad
    return {
        "flagged": int(marked.sum()),
        "precision": float(bad[marked].mean()),
        "recall": float(caught.sum() / bad.sum()),
        "suggestion_of_flagged": float((doubts.rival[caught] == case["truth"][caught]).mean()),
        "expected_errors": float((1 - values).sum()),
        "errors": int(bad.sum()),
    }


def plain_margin(evidence: Margins) -> scores.Doubt:
    """Only the mean margin."""
    return scores.Doubt(evidence.margin_mean, evidence.ghost)


def ghost_distance(evidence: Margins) -> scores.Doubt:
    """The paper's: how near the nearest other capsule is, regardless of the given class."""
    return scores.Doubt(HIT_RADIUS - evidence.ghost_distance, evidence.ghost)


def judged_by_us(case: dict[str, np.ndarray]) -> list[tuple[str, scores.Doubt]]:
    """All scores by all networks, and the audit's own score by the first few networks."""
    distances, given = case["distances"].astype(np.float64), case["given"]
    evidence = margins(distances, given)
    judged = [
        ("hitnet margin", scores.doubt(evidence, given)),
        ("hitnet plain-margin", plain_margin(evidence)),
        ("hitnet ghost-distance", ghost_distance(evidence)),
    ]
    for fewer in range(1, len(distances)):
        part = margins(distances[:fewer], given)
        judged.append((f"hitnet margin, first {fewer}", scores.doubt(part, given)))
    return judged


def judged_by_cleanlab(given: np.ndarray, other: dict[str, np.ndarray]) -> list[tuple[str, scores.Doubt, dict]]:
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
            doubts = scores.Doubt(-quality, shares.argmax(axis=1))
            judged.append((f"cleanlab {method}", doubts, {"networks": str(networks), "seconds": float(seconds)}))
    return judged


def score_case(path: Path) -> list[dict[str, object]]:
    """One row per way to judge; the audit's own row has its lead over the best of cleanlab's."""
    name = path.name.removesuffix(".audit.npz")
    case, other = read(path), read(path.with_name(f"{name}.rival.npz"))

    def row(method: str, doubts: scores.Doubt, cost: dict[str, object], origin: dict[str, np.ndarray]) -> dict:
        figures = verified(doubts.value) if name == "sample" else measures(doubts.value, doubts.rival, case)
        made = {key: origin[key].item() for key in MADE if key in origin}
        return {"case": name, "method": method, **figures, **cost, **made}

    cost = {"networks": str(case["networks"]), "seconds": float(case["seconds"])}
    rivals = [row(*judged, other) for judged in judged_by_cleanlab(case["given"], other)]
    rows = []
    for method, doubts in judged_by_us(case):
        rows.append(row(method, doubts, cost | ({"seconds": None} if "first" in method else {}), case))
        if method == "hitnet margin" and name != "sample":
            evidence = margins(case["distances"].astype(np.float64), case["given"])
            rows[-1] |= flagged(evidence, case)
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
