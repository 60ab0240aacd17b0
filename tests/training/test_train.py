"""Training: it learns, it repeats itself exactly, and it survives being interrupted anywhere."""

import hashlib
import tracemalloc
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from killed import train_until_killed

import hitnet
from hitnet import HitNetError, Recipe, choose_model, choose_recipe, open_data
from hitnet.data import save_npz
from hitnet.runtime import device
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import Ranks
from hitnet.training import RunFolder, engine
from hitnet.training.batches import Feed
from hitnet.training.engine import Trainer
from toy import Interrupting, Stop, toy_images

SMALL = {"model": choose_model("hitnet-small", capsule_dim=4), "device": "cpu"}


def weights(run):
    return {name: value.clone() for name, value in run.model.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_it_learns(toy):
    run = hitnet.train(
        open_data(toy, test=toy), recipe=choose_recipe(epochs=12, batch_size=16, learning_rate=5e-3), **SMALL
    )
    first, last = run.history[0], run.history[-1]
    assert last["loss"] < first["loss"] / 2
    assert last["test_error"] < 0.05
    assert last["epoch"] == len(run.history) == 12
    assert not run.model.training


@pytest.mark.parametrize("model", ["n1", "hitnet"])
def test_every_paper_network_takes_a_step(model):
    images = toy_images(6, shape=(1, 18, 18))
    run = hitnet.train(images, model=model, recipe=choose_recipe(epochs=1, batch_size=5), device="cpu")
    row = run.history[0]
    assert 0 < row["loss"] < 20
    assert ("train_hits" in row) == model.startswith("hitnet")
    assert (row["reconstruction"] > 0) == (model != "n1")


def test_last_batch_of_one(toy):
    run = hitnet.train(toy.first(33), recipe=choose_recipe(epochs=1, batch_size=32), **SMALL)
    assert run.history[0]["loss"] > 0


@pytest.mark.parametrize("model", ["hitnet-small", "hitnet-resnet9"])
def test_last_batch_of_one_image_whose_maps_are_one_pixel(model):
    images = toy_images(5, shape=(1, 8, 8))
    run = hitnet.train(images, model=model, recipe=choose_recipe(epochs=1, batch_size=4), device="cpu")
    assert run.history[0]["loss"] > 0
    assert all(value.isfinite().all() for value in run.model.state_dict().values())


def test_same_seed_same_weights_other_seed_others(toy):
    first, again, other = (hitnet.train(toy, recipe=choose_recipe(epochs=2), seed=seed, **SMALL) for seed in (7, 7, 8))
    assert same(weights(first), weights(again))
    assert not same(weights(first), weights(other))


def test_the_callers_random_state_is_left_alone(toy):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    hitnet.train(toy, recipe=choose_recipe(epochs=1), **SMALL)
    assert torch.equal(torch.rand(3), expected)


def test_run_folder_round_trip(toy, tmp_path):
    run = hitnet.train(open_data(toy, test=toy), recipe=choose_recipe(epochs=2), out=tmp_path / "run", **SMALL)
    names = sorted(p.name for p in (tmp_path / "run").iterdir())
    assert names == ["calibration.json", "config.json", "environment.json", "history.json", "weights.safetensors"]
    again = hitnet.open_run(tmp_path / "run")
    assert again.calibration == run.calibration
    assert 0 < run.calibration.temperature < 5
    error = 100 * run.history[-1]["test_error"]
    assert repr(again) == f"<Run: hitnet-small on toy, 2 epochs, test error {error:.2f} %>"
    assert same(weights(run), weights(again))
    assert again.history == run.history
    assert again.config == run.config
    assert again.class_names == toy.class_names
    assert hitnet.evaluate(again, toy, device="cpu").error == hitnet.evaluate(run, toy, device="cpu").error


GHOSTS = {"ghosts": 1, "ghost_probability": 0.5, "ghosts_from_epoch": 2, "batch_size": 32}
RESUMED = {"recipe": choose_recipe(epochs=4, **GHOSTS), **SMALL}


@pytest.fixture(scope="module")
def whole():
    toy = toy_images()
    return hitnet.train(open_data(toy, test=toy), **RESUMED)


@pytest.mark.parametrize("stop_after", [1, 3, 4, 8])
def test_resumed_run_ends_with_the_same_weights(toy, whole, tmp_path, monkeypatch, stop_after):
    options = RESUMED
    with monkeypatch.context() as often:
        often.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
        with pytest.raises(Stop):
            hitnet.train(open_data(toy, test=toy), out=tmp_path / "cut", progress=Interrupting(stop_after), **options)
    assert not RunFolder(tmp_path / "cut").finished
    assert RunFolder(tmp_path / "cut").position() == divmod(stop_after, 3)
    resumed = hitnet.train(open_data(toy, test=toy), out=tmp_path / "cut", resume=True, **options)
    assert same(weights(whole), weights(resumed))
    timeless = [{k: v for k, v in row.items() if "second" not in k} for row in resumed.history]
    assert timeless == [{k: v for k, v in row.items() if "second" not in k} for row in whole.history]


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_weights(toy, tmp_path):
    """kill -9 in the middle of the second of three epochs, in a process of its own; then resume."""
    save_npz(toy, tmp_path / "toy.npz")
    recipe = {"epochs": 3, "batch_size": 32}
    train_until_killed(tmp_path / "toy.npz", tmp_path / "cut", step=5, recipe=recipe)
    assert RunFolder(tmp_path / "cut").position() == (1, 1)
    options = {"recipe": choose_recipe(**recipe), "model": "hitnet-small", "device": "cpu"}
    whole = hitnet.train(tmp_path / "toy.npz", out=tmp_path / "whole", **options)
    resumed = hitnet.train(tmp_path / "toy.npz", out=tmp_path / "cut", resume=True, **options)
    assert same(weights(whole), weights(resumed))


def test_folder_with_a_run_is_not_overwritten(toy, tmp_path):
    hitnet.train(toy, recipe=choose_recipe(epochs=1), out=tmp_path / "run", **SMALL)
    before = (tmp_path / "run" / "weights.safetensors").read_bytes()
    with pytest.raises(HitNetError, match="already holds a run"):
        hitnet.train(toy, recipe=choose_recipe(epochs=1), out=tmp_path / "run", **SMALL)
    with pytest.raises(HitNetError, match=r"recipe\.epochs was 1, now 2"):
        hitnet.train(toy, recipe=choose_recipe(epochs=2), out=tmp_path / "run", resume=True, **SMALL)
    with pytest.raises(HitNetError, match="labels have changed"):
        hitnet.train(
            toy.with_labels((toy.labels + 1) % 3),
            recipe=choose_recipe(epochs=1),
            out=tmp_path / "run",
            resume=True,
            **SMALL,
        )
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == before
    assert (
        hitnet.train(toy, recipe=choose_recipe(epochs=1), out=tmp_path / "run", resume=True, **SMALL).history[-1][
            "epoch"
        ]
        == 1
    )


def test_damaged_run_folders_are_named(toy, tmp_path):
    hitnet.train(toy, recipe=choose_recipe(epochs=1), out=tmp_path / "run", **SMALL)
    with pytest.raises(HitNetError, match=r"it has no config\.json"):
        hitnet.open_run(tmp_path)
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"\x80\x04garbage")
    with pytest.raises(HitNetError, match=r"safetensors is damaged"):
        hitnet.open_run(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text('{"format": 1, "model_name": ')
    with pytest.raises(HitNetError, match=r"config\.json is not readable"):
        hitnet.open_run(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text('{"format": 99}')
    with pytest.raises(HitNetError, match="not the configuration of a run"):
        hitnet.open_run(tmp_path / "run")


def test_unfinished_run_says_how_to_go_on(toy, tmp_path):
    with pytest.raises(Stop):
        hitnet.train(toy, recipe=choose_recipe(epochs=1), out=tmp_path / "run", progress=Interrupting(0), **SMALL)
    with pytest.raises(HitNetError, match=r"is unfinished\..*`resume`"):
        hitnet.open_run(tmp_path / "run")


def test_divergence_is_said(toy):
    with pytest.raises(HitNetError, match="diverged in epoch"):
        hitnet.train(toy, recipe=choose_recipe(epochs=3, optimizer="sgd", learning_rate=1e30), **SMALL)


def test_ghosts_start_with_their_epoch(toy):
    """Before the first epoch with ghosts, training is the same as without them."""
    plain = hitnet.train(toy, recipe=choose_recipe(epochs=3), **SMALL).history
    ghosts = hitnet.train(toy, recipe=choose_recipe(epochs=3, ghosts=1, ghosts_from_epoch=3), **SMALL).history
    assert [row["loss"] for row in plain[:2]] == [row["loss"] for row in ghosts[:2]]
    assert plain[2]["loss"] > ghosts[2]["loss"]


def test_ghosts_that_leave_nothing_to_miss_are_warned_of(toy, caplog):
    hitnet.train(toy, recipe=choose_recipe(epochs=1, ghosts=1), **SMALL)
    assert "no capsule has to miss" not in caplog.text
    hitnet.train(toy, recipe=choose_recipe(epochs=1, ghosts=2), **SMALL)
    assert "With 3 classes and 2 ghosts, no capsule has to miss" in caplog.text


@pytest.mark.parametrize(
    ("side", "model", "changes", "seeds", "says"),
    [
        (18, "n1", {"ghosts": 1}, [0], "Ghost capsules need the centripetal loss"),
        (18, "hitnet-small", {"label_smoothing": 0.1}, [0], "label_smoothing needs"),
        (18, "n1", {"miss_weight": 1.0}, [0], "miss_weight needs the centripetal loss"),
        (18, "hitnet-small", {"miss_weight": -1.0}, [0], "miss_weight must be finite and not negative"),
        (18, "hitnet-small", {"ghosts": 1, "ghost_probability": 2}, [0], "ghost_probability"),
        (12, "hitnet", {}, [0], "too small for this network"),
        (18, "hitnet-small", {}, [2**64], "A seed must lie between"),
        (18, "hitnet-small", {}, [-(2**63) - 1], "A seed must lie between"),
        (18, "hitnet-small", {}, [2**64 - 1, 2**64], "A seed must lie between"),
    ],
)
def test_options_that_do_not_fit_leave_no_folder(tmp_path, side, model, changes, seeds, says):
    images = toy_images(6, shape=(1, side, side))
    options = {"model": model, "device": "cpu", "out": tmp_path / "run"}
    with pytest.raises(HitNetError, match=says):
        hitnet.train_many(images, recipe=choose_recipe(epochs=1, **changes), seeds=seeds, **options)
    with pytest.raises(HitNetError, match=says):
        hitnet.train(images, recipe=choose_recipe(epochs=1, **changes), seed=seeds[-1], **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", [-1, 2**64 - 1])
def test_seeds_at_the_ends_of_their_range(toy, seed):
    assert hitnet.train(toy, recipe=choose_recipe(epochs=1), seed=seed, **SMALL).config.seed == seed


def test_a_seed_of_numpy(toy, tmp_path):
    run = hitnet.train(toy, recipe=choose_recipe(epochs=1), seed=np.arange(4)[3], out=tmp_path / "run", **SMALL)
    assert run.config.seed == hitnet.open_run(tmp_path / "run").config.seed == 3


def test_no_cuda_is_said(toy):
    if torch.cuda.is_available():
        assert device.pick_device("cuda").type == "cuda"
    else:
        with pytest.raises(HitNetError, match="no CUDA GPU"):
            hitnet.train(toy, device="cuda")
    for name in ("tpu", "meta", "cuda:99"):
        with pytest.raises(HitNetError, match="`device`"):
            hitnet.train(toy, device=name)


def test_devices_by_name_and_as_devices(monkeypatch):
    assert device.pick_device("cpu") == device.pick_device(torch.device("cpu")) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert device.pick_device("auto") == device.pick_device("cuda") == torch.device("cuda")
    assert device.pick_device("cuda:1") == torch.device("cuda:1")
    assert chosen == [torch.device("cuda:1")]
    with pytest.raises(HitNetError, match=r"`device` is cuda:2, .* 2"):
        device.pick_device("cuda:2")


def test_what_apple_s_gpus_do_not_do_is_done_by_the_cpu(monkeypatch, caplog):
    with pytest.raises(HitNetError, match="no Apple GPU"):
        device.pick_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert device.pick_device("mps", mps=True) == torch.device("mps")
    assert device.pick_device(torch.device("mps")) == torch.device("cpu")
    assert caplog.text.count("the CPU does it") == 1


def test_images_are_mirrored_only_where_they_may_be(toy):
    options = {"recipe": choose_recipe(epochs=1, flip=True, batch_size=32), **SMALL}
    known, said, other = (hitnet.train(open_data(toy, flip=flip), **options) for flip in (None, False, True))
    assert [run.config.data["flip"] for run in (known, said, other)] == [False, False, True]
    assert same(weights(known), weights(said))
    assert not same(weights(known), weights(other))


def test_the_fingerprint_is_that_of_the_bytes_and_copies_none(toy):
    masks = (toy.pixels > 100).to(torch.uint8)
    images = replace(toy, masks=masks, pixels=toy.pixels.transpose(2, 3))
    whole = b"".join(t.contiguous().numpy().tobytes() for t in (images.pixels, images.labels, images.masks))
    assert images.fingerprint == hashlib.blake2b(whole, digest_size=8).hexdigest()
    large = toy_images(3, shape=(1, 1000, 1000))
    tracemalloc.start()
    assert len(large.fingerprint) == 16
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_process_draws_by_its_rank(monkeypatch):
    given = []
    monkeypatch.setattr(torch, "manual_seed", given.append)
    trainer = engine.Trainer.__new__(engine.Trainer)
    trainer.model, trainer.step, trainer.begun, trainer.seed = Mock(), Mock(), None, 7
    trainer.recipe = hitnet.Recipe()
    for rank, epoch in ((0, 2), (1, 1)):
        trainer.ranks = Ranks(rank, 2)
        trainer.start_epoch(epoch)
    assert given[0] == 7_000_023
    assert given[0] != given[1]


def test_test_images_are_matched_by_the_names_of_their_classes(toy, tmp_path):
    turned = replace(toy, labels=2 - toy.labels, class_names=toy.class_names[::-1])
    options = {"recipe": choose_recipe(epochs=12, batch_size=16, learning_rate=5e-3), **SMALL}
    save_npz(toy, tmp_path / "toy.npz")
    for images in (toy, open_data(tmp_path / "toy.npz").load("train")):
        run = hitnet.train(open_data(images, test=turned), **options)
        assert run.history[-1]["test_error"] == hitnet.evaluate(run, turned, device="cpu").error < 0.2


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (toy_images(6, shape=(1, 14, 14)), r"to test on, has images of shape \(1, 14, 14\)"),
        (toy_images(6, shape=(3, 12, 12)), r"to test on, has images of shape \(3, 12, 12\)"),
        (toy_images(8, classes=4), "does not know: band 3"),
        (toy_images(6).select([]), "toy holds no images"),
    ],
)
def test_test_images_that_do_not_fit_leave_no_folder(toy, tmp_path, test, says):
    with pytest.raises(HitNetError, match=says):
        hitnet.train(open_data(toy, test=test), out=tmp_path / "run", **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_no_images_to_train_on(toy, tmp_path):
    with pytest.raises(HitNetError, match="toy holds no images"):
        hitnet.train(toy.select([]), out=tmp_path / "run", **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_seeds_of_numpy(toy):
    for seeds in (np.int64(2), np.array([0, 1])):
        assert [
            run.config.seed for run in hitnet.train_many(toy, recipe=choose_recipe(epochs=1), seeds=seeds, **SMALL)
        ] == [0, 1]


def test_a_training_that_is_stopped_and_not_kept_says_so(toy):
    class Impatient(Progress):
        stop = True

    with pytest.raises(HitNetError, match="seed 0 was stopped"):
        hitnet.train(toy, recipe=choose_recipe(epochs=2), progress=Impatient(), **SMALL)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((1, 28, 28), 1000), ((3, 32, 32), 1000), ((3, 64, 64), 341), ((3, 224, 224), 27), ((3, 4000, 4000), 1)],
)
def test_fewer_large_images_are_tested_at_once(shape, expected):
    assert device.evaluation_batch(shape) == expected


def test_large_images_are_tested_in_smaller_batches():
    sizes = [len(labels) for _, labels in Feed(toy_images(30, shape=(1, 512, 512)), torch.device("cpu")).in_order()]
    assert sizes == [16, 14]


def test_an_epoch_of_whole_batches(toy):
    """45 images: two batches of 16, other images in each epoch, and figures of those that were trained on."""
    images = toy.first(45)
    recipe = Recipe(epochs=3, batch_size=16, whole_batches=True)
    run = hitnet.train(images, model="hitnet-small", recipe=recipe, device="cpu")
    assert [row["train_error"] * 32 for row in run.history] == pytest.approx(
        [round(row["train_error"] * 32) for row in run.history]
    )
    assert run.model.head.norm.num_batches_tracked == 6
    trainer = Trainer(run.model, Feed(images, torch.device("cpu")), None, recipe, seed=0, device=torch.device("cpu"))
    epochs = [[labels for _, labels, _ in trainer.batches(epoch, 0)] for epoch in (1, 2)]
    assert [[len(labels) for labels in batches] for batches in epochs] == [[16, 16], [16, 16]]
    assert not torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1]))
