"""What judges saw and said is kept for the review, and a damaged file is not used."""

import pytest
import torch

from hitnet.audit import kept as module
from hitnet.audit.kept import NAME, Kept, read_kept, write_kept


@pytest.fixture
def kept():
    draw = torch.Generator().manual_seed(0)
    said = torch.rand(2, 5, 3, generator=draw).half()
    return Kept(said, ("networks", "20 neighbours"), torch.rand(5, 8, generator=draw).half())


def test_what_is_written_is_read(kept, tmp_path):
    write_kept(tmp_path, kept)
    again = read_kept(tmp_path, 5, 3)
    assert torch.equal(again.said, kept.said)
    assert torch.equal(again.features, kept.features)
    assert again.kinds == kept.kinds


def test_without_features(kept, tmp_path):
    write_kept(tmp_path, Kept(kept.said, kept.kinds))
    assert read_kept(tmp_path, 5, 3).features is None


def test_in_the_order_of_the_table(kept):
    order = torch.tensor([4, 0, 3, 1, 2])
    arranged = Kept.of(kept.said.float().numpy(), kept.kinds, kept.features, order)
    assert torch.equal(arranged.said[1, 0], kept.said[1, 4])
    assert torch.equal(arranged.features[2], kept.features[3])


def test_nothing_kept(tmp_path):
    assert read_kept(tmp_path, 5, 3) is None


@pytest.mark.parametrize("damage", ["flip", "cut", "other images", "other classes", "other file"])
def test_a_damaged_file_is_not_used(kept, tmp_path, caplog, damage):
    write_kept(tmp_path, kept)
    content = bytearray((tmp_path / NAME).read_bytes())
    if damage == "flip":
        content[-1] ^= 1
    (tmp_path / NAME).write_bytes({"cut": content[:-9], "other file": b"text"}.get(damage, content))
    assert read_kept(tmp_path, 6 if damage == "other images" else 5, 4 if damage == "other classes" else 3) is None
    assert "is damaged or of another audit, and is not used" in caplog.text


def test_features_of_another_kind_are_not_used(kept, tmp_path):
    for features in (kept.features[:4], kept.features.float(), kept.features[0]):
        write_kept(tmp_path, Kept(kept.said, kept.kinds, features))
        assert read_kept(tmp_path, 5, 3) is None


def test_a_huge_one_is_not_kept(kept, tmp_path, monkeypatch):
    write_kept(tmp_path, kept)
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    write_kept(tmp_path, kept)
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize("scale", [1e9, 1.0, 1e-9])
def test_features_of_any_scale_are_kept(scale):
    features = torch.rand(5, 8, generator=torch.Generator().manual_seed(0)) + 0.1
    found = Kept.of(torch.zeros(1, 5, 3).numpy(), ("networks",), features * scale, torch.arange(5)).features.float()
    torch.testing.assert_close(found / found[0, 0], features / features[0, 0], rtol=2e-3, atol=0)
