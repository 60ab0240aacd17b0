"""Who judges the labels: networks that are trained for it, finished runs, and the views that they see."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from audit_samples import QUICK, Counting, judged_table, mislabelled, quick_audit, quick_recipe

import hitnet
from hitnet import HitNetError, Judges, choose_model, choose_recipe, open_data, open_run
from hitnet.audit import networks
from hitnet.audit.networks import collect
from hitnet.models.network import class_distances
from toy import Stop, toy_images

BRIEF = {"recipe": choose_recipe("fast", epochs=1), "device": "cpu"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two finished runs, the second without decoder."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, decoder in enumerate(["standardised", "none"]):
        hitnet.train(
            toy_images(48),
            model=choose_model("hitnet-small", capsule_dim=4, decoder=decoder),
            recipe=choose_recipe("fast", epochs=2),
            seed=seed,
            device="cpu",
            out=folder / str(seed),
        )
    return [folder / "0", folder / "1"]


def audit_by(runs, data, **options):
    return hitnet.audit_labels(data, judges=Judges(runs=runs), device="cpu", **options)


def test_the_networks_are_kept_and_only_the_first_has_a_decoder(audited):
    kept = [open_run(audited.folder / "models" / f"seed-{seed}") for seed in (0, 1)]
    assert [run.config.model.decoder for run in kept] == ["standardised", "none"]
    assert [(run.config.seed, run.config.recipe.epochs) for run in kept] == [(0, 10), (1, 10)]
    again = judged_table(collect(kept, mislabelled(), torch.device("cpu"))[0], mislabelled())
    pd.testing.assert_frame_equal(again, audited.table)


def test_networks_of_two_kinds_take_turns(tmp_path):
    """Kinds in turn, one decoder in all, the summary names them; an interrupted audit is resumed with both."""
    images = toy_images(32, shape=(1, 17, 17))
    judges = Judges(model=["hitnet-small", "hitnet"], networks=3, recipe=quick_recipe(2))
    with pytest.raises(Stop):
        quick_audit(images, out=tmp_path / "out", progress=Counting(3), judges=judges)
    result = quick_audit(images, out=tmp_path / "out", resume=True, judges=judges)
    kept = [open_run(tmp_path / "out" / "models" / f"seed-{seed}").config for seed in range(3)]
    assert [run.model_name for run in kept] == ["hitnet-small", "hitnet", "hitnet-small"]
    assert [run.model.decoder for run in kept] == ["standardised", "none", "none"]
    assert (result.summary.models, result.summary.model) == (3, "hitnet-small, hitnet")
    assert result.summary.networks == [
        {"model": run.model_name, "seed": run.seed, "recipe": run.recipe.to_dict()} for run in kept
    ]
    assert result.prototypes is not None
    model = choose_model("hitnet", decoder="none")
    single = hitnet.train(images, model=model, seed=1, device="cpu", recipe=quick_recipe(2))
    second = open_run(tmp_path / "out" / "models" / "seed-1").model
    expected, actual = (class_distances(network, images.pixels) for network in (single.model, second))
    torch.testing.assert_close(actual, expected)
    with pytest.raises(HitNetError, match="model_name"):
        quick_audit(images, out=tmp_path / "out", resume=True, judges=replace(judges, model="hitnet-small"))


def test_by_default_the_audit_chooses_the_epochs(monkeypatch):
    """With a name of a recipe, with changes that leave the epochs open, and with a whole recipe."""
    monkeypatch.setitem(networks.LEAST_STEPS, "small", 20)
    images, whole = toy_images(6), hitnet.Recipe(epochs=3)
    for recipe, epochs in (("fast", 20), (choose_recipe("fast", batch_size=64), 20), (whole, 3)):
        result = quick_audit(images, judges=Judges("scratch", networks=1, recipe=recipe))
        assert result.summary.networks[0]["recipe"]["epochs"] == epochs


def test_prototypes_come_from_the_first_network_with_a_decoder(audited, runs):
    assert (audited.prototypes.shape, audited.prototypes.dtype) == ((3, 1, 12, 12), torch.uint8)
    bands = audited.prototypes.float().view(3, 3, -1).mean(dim=2)
    assert bands.argmax(dim=1).tolist() == [0, 1, 2]
    assert audit_by(runs[1:], toy_images()).prototypes is None
    first, second = (audit_by(order, toy_images()) for order in (runs, runs[::-1]))
    assert torch.equal(first.prototypes, second.prototypes)


def test_finished_runs_judge_without_training(runs):
    images = mislabelled()
    told = Counting()
    result = audit_by(runs, images, progress=told)
    assert told.planned == [2]  # of results
    assert result.summary.models == 2
    rows = [class_distances(open_run(run).model, images.pixels).double() for run in runs]
    mean = torch.stack(rows).mean(dim=0)[result.table["id"].tolist()]
    np.testing.assert_allclose(result.distances, mean.numpy(), rtol=1e-5)


def test_runs_may_be_given_open(runs):
    by_folder, by_run = (audit_by(given, mislabelled()) for given in (runs, [open_run(run) for run in runs]))
    pd.testing.assert_frame_equal(by_folder.table, by_run.table)


def test_runs_that_cannot_judge_are_refused(runs, tmp_path):
    small = toy_images(6, shape=(1, 18, 18))
    hitnet.train(small, model="n1", out=tmp_path / "n1", **BRIEF)
    with pytest.raises(HitNetError, match="n1 has no Hit-or-Miss layer"):
        audit_by([tmp_path / "n1"], small)
    with pytest.raises(HitNetError, match="was trained on"):
        audit_by(runs, toy_images(6, shape=(1, 14, 14)))
    with pytest.raises(HitNetError, match="does not know"):
        audit_by(runs, toy_images(8, classes=4))
    images = toy_images(6)
    turned = replace(images, class_names=images.class_names[::-1])
    hitnet.train(turned, model="hitnet-small", out=tmp_path / "turned", **BRIEF)
    with pytest.raises(HitNetError, match="runs with the same classes in the same order"):
        audit_by([runs[0], tmp_path / "turned"], images)
    shutil.copytree(runs[0], tmp_path / "copy")
    with pytest.raises(HitNetError, match=f"{runs[0]} and {tmp_path / 'copy'} hold the same network"):
        audit_by([*runs, tmp_path / "copy"], mislabelled())
    with pytest.raises(HitNetError, match="at least one run"):
        audit_by([], mislabelled())


def test_classes_are_matched_to_those_of_the_runs_by_name(runs):
    images = mislabelled()
    turned = replace(images, labels=2 - images.labels, class_names=images.class_names[::-1])
    straight, reversed_ = (audit_by(runs, each) for each in (images, turned))
    pd.testing.assert_frame_equal(straight.table, reversed_.table)


def moved(pixels, down, right):
    """Shifted by N pixels, one image at a time, black where nothing is known."""
    shifted = torch.zeros_like(pixels)
    height, width = pixels.shape[2:]
    for y in range(max(0, down), min(height, height + down)):
        for x in range(max(0, right), min(width, width + right)):
            shifted[:, :, y, x] = pixels[:, :, y - down, x - right]
    return shifted


SHIFTS = [(0, 0), (2, 0), (-2, 0), (0, 2), (0, -2)]


@pytest.mark.parametrize(
    ("channels", "flip", "shifts"),
    [(1, False, SHIFTS[:1]), (1, True, SHIFTS[:1]), (3, False, SHIFTS), (3, True, SHIFTS)],
)
def test_the_views_by_which_images_are_judged(tmp_path, channels, flip, shifts):
    images = mislabelled(shape=(channels, 12, 12))
    run = hitnet.train(images, model="hitnet-small", out=tmp_path / "run", **BRIEF)
    result = audit_by([tmp_path / "run"], open_data(images, flip=flip))
    seen = [moved(images.pixels, *by) for by in shifts]
    seen += [view.flip(-1) for view in seen] if flip else []
    each = [class_distances(run.model, view).double() for view in seen]
    order = result.table["id"].tolist()
    np.testing.assert_allclose(result.distances, (sum(each) / len(each))[order].numpy(), rtol=1e-5)
    assert len(each) == 1 or not np.allclose(result.distances, each[0][order].numpy(), rtol=1e-5)


def test_by_default_the_data_set_says_whether_its_images_are_mirrored(runs):
    images = mislabelled()
    known, said = (
        audit_by(runs[:1], open_data(replace(images, flip=of_the_set), flip=option))
        for of_the_set, option in ((True, None), (False, True))
    )
    np.testing.assert_array_equal(known.distances, said.distances)


def test_new_networks_have_frozen_options():
    assert replace(QUICK, seed=5) == Judges("scratch", networks=2, recipe=quick_recipe(), seed=5)


def test_networks_whose_decoder_sees_more_than_capsules_judge():
    judges = Judges(model=choose_model("hitnet-small", extra_dim=2), networks=2, recipe=quick_recipe(1))
    assert quick_audit(mislabelled(), judges=judges).summary.models == 2
