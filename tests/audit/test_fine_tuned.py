"""Fine-tuned networks and heads on the frozen backbone judge together."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import hitnet
from hitnet import FeatureHeads, FineTuned, HitNetError, NetworksAndHeads, NewNetworks, choose_recipe
from hitnet.audit import Case, fine_tuned
from hitnet.audit.calibration import calibrate
from hitnet.audit.scores import doubt, gather
from hitnet.features import heads as heads_module
from hitnet.models import backbones
from toy import TinyBackbone, colour_images, toy_images

BRIEF = choose_recipe(epochs=1, batch_size=16)
CPU = torch.device("cpu")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The options of a small backbone with weights of its own."""
    settings = backbones.Settings(32, (0.5,) * 3, (0.5,) * 3)
    monkeypatch.setattr(backbones, "architecture", lambda _: (TinyBackbone(), settings))
    monkeypatch.setattr(heads_module, "default_steps", lambda *_: 20)
    torch.manual_seed(3)
    save_file(TinyBackbone().state_dict(), tmp_path / "w.safetensors")
    return {"backbone": "timm:tiny", "weights": tmp_path / "w.safetensors"}


def judged(judges, images, folder=None):
    return judges.judge(Case(hitnet.open_data(images), images, "all", CPU, folder))


def test_both_kinds_judge_and_the_trained_come_first(tiny, tmp_path):
    images = colour_images(36)
    judges = FineTuned(**tiny, count=2, recipe=BRIEF, seed=5)
    together = judged(judges, images, tmp_path / "kept")
    networks = judged(NewNetworks(judges.model, 2, BRIEF, 5), images, tmp_path / "kept")  # resumed: the same networks
    heads = judged(FeatureHeads(**tiny, seed=5), images)
    np.testing.assert_array_equal(together.distances[:2], networks.distances)
    np.testing.assert_array_equal(together.distances[2:], heads.distances)
    assert (together.trained, together.capsules) == (2, 2 + heads.capsules)
    assert torch.equal(together.features, heads.features)
    assert together.about["models"] == len(together.distances) == 10
    assert together.about["model"] == "hitnet-pretrained, heads and neighbours on timm:tiny"
    assert [network.get("seed") for network in together.about["networks"]] == [5, 6, None]


def test_networks_from_scratch_beside_heads(tiny):
    images = toy_images(36)
    networks, heads = NewNetworks("hitnet-small", 1, BRIEF, 5), FeatureHeads(**tiny, seed=5)
    together = judged(NetworksAndHeads(networks, heads), images)
    np.testing.assert_array_equal(together.distances[:1], judged(networks, images).distances)
    np.testing.assert_array_equal(together.distances[1:], judged(heads, images).distances)
    assert together.trained == 1
    assert together.about["model"] == "hitnet-small, heads and neighbours on timm:tiny"
    assert together.prototypes.shape == (3, *images.shape)
    assert together.kinds == ("networks", *judged(heads, images).kinds)


def test_neighbours_are_asked_once():
    with pytest.raises(HitNetError, match="Leave out `neighbours`"):
        NetworksAndHeads(NewNetworks(neighbours=True))


def test_of_many_images_only_networks_judge(tiny, monkeypatch):
    monkeypatch.setattr(fine_tuned, "MANY_IMAGES", 36)
    judgement = judged(FineTuned(**tiny, count=1, recipe=BRIEF), colour_images(36))
    assert len(judgement.distances) == 1
    assert judgement.trained is None
    assert judgement.about["model"] == "hitnet-pretrained"


def test_those_that_have_not_seen_the_labels_say_how_many_are_wrong():
    """Distances in which the trained judges confirm every label, and the others contradict a tenth."""
    draw = np.random.default_rng(0)
    truth = np.arange(600) % 3
    given = np.where(np.arange(600) % 10 == 0, (truth + 1) % 3, truth)
    confirm = 1 - 0.8 * np.eye(3)[given] + 0.01 * draw.random((2, 600, 3))
    contradict = 1 - 0.8 * np.eye(3)[truth] + 0.01 * draw.random((4, 600, 3))
    distances = np.concatenate([confirm, contradict]).astype(np.float32)
    images = colour_images(600).with_labels(torch.from_numpy(given))
    audit = hitnet.audit.judge(distances, images, trained=2)
    doubts = doubt(gather(distances.astype(np.float64), given), given).value
    expected = calibrate(distances[2:].astype(np.float64), given, doubts)
    assert audit.summary["in_words"] == expected.sentence
    assert expected.expected == pytest.approx(60, rel=0.2)
    assert set(audit.table["id"][:60]) == set(range(0, 600, 10))
    assert "in_words" not in hitnet.audit.judge(distances, images).summary
    # the most doubtful, as many as are expected to be wrong, are not ok
    table = audit.table
    number = round((1 - table["score"]).sum())
    assert "ok" not in set(table["flag"].head(number))
    assert "doubtful" in set(table["flag"].head(number))
    assert not set(table["flag"][number:]) & {"wrong", "doubtful"}
