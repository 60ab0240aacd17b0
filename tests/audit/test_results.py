"""An audit and its folder: what is written, read back, applied and exported."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from audit_samples import FLIPPED, mislabelled, quick_audit, tree, write_csv

import hitnet
from hitnet import HitNetError, open_audit, open_data
from hitnet.data import save_npz
from toy import toy_images, write_mnist


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """An audit of a .npz beside its folder."""
    folder = tmp_path_factory.mktemp("kept")
    save_npz(mislabelled(), folder / "bands.npz")
    return quick_audit(folder / "bands.npz", out=folder / "out")


def test_files(audited):
    folder = audited.folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "audit.csv",
        "audit.parquet",
        "checksums.json",
        "distances.npy",
        "judged.safetensors",
        "models",
        "report.html",
        "settings.json",
        "summary.json",
    ]
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "audit.parquet"), audited.table)
    written = pd.read_csv(folder / "audit.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(written, audited.table, check_dtype=False)
    assert np.array_equal(np.load(folder / "distances.npy", allow_pickle=False), audited.distances)
    assert json.loads((folder / "summary.json").read_text()) == audited.summary.to_json()
    page = (folder / "report.html").read_text()
    assert "Label audit: toy" in page
    assert page.rstrip().endswith("</html>")


def test_an_audit_is_read_back(audited):
    opened = open_audit(audited.folder)
    pd.testing.assert_frame_equal(opened.table, audited.table)
    assert np.array_equal(opened.distances, audited.distances)
    assert (opened.class_names, opened.summary) == (audited.class_names, audited.summary)
    assert (opened.folder, opened.images) == (audited.folder, None)


def test_what_is_no_audit_is_refused(tmp_path):
    with pytest.raises(HitNetError, match=r"is not the folder of a finished audit: it has no summary\.json"):
        open_audit(tmp_path)


def corrections_of(audit, path):
    """Relabels what is wrong to what is suggested."""
    worst = audit.table.head(len(FLIPPED))
    suggestions = zip(worst["id"].tolist(), worst["suggested"], strict=True)
    return write_csv(path, audit.table, {number: ("relabel", suggested) for number, suggested in suggestions})


def test_images_in_memory_are_not_taken_for_a_known_set_of_their_name(audited):
    later = open_audit(audited.folder)
    with pytest.raises(HitNetError, match="mnist-sample was in memory"):
        replace(later, summary=replace(later.summary, source="mnist-sample")).audited_data()


def test_corrections_of_an_audit_of_images_in_memory(audited, tmp_path):
    csv = corrections_of(audited, tmp_path / "c.csv")
    done = audited.apply(csv, out=tmp_path / "out")
    assert (done.relabelled, done.untouched) == (len(FLIPPED), 96 - len(FLIPPED))
    corrected = open_data(done.data).load("all")
    assert torch.equal(corrected.labels, toy_images().labels)
    # Once the images are no longer in memory, the folder does not know where they are.
    with pytest.raises(HitNetError, match=r"toy was in memory when it was audited\. Set `data` to"):
        hitnet.open_audit(audited.folder).apply(csv, out=tmp_path / "again")
    done = hitnet.open_audit(audited.folder).apply(csv, out=tmp_path / "again", data=mislabelled())
    assert torch.equal(open_data(done.data).load("all").labels, toy_images().labels)


def test_an_audit_and_its_folder_are_corrected_alike(kept, tmp_path):
    csv = corrections_of(kept, tmp_path / "c.csv")
    folders = [tmp_path / name for name in ("memory", "folder", "function")]
    kept.apply(csv, out=folders[0])
    open_audit(kept.folder).apply(csv, out=folders[1])
    hitnet.open_audit(str(kept.folder)).apply(csv, out=folders[2])
    first, *others = (open_data(folder / "images.npz").load("all") for folder in folders)
    assert torch.equal(first.labels, toy_images().labels)
    assert {images.fingerprint for images in others} == {first.fingerprint}


def test_the_folder_of_known_sets_that_an_audit_recorded_gives_way_to_the_environments(tmp_path, monkeypatch):
    monkeypatch.delenv("HITNET_DATA", raising=False)
    for name, images in (("recorded", mislabelled()), ("other", toy_images())):
        write_mnist(tmp_path / name / "mnist", images)
    audit = quick_audit(open_data("mnist", data_dir=tmp_path / "recorded"), out=tmp_path / "out")
    csv = write_csv(tmp_path / "c.csv", audit.table, {})
    done = hitnet.open_audit(audit.folder).apply(csv, out=tmp_path / "first")
    assert torch.equal(open_data(done.data).load("all").labels, mislabelled().labels)
    monkeypatch.setenv("HITNET_DATA", str(tmp_path / "other"))
    with pytest.raises(HitNetError, match="MNIST is not the set that was audited"):
        hitnet.open_audit(audit.folder).apply(csv, out=tmp_path / "second")


def test_exports_of_an_audit_and_of_its_folder_are_the_same(kept, tmp_path):
    for name, audit in (("a", kept), ("b", open_audit(kept.folder))):
        (tmp_path / name).mkdir()
        files = [tmp_path / name / "p.npy", tmp_path / name / "p.rows.csv"]
        assert audit.export(files[0], format="pred-probs") == files
    (tmp_path / "c").mkdir()
    hitnet.open_audit(kept.folder).export(tmp_path / "c" / "p.npy", format="pred-probs")
    assert tree(tmp_path / "a") == tree(tmp_path / "b") == tree(tmp_path / "c")
    with pytest.raises(HitNetError, match="format must be one of label-studio, pred-probs; got 'yolo'"):
        kept.export(tmp_path / "x", format="yolo")
    with pytest.raises(HitNetError, match="needs an image file for each task"):
        kept.export(tmp_path / "tasks.json")
