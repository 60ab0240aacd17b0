"""The Hit-or-Miss layer on any backbone, in timm's words."""

import pytest
import torch
from torch import nn

import hitnet
from hitnet import HitNetError
from toy import TinyBackbone


def test_a_module_becomes_a_classifier():
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    model = hitnet.with_backbone(backbone, 3, num_features=5, capsule_dim=8)
    images = torch.rand(4, 3, 2, 2)
    assert torch.equal(model.forward_features(images), backbone(images))
    model.eval()
    capsules = model.capsules(images)
    assert capsules.shape == (4, 3, 8)
    expected = torch.tensor([[sum((v - 0.5) ** 2 for v in c) ** 0.5 for c in image] for image in capsules.tolist()])
    torch.testing.assert_close(model(images), expected)
    assert torch.equal(model.forward_head(model.forward_features(images)), model(images))
    assert torch.equal(model.forward_head(model.forward_features(images), pre_logits=True), backbone(images))


def test_the_number_of_features_is_found():
    assert hitnet.with_backbone(TinyBackbone(), 4).num_features == 8
    with_attribute = nn.Linear(7, 6)
    with_attribute.num_features = 6
    assert hitnet.with_backbone(with_attribute, 4)(torch.rand(2, 7)).shape == (2, 4)


def test_the_classifier_is_reset_as_in_timm():
    model = hitnet.with_backbone(TinyBackbone(), 4)
    before = model.get_classifier()
    model.reset_classifier(6)
    assert model.get_classifier() is not before
    assert (model.num_classes, model(torch.rand(2, 3, 8, 8)).shape) == (6, (2, 6))
    model.reset_classifier(0)
    assert model(torch.rand(2, 3, 8, 8)).shape == (2, 8)
    with pytest.raises(HitNetError, match="there is no head"):
        model.capsules(torch.rand(2, 3, 8, 8))


def test_a_network_of_timm_keeps_its_own_pooling():
    timm = pytest.importorskip("timm", reason="timm is missing: pip install timm")
    module = timm.create_model("test_vit.r160_in1k", pretrained=False, num_classes=5)
    model = hitnet.with_backbone(module, 3).eval()
    images = torch.rand(2, 3, 160, 160)
    expected = module.forward_head(module.forward_features(images), pre_logits=True)
    assert torch.equal(model.forward_features(images), expected)
    assert model.num_features == expected.shape[1]
    assert model(images).shape == (2, 3)


def test_a_backbone_by_name_says_which_images_it_takes():
    model = hitnet.with_backbone("efficientnet-lite0", 2, pretrained=False)
    assert model.settings.input_size == 224
    assert model.num_features == 3568


def test_mistakes():
    with pytest.raises(HitNetError, match="`pretrained` is False"):
        hitnet.with_backbone("efficientnet-lite0", 2, weights="own.safetensors", pretrained=False)
    with pytest.raises(HitNetError, match="num_classes must be"):
        hitnet.with_backbone(TinyBackbone(), 1)
    with pytest.raises(HitNetError, match="`weights` are for a backbone"):
        hitnet.with_backbone(TinyBackbone(), 3, weights="w.safetensors")
    with pytest.raises(HitNetError, match="Set `num_features`"):
        hitnet.with_backbone(nn.Linear(7, 6), 3)
    with pytest.raises(HitNetError, match="no backbone named"):
        hitnet.with_backbone("resnet99", 3)
    with pytest.raises(HitNetError, match=r"backbone .*; got function"):
        hitnet.with_backbone(lambda images: images, 3)
    several = hitnet.with_backbone(Several(), 3, num_features=5)
    with pytest.raises(HitNetError, match=r"features .*\(B, 5\); got list"):
        several(torch.rand(2, 5))


class Several(nn.Module):
    """Gives several outputs, as networks with auxiliary classifiers do in training."""

    def forward(self, images):
        return [images, images]
