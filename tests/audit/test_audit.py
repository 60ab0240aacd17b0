"""The audit from images to table: wrong labels come first, files are whole, interruptions leave no trace."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import hitnet
from hitnet import HitNetError
from hitnet.audit import judge
from hitnet.audit.audit import collect, default_split
from hitnet.data import sample
from hitnet.training import engine
from hitnet.training.evaluation import class_distances
from hitnet.training.progress import Progress
from toy import Stop, toy_images

FLIPPED = [5, 20, 33, 50, 71]
QUICK = {"models": 2, "epochs": 10, "device": "cpu", "recipe_options": {"batch_size": 32, "learning_rate": 5e-3}}
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


def mislabelled(count=96, **options):
    """The toy set with five labels moved on by one class."""
    images = toy_images(count, **options)
    labels = images.labels.clone()
    labels[FLIPPED] = (labels[FLIPPED] + 1) % 3
    return images.with_labels(labels)


def kind(column):
    return "T" if pd.api.types.is_string_dtype(column) else column.dtype.kind


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    return hitnet.audit(mislabelled(), out=tmp_path_factory.mktemp("audit") / "out", **QUICK)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two finished runs, the second without decoder."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, decoder in enumerate(["standardised", "none"]):
        hitnet.train(
            toy_images(48),
            model="hitnet-small",
            epochs=2,
            seed=seed,
            device="cpu",
            out=folder / str(seed),
            model_options={"capsule_dim": 4, "decoder": decoder},
        )
    return [folder / "0", folder / "1"]


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


def test_files(audited):
    folder = audited.folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "audit.csv",
        "audit.parquet",
        "distances.npy",
        "models",
        "report.html",
        "settings.json",
        "summary.json",
    ]
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "audit.parquet"), audited.table)
    written = pd.read_csv(folder / "audit.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(written, audited.table, check_dtype=False)
    assert np.array_equal(np.load(folder / "distances.npy", allow_pickle=False), audited.distances)
    assert json.loads((folder / "summary.json").read_text()) == audited.summary
    page = (folder / "report.html").read_text()
    assert "Label audit: toy" in page
    assert page.rstrip().endswith("</html>")


def test_the_networks_are_kept_and_only_the_first_has_a_decoder(audited):
    kept = [hitnet.load(audited.folder / "models" / f"seed-{seed}") for seed in (0, 1)]
    assert [run.config.model.decoder for run in kept] == ["standardised", "none"]
    assert [(run.config.seed, run.config.recipe.epochs) for run in kept] == [(0, 10), (1, 10)]
    again = judge(collect(kept, mislabelled(), torch.device("cpu")), mislabelled())
    pd.testing.assert_frame_equal(again.table, audited.table)


def test_networks_of_two_kinds_take_turns(tmp_path):
    """Kinds in turn, one decoder in all, the summary names them; an interrupted audit goes on with both."""
    images = mislabelled(shape=(1, 17, 17))
    options = {**QUICK, "model": ["hitnet-small", "hitnet"], "models": 3, "epochs": 2}
    with pytest.raises(Stop):
        hitnet.audit(images, out=tmp_path / "out", progress=Counting(7), **options)
    found = hitnet.audit(images, out=tmp_path / "out", resume=True, **options)
    kept = [hitnet.load(tmp_path / "out" / "models" / f"seed-{seed}").config for seed in range(3)]
    assert [run.model_name for run in kept] == ["hitnet-small", "hitnet", "hitnet-small"]
    assert [run.model.decoder for run in kept] == ["standardised", "none", "none"]
    assert (found.summary["models"], found.summary["model"]) == (3, "hitnet-small, hitnet")
    assert found.summary["networks"] == [
        {"model": run.model_name, "seed": run.seed, "recipe": run.recipe.to_dict()} for run in kept
    ]
    assert found.prototypes is not None
    alone = hitnet.train(
        images,
        model="hitnet",
        seed=1,
        epochs=2,
        device="cpu",
        recipe_options=QUICK["recipe_options"],
        model_options={"decoder": "none"},
    )
    second = hitnet.load(tmp_path / "out" / "models" / "seed-1").model
    expected, got = (class_distances(one, images.pixels) for one in (alone.model, second))
    torch.testing.assert_close(got, expected)
    with pytest.raises(HitNetError, match="model_name"):
        hitnet.audit(images, out=tmp_path / "out", resume=True, **{**options, "model": "hitnet-small"})


def test_prototypes_come_from_the_first_network_with_a_decoder(audited, runs):
    assert (audited.prototypes.shape, audited.prototypes.dtype) == ((3, 1, 12, 12), torch.uint8)
    bands = audited.prototypes.float().view(3, 3, -1).mean(dim=2)
    assert bands.argmax(dim=1).tolist() == [0, 1, 2]
    assert hitnet.audit(toy_images(), runs=runs[1:], device="cpu").prototypes is None
    first, second = (hitnet.audit(toy_images(), runs=order, device="cpu") for order in (runs, runs[::-1]))
    assert torch.equal(first.prototypes, second.prototypes)


class Counting(Progress):
    """Counts what it is told, and stops the work after so many steps."""

    def __init__(self, most=10**9):
        self.most, self.planned, self.steps = most, [], 0

    def plan(self, steps):
        self.planned.append(steps)

    def step(self):
        self.steps += 1
        if self.steps > self.most:
            raise Stop


@pytest.mark.parametrize("stop_after", [4, 40])
def test_resumed_audit_gives_the_same_table(audited, tmp_path, monkeypatch, stop_after):
    """Stopped in the first network or in the second, after a checkpoint."""
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(Stop):
        hitnet.audit(mislabelled(), out=tmp_path / "out", progress=Counting(stop_after), **QUICK)
    assert not (tmp_path / "out" / "audit.csv").exists()
    with pytest.raises(HitNetError, match=r"not empty\. Go on with the audit there"):
        hitnet.audit(mislabelled(), out=tmp_path / "out", **QUICK)
    resumed = hitnet.audit(mislabelled(), out=tmp_path / "out", resume=True, **QUICK)
    pd.testing.assert_frame_equal(resumed.table, audited.table)
    assert np.array_equal(resumed.distances, audited.distances)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / "audit.parquet"), audited.table)


def test_one_progress_over_all_networks():
    told = Counting()
    hitnet.audit(mislabelled(), progress=told, **QUICK)
    assert told.planned == [told.steps] == [2 * 10 * 3]


def test_a_finished_audit_can_be_judged_by_another_score(audited):
    told = Counting()
    other = hitnet.audit(mislabelled(), out=audited.folder, resume=True, score="ghost-distance", progress=told, **QUICK)
    assert told.steps == 0
    order = other.table["ghost_distance"].to_numpy()
    assert (np.diff(order) >= 0).all()
    hitnet.audit(mislabelled(), out=audited.folder, resume=True, **QUICK)
    pd.testing.assert_frame_equal(pd.read_parquet(audited.folder / "audit.parquet"), audited.table)


def test_other_images_in_the_same_folder_are_refused(audited):
    before = (audited.folder / "audit.csv").read_bytes()
    with pytest.raises(HitNetError, match="holds the audit of other images"):
        hitnet.audit(toy_images(60), out=audited.folder, resume=True, **QUICK)
    with pytest.raises(HitNetError, match="images or their labels have changed"):
        hitnet.audit(toy_images(), out=audited.folder, resume=True, **QUICK)
    with pytest.raises(HitNetError, match="is a file"):
        hitnet.audit(toy_images(), out=audited.folder / "audit.csv", **QUICK)
    with pytest.raises(HitNetError, match="lies in one; choose another --out"):
        hitnet.audit(toy_images(), out=audited.folder / "audit.csv" / "below", **QUICK)
    assert (audited.folder / "audit.csv").read_bytes() == before


def test_a_folder_that_holds_no_audit_is_left_alone(tmp_path):
    (tmp_path / "summary.json").write_text("mine")
    with pytest.raises(HitNetError, match="holds no audit to go on with, but other files"):
        hitnet.audit(toy_images(), out=tmp_path, resume=True, **QUICK)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("summary.json", "mine")]


def test_a_folder_that_cannot_be_used_is_said(tmp_path, monkeypatch):
    with pytest.raises(HitNetError, match=r"cannot be used: File name too long\. Choose another --out"):
        hitnet.audit(toy_images(), out=tmp_path / ("x" * 300), **QUICK)

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(HitNetError, match=r"Cannot write .*: No space left on device\. Choose another place"):
        hitnet.audit(toy_images(), out=tmp_path / "out", **QUICK)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"models": 0}, "models must be at least 1; got 0"),
        ({"epochs": 0}, "epochs must be a whole number from 1 on; got 0"),
        ({"model": "n1"}, "n1 has no Hit-or-Miss layer"),
        ({"model": "hitnet-smal"}, "Did you mean 'hitnet-small'"),
        ({"score": "best"}, "score must be one of margin, plain-margin, ghost-distance"),
        ({"split": "half"}, "split must be one of"),
        ({"recipe": "papr"}, "Did you mean 'paper'"),
        ({"limit": 0}, "limit must be at least 1"),
    ],
)
def test_wrong_options_are_refused_before_any_training(tmp_path, options, says):
    told = Counting()
    with pytest.raises(HitNetError, match=says):
        hitnet.audit(mislabelled(), out=tmp_path / "out", **{**QUICK, **options}, progress=told)
    assert told.steps == 0
    # What was refused does not stand in the way of the same command without the mistake.
    assert hitnet.audit(toy_images(6), out=tmp_path / "out", **{**QUICK, "epochs": 1}).folder == tmp_path / "out"


def test_finished_runs_judge_without_training(runs):
    images = mislabelled()
    told = Counting()
    found = hitnet.audit(images, runs=runs, device="cpu", progress=told)
    assert told.steps == 0
    assert found.summary["models"] == 2
    rows = [class_distances(hitnet.load(run).model, images.pixels).double() for run in runs]
    mean = torch.stack(rows).mean(dim=0)[found.table["id"].tolist()]
    np.testing.assert_allclose(found.distances, mean.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"models": 2}, "models"),
        ({"model": "hitnet-small"}, "model"),
        ({"epochs": 3, "recipe": "paper"}, "epochs, recipe"),
        ({"recipe_options": {"ghosts": 1, "ghost_rule": None}}, "ghosts"),
    ],
)
def test_options_of_a_training_do_not_go_with_finished_runs(runs, tmp_path, options, named):
    with pytest.raises(HitNetError, match=f"not trained: {named} cannot be given"):
        hitnet.audit(mislabelled(), runs=runs, device="cpu", out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_runs_that_cannot_judge_are_refused(runs, tmp_path):
    small = toy_images(6, shape=(1, 18, 18))
    hitnet.train(small, model="n1", epochs=1, device="cpu", out=tmp_path / "n1")
    with pytest.raises(HitNetError, match="n1 has no Hit-or-Miss layer"):
        hitnet.audit(small, runs=[tmp_path / "n1"], device="cpu")
    with pytest.raises(HitNetError, match="was trained on"):
        hitnet.audit(toy_images(6, shape=(1, 14, 14)), runs=runs, device="cpu")
    with pytest.raises(HitNetError, match="does not know"):
        hitnet.audit(toy_images(8, classes=4), runs=runs, device="cpu")
    images = toy_images(6)
    turned = replace(images, class_names=images.class_names[::-1])
    hitnet.train(turned, model="hitnet-small", epochs=1, device="cpu", out=tmp_path / "turned")
    with pytest.raises(HitNetError, match="the same classes in the same order"):
        hitnet.audit(images, runs=[runs[0], tmp_path / "turned"], device="cpu")
    shutil.copytree(runs[0], tmp_path / "copy")
    with pytest.raises(HitNetError, match=f"{runs[0]} and {tmp_path / 'copy'} hold the same network"):
        hitnet.audit(mislabelled(), runs=[*runs, tmp_path / "copy"], device="cpu")


def test_classes_are_matched_to_those_of_the_runs_by_name(runs):
    images = mislabelled()
    turned = replace(images, labels=2 - images.labels, class_names=images.class_names[::-1])
    one, two = (hitnet.audit(each, runs=runs, device="cpu") for each in (images, turned))
    pd.testing.assert_frame_equal(one.table, two.table)


def moved(pixels, down, right):
    """Shifted by so many pixels, one image at a time, black where nothing is known."""
    found = torch.zeros_like(pixels)
    height, width = pixels.shape[2:]
    for y in range(max(0, down), min(height, height + down)):
        for x in range(max(0, right), min(width, width + right)):
            found[:, :, y, x] = pixels[:, :, y - down, x - right]
    return found


SHIFTS = [(0, 0), (2, 0), (-2, 0), (0, 2), (0, -2)]


@pytest.mark.parametrize(
    ("channels", "mirror", "shifts"),
    [(1, False, SHIFTS[:1]), (1, True, SHIFTS[:1]), (3, False, SHIFTS), (3, True, SHIFTS)],
)
def test_the_views_by_which_images_are_judged(tmp_path, channels, mirror, shifts):
    images = mislabelled(shape=(channels, 12, 12))
    run = hitnet.train(images, model="hitnet-small", epochs=1, device="cpu", out=tmp_path / "run")
    found = hitnet.audit(images, runs=[tmp_path / "run"], device="cpu", mirror=mirror)
    seen = [moved(images.pixels, *by) for by in shifts]
    seen += [view.flip(-1) for view in seen] if mirror else []
    each = [class_distances(run.model, view).double() for view in seen]
    order = found.table["id"].tolist()
    np.testing.assert_allclose(found.distances, (sum(each) / len(each))[order].numpy(), rtol=1e-5)
    assert len(each) == 1 or not np.allclose(found.distances, each[0][order].numpy(), rtol=1e-5)


def test_what_is_known_of_a_set_says_whether_its_images_are_mirrored(runs):
    images = mislabelled()
    known, said = (
        hitnet.audit(replace(images, flip=flip), runs=runs[:1], device="cpu", mirror=mirror)
        for flip, mirror in ((True, None), (False, True))
    )
    np.testing.assert_array_equal(known.distances, said.distances)


def test_ids_stay_those_of_the_whole_set():
    test = hitnet.audit("mnist-sample", split="test", limit=40, models=1, epochs=1, device="cpu")
    assert sorted(test.table["id"]) == [4 + 5 * i for i in range(40)]
    assert test.summary["split"] == "test"
    images = mislabelled()
    part = hitnet.audit(images, split="test", **{**QUICK, "epochs": 1})
    assert set(part.table["id"]) == set(hitnet.data.load(images, "test").ids.tolist())
    assert 15 < len(part.table) < 25


def test_verified_errors_are_counted_for_the_sample_alone(audited):
    found = hitnet.audit("mnist-sample", limit=1300, models=1, epochs=1, device="cpu")
    wrong = {i for i in sample.label_errors()["id"] if i < 1300}
    assert wrong
    order = found.table["id"].tolist()
    assert found.summary["verified_errors"] == {
        "errors": len(wrong),
        "in_top_100": len(wrong & set(order[:100])),
        "in_top_200": len(wrong & set(order[:200])),
    }
    assert audited.summary["verified_errors"] is None


def test_default_split():
    assert [default_split(source) for source in ("mnist", "mnist-sample", "photos", toy_images(6))] == [
        "train",
        "all",
        "all",
        "all",
    ]
