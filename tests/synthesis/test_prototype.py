"""Prototypes: the decoded central capsule, and which networks have one."""

import pytest
import torch

import hitnet
import own_networks  # noqa: F401
from hitnet import HitNetError, Run
from hitnet.synthesis import decode, prototypes
from hitnet.synthesis.decoding import class_prototypes


def test_a_prototype_is_the_decoded_central_capsule(toy_run):
    result = prototypes(toy_run, device="cpu")
    assert result.class_names == ("band 0", "band 1", "band 2")
    assert result.images.shape == (3, 1, 12, 12)
    for k in range(3):
        capsules = torch.zeros(1, 3, 4)
        capsules[0, k] = 0.5
        by_hand = toy_run.model.decoder(capsules, torch.tensor([k]))
        assert torch.allclose(result.images[k], by_hand[0], atol=1e-6)


def test_prototypes_look_like_their_class(toy_run):
    bands = prototypes(toy_run, device="cpu").images.view(3, 3, -1).mean(dim=2)
    assert bands.argmax(dim=1).tolist() == [0, 1, 2]


def test_some_classes_by_name(toy_run):
    result = prototypes(toy_run, classes=["band 2", "band 0", "band 2"], device="cpu")
    assert result.class_names == ("band 2", "band 0")
    assert torch.allclose(result.images, prototypes(toy_run, device="cpu").images[[2, 0]], atol=1e-6)


def test_a_run_folder_will_do(toy_run):
    assert torch.equal(prototypes(toy_run.folder, device="cpu").images, prototypes(toy_run, device="cpu").images)


def test_unknown_class(toy_run):
    with pytest.raises(HitNetError, match=r"'band 4'\. Did you mean"):
        prototypes(toy_run, classes=["band 4"], device="cpu")
    for names in ("band 1", [1]):
        with pytest.raises(HitNetError, match="classes must be a list"):
            prototypes(toy_run, classes=names, device="cpu")
    with pytest.raises(HitNetError, match="at least one class"):
        prototypes(toy_run, classes=[], device="cpu")


def test_no_decoder(toy_run):
    network = hitnet.models.build("n1", (1, 28, 28), 3)
    with pytest.raises(HitNetError, match=r"no decoder.*hitnet-small"):
        prototypes(Run(network, toy_run.config, []), device="cpu")


@pytest.mark.parametrize(("name", "says"), [("own-far", "away from the centre"), ("own-origin", "look the same")])
def test_networks_without_a_central_capsule(name, says):
    with pytest.raises(HitNetError, match=says):
        class_prototypes(hitnet.models.build(name, (1, 28, 28), 3), torch.arange(3))


def test_capsules_around_0_are_fine_when_standardised():
    network = hitnet.models.build("own-origin", (1, 28, 28), 3, decoder="standardised").eval()
    images = class_prototypes(network, torch.arange(3))
    assert not torch.allclose(images[0], images[1])


def test_extra_components_are_at_their_mean(extra_network):
    images = class_prototypes(extra_network, torch.tensor([1]))
    by_hand = extra_network.decoder(torch.full((1, 3, 4), 0.5), torch.tensor([1]), torch.zeros(1, 2))
    assert torch.allclose(images, by_hand, atol=1e-6)


def test_decode_checks_the_capsules(toy_run):
    with pytest.raises(HitNetError, match=r"4 components .*\(2, 5\)"):
        decode(toy_run.model, torch.rand(2, 5), torch.tensor([0, 1]))


def test_decode_in_parts_of_any_size(toy_run, monkeypatch):
    capsules, classes = torch.rand(7, 4), torch.arange(7) % 3
    whole = decode(toy_run.model, capsules, classes)
    monkeypatch.setattr("hitnet.synthesis.decoding.BATCH", 3)
    assert torch.allclose(whole, decode(toy_run.model, capsules, classes), atol=1e-6)
    assert decode(toy_run.model, capsules[:0], classes[:0]).shape == (0, 1, 12, 12)
