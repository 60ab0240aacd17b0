"""What judges saw and said is kept for the review, and a damaged file is not used."""

import numpy as np
import pytest
import torch

from hitnet.audit import Opinion, audit_folder
from hitnet.audit.audit_folder import JUDGED, Kept, read_kept, write_kept


@pytest.fixture
def kept():
    draw = torch.Generator().manual_seed(0)
    distances = torch.rand(2, 5, 3, generator=draw).half().numpy()
    opinions = Opinion("networks", distances[0]), Opinion("20 neighbours", distances[1])
    return Kept(opinions, torch.rand(5, 8, generator=draw).half())


def test_what_is_written_is_read(kept, tmp_path):
    write_kept(tmp_path, kept)
    again = read_kept(tmp_path, 5, 3)
    for opinion, written in zip(again.opinions, kept.opinions, strict=True):
        assert np.array_equal(opinion.distances, written.distances)
        assert opinion.kind == written.kind
    assert torch.equal(again.features, kept.features)


def test_without_features(kept, tmp_path):
    write_kept(tmp_path, Kept(kept.opinions))
    assert read_kept(tmp_path, 5, 3).features is None


def test_in_the_order_of_the_table(kept):
    order = torch.tensor([4, 0, 3, 1, 2])
    arranged = Kept.of(kept.opinions, kept.features, order)
    assert np.array_equal(arranged.opinions[1].distances[0], kept.opinions[1].distances[4])
    assert torch.equal(arranged.features[2], kept.features[3])


def test_nothing_kept(tmp_path):
    assert read_kept(tmp_path, 5, 3) is None


@pytest.mark.parametrize("damage", ["flip", "cut", "other images", "other classes", "other file"])
def test_a_damaged_file_is_not_used(kept, tmp_path, caplog, damage):
    write_kept(tmp_path, kept)
    content = bytearray((tmp_path / JUDGED).read_bytes())
    if damage == "flip":
        content[-1] ^= 1
    (tmp_path / JUDGED).write_bytes({"cut": content[:-9], "other file": b"text"}.get(damage, content))
    assert read_kept(tmp_path, 6 if damage == "other images" else 5, 4 if damage == "other classes" else 3) is None
    assert "is damaged or of another audit, and is not used" in caplog.text


def test_features_of_another_kind_are_not_used(kept, tmp_path):
    for features in (kept.features[:4], kept.features.float(), kept.features[0]):
        write_kept(tmp_path, Kept(kept.opinions, features))
        assert read_kept(tmp_path, 5, 3) is None


def test_huge_features_are_not_kept(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(audit_folder, "MOST_FEATURES", kept.features.nbytes - 1)
    write_kept(tmp_path, Kept.of(kept.opinions, kept.features, torch.arange(5)))
    again = read_kept(tmp_path, 5, 3)
    assert again.features is None
    assert np.array_equal(again.opinions[0].distances, kept.opinions[0].distances)


def test_classes_are_kept_and_must_fit(kept, tmp_path):
    classes = np.array([[0, 2, 9], [3, 4, 9], [0, 1, 9], [7, 8, 9], [1, 8, 9]])
    some = [Opinion(each.kind, each.distances, classes=classes) for each in kept.opinions]
    arranged = Kept.of(some, None, torch.tensor([4, 0, 3, 1, 2]))
    write_kept(tmp_path, arranged)
    again = read_kept(tmp_path, 5, 9)
    assert all((each.classes == classes[[4, 0, 3, 1, 2]]).all() for each in again.opinions)
    for wrong in (classes[:, ::-1], classes - 1, classes[:4], classes[:, :2], classes * 0):
        write_kept(tmp_path, Kept(tuple(Opinion("j", each.distances, classes=wrong) for each in some)))
        assert read_kept(tmp_path, 5, 9) is None


@pytest.mark.parametrize("scale", [1e9, 1.0, 1e-9])
def test_features_of_any_scale_are_kept(scale):
    features = torch.rand(5, 8, generator=torch.Generator().manual_seed(0)) + 0.1
    found = Kept.of(
        [Opinion("networks", np.zeros((5, 3), np.float32))], features * scale, torch.arange(5)
    ).features.float()
    torch.testing.assert_close(found / found[0, 0], features / features[0, 0], rtol=2e-3, atol=0)
