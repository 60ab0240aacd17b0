"""Features on disk: computed once, resumed, noticed when damaged."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from hitnet.data.reading.stored import file_key
from hitnet.errors import HitNetError
from hitnet.features import cache, one_pass
from hitnet.features.cache import FeatureCache, kept_features
from hitnet.features.extraction import extract
from hitnet.features.one_pass import cached_features
from hitnet.models.backbones import open_backbone
from hitnet.runtime.files import replacing
from hitnet.runtime.ranks import SINGLE, Ranks
from toy import Counted, TinyBackbone


class Means(nn.Module):
    """The mean of each channel; counts the images that it sees."""

    seen = 0

    def forward(self, images):
        Means.seen += len(images)
        return images.mean(dim=(2, 3))


@pytest.fixture
def backbone():
    return open_backbone(Means(), input_size=16)


@pytest.fixture
def photos(tmp_path):
    random = np.random.default_rng(0)
    paths = [tmp_path / f"{i}.png" for i in range(12)]
    for path in paths:
        Image.fromarray(random.integers(0, 256, (16, 16, 3), np.uint8)).save(path)
    return paths


@pytest.fixture
def count(photos, backbone, tmp_path):
    """Features, and how many images were computed for them."""

    def run(paths=photos, backbone=backbone, **options):
        cached_features([], backbone, folder=tmp_path / "cache")
        Means.seen = 0
        found = cached_features(paths, backbone, folder=tmp_path / "cache", **options)
        # Folding tries the network on two images, once before and once after.
        return found, max(0, Means.seen - 4)

    return run


def test_a_second_pass_computes_nothing_and_new_files_only_themselves(count, photos):
    first, computed = count(photos[:10])
    assert computed == 10
    again, computed = count(photos[:10])
    assert computed == 0
    assert torch.equal(first, again)
    more, computed = count()
    assert computed == 2
    assert torch.equal(more[:10], first)


def test_content_counts_not_names(count, photos, tmp_path):
    first, _ = count()
    for path in photos:
        path.rename(tmp_path / f"renamed-{path.name}")
    moved = [tmp_path / f"renamed-{path.name}" for path in reversed(photos)]
    second, computed = count(moved)
    assert computed == 0
    assert torch.equal(second, first.flip(0))
    Image.new("RGB", (16, 16), (255, 0, 0)).save(moved[0])
    assert count(moved)[1] == 1


def test_files_of_equal_content_are_computed_once(count, photos):
    found, computed = count([photos[0], photos[1], photos[0]])
    assert computed == 2
    assert torch.equal(found[0], found[2])


def test_sizes_and_backbones_are_kept_apart(count, backbone):
    assert count()[1] == 12
    assert count(backbone=open_backbone(Means(), input_size=8))[1] == 12
    assert count(backbone=replace(backbone, fingerprint="0123456789abcdef"))[1] == 12
    assert count()[1] == 0


def test_a_killed_pass_resumes(count, photos, monkeypatch):
    monkeypatch.setattr(one_pass, "PER_SHARD", 4)
    whole = one_pass.Extractor.run

    def killed(self, source):
        for done, part in enumerate(whole(self, source)):
            if done == 2:  # of four images each
                raise KeyboardInterrupt
            yield part

    monkeypatch.setattr(one_pass.Extractor, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        count()
    monkeypatch.setattr(one_pass.Extractor, "run", whole)
    seen = Counted()
    found, computed = count(progress=seen)
    assert computed == 4
    assert seen.parts == [("features", 12, "images")]
    assert sum(seen.steps) == 12
    assert len(found) == 12


@pytest.mark.parametrize(
    ("free", "told"), [(10**12, []), (2 * 10**9, ["INFO"]), (10**6, ["WARNING"])], ids=["small", "large", "too large"]
)
def test_the_room_for_features_is_told_before_they_are_computed(photos, tmp_path, monkeypatch, caplog, free, told):
    """Twelve images of 50 million numbers each take 1.2 GB."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    kept = FeatureCache(tmp_path / "cache", 3 if not told else 50_000_000)
    with caplog.at_level("INFO"):
        kept.check_writable(len(photos))
    assert [record.levelname for record in caplog.records] == told
    if told:
        sentence = f"Features of 12 images need up to 1.2 GB in {kept.folder}; there is room for {free / 1e9:.1f} GB."
        assert caplog.messages[0].startswith(sentence)
    assert ("HITNET_CACHE" in caplog.text) is (told == ["WARNING"])


@pytest.mark.parametrize("damage", ["bit", "cut", "empty"])
def test_a_damaged_shard_is_computed_again(count, tmp_path, damage):
    first, _ = count()
    (shard,) = (tmp_path / "cache").rglob("*.safetensors")
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes({"bit": content, "cut": content[:-10], "empty": b""}[damage])
    again, computed = count()
    assert computed == 12
    assert torch.equal(first, again)


def test_features_in_a_file(count, tmp_path):
    first, _ = count()
    mapped, computed = count(out=tmp_path / "features.npy")
    assert computed == 0
    assert torch.equal(first, mapped)
    assert np.array_equal(np.load(tmp_path / "features.npy"), first.numpy())


def test_keys(tmp_path):
    (tmp_path / "a").write_bytes(b"same")
    (tmp_path / "b").write_bytes(b"same")
    assert file_key(tmp_path / "a") == file_key(tmp_path / "b")
    with pytest.raises(HitNetError, match="gone cannot be read"):
        file_key(tmp_path / "gone")


def test_a_cache_finds_what_was_added(tmp_path):
    keys = [bytes([i]) * 16 for i in (3, 1, 2)]
    FeatureCache(tmp_path / "c", 4).add(keys, torch.arange(12.0).view(3, 4))
    opened = FeatureCache(tmp_path / "c", 4)
    assert len(opened.keys) == 3
    wanted = np.frombuffer(b"".join([keys[2], keys[0], b"\xff" * 16]), "V16")
    places = opened.find(wanted)
    assert places[2] == -1
    out = np.zeros((2, 4), np.float16)
    opened.read(places[:2], out)
    assert out.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert len(FeatureCache(tmp_path / "c", 5).keys) == 0


@pytest.mark.parametrize(
    ("ranks", "says"),
    [
        (SINGLE, "lacks features of 2 of 3 images: another process removed them. Try again."),
        (
            Ranks(1, 2),
            "lacks features of 2 of 3 images: .* Set the variable HITNET_CACHE to a folder that all machines",
        ),
    ],
)
def test_features_that_the_cache_lacks_are_missed(ranks, says, tmp_path):
    backbone = open_backbone(TinyBackbone(), input_size=16)
    keys = [bytes([i]) * 16 for i in range(3)]
    FeatureCache.of(backbone, tmp_path).add(keys[:1], torch.zeros(1, 8))
    with pytest.raises(HitNetError, match=says):
        kept_features(np.frombuffer(b"".join(keys), "V16"), backbone, folder=tmp_path, ranks=ranks)


def test_a_shard_that_cannot_be_opened_now_is_not_removed(count, tmp_path, monkeypatch):
    count()
    (shard,) = (tmp_path / "cache").rglob("*.safetensors")

    def refuse(path, framework):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(cache, "safe_open", refuse)
    with pytest.raises(HitNetError, match="Too many open files"):
        count()
    assert shard.exists()


def test_features_that_are_too_large_are_refused(photos, tmp_path):
    class Large(Means):
        def forward(self, images):
            return 1e6 * super().forward(images)

    large = open_backbone(Large(), input_size=16)
    with pytest.raises(HitNetError, match="not finite in half precision"):
        cached_features(photos, large, folder=tmp_path / "large")
    with pytest.raises(HitNetError, match="not finite in half precision"):
        extract(torch.full((2, 3, 16, 16), 255, dtype=torch.uint8), large)


def test_a_cache_that_cannot_be_written_is_said_before_anything_is_computed(backbone, photos, tmp_path):
    (tmp_path / "file").write_text("in the way")
    before = Means.seen
    with pytest.raises(
        HitNetError, match=r"Cannot keep features in .*: Not a directory\. Set the variable HITNET_CACHE"
    ):
        cached_features(photos, backbone, folder=tmp_path / "file")
    assert Means.seen == before


def test_a_full_disk_is_said_with_what_to_do(count, photos, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(HitNetError, match=r"No space left on device\. .* Set the variable HITNET_CACHE"):
        count(photos)


def test_what_is_no_shard_is_passed_over_and_numbers_that_are_none_are_computed_again(count, tmp_path, monkeypatch):
    first, computed = count()
    assert computed == 12
    place = next((tmp_path / "cache").rglob("*.safetensors")).parent
    os.mkfifo(place / "pipe.safetensors")
    (place / "folder.safetensors").mkdir()
    assert count()[1] == 0
    assert sorted(path.name for path in place.iterdir() if not path.is_file()) == [
        "folder.safetensors",
        "pipe.safetensors",
    ]
    for path in place.glob("*.safetensors"):
        path.unlink() if path.is_file() else None
    keys = [file_key(tmp_path / f"{i}.png") for i in range(12)]
    with monkeypatch.context() as patch:
        patch.setattr(cache, "in_half", lambda features: features.half())
        FeatureCache(place, 3).add(keys, torch.full((12, 3), torch.nan))  # with a right checksum
    again, computed = count()
    assert computed == 12
    assert torch.equal(again, first)


def test_a_shard_that_another_pass_still_writes_is_left_alone(tmp_path):
    with replacing(tmp_path / "0123456789abcdef.safetensors") as unfinished:
        unfinished.write_bytes(b"half of it")
        assert FeatureCache(tmp_path, 6).shards == []
        assert unfinished.exists()
