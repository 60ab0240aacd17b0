"""Training on images that another run's network modifies: what is seen, what is stored, and what is refused."""

import dataclasses
import json
import math
import shutil

import pytest
import torch

import hitnet
from hitnet import HitNetError, Recipe
from hitnet.data.augment import Augmentation
from hitnet.synthesis import HybridAugmentation, hybrid
from hitnet.training import RunFolder, engine
from hitnet.training.step import Step
from hitnet.training.train import hybrid_augmentation, weights_fingerprint
from toy import Interrupting, Stop, toy_images

SMALL = {"model": "hitnet-small", "device": "cpu", "model_options": {"capsule_dim": 4}}
STRONG = {"batch_size": 16, "augment_strength": 3.0, "augment_share": 0.75}
CPU = torch.device("cpu")


def same_weights(a, b):
    theirs = b.model.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in a.model.state_dict().items())


def timeless(history):
    return [{key: value for key, value in row.items() if "second" not in key} for row in history]


def test_images_are_shifted_first_and_then_modified(source, toy):
    network = hitnet.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4)
    shifts = Augmentation(2)
    modify = HybridAugmentation(source.model, strength=3.0, share=0.5)
    step = Step(network, Recipe(), shifts, CPU, modify=modify)
    batch = toy.pixels[:8], toy.labels[:8], shifts.draw(8, (12, 12), torch.Generator().manual_seed(1))
    torch.manual_seed(5)
    images, target = step.augmented(batch)
    moved = shifts.apply(batch[0], batch[2]).float() / 255
    torch.manual_seed(5)
    noise = 3.0 * 0.1 / math.sqrt(4) * torch.randn(4, 4)
    expected = hybrid(source.model, moved[:4], batch[1][:4], noise).result
    assert torch.allclose(images[:4], expected, atol=1e-6)
    assert not torch.allclose(images[:4], moved[:4], atol=1e-2)
    assert torch.equal(images[4:], moved[4:])
    assert target is images  # the decoder rebuilds what the network sees
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_the_network_of_the_run_is_frozen(source, toy):
    before = weights_fingerprint(source.model)
    modify, origin = hybrid_augmentation(Recipe(augment="hybrid"), source, toy, CPU)
    network = modify.network
    assert not network.training
    assert not any(p.requires_grad for p in network.parameters())
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in network.parameters() if p.ndim == 4)
    assert origin["weights"] == before
    run = hitnet.train(toy, augment="hybrid", augment_from=source, epochs=1, **SMALL)
    assert weights_fingerprint(source.model) == before != weights_fingerprint(run.model)


def test_it_learns_and_keeps_where_it_came_from(source, toy, tmp_path):
    options = {"recipe_options": {**STRONG, "learning_rate": 5e-3}, **SMALL}
    run = hitnet.train(
        toy, test=toy, augment="hybrid", augment_from=source.folder, epochs=10, out=tmp_path / "run", **options
    )
    assert run.history[-1]["test_error"] < 5
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["augment_from"] == {"run": str(source.folder), "weights": weights_fingerprint(source.model)}
    recipe = config["recipe"]
    assert (recipe["augment"], recipe["augment_strength"], recipe["augment_share"]) == ("hybrid", 3.0, 0.75)
    assert hitnet.load(tmp_path / "run").config == run.config


def test_strength_and_share_change_the_training(source, toy):
    def losses(**options):
        run = hitnet.train(toy, augment="hybrid", augment_from=source, epochs=2, recipe_options=options, **SMALL)
        return [row["loss"] for row in run.history]

    plain = [row["loss"] for row in hitnet.train(toy, epochs=2, **SMALL).history]
    assert losses() == losses()
    assert losses(augment_strength=0.0) == pytest.approx(plain, rel=1e-3)
    found = [plain, losses(), losses(augment_strength=3.0), losses(augment_share=1.0)]
    assert len(set(map(tuple, found))) == 4


@pytest.mark.parametrize("stop_after", [8, 15])
def test_resumed_run_ends_with_the_same_weights(source, toy, tmp_path, monkeypatch, stop_after):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    options = {"augment": "hybrid", "augment_from": source.folder, "epochs": 4, "recipe_options": STRONG, **SMALL}
    whole = hitnet.train(toy, test=toy, **options)
    with pytest.raises(Stop):
        hitnet.train(toy, test=toy, out=tmp_path / "cut", progress=Interrupting(stop_after), **options)
    assert RunFolder(tmp_path / "cut").saved() is not None
    resumed = hitnet.train(toy, test=toy, out=tmp_path / "cut", resume=True, **options)
    assert same_weights(whole, resumed)
    assert timeless(whole.history) == timeless(resumed.history)


def test_another_network_or_none_is_refused_on_resume(source, toy, tmp_path):
    other = hitnet.train(toy, epochs=1, out=tmp_path / "other", **SMALL)
    out = {"out": tmp_path / "run", "epochs": 1, **SMALL}
    hitnet.train(toy, augment="hybrid", augment_from=source.folder, **out)
    with pytest.raises(HitNetError, match=r"augment_from\.weights was"):
        hitnet.train(toy, augment="hybrid", augment_from=other.folder, resume=True, **out)
    with pytest.raises(HitNetError, match=r"recipe\.augment was 'hybrid', now 'none'"):
        hitnet.train(toy, resume=True, **out)
    with pytest.raises(HitNetError, match=r"recipe\.augment_share"):
        hitnet.train(
            toy, augment="hybrid", augment_from=source, resume=True, recipe_options={"augment_share": 1.0}, **out
        )
    again = hitnet.train(toy, augment="hybrid", augment_from=source, resume=True, **out)
    assert again.history[-1]["epoch"] == 1


def test_the_run_to_augment_from_may_be_spelt_otherwise_on_resume(source, toy, tmp_path, monkeypatch):
    monkeypatch.chdir(source.folder.parent)
    out = {"augment": "hybrid", "out": tmp_path / "run", "epochs": 1, **SMALL}
    run = hitnet.train(toy, augment_from=source.folder.name, **out)
    assert run.config.augment_from["run"] == str(source.folder)
    shutil.copytree(source.folder, tmp_path / "copy")
    for other in (source.folder, f"../{source.folder.parent.name}/{source.folder.name}", tmp_path / "copy"):
        assert hitnet.train(toy, augment_from=other, resume=True, **out).history == run.history


def test_the_callers_random_state_is_left_alone(source, toy):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    hitnet.train(toy, augment="hybrid", augment_from=source, epochs=1, **SMALL)
    assert torch.equal(torch.rand(3), expected)


def test_a_run_that_was_never_written_will_do(source, toy, tmp_path):
    unwritten = dataclasses.replace(source, folder=None)
    run = hitnet.train(toy, augment="hybrid", augment_from=unwritten, epochs=1, out=tmp_path / "run", **SMALL)
    assert run.config.augment_from == {"run": None, "weights": weights_fingerprint(source.model)}


def test_runs_from_before_augmentation_are_read(toy, tmp_path):
    run = hitnet.train(toy, epochs=1, out=tmp_path / "run", **SMALL)
    values = json.loads((tmp_path / "run" / "config.json").read_text())
    del values["augment_from"]
    for name in ("augment", "augment_strength", "augment_share"):
        del values["recipe"][name]
    (tmp_path / "run" / "config.json").write_text(json.dumps(values))
    assert hitnet.load(tmp_path / "run").config == run.config
    assert hitnet.train(toy, epochs=1, out=tmp_path / "run", resume=True, **SMALL).history == run.history


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"augment": "hybrid"}, "--augment-from RUN"),
        ({"augment_from": "SOURCE"}, "--augment hybrid"),
        ({"augment": "hybird", "augment_from": "SOURCE"}, "augment must be one of none, hybrid; got 'hybird'"),
        ({"augment": "hybrid", "augment_from": "nowhere"}, "not a run folder"),
        ({"recipe_options": {"augment_share": 0.0}}, "augment_share must be above 0"),
        ({"recipe_options": {"augment_strength": -1.0}}, "augment_strength must not be negative"),
        ({"recipe_options": {"augment_strength": math.nan}}, "augment_strength must not be negative"),
    ],
)
def test_mistakes(source, toy, tmp_path, options, says):
    if options.get("augment_from") == "SOURCE":
        options = {**options, "augment_from": source.folder}
    with pytest.raises(HitNetError, match=says):
        hitnet.train(toy, epochs=1, out=tmp_path / "run", **options, **SMALL)
    assert not (tmp_path / "run").exists()


def test_runs_that_cannot_modify_these_images(source, toy):
    options = {"augment": "hybrid", "epochs": 1, **SMALL}
    renamed = dataclasses.replace(toy, class_names=("a", "b", "c"))
    with pytest.raises(HitNetError, match="Give a run on the same data"):
        hitnet.train(renamed, augment_from=source, **options)
    with pytest.raises(HitNetError, match="Give a run on the same data"):
        hitnet.train(toy_images(shape=(1, 14, 14)), augment_from=source, **options)
    blind = hitnet.train(toy, epochs=1, **{**SMALL, "model_options": {"decoder": "none"}})
    with pytest.raises(HitNetError, match="no decoder"):
        hitnet.train(toy, augment_from=blind, **options)


@pytest.mark.parametrize("channels", [1, 2])
def test_nothing_waits_for_the_device(channels):
    # Tensors on "meta" have no values: whoever asks for one, as waiting for a GPU would, gets an error.
    with torch.device("meta"):
        network = hitnet.build("hitnet-small", (1, 12, 12), 3)
        modify = HybridAugmentation(network, share=1.0)
        batch = (
            torch.zeros(8, channels, 12, 12, dtype=torch.uint8),
            torch.zeros(8, dtype=torch.long),
            torch.zeros(8, 5, dtype=torch.long),
        )
        step = Step(network, Recipe(), Augmentation(2, flip=True, cutout=3), CPU, modify=modify)
        images, target = step.augmented(batch)
    assert images.is_meta
    assert images.shape == target.shape == (8, 1, 12, 12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_step_is_captured(source, toy, caplog):
    options = {**SMALL, "device": "cuda", "recipe_options": {**STRONG, "learning_rate": 5e-3}}
    run = hitnet.train(toy, test=toy, augment="hybrid", augment_from=source.folder, epochs=10, **options)
    assert not [record for record in caplog.records if "could not be captured" in record.message]
    assert run.history[-1]["test_error"] < 5
