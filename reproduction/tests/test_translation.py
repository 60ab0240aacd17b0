"""Old lines of the ledger: the same runs under today's names, with the batch-norm that they had."""

import json
from collections import Counter

import pytest

from reproduction import PAPER, Ledger
from reproduction.ledger import ANALYSIS, PICTURE, RUN
from reproduction.missing_runs import OWN_LEDGER
from reproduction.translation import NAMES, translated

LINES = [json.loads(line) for line in OWN_LEDGER.read_text(encoding="utf-8").splitlines()]
OLD = [values for values in LINES if "norm" not in values["facts"].get("model_options", {})]


def line(facts, kind="run", experiment="mnist-hitnet-constant"):
    return {"kind": kind, "experiment": experiment, "label": "", "seeds": [0], "facts": facts}


@pytest.mark.parametrize(
    ("network", "options", "norm"),
    [
        ("hitnet", {}, "each"),
        ("hitnet", None, "each"),
        ("hitnet", {"shared_norm": True}, "shared"),
        ("hitnet", {"shared_norm": False}, "each"),
        ("n1", {}, "each"),
        ("n2b", {}, "each"),
        ("hitnet-resnet9", {"head": "softmax", "decoder": "none"}, "each"),
        ("capsnet", {}, None),
        ("dropconnect", {}, None),
    ],
)
def test_an_old_line_has_the_batch_norm_that_it_had(network, options, norm):
    facts = {"network": network} | ({} if options is None else {"model_options": options})
    told = translated(line(facts))["facts"]["model_options"]
    assert told["norm"] == norm
    assert "shared_norm" not in told
    assert told["capsule_dim"] == 16
    assert len(told) == 8


def test_a_new_line_stays_as_it_is():
    facts = {"network": "hitnet", "model_options": {"norm": "shared"}, "files": ["images/x.png"]}
    new = line(facts, experiment="mnist-hitnet-shared")
    assert translated(new) == new


def test_old_kinds_names_and_pictures():
    facts = {"network": "hitnet", "model_options": {"shared_norm": True}}
    arm = translated(line(facts, "arm", "fashion-shared"))
    assert (arm["kind"], arm["experiment"]) == ("run", "fashion-shared")
    files = ["images/paper/mnist-ghosts-250-20-doubtful-1.png", "images/paper/prototypes.png"]
    analysis = translated(line({"files": files}, "analysis", "mnist-ghosts-250"))
    assert analysis["experiment"] == "mnist-ghosts-each-250"
    assert analysis["facts"]["files"] == ["images/mnist-ghosts-each-250-20-doubtful-1.png", "images/prototypes.png"]


def test_no_old_name_has_another_meaning_today():
    assert not set(NAMES) & set(PAPER.experiments)
    assert set(NAMES.values()) <= set(PAPER.experiments)
    assert len(set(NAMES.values())) == len(NAMES)


def test_the_ledger_keeps_its_meaning():
    """Every old run is found again, once, under the reading that it was made by."""
    ledger = Ledger(OWN_LEDGER)
    assert len(ledger.entries) == len(LINES)
    assert len(OLD) >= 448
    for values in OLD:
        kind = RUN if values["kind"] == "arm" else values["kind"]
        name = NAMES.get(values["experiment"], values["experiment"])
        entry = ledger.get(kind, name, tuple(values["seeds"]), values["label"])
        assert entry is not None
        assert name in PAPER.experiments
        if kind == RUN:
            shared = values["facts"].get("model_options", {}).get("shared_norm", False)
            without = values["facts"]["network"] in ("capsnet", "dropconnect")
            assert entry.facts["model_options"]["norm"] == (None if without else "shared" if shared else "each")
            same = {key: value for key, value in values["facts"].items() if key != "model_options"}
            assert same.items() <= entry.facts.items()
        elif kind in (ANALYSIS, PICTURE):
            assert entry.facts["weights"] == values["facts"]["weights"]
    counts = Counter((values["experiment"], values["kind"]) for values in OLD)
    assert 25 <= counts[("mnist-hitnet-constant", "run")] <= len(ledger.select(RUN, "mnist-hitnet-each"))
    assert 20 <= counts[("mnist-hitnet-shared", "arm")] <= len(ledger.select(RUN, "mnist-hitnet-shared"))
