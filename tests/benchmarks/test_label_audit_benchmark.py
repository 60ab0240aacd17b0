"""The benchmark of the label audit: which step does what, and what the record keeps."""

import json

import numpy as np
import pytest

import label_audit
from parts import label_audit_scores

CLASSES, IMAGES, WRONG = 4, 80, 8


def write_arrays(folder, case, *, wrong=WRONG):
    """What the steps `audit` and `rival` leave: three networks that see the truth nearly always, and probabilities."""
    random = np.random.default_rng(0)
    truth = np.arange(IMAGES) % CLASSES
    given = truth.copy()
    given[:wrong] = (truth[:wrong] + 1) % CLASSES
    near = np.eye(CLASSES)[truth]
    made = {"device": "some device", "torch": "2.11", "hitnet": "0.1.0", "date": "2026-11-15"}
    distances = 1.2 - near + random.uniform(0, 0.3, (3, IMAGES, CLASSES))
    audited = {"given": given, "truth": truth, "distances": distances.astype(np.float16), "seconds": 2.0}
    np.savez(folder / f"{case}.audit.npz", **audited, networks="hitnet, 3 x 8 epochs", threads=3, **made)
    probabilities = (near + random.uniform(0, 0.9, (IMAGES, CLASSES)))[None]
    rival = {"probabilities": probabilities.astype(np.float32), "seconds": [3.0], "networks": ["softmax"]}
    np.savez(folder / f"{case}.rival.npz", **rival, **made)


def test_scoring_replaces_the_rows_of_its_cases_alone(tmp_path, capsys):
    arrays, record = tmp_path / "arrays", tmp_path / "record.json"
    arrays.mkdir()
    others = [{"case": "cifar10n", "method": "hitnet margin"}, {"case": "ghosts", "rule": "none"}]
    record.write_text(json.dumps([*others, {"case": "mnist-alike", "method": "one that is gone"}]))
    write_arrays(arrays, "mnist-alike")
    label_audit_scores.score(arrays, record=record)
    rows = json.loads(record.read_text())
    assert rows[:2] == others
    assert {row["case"] for row in rows[2:]} == {"mnist-alike"}
    assert "one that is gone" not in [row["method"] for row in rows[2:]]
    ours = next(row for row in rows if row.get("method") == "hitnet" and row["case"] == "mnist-alike")
    assert (ours["ap"], ours["errors"], ours["suggestion"]) == (1.0, WRONG, 1.0)
    assert (ours["device"], ours["threads"], ours["torch"], ours["date"]) == ("some device", 3, "2.11", "2026-11-15")
    theirs = next(row for row in rows if row.get("method") == "cleanlab self_confidence")
    assert theirs["ap"] <= 1.0
    assert "threads" not in theirs
    assert "| mnist-alike | hitnet | 1.0000 |" in capsys.readouterr().out


def test_scoring_nothing_is_told(tmp_path):
    with pytest.raises(SystemExit, match="holds no arrays to score"):
        label_audit_scores.score(tmp_path, record=tmp_path / "record.json")
    assert not (tmp_path / "record.json").exists()


@pytest.fixture
def done(monkeypatch, tmp_path):
    """What a call does: steps and cases, in the order of their doing."""
    done = []
    for name in label_audit.OF_A_CASE:
        monkeypatch.setitem(label_audit.OF_A_CASE, name, lambda case, args, name=name: done.append((name, case)))
    for name in label_audit.OF_ALL:
        monkeypatch.setitem(label_audit.OF_ALL, name, lambda args, name=name: done.append((name, None)))
    return lambda *words: (label_audit.main([*words, "--out", str(tmp_path / "arrays")]), done)[1]


@pytest.mark.parametrize("step", ["audit", "rival"])
def test_a_step_of_cases_is_done_for_each(done, step):
    assert done(step, "mnist-alike", "sample") == [(step, "mnist-alike"), (step, "sample")]


@pytest.mark.parametrize("step", ["ghosts", "score"])
def test_a_step_of_all_is_done_once(done, step):
    assert done(step) == [(step, None)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit"], "audit needs one case or more: sample, mnist-uniform, mnist-alike, cifar10n"),
        (["rival"], "rival needs one case"),
        (["score", "sample"], "score takes no cases"),
        (["ghosts", "mnist-alike"], "ghosts takes no cases"),
    ],
)
def test_missing_and_superfluous_cases_are_told(done, capsys, tmp_path, words, said):
    with pytest.raises(SystemExit):
        done(*words)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "arrays").exists()
