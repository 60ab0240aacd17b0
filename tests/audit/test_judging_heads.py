"""Heads on features as judges: of images in memory, of files, and of features that a user has."""

import base64
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from audit_samples import Counting
from PIL import Image

import hitnet
from hitnet import Judges
from hitnet.audit.audit_folder import tell_room_of_audit
from hitnet.audit.judges import typical_images
from hitnet.decisions.steps import Change, Step, StepLog
from hitnet.errors import HitNetError
from hitnet.features import extraction, heads, one_pass
from hitnet.models.backbones import open_backbone
from toy import TinyBackbone, colour_images, write_images

WRONG = [4, 17, 30]


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return open_backbone(TinyBackbone(), input_size=16)


def mislabelled(**options):
    """Colour images, three of them labelled as the next colour."""
    images = colour_images(**options)
    labels = images.labels.clone()
    labels[WRONG] = (labels[WRONG] + 1) % 3
    return images.with_labels(labels)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(heads.HeadOptions, "steps_for", lambda *_: 60)


def quick(backbone, **options):
    return Judges("features", backbone, **{"repeats": 1, **options})


def audit(data, judges, **options):
    return hitnet.audit_labels(data, judges=judges, device="cpu", **options)


def worst(audit):
    return sorted(audit.table["id"][: len(WRONG)])


@pytest.fixture(scope="module")
def audited(backbone, tmp_path_factory):
    """An audit of colour images in a folder."""
    return audit(mislabelled(), quick(backbone, repeats=2, seed=3), out=tmp_path_factory.mktemp("audit") / "out")


def test_planted_wrong_labels_rank_first(audited):
    assert worst(audited) == WRONG
    first = audited.table.head(3)
    assert "Too few labels are contradicted" in audited.summary.sentence
    assert (first["score"] < audited.table["score"][3:].min()).all()
    truth = [("red", "green", "blue")[number % 3] for number in first["id"]]
    assert first["suggested"].tolist() == truth
    assert audited.summary.expected_errors == pytest.approx(3, abs=2)
    assert {"like_given", "like_suggested", "unlike"} <= set(audited.table)


def test_the_room_for_the_audit_is_told(backbone, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9))
    audit(mislabelled(), quick(backbone), out=tmp_path / "out")
    sentence = f"The files of the audit need up to 0.0 GB in {tmp_path / 'out'}; there is room for 0.0 GB."
    assert f"{sentence} Choose another `out`." in caplog.messages
    monkeypatch.undo()
    caplog.clear()
    with caplog.at_level("INFO"):
        for width in (1000, 4000):  # the second are too many to be kept
            tell_room_of_audit(tmp_path, 2_000_000, 33, 4, width)
    assert [message.partition(" GB")[0].split()[-1] for message in caplog.messages] == ["5.7", "1.7"]


def test_what_the_summary_says(audited):
    summary = json.loads((audited.folder / "summary.json").read_text())
    assert (summary["models"], summary["model"]) == (6, "heads and neighbours on TinyBackbone")
    assert summary["networks"] == [{"features": "TinyBackbone"}]
    assert set(summary["duplicates"]) == {"pairs", "labels_differ"}
    assert summary["duplicates"]["pairs"] == len(pd.read_csv(audited.folder / "duplicates.csv"))
    pd.testing.assert_frame_equal(hitnet.open_audit(audited.folder).table, audited.table)
    assert "heads and neighbours on TinyBackbone" in (audited.folder / "report.html").read_text(encoding="utf-8")


def test_the_seed_decides(backbone):
    first, again, other = (audit(mislabelled(), quick(backbone, seed=seed)).table for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(again, first)
    assert other["margin_mean"].tolist() != first["margin_mean"].tolist()


def test_the_prototypes_are_typical_images(audited):
    images = mislabelled()
    assert audited.prototypes.shape == (3, 3, 16, 16)
    for k, prototype in enumerate(audited.prototypes):
        matches = (images.pixels == prototype).all(dim=(1, 2, 3)).nonzero()[:, 0].tolist()
        assert len(matches) == 1
        assert images.labels[matches[0]] == k
        assert matches[0] not in WRONG
        assert audited.table["id"][audited.typical[k][0]] == matches[0]
    wider = replace(images, class_names=(*images.class_names, "none"))
    assert (typical_images(torch.randn(60, 8), wider)[3] == 0).all()


@pytest.fixture
def decoded(monkeypatch):
    """The files that were decoded for features."""
    files = []
    read = one_pass.read
    monkeypatch.setattr(one_pass, "read", lambda path, size: (files.append(path), read(path, size))[1])
    return files


def test_a_second_audit_of_files_computes_nothing_again(backbone, tmp_path, decoded, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    folder = write_images(tmp_path / "photos", mislabelled())
    first, second = Counting(), Counting()
    result = audit(folder, quick(backbone), progress=first)
    assert len(decoded) == 60
    assert (first.planned, first.steps) == ([60, 60, 120, 2], 242)  # features, neighbours, two kinds of heads, results
    assert sorted(int(path[-7:-4]) for path in result.table["path"][:3]) == WRONG
    again = audit(folder, quick(backbone), progress=second)
    assert len(decoded) == 60
    assert second.steps == 242
    pd.testing.assert_frame_equal(again.table, result.table)
    write_images(tmp_path / "photos", colour_images(63, seed=0))  # the images with right labels again, and three more
    audit(folder, quick(backbone))
    assert len(decoded) == 63


def test_resume_looks_only_at_new_files_and_keeps_decisions(backbone, tmp_path, decoded, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    folder, out = write_images(tmp_path / "photos", mislabelled()), tmp_path / "out"
    before = audit(folder, quick(backbone), out=out)
    first = before.table.iloc[0]
    change = Change(int(first["id"]), first["path"], first["given"], "relabel", first["suggested"])
    StepLog(out / "decisions.jsonl").append(Step("anna", (change,)))
    (folder / "blue" / "000-new.png").write_bytes((folder / "blue" / "002.png").read_bytes() + b"other bytes")
    decoded.clear()
    with pytest.raises(HitNetError, match="Use `resume`"):
        audit(folder, quick(backbone), out=out)
    after = audit(folder, quick(backbone), out=out, resume=True)
    assert [Path(str(file)).name for file in decoded] == ["000-new.png"]
    assert len(after.table) == 61
    assert "blue/000-new.png" in set(after.table["path"])
    assert after.apply(out=tmp_path / "corrected").relabelled == 1
    with pytest.raises(HitNetError, match="holds the audit of other images"):
        audit(write_images(tmp_path / "others", colour_images()), quick(backbone), out=out, resume=True)


def test_progress_counts_the_images(backbone, tmp_path, decoded, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    folder = write_images(tmp_path / "photos", mislabelled())
    progress = Counting()
    result = audit(hitnet.open_data(folder, flip=True), quick(backbone), progress=progress)
    assert len(decoded) == 60
    assert (progress.planned, progress.steps) == ([60, 60, 120, 2], 242)
    assert sorted(int(path[-7:-4]) for path in result.table["path"][:3]) == WRONG
    in_memory = audit(replace(mislabelled(), flip=True), quick(backbone))
    assert worst(in_memory) == WRONG


@pytest.mark.parametrize("sizes", [(30, 30, 1), (30, 30, 3), (30, 2, 3)])
def test_small_classes_are_not_all_doubtful(backbone, sizes):
    images = colour_images(90)
    kept = torch.cat([torch.nonzero(images.labels == k)[:size, 0] for k, size in enumerate(sizes)])
    result = audit(images.select(kept), quick(backbone))
    small = result.table[
        result.table["given"].isin([n for n, s in zip(images.class_names, sizes, strict=True) if s < 5])
    ]
    assert result.table["score"].notna().all()
    assert (small["flag"] != "wrong").any()


def test_only_small_classes_and_no_class_at_all(backbone):
    result = audit(colour_images(6), quick(backbone))
    assert len(result.table) == 6
    assert np.isfinite(result.table["score"]).all()
    with pytest.raises(HitNetError, match="at least two images"):
        audit(colour_images(1), quick(backbone))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_features_that_a_user_has(backbone, tmp_path, suffix):
    """No image is looked at: the pixels are all black."""
    images = mislabelled()
    features = extraction.extract(images.pixels, backbone).float().numpy()
    file, order = tmp_path / f"mine{suffix}", np.random.default_rng(0).permutation(60)
    paths = [f"{i}.png" for i in range(60)]
    if suffix == ".npy":
        np.save(file, features)
        file.with_suffix(".paths.json").write_text(json.dumps(paths))
    elif suffix == ".npz":
        np.savez(file, features=features[order], id=order)
    else:
        frame = pd.DataFrame(features[order]).rename(columns=str)
        frame.assign(path=[paths[i] for i in order]).to_parquet(file)
    black = replace(images, pixels=torch.zeros_like(images.pixels), paths=tuple(paths))
    result = audit(black, Judges(features=file, repeats=1))
    assert worst(result) == WRONG
    assert result.summary.model == f"heads and neighbours on mine{suffix}"
    assert result.summary.networks == [{"features": f"mine{suffix}"}]
    assert (result.table["like_given"] >= 0).all()


def test_near_duplicates_under_two_labels(backbone, tmp_path):
    images = colour_images()
    pixels = images.pixels.clone()
    pixels[7] = pixels[3]  # green and red
    result = audit(replace(images, pixels=pixels), quick(backbone), out=tmp_path / "out")
    first = pd.read_csv(tmp_path / "out" / "duplicates.csv").iloc[0]
    assert {first["id_a"]: first["given_a"], first["id_b"]: first["given_b"]} == {3: "red", 7: "green"}
    assert first["labels_differ"]
    assert result.summary.duplicates["labels_differ"] >= 1


def photographs(root, size=(300, 200)):
    """Photographs of three colours, larger than judges need them, and of several shapes."""
    for k, colour in enumerate(((200, 30, 30), (30, 200, 30), (30, 30, 200))):
        for i in range(8):
            (root / "abc"[k]).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (size[0], size[1] + 5 * i), colour).save(root / "abc"[k] / f"{i}.png")
    return root


def test_the_size_of_small_images_is_told_only_where_it_matters(backbone, tmp_path, caplog):
    caplog.set_level("INFO", "hitnet")
    photos = photographs(tmp_path / "photos")
    made = audit(photos, quick(backbone), out=tmp_path / "audit")
    changes = [Change(int(made.table["id"][0]), made.table["path"][0], made.table["given"][0], "drop", "")]
    StepLog(tmp_path / "audit" / "decisions.jsonl").append(Step("anna", tuple(changes)))
    hitnet.open_audit(tmp_path / "audit").apply(out=tmp_path / "new")
    assert "images are read at" not in caplog.text
    hitnet.open_data(photos).load("train")
    assert caplog.text.count("images are read at 46 x 64") == 1


def test_the_page_shows_the_photographs_and_not_what_judges_see(backbone, tmp_path):
    made = audit(photographs(tmp_path / "photos"), quick(backbone), out=tmp_path / "audit")
    (tmp_path / "photos" / made.table["path"][0]).unlink()
    made.write(tmp_path / "audit")  # a file that is gone since is shown as the judges saw it
    text = (tmp_path / "audit" / "report.html").read_text()
    data = json.loads(re.search(r'id="audit-data">(.*?)</script>', text)[1])
    opened = {number: Image.open(io.BytesIO(base64.b64decode(each))) for number, each in data["thumbs"].items()}
    sizes = [opened[str(number)].size for number in made.table["id"]]
    assert max(sizes[0]) <= max(made.summary.image_size)
    assert {width for width, _ in sizes[1:]} == {300}
    assert {height for _, height in sizes[1:]} <= {200 + 5 * i for i in range(8)}
    assert all(
        np.asarray(picture).min() > 10 for number, picture in opened.items() if number != str(made.table["id"][0])
    )
    typical = [Image.open(io.BytesIO(base64.b64decode(each))).size[0] for each in data["prototypes"]]
    assert max(typical) == 300
