"""The features of a data set: of files, of images in memory, and by several processes."""

import textwrap

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import hitnet
from hitnet.features.extraction import extract
from hitnet.features.one_pass import cached_features
from hitnet.models.backbones import open_backbone
from torchrun import torchrun, two_processes
from toy import TinyBackbone, colour_images, write_images


@pytest.fixture(scope="module")
def backbone():
    torch.manual_seed(0)
    return open_backbone(TinyBackbone(), input_size=16)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Twelve images in folders, and a cache of its own."""
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    write_images(tmp_path / "photos", colour_images(12))
    return tmp_path / "photos"


def test_features_of_files_are_written_in_order_and_kept(folder, backbone, monkeypatch, tmp_path):
    features = hitnet.extract_features(folder, out=tmp_path / "f.npy", backbone=backbone, device="cpu")
    assert np.array_equal(np.load(tmp_path / "f.npy"), features.numpy())
    data = hitnet.open_data(folder)
    files = data.image_files(data.load("all"))
    monkeypatch.setattr("hitnet.features.one_pass.Extractor", None)  # nothing is left to compute
    assert torch.equal(cached_features(files, backbone), features)


def test_no_pixels_of_files_are_kept_in_memory(folder, backbone, monkeypatch, tmp_path):
    monkeypatch.setattr("hitnet.data.formats.image_files.read_images", None)
    assert hitnet.extract_features(folder, out=tmp_path / "f.npy", backbone=backbone, device="cpu").shape == (12, 8)


def test_features_of_images_in_memory(backbone, tmp_path):
    images = colour_images(12)
    features = hitnet.extract_features(images, out=tmp_path / "f.npy", backbone=backbone, device="cpu")
    assert torch.equal(features, extract(images.pixels, backbone))
    assert np.array_equal(np.load(tmp_path / "f.npy"), features.numpy())


@pytest.mark.usefixtures("quick_heads")
def test_an_audit_takes_the_file(folder, backbone, tmp_path):
    hitnet.extract_features(folder, out=tmp_path / "f.npy", backbone=backbone, device="cpu")
    own = hitnet.audit_labels(folder, judges=hitnet.Judges(features=tmp_path / "f.npy", repeats=1), device="cpu")
    same = hitnet.audit_labels(folder, judges=hitnet.Judges(backbone=backbone, repeats=1), device="cpu")
    assert own.table["score"].tolist() == same.table["score"].tolist()


def test_other_files_are_refused(folder, backbone, tmp_path):
    with pytest.raises(hitnet.HitNetError, match=r"`out` must be an .npy file; got .*f.csv"):
        hitnet.extract_features(folder, out=tmp_path / "f.csv", backbone=backbone)


def test_two_processes_share_the_files(folder, tmp_path):
    ended = torchrun("-m", "hitnet", "extract", folder, "--out", tmp_path / "f.npy", "--device", "cpu")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[0] == "12 images, 3,568 features each"
    shards = list((tmp_path / "cache").rglob("*.safetensors"))
    assert len(shards) == 2
    alone = hitnet.extract_features(folder, out=tmp_path / "alone.npy", device="cpu")
    assert np.array_equal(np.load(tmp_path / "f.npy"), alone.numpy())


AUDIT = """
    import os, signal, sys
    from hitnet.cli import main
    from hitnet.features import one_pass
    from hitnet.features.heads import HeadOptions
    from hitnet.runtime import ranks

    def add(cache, *shard):
        keep(cache, *shard)
        if sys.argv[-1] != "--resume" and ranks.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    HeadOptions.steps_for = lambda *_: 20
    one_pass.PER_SHARD, keep, one_pass.FeatureCache.add = 2, one_pass.FeatureCache.add, add
    main()
"""


@pytest.mark.slow(seconds=180)
@pytest.mark.usefixtures("quick_heads")
def test_two_processes_of_which_one_is_killed_audit_as_one_does(folder, tmp_path):
    script, out = tmp_path / "audit.py", tmp_path / "two"
    script.write_text(textwrap.dedent(AUDIT))
    command = (script, "audit", folder, "--out", out, "--device", "cpu")
    killed = two_processes(*command)
    assert killed.returncode != 0
    assert " ".join(killed.stderr.split()).count("Another process of this job was lost.") == 1, killed.stderr
    assert "--resume" in killed.stderr
    ended = two_processes(*command, "--resume")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("Labels are judged by") == 1
    assert ended.stdout.count("review page:") == 1
    assert sum(len(load_file(path)["keys"]) for path in (tmp_path / "cache").rglob("*.safetensors")) == 12  # each once
    one = hitnet.audit_labels(folder, device="cpu", progress=False)
    assert hitnet.open_audit(out).table.equals(one.table)


def test_several_processes_need_a_folder(folder, monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1"}.items():  # as torchrun does
        monkeypatch.setenv(name, value)
    with pytest.raises(hitnet.HitNetError, match="`out`"):
        hitnet.audit_labels(folder, device="cpu")
