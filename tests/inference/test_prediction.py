"""Decision rules, and the misfit beyond which an image is none of the classes."""

import numpy as np
import pytest

from hitnet.errors import HitNetError
from hitnet.inference import DecisionRule
from hitnet.inference.prediction import misfit_limit, misfits


def at(nearest, other=3.0):
    """Distances (N, 2): one capsule at each of these, the other at another distance."""
    return np.stack([np.full(len(nearest), other), nearest], axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("keep", "kept"), [(0.5, 20), (0.95, 38), (0.951, 39), (1, 40), (0.001, 1)])
def test_at_least_the_wanted_share_of_images_keeps_its_class(dtype, keep, kept):
    nearest = np.random.default_rng(0).permutation(np.linspace(0.2, 1.3, 40)).astype(dtype)
    distances = at(nearest)
    limit = misfit_limit(misfits(distances), keep)
    assert (misfits(distances) <= limit).sum() == kept
    assert limit == pytest.approx(misfits(at(np.sort(nearest)))[kept - 1], abs=2e-4)


def test_images_with_the_same_misfit_are_kept_together():
    same = misfits(at(np.full(30, 0.4, np.float32)))
    assert (same <= misfit_limit(same, 0.5)).all()


@pytest.mark.parametrize("keep", [0, -0.1, 1.01, 95, float("nan"), "95 %", None])
def test_a_share_that_is_none_is_refused(keep):
    with pytest.raises(HitNetError, match=r"`keep` must be .*0\.95; got "):
        misfit_limit(np.ones(30), keep)


def test_a_limit_is_not_set_on_a_handful_of_images():
    with pytest.raises(HitNetError, match=r"`keep` .* 20 images .* got 19"):
        misfit_limit(np.ones(19), 0.95)


def test_a_rule_by_radii_and_by_a_limit():
    """By radii, an image is none of the classes if all capsules miss; by a limit, also if several are near."""
    rule = DecisionRule(("a", "b"), True, (0.1, 0.9))
    strict = rule.keeping(0.9, misfits(at(np.linspace(0.01, 0.3, 40))))
    far, both, fine = np.array([0.95, 1.2]), np.array([0.2, 0.1]), np.array([1.0, 0.25])
    pairs = [(d, float(misfits(d[None])[0])) for d in (far, both, fine)]
    assert [rule.predict("x", *pair).label for pair in pairs] == [None, "b", "b"]
    assert [strict.predict("x", *pair).label for pair in pairs] == [None, None, "b"]
    assert [strict.predict("x", *pair).verdict for pair in pairs] == ["miss", "hit", "near"]
    assert strict.predict("x", *pairs[2]).misfit == pairs[2][1]


def test_a_rule_without_radii_has_no_limit_to_set():
    rule = DecisionRule(("a", "b"), False, None)
    assert rule.predict("x", np.array([0.3, 0.7]), None).label == "b"
    with pytest.raises(HitNetError, match="`keep` needs a network"):
        rule.keeping(0.9, np.ones(30))
