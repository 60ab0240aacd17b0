"""Audit folders that are damaged or moved, and names that a spreadsheet would run as formulas."""

import csv
import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from audit_samples import Counting, audit_of, make_folder, mislabelled, quick_audit, quick_recipe, write_csv

import hitnet
from hitnet import HitNetError, Judges, open_audit
from hitnet.audit.audit_folder import read_kept
from hitnet.data import open_data
from hitnet.decisions.correction_files import read_corrections
from hitnet.decisions.corrections import correct
from hitnet.features.one_pass import OnePass
from hitnet.models.backbones import open_backbone
from hitnet.review.server import _duplicates
from hitnet.runtime import locks
from hitnet.runtime.files import checksum, write_json
from hitnet.runtime.spreadsheets import defuse, undefuse
from hitnet.runtime.spreadsheets import write_csv as write_table
from toy import TinyBackbone, colour_images, write_images

FILES = ("audit.parquet", "distances.npy", "summary.json")
FORMULA = '=HYPERLINK("http://x","y")'


@pytest.fixture
def own(audited, tmp_path):
    """A copy of a finished audit."""
    shutil.copytree(audited.folder, tmp_path / "own")
    return tmp_path / "own"


@pytest.mark.parametrize("name", ["audit.parquet", "distances.npy", "summary.json"])
def test_no_flipped_bit_passes_as_an_audit(own, name):
    file = own / name
    sound = file.read_bytes()
    for place in np.random.default_rng(0).integers(0, 8 * len(sound), 20).tolist():
        content = bytearray(sound)
        content[place // 8] ^= 1 << place % 8
        file.write_bytes(content)
        with pytest.raises(HitNetError, match=f"{name} is damaged or of another audit"):
            open_audit(own)


def sums_again(own):
    """Checksums of the files as they are now."""
    write_json(own / "checksums.json", {name: checksum(own / name) for name in FILES})


def test_an_audit_without_checksums_is_refused(own):
    (own / "checksums.json").unlink()
    with pytest.raises(HitNetError, match=r"checksums\.json does not exist"):
        open_audit(own)


@pytest.mark.parametrize("name", ["audit.parquet", "distances.npy", "summary.json", "checksums.json"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "another file"])
def test_only_regular_files_of_the_folder_itself_are_read(own, tmp_path, name, kind):
    elsewhere = shutil.move(own / name, tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(own / name)
    else:
        (own / name).symlink_to("/dev/zero" if kind == "endless" else elsewhere)
    with pytest.raises(HitNetError, match=rf"{name} is (a link|no regular file)|no summary\.json"):
        open_audit(own)


@pytest.mark.parametrize("name", ["judged.safetensors", "duplicates.csv"])
def test_evidence_that_is_a_link_is_not_read(own, tmp_path, name, caplog):
    (own / name).unlink(missing_ok=True)
    os.mkfifo(own / name)
    read = {"judged.safetensors": lambda: read_kept(own, 96, 3), "duplicates.csv": lambda: _duplicates(own)}
    assert read[name]() is None
    assert name in caplog.text


def test_settings_that_are_a_link_are_not_read(own, tmp_path):
    shutil.move(own / "settings.json", tmp_path / "settings.json")
    (own / "settings.json").symlink_to(tmp_path / "settings.json")
    with pytest.raises(HitNetError, match=r"settings\.json is a link"):
        quick_audit(mislabelled(), out=own, resume=True)


def test_an_audit_in_another_format_is_refused(own):
    summary = json.loads((own / "summary.json").read_text())
    assert summary["format"] == 1
    (own / "summary.json").write_text(json.dumps(summary | {"format": 2}))
    sums_again(own)
    with pytest.raises(HitNetError, match="not the summary of an audit that this version of hitnet can read"):
        open_audit(own)


@pytest.mark.parametrize(
    "summary",
    ["{}", "[]", "null", "[" * 100_000, "9" * 5000, '{"class_names": [1]}'],
)
def test_a_summary_that_is_none_is_refused(own, summary):
    (own / "summary.json").write_text(summary)
    sums_again(own)
    with pytest.raises(HitNetError, match=r"summary\.json is (damaged|not readable JSON|not the summary)"):
        open_audit(own)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"class_names": ["a", "b"]}, "names a class that the audit does not have"),
        ({"class_names": ["band 0", "band 1", 2]}, r"class_names\[2\] must be str"),
        ({"images": 10**400}, "images must be int; got a number that is too large"),
        ({"split": ["all"]}, "split must be str"),
        ({"source": None}, "source must be str; got None"),
    ],
)
def test_odd_entries_of_a_summary_are_named(own, change, says):
    file = own / "summary.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    sums_again(own)
    with pytest.raises(HitNetError, match=says):
        open_audit(own)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="ghost"), "lacks the columns ghost"),
        (lambda t: t.assign(score="high"), "the column score must hold numbers"),
        (lambda t: t.assign(given=1), "the column given must hold text"),
        (lambda t: t.assign(id=0), "two images have the same id"),
        (lambda t: t.head(3), "must hold fractions of shape"),
    ],
)
def test_odd_tables_of_audits_are_named(own, change, says):
    change(pd.read_parquet(own / "audit.parquet")).to_parquet(own / "audit.parquet", index=False)
    sums_again(own)
    with pytest.raises(HitNetError, match=says):
        open_audit(own)


def test_an_audit_that_is_moved_meanwhile_is_not_made_anew_under_its_old_name(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"

    class Moving(Counting):
        def step(self):
            super().step()
            if self.steps == 3:
                old.rename(new)

    judges = Judges("scratch", networks=1, recipe=quick_recipe(epochs=2))
    with pytest.raises(HitNetError, match="was moved"):
        quick_audit(mislabelled(), out=old, judges=judges, progress=Moving())
    assert not old.exists()
    quick_audit(mislabelled(), out=new, judges=judges, resume=True)
    assert len(open_audit(new).table) == 96


def test_an_audit_that_was_killed_before_its_settings_were_written_is_begun_anew(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".settings.0123abcd.json").write_text("half")
    (tmp_path / "out" / ".auditing").touch()
    judges = Judges("scratch", networks=1, recipe=quick_recipe(epochs=1))
    assert quick_audit(mislabelled(), out=tmp_path / "out", judges=judges).folder is not None
    assert not (tmp_path / "out" / ".settings.0123abcd.json").exists()


def test_a_second_audit_into_a_folder_is_refused_before_it_reads_a_file(tmp_path, monkeypatch):
    photos = write_images(tmp_path / "photos", colour_images(12))

    def audit():
        judges = Judges("features", backbone=open_backbone(TinyBackbone(), input_size=16))
        hitnet.audit_labels(photos, judges=judges, out=tmp_path / "out", device="cpu")

    def audit_meanwhile(*arguments):
        monkeypatch.setattr(OnePass, "__call__", None)
        monkeypatch.setattr(locks, "_claims", {})  # as in another process
        audit()

    monkeypatch.setattr(OnePass, "__call__", audit_meanwhile)
    with pytest.raises(HitNetError, match="another process is auditing here"):
        audit()


def test_an_audit_that_is_refused_leaves_no_folder_of_its_own(tmp_path):
    photos = write_images(tmp_path / "photos", colour_images(1))
    (tmp_path / "old").mkdir()
    for name in ("old", "new"):
        with pytest.raises(HitNetError, match="at least two"):
            quick_audit(photos, out=tmp_path / name)
    assert (tmp_path / "old").exists()
    assert not (tmp_path / "new").exists()


def test_what_a_killed_audit_left_is_removed(own):
    data = mislabelled()
    (own / ".audit.0123abcd.parquet").write_text("half")
    assert locks.claim(own / ".auditing")
    locks.release(own / ".auditing")
    quick_audit(data, out=own, resume=True)
    assert not list(own.glob(".*"))


@pytest.mark.parametrize("text", [FORMULA, "+1+1", "-x", "@sum", "\tx", "\r=1", "'=1", "''@", "=", "-1e5x"])
def test_formulas_are_defused_and_come_back(text):
    assert defuse(text) == "'" + text
    assert undefuse(defuse(text)) == text


@pytest.mark.parametrize("text", ["", "cat", "'cat'", "-1", "+2.5", "1-2", "a=b", "'", ".5"])
def test_other_texts_stay_as_they_are(text):
    assert defuse(text) == text
    assert undefuse(text) == text


def test_no_cell_of_a_csv_is_a_formula(tmp_path):
    table = pd.DataFrame(
        {"=name": [FORMULA, "x", None], "number": [-1.5, 2, 3], "odd": pd.Series(["-a", 3, None], dtype=object)}
    )
    write_table(tmp_path / "t.csv", table)
    rows = list(csv.reader((tmp_path / "t.csv").open(newline="")))
    assert rows == [["'=name", "number", "odd"], ["'" + FORMULA, "-1.5", "'-a"], ["x", "2.0", "3"], ["", "3.0", ""]]


def test_audit_csv_holds_no_formula_and_apply_reads_the_names_back(tmp_path):
    names = [FORMULA.replace("/", ""), "@b"]
    root = make_folder(tmp_path / "set", [f"{name}/={i}.png" for name in names for i in range(4)])
    audit = hitnet.audit_labels(
        root, judges=Judges("scratch", networks=1, recipe=quick_recipe(1)), out=tmp_path / "audit", device="cpu"
    )
    for row in csv.reader((tmp_path / "audit" / "audit.csv").open(newline="")):
        assert not any(cell.startswith(("=", "@", "+")) for cell in row)
    table = audit.table
    row = table.iloc[0]
    other = next(name for name in names if name != row["given"])
    fields = [str(row["id"]), defuse(row["path"]), defuse(row["given"]), "relabel", defuse(other)]
    with (tmp_path / "c.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "path", "given", "decision", "label"], fields])
    done = audit.apply(tmp_path / "c.csv", out=tmp_path / "out")
    assert done.relabelled == 1
    assert sum(1 for path in (tmp_path / "out" / other).iterdir()) == 5


def test_corrections_without_marks_are_read_as_well(tmp_path):
    root = make_folder(tmp_path / "set", [f"{name}/{i}.png" for name in ("=a", "'=a") for i in range(3)])
    images = open_data(root).load("all")
    table = audit_of(images)
    number = int(images.ids[images.paths.index("'=a/0.png")])
    corrections = write_csv(tmp_path / "c.csv", table, {number: ("relabel", "=a")})
    assert correct(open_data(root), table, corrections, tmp_path / "out").relabelled == 1
    assert len(list((tmp_path / "out" / "=a").iterdir())) == 4


def test_a_pipe_given_as_corrections_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(HitNetError, match="no regular file"):
        read_corrections(tmp_path / "pipe.csv")
