"""Corrections by the audit alone: only where it is sure, and never against what people decided."""

import pytest
from review_samples import open_folder

from hitnet.audit import open_audit
from hitnet.errors import HitNetError

TRUST = 0.98


@pytest.fixture
def sure(folder):
    """The rows that are flagged as wrong with at least this probability, most doubtful first."""
    table = open_audit(folder).table
    return lambda trust: table[(table["flag"] == "wrong") & (table["score"] <= 1 - trust)]


def test_only_sure_flagged_labels_are_corrected(folder, sure, tmp_path):
    audit = open_audit(folder)
    wrong = sure(TRUST)
    assert 0 < len(wrong) < (audit.table["flag"] == "wrong").sum()
    done = audit.apply(trust=TRUST, out=tmp_path / "out")
    assert (done.relabelled, done.alone) == (len(wrong), len(wrong))
    assert done.untouched == len(audit.table) - len(wrong)
    labels = audit.corrected_labels(trust=TRUST).set_index("id")
    changed = labels[labels["label"] != labels["given"]]
    assert changed["label"].to_dict() == dict(zip(wrong["id"], wrong["suggested"], strict=True))


def test_decisions_of_people_stand(folder, sure, tmp_path):
    kept, dropped, taken_back, *_ = sure(TRUST)["id"].tolist()
    board = open_folder(folder).board
    board.decide([(kept, "keep", ""), (dropped, "drop", ""), (taken_back, "keep", "")])
    board.decide([(taken_back, "none", "")])
    done = open_audit(folder).apply(trust=TRUST, out=tmp_path / "out")
    assert (done.kept, done.dropped, done.alone) == (1, 1, len(sure(TRUST)) - 2)


def test_disputed_images_stay_as_they_are(folder, sure):
    number = int(sure(TRUST)["id"].iloc[0])
    open_folder(folder, "anna").board.decide([(number, "keep", "")])
    open_folder(folder, "ben").board.decide([(number, "drop", "")])
    labels = open_audit(folder).corrected_labels(trust=TRUST).set_index("id")
    assert labels.loc[number, "label"] == labels.loc[number, "given"]


def test_what_does_not_fit_is_refused(folder, tmp_path):
    audit = open_audit(folder)
    with pytest.raises(HitNetError, match="trust must be in"):
        audit.apply(trust=95, out=tmp_path / "out")
    with pytest.raises(HitNetError, match=r"`trust`.*Leave out the file"):
        audit.apply(tmp_path / "c.csv", trust=TRUST, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
