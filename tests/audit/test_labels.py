"""The audit from images to table: wrong labels come first, files are whole, interruptions leave no trace."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from audit_samples import FLIPPED, QUICK, Counting, mislabelled, quick_audit, quick_recipe

import hitnet
from hitnet import HitNetError, Judges, open_data
from hitnet.data.known import datasets as samples
from hitnet.training import engine
from toy import Stop, toy_images

TYPES = {
    "id": "i",
    "path": "T",
    "given": "T",
    "suggested": "T",
    "score": "f",
    "hits": "i",
    "votes": "i",
    "models": "i",
    "margin_mean": "f",
    "margin_std": "f",
    "ghost": "T",
    "ghost_distance": "f",
    "flag": "T",
    "rule": "T",
}
BRIEF = Judges(networks=1, epochs=1)


def kind(column):
    return "T" if pd.api.types.is_string_dtype(column) else column.dtype.kind


def test_flipped_labels_come_first_with_the_right_suggestion(audited):
    worst = audited.table.head(len(FLIPPED))
    assert sorted(worst["id"]) == FLIPPED
    assert set(worst["flag"]) == {"wrong"}
    truth = toy_images().labels.tolist()
    assert worst["suggested"].tolist() == [f"band {truth[i]}" for i in worst["id"]]
    assert worst["votes"].tolist() == [2] * len(FLIPPED)
    assert (audited.table["score"].iloc[len(FLIPPED) :] > 0.9).all()
    assert audited.table["score"].is_monotonic_increasing


def test_table_has_a_row_for_each_image_and_its_columns(audited):
    table = audited.table
    assert {name: kind(table[name]) for name in table} == TYPES
    assert sorted(table["id"]) == list(range(96))
    assert set(table["path"]) == {""}
    assert set(table["models"]) == {2}
    given = dict(zip(table["id"], table["given"], strict=True))
    assert [given[i] for i in range(96)] == [f"band {k}" for k in mislabelled().labels.tolist()]


def test_images_and_distances_are_in_the_tables_order(audited):
    ids = audited.table["id"].tolist()
    assert audited.images.ids.tolist() == ids
    assert torch.equal(audited.images.pixels, toy_images().pixels[ids])
    assert (audited.distances.shape, audited.distances.dtype) == ((96, 3), np.float32)
    names = np.array(audited.class_names)
    assert names[audited.distances.argmin(axis=1)].tolist() == audited.table["suggested"].tolist()


@pytest.mark.parametrize("stop_after", [4, 40])
def test_resumed_audit_gives_the_same_table(audited, tmp_path, monkeypatch, stop_after):
    """Stopped in the first network or in the second, after a checkpoint."""
    with monkeypatch.context() as often:
        often.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
        with pytest.raises(Stop):
            quick_audit(mislabelled(), out=tmp_path / "out", progress=Counting(stop_after))
    assert not (tmp_path / "out" / "audit.csv").exists()
    with pytest.raises(HitNetError, match=r"not empty\. Use `resume` to continue the audit there"):
        quick_audit(mislabelled(), out=tmp_path / "out")
    resumed = quick_audit(mislabelled(), out=tmp_path / "out", resume=True)
    pd.testing.assert_frame_equal(resumed.table, audited.table)
    assert np.array_equal(resumed.distances, audited.distances)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / "audit.parquet"), audited.table)


def test_one_progress_over_all_networks():
    told = Counting()
    quick_audit(mislabelled(), progress=told)
    assert told.planned == [2 * 10 * 3, len(mislabelled()), 2]  # steps of training, images that are judged, results
    assert told.steps == sum(told.planned)


def test_a_finished_audit_is_repeated_without_training(audited, tmp_path):
    told, folder = Counting(), shutil.copytree(audited.folder, tmp_path / "copy")
    quick_audit(mislabelled(), out=folder, resume=True, progress=told)
    assert told.planned == [len(mislabelled()), 2]  # no step of training: the images are only judged
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "audit.parquet"), audited.table)


def test_other_images_in_the_same_folder_are_refused(audited):
    before = (audited.folder / "audit.csv").read_bytes()
    with pytest.raises(HitNetError, match="holds the audit of other images"):
        quick_audit(toy_images(60), out=audited.folder, resume=True)
    with pytest.raises(HitNetError, match="images or their labels have changed"):
        quick_audit(toy_images(), out=audited.folder, resume=True)
    with pytest.raises(HitNetError, match="is a file"):
        quick_audit(toy_images(), out=audited.folder / "audit.csv")
    with pytest.raises(HitNetError, match="lies in one; choose another `out`"):
        quick_audit(toy_images(), out=audited.folder / "audit.csv" / "below")
    assert (audited.folder / "audit.csv").read_bytes() == before


def test_a_folder_in_use_is_refused_before_the_images_are_read(audited, tmp_path):
    data = open_data(tmp_path)
    with pytest.raises(HitNetError, match="is not empty"):
        quick_audit(data, out=audited.folder)
    assert "listing" not in vars(data)


def test_classes_of_one_name_are_refused(tmp_path):
    with pytest.raises(HitNetError, match="two classes have the same name"):
        quick_audit(replace(toy_images(), class_names=("a", "b", "a")), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_single_image_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(HitNetError, match=r"at least two images; the split all has one.*`limit`"):
        quick_audit(open_data(toy_images(), limit=1), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_that_holds_no_audit_is_left_alone(tmp_path, resume):
    (tmp_path / "summary.json").write_text("mine")
    with pytest.raises(HitNetError, match="holds no audit to resume, but other files"):
        quick_audit(toy_images(), out=tmp_path, resume=resume)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("summary.json", "mine")]


def test_a_folder_that_cannot_be_used_is_said(tmp_path, monkeypatch):
    with pytest.raises(HitNetError, match=r"cannot be used: File name too long\. Choose another `out`"):
        quick_audit(toy_images(), out=tmp_path / ("x" * 300))

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(HitNetError, match=r"Cannot write .*: No space left on device\. Choose another place"):
        quick_audit(toy_images(), out=tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (lambda: {"judges": replace(QUICK, networks=0)}, "`networks` must be at least 1; got 0"),
        (lambda: {"judges": replace(QUICK, recipe=quick_recipe(0))}, "epochs must be a whole number from 1 on; got 0"),
        (lambda: {"judges": replace(QUICK, model="n1")}, "n1 has no Hit-or-Miss layer"),
        (lambda: {"judges": replace(QUICK, model="hitnet-smal")}, "Did you mean 'hitnet-small'"),
        (lambda: {"split": "half"}, "split must be one of"),
        (lambda: {"judges": replace(QUICK, recipe="papr")}, "Did you mean 'paper'"),
        (lambda: {"data": open_data(mislabelled(), limit=0)}, "limit must be at least 1"),
    ],
)
def test_wrong_options_are_refused_before_any_training(tmp_path, options, says):
    told = Counting()
    with pytest.raises(HitNetError, match=says):
        quick_audit(**{"data": mislabelled(), "out": tmp_path / "out", **options()}, progress=told)
    assert told.steps == 0
    # What was refused does not prevent the same call without the mistake.
    judges = replace(QUICK, recipe=quick_recipe(1))
    assert quick_audit(toy_images(6), out=tmp_path / "out", judges=judges).folder == tmp_path / "out"


def test_ids_stay_those_of_the_whole_set():
    test = hitnet.audit_labels(open_data("mnist-sample", limit=40), split="test", judges=BRIEF, device="cpu")
    assert sorted(test.table["id"]) == [4 + 5 * i for i in range(40)]
    assert test.summary.split == "test"
    images = mislabelled()
    part = quick_audit(images, split="test", judges=replace(QUICK, recipe=quick_recipe(1)))
    assert set(part.table["id"]) == set(open_data(images).load("test").ids.tolist())
    assert 15 < len(part.table) < 25


def test_only_the_samples_verified_errors_are_counted(audited):
    sampled = hitnet.audit_labels(open_data("mnist-sample", limit=1300), judges=BRIEF, device="cpu")
    wrong = {i for i in samples.label_errors("mnist-sample")["id"] if i < 1300}
    assert wrong
    order = sampled.table["id"].tolist()
    assert sampled.summary.verified_errors == {
        "errors": len(wrong),
        "in_top_100": len(wrong & set(order[:100])),
        "in_top_200": len(wrong & set(order[:200])),
    }
    assert audited.summary.verified_errors is None


def test_images_in_memory_are_not_counted_as_the_sample_of_their_name():
    images = replace(mislabelled(), name="mnist-sample")
    assert quick_audit(images).summary.verified_errors is None


def test_default_split(folder):
    assert [open_data(source).audit_split for source in ("mnist", "mnist-sample", folder, toy_images(6))] == [
        "train",
        "all",
        "all",
        "all",
    ]


def test_an_audit_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = quick_audit(mislabelled(), out="~/audit")
    assert result.folder == tmp_path / "audit"
    pd.testing.assert_frame_equal(hitnet.open_audit("~/audit").table, result.table)


def test_a_corrected_copy_is_not_written_into_the_audit(audited, tmp_path):
    corrections = tmp_path / "corrections.csv"
    corrections.write_text("id,path,given,decision,label\n0,,band 0,drop,\n")
    with pytest.raises(HitNetError, match="lies inside the audit"):
        audited.apply(corrections, out=audited.folder / "corrected", data=mislabelled())
    assert not (audited.folder / "corrected").exists()


def test_duplicates_of_an_earlier_audit_do_not_stay(audited, tmp_path):
    folder = shutil.copytree(audited.folder, tmp_path / "copy")
    (folder / "duplicates.csv").write_text("id,path\n")
    quick_audit(mislabelled(), out=folder, resume=True)
    assert not (folder / "duplicates.csv").exists()


def test_an_audit_by_other_judges_is_not_replaced_in_silence(audited, tmp_path, caplog):
    folder = shutil.copytree(audited.folder, tmp_path / "copy")
    quick_audit(mislabelled(), out=folder, resume=True)
    assert "other judges" not in caplog.text
    shutil.rmtree(folder / "models")
    judges = Judges(model="hitnet-small", networks=2, recipe=quick_recipe(1), neighbours=True)
    quick_audit(mislabelled(), out=folder, resume=True, judges=judges)
    assert "copy held an audit by other judges (hitnet-small). Its ranking is replaced" in caplog.text
