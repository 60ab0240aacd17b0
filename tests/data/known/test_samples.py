"""The samples: their counts, ids and known label errors, a damaged file, and a corrected copy."""

import csv
from collections import Counter

import numpy as np
import pytest
import torch

import hitnet
from hitnet.data import check_data, open_data
from hitnet.data.known import datasets as samples
from hitnet.data.known.datasets import CLOTHING_CLASSES
from hitnet.errors import HitNetError

COUNTS = {  # of train and test, by class
    "dress": (76, 15),
    "hat": (39, 8),
    "longsleeve": (144, 39),
    "outwear": (58, 20),
    "pants": (149, 29),
    "shirt": (92, 17),
    "shoes": (63, 31),
    "shorts": (64, 18),
    "skirt": (36, 8),
    "t-shirt": (252, 43),
}


@pytest.fixture(scope="module")
def splits():
    return {split: open_data("clothing-sample").load(split) for split in ("train", "test", "all")}


def test_counts_of_each_split_and_class(splits):
    assert tuple(COUNTS) == CLOTHING_CLASSES
    for split, column in (("train", 0), ("test", 1)):
        images = splits[split]
        assert images.class_names == CLOTHING_CLASSES
        assert torch.bincount(images.labels).tolist() == [count[column] for count in COUNTS.values()]
    assert [len(splits[split]) for split in ("train", "test", "all")] == [973, 228, 1201]
    assert {images.shape for images in splits.values()} == {(3, 160, 120)}
    assert all(images.flip for images in splits.values())


def test_ids_are_those_of_the_whole_sample(splits):
    train, test, whole = splits["train"], splits["test"], splits["all"]
    assert whole.ids.tolist() == list(range(1201))
    assert sorted(train.ids.tolist() + test.ids.tolist()) == whole.ids.tolist()
    for part, split in ((train, "train"), (test, "test")):
        assert torch.equal(whole.labels[part.ids], part.labels)
        assert torch.equal(whole.pixels[part.ids], part.pixels)
        assert [whole.paths[i] for i in part.ids.tolist()] == list(part.paths)
        for path, label in zip(part.paths, part.labels.tolist(), strict=True):
            assert path.startswith(f"{split}/{CLOTHING_CLASSES[label]}/")


def test_these_are_photographs(splits):
    pixels = splits["test"].pixels.float()
    assert pixels.std(dim=(1, 2, 3)).min() > 5
    assert 60 < pixels.mean() < 220
    colour = (pixels[:, 0] - pixels[:, 2]).abs().mean(dim=(1, 2))
    assert colour.median() > 3


def test_how_it_is_opened():
    data = open_data("clothing-sample", limit=3, image_size=32)
    assert (data.audit_split, data.sample) == ("all", "clothing-sample")
    images = data.load("test")
    assert (len(images), images.shape) == (3, (3, 32, 32))
    assert not open_data("clothing-sample", limit=3, flip=False).load("test").flip
    (row,) = [row for row in hitnet.list_data() if row["name"] == "clothing-sample"]
    assert row["here"]
    assert row["licence"] == "CC0 1.0"


def test_a_damaged_and_a_missing_file(tmp_path, monkeypatch):
    assert check_data("clothing-sample").sound
    content = bytearray(samples.PHOTOS.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = tmp_path / "photos.zip"
    damaged.write_bytes(content)
    monkeypatch.setattr(samples, "PHOTOS", damaged)
    with pytest.raises(HitNetError, match=r"photos.zip is damaged: its checksum is wrong. Install hitnet again."):
        open_data("clothing-sample").load("test")
    damaged.unlink()
    with pytest.raises(HitNetError, match=r"photos.zip cannot be read: No such file or directory. Install hitnet"):
        open_data("clothing-sample").load("test")


def test_a_corrected_copy_has_all_photographs_and_their_splits(tmp_path, splits, monkeypatch):
    monkeypatch.setattr(np, "savez_compressed", np.savez)  # compressing takes seconds
    judges = hitnet.Judges(model="hitnet-small", networks=1, epochs=1)
    data = open_data("clothing-sample", limit=24, image_size=16)
    hitnet.audit_labels(data, judges=judges, device="cpu", out=tmp_path / "audit")
    audit = hitnet.open_audit(tmp_path / "audit")
    first, second = sorted(audit.table["id"])[:2]
    assert audit.table["given"].nunique() == 8  # an even draw; the first 24 are of three classes
    given = audit.table.set_index("id")["given"]
    with (tmp_path / "corrections.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "path", "given", "decision", "label"])
        writer.writerow([first, splits["all"].paths[first], given[first], "relabel", "hat"])
        writer.writerow([second, splits["all"].paths[second], given[second], "drop", ""])
    applied = audit.apply(tmp_path / "corrections.csv", out=tmp_path / "new")
    assert (applied.relabelled, applied.dropped, applied.not_audited) == (1, 1, 1201 - 24)
    assert applied.data == tmp_path / "new" / "images.npz"
    corrected, before = open_data(applied.data).load("all"), splits["all"]
    assert corrected.ids.tolist() == [i for i in range(1201) if i != second]
    assert corrected.shape == (3, 160, 120)
    assert torch.equal(corrected.pixels, before.pixels[corrected.ids])
    changed = corrected.ids[corrected.labels != before.labels[corrected.ids]]
    assert changed.tolist() == [first]
    assert corrected.class_names[corrected.labels[first]] == "hat"
    assert Counter(np.load(applied.data)["split"].tolist()) == {"train": 973, "test": 227}


def test_splits_of_mnist_sample():
    whole, train, test = (open_data("mnist-sample").load(split) for split in ("all", "train", "test"))
    assert (len(whole), len(train), len(test)) == (10000, 8000, 2000)
    assert whole.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert test.ids[:3].tolist() == [4, 9, 14]
    assert torch.equal(whole.labels[test.ids], test.labels)
    assert torch.equal(whole.pixels[train.ids], train.pixels)
    assert set(train.ids.tolist()).isdisjoint(test.ids.tolist())
    assert len(test.labels.unique()) == 10


def test_judgements_agree_with_the_labels():
    labels = open_data("mnist-sample").load("all").labels
    table = samples.judgements()
    assert len(table) == 100
    assert table["id"].is_monotonic_increasing
    assert labels[table["id"].tolist()].tolist() == table["given_label"].tolist()
    assert (table[["votes_given", "votes_guessed", "votes_neither"]].sum(axis=1) == 5).all()


def test_label_errors_of_mnist_sample():
    errors = samples.label_errors("mnist-sample")
    assert len(errors) == 15
    assert errors["id"].tolist()[:4] == [947, 1621, 1901, 2130]
    corrected = errors.dropna(subset="corrected_label")
    assert len(corrected) == 10
    assert (corrected["corrected_label"] != corrected["given_label"]).all()
    assert int(errors.set_index("id").loc[947, "corrected_label"]) == 9
