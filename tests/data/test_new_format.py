"""A new format is one class and one entry in FORMATS; then every verb takes it, by its path or opened."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import hitnet
from hitnet import Images, Judges, choose_recipe, open_data
from hitnet.data import FORMATS, Data, Report, save_npz
from hitnet.data.formats.arrays import part, resized
from hitnet.data.split import check_split
from hitnet.runtime.files import expand, new_folder, write_json
from toy import toy_images, write_mnist

FAST = choose_recipe("fast", epochs=1)
OPTIONS = {"model": "hitnet-small", "recipe": FAST, "device": "cpu"}
SUFFIX = ".pixels.json"


class JsonData(Data):
    """A list of {"pixels": rows of grey values, "label": name} in a file that ends in .pixels.json."""

    @classmethod
    def accepts(cls, source):
        return isinstance(source, str | Path) and expand(source).name.endswith(SUFFIX)

    @property
    def name(self):
        return expand(self.source).name.removesuffix(SUFFIX)

    def report(self, split="train"):
        check_split(split)
        rows = json.loads(expand(self.source).read_text())
        names = sorted({row["label"] for row in rows})
        images = Images.from_arrays(
            np.array([row["pixels"] for row in rows], np.uint8),
            [names.index(row["label"]) for row in rows],
            class_names=names,
            name=self.name,
        )
        images = part(images, None, split, self.options.limit)
        return Report(self._with_flip(resized(images, self.options.image_size)))

    def write_corrected(self, relabelling, out):
        with new_folder(out) as folder:
            write_rows(folder / f"corrected{SUFFIX}", relabelling.corrected())
        return out / f"corrected{SUFFIX}", "written as JSON"


def write_rows(path, images):
    labels = [images.class_names[k] for k in images.labels.tolist()]
    pixels = images.pixels[:, 0].tolist()
    write_json(path, [{"pixels": rows, "label": label} for rows, label in zip(pixels, labels, strict=True)])


@pytest.fixture
def bands(tmp_path, monkeypatch):
    """A file of the new format, which is registered as a user would: by appending to FORMATS."""
    monkeypatch.setattr("hitnet.data.sources.FORMATS", [*FORMATS])
    hitnet.data.sources.FORMATS.append(JsonData)
    write_rows(tmp_path / f"bands{SUFFIX}", toy_images(60))
    return tmp_path / f"bands{SUFFIX}"


def corrections(path, audit):
    """Relabel the first image of the audit's table and drop the second; gives their ids and the new label."""
    first, second = (audit.table.iloc[i] for i in range(2))
    label = next(name for name in audit.class_names if name != first["given"])
    lines = [f"{first['id']},,{first['given']},relabel,{label}", f"{second['id']},,{second['given']},drop,"]
    path.write_text("id,path,given,decision,label\n" + "\n".join(lines) + "\n")
    return first["id"], second["id"], label


def test_it_is_opened_as_any_other(bands):
    data = open_data(bands, image_size=10, limit=20, flip=True)
    assert isinstance(data, JsonData)
    train = data.load("train")
    assert (len(train), train.shape, train.flip, train.name) == (20, (1, 10, 10), True, "bands")
    whole = open_data(str(bands)).load("all")
    assert torch.equal(whole.pixels, toy_images(60).pixels)
    assert len(open_data(bands).load("train")) + len(open_data(bands).load("test")) == 60
    assert data.check().sound


@pytest.mark.parametrize("opened", [False, True])
def test_it_is_trained_on_and_evaluated(bands, tmp_path, opened):
    run = hitnet.train(open_data(bands) if opened else bands, out=tmp_path / "run", **OPTIONS)
    assert (run.config.data["source"], run.config.data["images"]) == (str(bands), 48)
    assert run.history[0]["test_error"] >= 0
    evaluation = hitnet.evaluate(run, open_data(bands) if opened else bands, split="all", device="cpu")
    assert (evaluation.data, evaluation.images) == ("bands", 60)
    # The folder of the run is enough: it names the data.
    assert hitnet.evaluate(tmp_path / "run", device="cpu").images == 12


@pytest.mark.parametrize("opened", [False, True])
def test_it_is_audited_and_corrected(bands, tmp_path, opened):
    data = open_data(bands) if opened else str(bands)
    judges = Judges(model="hitnet-small", networks=1, recipe=FAST)
    audit = hitnet.audit_labels(data, judges=judges, out=tmp_path / "audit", device="cpu")
    assert len(audit.table) == 60
    relabelled, dropped, label = corrections(tmp_path / "decided.csv", audit)
    applied = audit.apply(tmp_path / "decided.csv", out=tmp_path / "corrected")
    assert (applied.relabelled, applied.dropped, applied.untouched) == (1, 1, 58)
    assert (applied.data, applied.note) == (tmp_path / "corrected" / f"corrected{SUFFIX}", "written as JSON")
    before, after = open_data(bands).load("all"), open_data(applied.data).load("all")
    stay = [i for i in range(60) if i != dropped]
    assert torch.equal(after.pixels, before.pixels[stay])
    expected = [label if i == relabelled else before.class_names[before.labels[i]] for i in stay]
    assert [after.class_names[k] for k in after.labels.tolist()] == expected
    # Also from the folder of the audit, by another process, where the data has moved.
    moved = bands.rename(tmp_path / f"moved{SUFFIX}")
    again = hitnet.open_audit(tmp_path / "audit")
    there = again.apply(tmp_path / "decided.csv", out=tmp_path / "again", data=open_data(moved) if opened else moved)
    assert there.data.read_bytes() == applied.data.read_bytes()


@pytest.mark.parametrize("kind", ["name", "path", "new format", "images", "opened"])
def test_every_verb_takes_a_name_a_path_images_or_opened_data(bands, tmp_path, monkeypatch, kind):
    images = toy_images(60)
    monkeypatch.setenv("HITNET_DATA", str(tmp_path / "sets"))
    (tmp_path / "sets").mkdir()
    write_mnist(tmp_path / "sets" / "mnist", images)
    save_npz(images, tmp_path / "toy.npz")
    data = {
        "name": "mnist",
        "path": str(tmp_path / "toy.npz"),
        "new format": bands,
        "images": images,
        "opened": open_data(tmp_path / "toy.npz"),
    }[kind]
    run = hitnet.train(data, **OPTIONS)
    same, other = hitnet.train_many(data, seeds=2, **OPTIONS)
    assert same.config == run.config
    assert hitnet.evaluate(run, data, split="all", device="cpu").images >= 60
    assert len(hitnet.capsule_distributions(run, data, device="cpu").labels) >= 48
    generated = list(hitnet.generate(run, list(run.class_names[:2]), count=3, data=data, device="cpu"))
    assert sum(len(batch.images) for batch in generated) == 2 * 3
    hitnet.synthesis.write_images(hitnet.augment(run, data, device="cpu"), tmp_path / "augmented.npz")
    assert len(open_data(tmp_path / "augmented.npz").load("train")) >= 96
    audit = hitnet.audit_labels(data, judges=Judges(model="hitnet-small", networks=1, recipe=FAST), device="cpu")
    assert len(audit.table) >= 60
    ghosts, seen = hitnet.analyse_ghosts([run, other], data, device="cpu")
    assert len(ghosts.table) == len(seen) >= 60
    corrections(tmp_path / "decided.csv", audit)
    applied = audit.apply(tmp_path / "decided.csv", out=tmp_path / "corrected", data=data)
    assert len(open_data(applied.data).load("all")) == len(audit.table) - 1
    assert hitnet.check_data(data).sound
