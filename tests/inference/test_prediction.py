"""Decision rules, and the radius from which on an image is none of the classes."""

import numpy as np
import pytest

from hitnet.errors import HitNetError
from hitnet.inference import DecisionRule
from hitnet.inference.prediction import none_radius


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("keep", "kept"), [(0.5, 20), (0.95, 38), (0.951, 39), (1, 40), (0.001, 1)])
def test_at_least_the_wanted_share_of_images_keeps_its_class(dtype, keep, kept):
    nearest = np.random.default_rng(0).permutation(np.linspace(0.1, 1.3, 40)).astype(dtype)
    distances = np.stack([nearest + dtype(0.5), nearest, nearest + dtype(0.2)], axis=1)
    radius = none_radius(distances, keep)
    assert (nearest < radius).sum() == kept
    assert radius == pytest.approx(np.sort(nearest)[kept - 1], rel=1e-6)


def test_images_at_the_same_distance_are_kept_together():
    assert none_radius(np.full((30, 2), 0.4, np.float32), 0.5) > np.float32(0.4)


@pytest.mark.parametrize("keep", [0, -0.1, 1.01, 95, float("nan"), "95 %", None])
def test_a_share_that_is_none_is_refused(keep):
    with pytest.raises(HitNetError, match=r"`keep` must be a share above 0 and at most 1, e\.g\. 0\.95; got "):
        none_radius(np.ones((30, 2)), keep)


def test_a_radius_is_not_set_on_a_handful_of_images():
    with pytest.raises(HitNetError, match=r"`keep` needs at least 20 images of known classes .* got 19"):
        none_radius(np.ones((19, 2)), 0.95)


def test_a_rule_takes_the_radius_of_a_share():
    distances = np.linspace(0.01, 0.4, 40)[:, None] * np.array([1.0, 3.0])
    rule = DecisionRule(("a", "b"), True, (0.1, 0.9))
    wide, narrow = rule.keeping(0.9, distances), rule.keeping(0.2, distances)
    assert [wide.verdict(d) for d in (0.1, 0.2, 0.36, 0.37)] == ["hit", "near", "near", "miss"]
    assert [narrow.verdict(d) for d in (0.08, 0.09)] == ["hit", "miss"]  # below the hit radius
    assert narrow.predict("x", np.array([0.5, 0.09])).label is None
    assert rule.predict("x", np.array([0.5, 0.09])).label == "b"


def test_a_rule_without_radii_has_no_radius_to_set():
    with pytest.raises(HitNetError, match=r"`keep` needs a network whose capsules hit or miss"):
        DecisionRule(("a", "b"), False, None).keeping(0.9, np.ones((30, 2)))
