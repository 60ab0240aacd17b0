"""Hit-or-Miss against softmax and cross-entropy: one network, two heads and their losses."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.markdown import ERROR_HEADER, NONE, error_row, recipe_words, table
from hitnet.paper.our_experiments import RESNET9
from hitnet.paper.statistics import difference

HIT, SOFTMAX = "Hit-or-Miss", "softmax"
SETS = {name: (facts.title, f"{name}-resnet9", f"{name}-resnet9-softmax") for name, (facts, _, _) in RESNET9.items()}


def render(page: Page) -> str:
    rows = [
        row for title, hit, soft in SETS.values() for row in ((f"{title}, {HIT}", hit), (f"{title}, {SOFTMAX}", soft))
    ]
    compared = table(
        ("", f"{HIT} − {SOFTMAX}, points [95 %]", "in words"),
        [[title, *compare(page, hit, soft)] for title, hit, soft in SETS.values()],
    )
    return (
        "The network is `hitnet-resnet9`, with its capsules and its decoder or with softmax and cross-entropy in their "
        "place.\n\n"
        + table(
            (ERROR_HEADER[0], *ERROR_HEADER[2:]), [[title, *error_row(page, title, name)[2:]] for title, name in rows]
        )
        + "\nThe difference of the means, with its 95 % interval by Welch's t:\n\n"
        + compared
        + "\n"
        + "\n".join(recipes(page))
        + "\n"
    )


def compare(page: Page, hit: str, soft: str) -> tuple[str, str]:
    found = difference(page.records(hit), page.records(soft))
    if found is None:
        return NONE, "nothing to compare yet: both need two runs or more"
    low, high = found.interval
    words = "no difference beyond the spread"
    if low > 0:
        words = f"{SOFTMAX} errs less"
    elif high < 0:
        words = f"{HIT} errs less"
    return f"{found.mean:+.3f} [{low:+.3f}, {high:+.3f}]", words


def recipes(page: Page) -> list[str]:
    """How each pair is trained: what both have in common, and what each has of its own."""
    lines = []
    for title, *names in SETS.values():
        both = [recipe_words(page.experiment(name)) for name in names]
        parts = [f"both: {', '.join(word for word in both[0] if word in both[1])}"]
        for head, words, others in zip((HIT, SOFTMAX), both, reversed(both), strict=True):
            own = [word for word in words if word not in others]
            parts += [f"{head}: {', '.join(own)}"] if own else []
        lines.append(f"- {title}, " + "; ".join(parts))
    return lines


RESULT = Result(
    "softmax",
    "Hit-or-Miss against softmax",
    "beyond the paper",
    tuple(name for _, hit, soft in SETS.values() for name in (hit, soft)),
    render,
)
