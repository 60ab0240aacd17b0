"""Training on images that another run's network modifies: what is seen, what is stored, and what is refused."""

import dataclasses
import json
import math
import shutil

import pytest
import torch

import hitnet
from hitnet import HitNetError, Recipe, choose_model, choose_recipe, open_data
from hitnet.models.network import weights_fingerprint
from hitnet.synthesis import decode
from hitnet.training import RunFolder, batches, engine, scheduler
from hitnet.training.augmentation import augment, draw
from hitnet.training.batches import Feed, HybridAugmentation, add, epoch_seed
from hitnet.training.configuration import modifying_network
from hitnet.training.engine import Trainer
from toy import Interrupting, Stop, toy_images

SMALL = {"model": choose_model("hitnet-small", capsule_dim=4), "device": "cpu"}
STRONG = {"batch_size": 16, "augment_strength": 3.0, "augment_share": 0.75}
CPU = torch.device("cpu")
FOUR_BATCHES = 4 * 16 * 144  # pixels


def teacher(source, toy):
    return modifying_network(source, class_names=toy.class_names, in_shape=toy.shape, device=CPU)


def make_trainer(source, toy, *, share, strength=3.0, **options):
    recipe = Recipe(batch_size=16, precision="float32", **options)
    feed = Feed(toy, CPU, masks=True)
    modify = HybridAugmentation(teacher(source, toy), feed, strength=strength, share=share)
    network = hitnet.models.build("hitnet-small", toy.shape, toy.num_classes, capsule_dim=4)
    return Trainer(network, feed, None, recipe, seed=3, device=CPU, modify=modify)


def same_weights(a, b):
    theirs = b.model.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in a.model.state_dict().items())


def timeless(history):
    return [{key: value for key, value in row.items() if "second" not in key} for row in history]


def drawn(trainer, epoch):
    """The order, draws and noise of an epoch, as the trainer is to draw them."""
    generator = torch.Generator().manual_seed(epoch_seed(3, epoch))
    order = torch.randperm(96, generator=generator)
    draws = draw(trainer.step.recipe, 96, (12, 12), generator)
    return order, draws, 3.0 * 0.1 / math.sqrt(4) * torch.randn(96, 4, generator=generator)


def modified_alone(network, pixels, label, noise):
    """X_mod + X − X_rec of one image (C, H, W), from 0 to 255, not rounded."""
    image = pixels[None].float() / 255
    with torch.no_grad():
        output = network.eval()(image)
        capsule = output.capsules[0, label][None]
        before, after = (decode(network, point, label[None], output.extra) for point in (capsule, capsule + noise))
    return (after[0] + image[0] - before[0]).double().clip(0, 1).mul(255)


def test_images_are_modified_first_and_then_shifted(source, toy):
    trainer = make_trainer(source, toy, share=0.5, flip=True, cutout=3)
    batches = list(trainer.batches(2, 0))
    order, draws, noise = drawn(trainer, 2)
    assert torch.equal(torch.cat([batch[1] for batch in batches]), toy.labels[order])
    assert torch.equal(torch.cat([batch[2] for batch in batches]), draws)
    changed = 0
    for place, i in enumerate(order.tolist()):
        batch = batches[place // 16]
        pixels, shown = batch[0][place % 16], trainer.step.augmented(batch)[0][place % 16]
        assert pixels.dtype == torch.uint8
        if place % 16 < 8:
            expected = modified_alone(source.model, toy.pixels[i], toy.labels[i], noise[place])
            # Rounded to whole numbers. CPUs differ in the last bits: a sum near the middle of two may become either.
            assert (pixels.double() - expected).abs().max() <= 0.5 + 0.02
            changed += int((pixels != toy.pixels[i]).sum())
        else:
            assert torch.equal(pixels, toy.pixels[i])
        assert torch.equal(shown, augment(trainer.step.recipe, pixels[None], draws[place][None])[0].float() / 255)
    assert changed > 48 * 144 / 2


def test_the_images_are_left_as_they_are(source, toy):
    before = toy.pixels.clone()
    trainer = make_trainer(source, toy, share=1.0)
    (first, _, _), *_ = trainer.batches(1, 0)
    assert torch.equal(toy.pixels, before)
    assert torch.equal(next(trainer.batches(1, 0))[0], first)
    assert not torch.equal(next(trainer.batches(2, 0))[0], first)


@pytest.mark.parametrize("first", [1, 3, 4, 5])
def test_an_epoch_is_taken_up_anywhere(source, toy, monkeypatch, first):
    monkeypatch.setattr(batches, "TOGETHER", FOUR_BATCHES)
    trainer = make_trainer(source, toy, share=0.75)
    sizes = []
    made = HybridAugmentation.differences
    monkeypatch.setattr(
        HybridAugmentation,
        "differences",
        lambda self, index, noise: (sizes.append(len(index)), made(self, index, noise))[1],
    )
    whole = list(trainer.batches(1, 0))
    assert sizes == [48, 24]
    rest = list(trainer.batches(1, first))
    assert sizes[2:] == ([48, 24] if first < 4 else [24])  # always the same images together
    assert len(rest) == 6 - first
    for batch, again in zip(whole[first:], rest, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(batch, again, strict=True))


def test_no_step_draws_for_it(source, toy):
    assert not make_trainer(source, toy, share=1.0).step.draws
    assert make_trainer(source, toy, share=1.0, ghosts=1, ghost_probability=0.5).step.draws


def test_images_are_encoded_once(source, toy, monkeypatch, tmp_path):
    tables = []
    made = HybridAugmentation.__init__
    monkeypatch.setattr(
        HybridAugmentation,
        "__init__",
        lambda self, network, feed, **options: (tables.append(len(feed)), made(self, network, feed, **options))[1],
    )
    recipe = choose_recipe(augment="hybrid", epochs=2)
    options = {"augment_from": source, "recipe": recipe, "seeds": 2, "out": tmp_path / "runs", **SMALL}
    hitnet.train_many(open_data(toy, limit=50), **options)
    assert tables == [50]
    hitnet.train_many(open_data(toy, limit=50), resume=True, **options)  # there is nothing left to train
    assert tables == [50]


@pytest.mark.parametrize("at_once", [2, 3])
def test_side_by_side_as_alone(source, toy, monkeypatch, at_once):
    options = {"augment_from": source, "recipe": choose_recipe(augment="hybrid", epochs=2, **STRONG), **SMALL}
    alone = [hitnet.train(toy, seed=seed, **options) for seed in range(3)]
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", at_once)
    many = hitnet.train_many(toy, seeds=3, **options)
    assert all(same_weights(a, b) for a, b in zip(alone, many, strict=True))
    assert not same_weights(many[0], many[1])


def test_the_network_of_the_run_is_frozen(source, toy):
    before = weights_fingerprint(source.model)
    network = teacher(source, toy)
    assert network is not source.model
    assert not network.training
    assert not any(p.requires_grad for p in network.parameters())
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in network.parameters() if p.ndim == 4)
    assert weights_fingerprint(network) == before
    run = hitnet.train(toy, recipe=choose_recipe(augment="hybrid", epochs=1), augment_from=source, **SMALL)
    assert weights_fingerprint(source.model) == before != weights_fingerprint(run.model)


def test_a_network_that_is_trained_on_lets_its_frozen_copy_be(source, toy):
    run = dataclasses.replace(source, model=hitnet.open_run(source.folder).model.train())
    network = teacher(run, toy)
    assert not network.training
    assert not any(p.requires_grad for p in network.parameters())
    assert all(p.requires_grad for p in run.model.parameters())
    before = network.head.linear.weight.clone()
    with torch.no_grad():
        run.model.head.linear.weight.zero_()
    assert torch.equal(network.head.linear.weight, before)


@pytest.mark.parametrize("options", [{}, {"decoder": "conv", "extra_dim": 2}])
def test_nothing_waits_for_the_device(toy, options):
    # Tensors on "meta" have no values: whoever asks for one, as waiting for a GPU would, gets an error.
    with torch.device("meta"):
        network = hitnet.models.build("hitnet-small", (1, 12, 12), 3, **options).eval()
        augmentation = HybridAugmentation(network, Feed(toy, torch.device("meta")), strength=1.0, share=1.0)
        added = augmentation.differences(torch.zeros(8, dtype=torch.long), torch.zeros(8, 16))
        pixels = torch.zeros(8, 2, 12, 12, dtype=torch.uint8)
        add(pixels, added)
    assert added.shape == (8, 1, 12, 12)
    assert pixels.is_meta
    with pytest.raises((RuntimeError, NotImplementedError)):
        added.sum().item()


def test_it_learns_and_keeps_where_it_came_from(source, toy, tmp_path):
    recipe = choose_recipe(augment="hybrid", epochs=10, learning_rate=5e-3, **STRONG)
    options = {"augment_from": source.folder, "recipe": recipe, "out": tmp_path / "run", **SMALL}
    run = hitnet.train(open_data(toy, test=toy), **options)
    assert run.history[-1]["test_error"] < 5
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["augment_from"] == {"run": str(source.folder), "weights": weights_fingerprint(source.model)}
    kept = config["recipe"]
    assert (kept["augment"], kept["augment_strength"], kept["augment_share"]) == ("hybrid", 3.0, 0.75)
    assert hitnet.open_run(tmp_path / "run").config == run.config


def test_strength_and_share_change_the_training(source, toy):
    def losses(**options):
        run = hitnet.train(
            toy, recipe=choose_recipe(augment="hybrid", epochs=2, **options), augment_from=source, **SMALL
        )
        return [row["loss"] for row in run.history]

    plain = [row["loss"] for row in hitnet.train(toy, recipe=choose_recipe(epochs=2), **SMALL).history]
    assert losses() == losses()
    histories = [plain, losses(), losses(augment_strength=3.0), losses(augment_share=1.0)]
    assert len(set(map(tuple, histories))) == 4


@pytest.mark.parametrize("precision", ["mixed", "float32"])
def test_without_noise_it_is_training_on_the_images_themselves(source, toy, precision):
    plain = hitnet.train(toy, recipe=choose_recipe(epochs=2, precision=precision), **SMALL)
    still = {"precision": precision, "augment_strength": 0.0, "augment_share": 1.0}
    recipe = choose_recipe(augment="hybrid", epochs=2, **still)
    hybrid = hitnet.train(toy, recipe=recipe, augment_from=source, **SMALL)
    assert same_weights(plain, hybrid)
    assert timeless(plain.history) == timeless(hybrid.history)


def test_resumed_run_ends_with_the_same_weights(source, toy, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "TOGETHER", FOUR_BATCHES)
    recipe = choose_recipe(augment="hybrid", epochs=4, **STRONG)
    options = {"augment_from": source.folder, "recipe": recipe, **SMALL}
    whole = hitnet.train(open_data(toy, test=toy), **options)
    for stop_after in (8, 15):
        cut = tmp_path / str(stop_after)
        with monkeypatch.context() as often:
            often.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
            with pytest.raises(Stop):
                hitnet.train(open_data(toy, test=toy), out=cut, progress=Interrupting(stop_after), **options)
        assert RunFolder(cut).saved() is not None
        resumed = hitnet.train(open_data(toy, test=toy), out=cut, resume=True, **options)
        assert same_weights(whole, resumed)
        assert timeless(whole.history) == timeless(resumed.history)


def test_another_network_or_none_is_refused_on_resume(source, toy, tmp_path):
    other = hitnet.train(toy, recipe=choose_recipe(epochs=1), out=tmp_path / "other", **SMALL)
    out = {"out": tmp_path / "run", **SMALL}
    hybrid, more = (choose_recipe(augment="hybrid", epochs=1, augment_share=share) for share in (None, 1.0))
    hitnet.train(toy, recipe=hybrid, augment_from=source.folder, **out)
    with pytest.raises(HitNetError, match=r"augment_from\.weights was"):
        hitnet.train(toy, recipe=hybrid, augment_from=other.folder, resume=True, **out)
    with pytest.raises(HitNetError, match="'hybrid', now 'none'"):
        hitnet.train(toy, recipe=choose_recipe(epochs=1), resume=True, **out)
    with pytest.raises(HitNetError, match=r"recipe\.augment_share"):
        hitnet.train(toy, recipe=more, augment_from=source, resume=True, **out)
    again = hitnet.train(toy, recipe=hybrid, augment_from=source, resume=True, **out)
    assert again.history[-1]["epoch"] == 1


def test_the_run_to_augment_from_may_be_spelt_otherwise_on_resume(source, toy, tmp_path, monkeypatch):
    monkeypatch.chdir(source.folder.parent)
    out = {"recipe": choose_recipe(augment="hybrid", epochs=1), "out": tmp_path / "run", **SMALL}
    run = hitnet.train(toy, augment_from=source.folder.name, **out)
    assert run.config.augment_from["run"] == str(source.folder)
    shutil.copytree(source.folder, tmp_path / "copy")
    for other in (source.folder, f"../{source.folder.parent.name}/{source.folder.name}", tmp_path / "copy"):
        assert hitnet.train(toy, augment_from=other, resume=True, **out).history == run.history


def test_the_callers_random_state_is_left_alone(source, toy):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    hitnet.train(toy, recipe=choose_recipe(augment="hybrid", epochs=1), augment_from=source, **SMALL)
    assert torch.equal(torch.rand(3), expected)


def test_a_run_that_was_never_written_will_do(source, toy, tmp_path):
    unwritten = dataclasses.replace(source, folder=None)
    run = hitnet.train(
        toy, recipe=choose_recipe(augment="hybrid", epochs=1), augment_from=unwritten, out=tmp_path / "run", **SMALL
    )
    assert run.config.augment_from == {"run": None, "weights": weights_fingerprint(source.model)}


@pytest.mark.parametrize(
    ("options", "run", "says"),
    [
        ({"augment": "hybrid"}, None, "set `augment_from` to a run"),
        ({}, "SOURCE", "set `augment` = hybrid"),
        ({"augment": "hybird"}, "SOURCE", "augment must be one of none, hybrid; got 'hybird'"),
        ({"augment": "hybrid"}, "nowhere", "not a run folder"),
        ({"augment_share": 0.0}, None, "augment_share must be above 0"),
        ({"augment_strength": -1.0}, None, "augment_strength must be finite and not negative"),
        ({"augment_strength": math.nan}, None, "augment_strength must be finite and not negative"),
    ],
)
def test_mistakes(source, toy, tmp_path, options, run, says):
    run = source.folder if run == "SOURCE" else run
    with pytest.raises(HitNetError, match=says):
        hitnet.train(toy, recipe=choose_recipe(epochs=1, **options), augment_from=run, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()


def test_runs_that_cannot_modify_these_images(source, toy):
    options = {"recipe": choose_recipe(augment="hybrid", epochs=1), **SMALL}
    renamed = dataclasses.replace(toy, class_names=("a", "b", "c"))
    with pytest.raises(HitNetError, match="Give a run on the same data"):
        hitnet.train(renamed, augment_from=source, **options)
    with pytest.raises(HitNetError, match="Give a run on the same data"):
        hitnet.train(toy_images(shape=(1, 14, 14)), augment_from=source, **options)
    blind = hitnet.train(
        toy, recipe=choose_recipe(epochs=1), **SMALL | {"model": choose_model("hitnet-small", decoder="none")}
    )
    with pytest.raises(HitNetError, match="no decoder"):
        hitnet.train(toy, augment_from=blind, **options)


@pytest.mark.gpu
def test_the_step_is_captured(source, toy, caplog):
    recipe = choose_recipe(augment="hybrid", epochs=10, learning_rate=5e-3, **STRONG)
    options = {"recipe": recipe, "augment_from": source.folder, **SMALL, "device": "cuda"}
    run = hitnet.train(open_data(toy, test=toy), **options)
    assert not [record for record in caplog.records if "could not be captured" in record.message]
    assert run.history[-1]["test_error"] < 5
