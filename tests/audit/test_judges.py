"""Which judges an audit chooses, what it says of them, and which options do not go together."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import hitnet
from hitnet import HitNetError, Judges, choose_recipe
from hitnet.audit import Case, Judgement, Opinion
from hitnet.audit.audit_table import make_table
from hitnet.audit.judgement import cross_fitted
from hitnet.audit.judges import FEW
from hitnet.audit.networks import collect
from hitnet.audit.scoring import score_labels
from hitnet.data import Images
from hitnet.features import heads as heads_module
from hitnet.features.heads import deal
from hitnet.models import backbones
from hitnet.models.backbones import open_backbone
from toy import TinyBackbone, colour_images, toy_images

CPU, GPU = torch.device("cpu"), torch.device("cuda")
BRIEF = choose_recipe(epochs=1, batch_size=16)


def blank(count, channels):
    return Images.from_arrays(np.zeros((count, channels, 2, 2), np.uint8), np.arange(count) % 2)


@pytest.mark.parametrize(
    ("images", "device", "judges", "reason"),
    [
        ((5000, 3), CPU, {"kind": "features"}, "heads on a frozen, pretrained backbone (colour images, no GPU)"),
        ((50, 3), CPU, {"kind": "features"}, "heads on a frozen, pretrained backbone (colour images, no GPU)"),
        ((50, 3), GPU, {"kind": "fine-tuned"}, "a pretrained backbone, fine-tuned and frozen (colour images, a GPU)"),
        (
            (FEW - 1, 1),
            CPU,
            {"kind": "mixed"},
            "networks from scratch and heads on a frozen backbone (fewer than 5,000 grey images)",
        ),
        (
            (FEW - 1, 1),
            GPU,
            {"kind": "mixed"},
            "networks from scratch and heads on a frozen backbone (fewer than 5,000 grey images)",
        ),
        (
            (FEW, 1),
            CPU,
            {"kind": "scratch", "neighbours": True},
            "networks trained from scratch and the most similar images (many grey images, no GPU)",
        ),
        ((FEW, 1), GPU, {"kind": "scratch"}, "networks trained from scratch (many grey images)"),
    ],
)
def test_the_choice_and_its_reason(images, device, judges, reason):
    assert Judges(seed=4).choose(blank(*images), device) == (Judges(**judges, seed=4), reason)


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"kind": "features"}, "features"),
        ({"kind": "features", "backbone": "timm:x"}, "features"),
        ({"features": Path("f.npy")}, "features"),
        ({"kind": "scratch"}, "scratch"),
        ({"networks": 2, "seed": 7}, "scratch"),
        ({"model": ["hitnet", "hitnet-conv"]}, "scratch"),
        ({"epochs": 3, "recipe": "paper"}, "scratch"),
        ({"neighbours": True}, "scratch"),
        ({"kind": "fine-tuned"}, "fine-tuned"),
        ({"kind": "fine-tuned", "backbone": "timm:x", "weights": Path("w"), "networks": 2}, "fine-tuned"),
        ({"kind": "mixed", "networks": 2, "features": Path("f.npy")}, "mixed"),
        ({"runs": [Path("run")]}, "runs"),
    ],
)
def test_what_options_ask_for_is_not_commented(device, options, kind):
    judges = Judges(**options)
    assert judges.wanted(device) == kind
    chosen, reason = judges.choose(blank(50, 3), device)
    assert reason == ""
    assert chosen.wanted(device) == kind


@pytest.mark.parametrize("options", [{"backbone": "timm:x"}, {"weights": Path("w.safetensors")}])
def test_a_backbone_is_fine_tuned_on_a_gpu_and_frozen_on_a_cpu(options):
    assert Judges(**options).wanted(CPU) == "features"
    assert Judges(**options).wanted(GPU) == "fine-tuned"


def test_a_backbone_of_ones_own_is_only_frozen():
    own = open_backbone(TinyBackbone(), input_size=16)
    assert Judges(backbone=own).wanted(GPU) == "features"
    with pytest.raises(HitNetError, match="`backbone`"):
        Judges("fine-tuned", backbone=own).wanted(GPU)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "all"}, "`judges` must be one of auto, features, fine-tuned, scratch, mixed; got 'all'"),
        ({"repeats": 0}, "`repeats` must be a whole number from 1 on"),
        ({"kind": "features", "epochs": 3, "networks": 2}, "Leave out `networks`, `epochs`"),
        ({"features": "f.npy", "model": "hitnet"}, "`features` and `model` do not go together"),
        ({"features": "f.npy", "backbone": "timm:resnet18"}, "Leave out `backbone` and `weights`"),
        ({"features": "f.npy", "weights": "w.safetensors"}, "Leave out `backbone` and `weights`"),
        ({"kind": "fine-tuned", "model": "hitnet"}, "Leave out `model`"),
        ({"kind": "fine-tuned", "features": "f.npy"}, "Leave out `features`"),
        ({"kind": "scratch", "backbone": "timm:x"}, "Leave out `backbone`"),
        ({"kind": "mixed", "neighbours": True}, "Leave out `neighbours`"),
        ({"runs": ["run"], "backbone": "timm:x"}, "`runs` and `backbone` do not go together"),
        ({"runs": ["run"], "recipe": "paper"}, "Leave out `recipe`"),
        ({"runs": []}, "`runs`: give at least one"),
    ],
)
def test_options_that_do_not_go_together(options, said):
    with pytest.raises(HitNetError, match=said):
        hitnet.audit_labels(toy_images(6), judges=Judges(**options), device="cpu")


@pytest.mark.parametrize(
    ("images", "kind", "who"),
    [
        (
            toy_images(12),
            "mixed",
            "networks from scratch and heads on a frozen backbone (fewer than 5,000 grey images)",
        ),
        (colour_images(12), "features", "heads on a frozen, pretrained backbone (colour images, no GPU)"),
    ],
    ids=["grey", "colour"],
)
def test_an_audit_says_who_judges(images, kind, who, monkeypatch, caplog):
    asked = []

    def judge(self, case, *_):
        asked.append((self, case))
        distances = np.full((len(case.images), case.images.num_classes), 1.0, np.float32)
        return Judgement((Opinion("made up", distances),), case.images, "made up")

    for way in ("_judge_by_networks", "_judge_by_heads", "_judge_by_both"):
        monkeypatch.setattr(Judges, way, judge)
    with caplog.at_level(logging.INFO, "hitnet"):
        hitnet.audit_labels(images, device="cpu")
    assert caplog.messages == [f"Labels are judged by {who}. Set `judges` to choose otherwise."]
    [(judges, case)] = asked
    assert judges == Judges(kind)
    assert (case.device, case.split) == (CPU, "all")


def test_judges_that_are_asked_for_are_not_commented(caplog):
    with caplog.at_level(logging.INFO, "hitnet"):
        judges = Judges(model="hitnet-small", networks=1, epochs=1)
        audit = hitnet.audit_labels(toy_images(12), judges=judges, device="cpu")
    assert not any("judged by" in message for message in caplog.messages)
    assert audit.summary.networks[0]["recipe"]["epochs"] == 1


def test_a_class_of_ones_own_judges():
    class Constant(Judges):
        def judge(self, case):
            distances = np.full((len(case.images), case.images.num_classes), 0.5, np.float32)
            return Judgement((Opinion("constant", distances),), case.images, "a constant")

    audit = hitnet.audit_labels(toy_images(12), judges=Constant(), device="cpu")
    assert (audit.summary.models, audit.summary.model) == (1, "a constant")


# Networks and heads together


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The options of a small backbone with weights of its own."""
    settings = backbones.Settings(32, (0.5,) * 3, (0.5,) * 3)
    monkeypatch.setattr(backbones, "architecture", lambda _: (TinyBackbone(), settings))
    monkeypatch.setattr(heads_module.HeadOptions, "steps_for", lambda *_: 20)
    torch.manual_seed(3)
    save_file(TinyBackbone().state_dict(), tmp_path / "w.safetensors")
    return {"backbone": "timm:tiny", "weights": tmp_path / "w.safetensors"}


def judged(judges, images, folder=None):
    return judges.judge(Case(hitnet.open_data(images), images, "all", CPU, folder))


def same(opinions, others):
    assert len(opinions) == len(others)
    for one, other in zip(opinions, others, strict=True):
        assert (one.kind, one.in_sample, one.capsules) == (other.kind, other.in_sample, other.capsules)
        np.testing.assert_array_equal(one.distances, other.distances)


def test_fine_tuned_networks_and_frozen_heads_judge_together(tiny, tmp_path):
    images = colour_images(36)
    judges = Judges("fine-tuned", **tiny, networks=2, recipe=BRIEF, seed=5)
    together = judged(judges, images, tmp_path / "kept")
    # Resumed: the same networks, each trained without its part of the images.
    left_out = deal(images.labels, 2, torch.Generator().manual_seed(5))
    runs = [hitnet.open_run(tmp_path / "kept" / "models" / f"seed-{seed}") for seed in (5, 6)]
    assert [run.config.data["images"] for run in runs] == [int((left_out != i).sum()) for i in range(2)]
    networks = cross_fitted(collect(runs, images, CPU)[0], left_out, images.labels)
    heads = judged(Judges("features", **tiny, seed=5), images)
    same(together.opinions, (*networks, *heads.opinions))
    assert together.opinions[1].weight == networks[1].weight
    assert torch.equal(together.images.labels, images.labels)
    assert [opinion.in_sample for opinion in together.opinions] == [False, True] + [False] * 4
    assert [opinion.capsules for opinion in together.opinions] == [True] * 3 + [False] * 3
    assert torch.equal(together.features, heads.features)
    assert together.model == "hitnet-pretrained, heads and neighbours on timm:tiny"
    assert [network.get("seed") for network in together.networks] == [5, 6, None]


def test_networks_from_scratch_beside_heads(tiny):
    images = toy_images(36)
    judges = Judges("mixed", model="hitnet-small", networks=2, recipe=BRIEF, **tiny, seed=5)
    together = judged(judges, images)
    heads = judged(Judges("features", **tiny, seed=5), images)
    same(together.opinions[2:], heads.opinions)
    assert together.model == "hitnet-small, heads and neighbours on timm:tiny"
    assert together.prototypes.shape == (3, *images.shape)
    assert (together.typical, heads.typical) == (False, True)


def test_a_single_network_cannot_leave_images_to_others(tiny):
    with pytest.raises(HitNetError, match="`networks` must be at least 2"):
        judged(Judges("fine-tuned", **tiny, networks=1, recipe=BRIEF), colour_images(36))


def test_those_that_have_not_seen_the_labels_say_how_many_are_wrong():
    """Distances in which the trained judges confirm every label, and the others contradict a tenth."""
    draw = np.random.default_rng(0)
    truth = np.arange(600) % 3
    given = np.where(np.arange(600) % 10 == 0, (truth + 1) % 3, truth)
    confirm = 1 - 0.8 * np.eye(3)[given] + 0.01 * draw.random((2, 600, 3))
    contradict = 1 - 0.8 * np.eye(3)[truth] + 0.01 * draw.random((4, 600, 3))
    trained, unseen = (
        [Opinion("j", each.astype(np.float32), in_sample, capsules=True) for each in distances]
        for distances, in_sample in ((confirm, True), (contradict, False))
    )
    images = colour_images(600).with_labels(torch.from_numpy(given))
    opinions = [unseen[0], *trained, *unseen[1:]]  # in any order
    scored = score_labels(opinions, given)
    assert scored.sentence.startswith("About 6")
    assert (1 - scored.score).sum() == pytest.approx(60, rel=0.2)
    table, *_ = make_table(images, opinions, scored)
    assert set(table["id"][:60]) == set(range(0, 600, 10))
    assert score_labels(trained, given).sentence is None
    assert set(table["flag"][:60]) == {"wrong"}
    assert not set(table["flag"][61:]) & {"wrong", "doubtful"}


def test_neighbours_alone_do_not_say_how_many_are_wrong():
    distances = np.random.default_rng(0).random((2, 60, 3)).astype(np.float32)
    network, neighbours = Opinion("networks", distances[0], True, True), Opinion("10 neighbours", distances[1])
    assert score_labels([network, neighbours], np.arange(60) % 3).sentence is None
