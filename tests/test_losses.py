"""The centripetal loss against plain loops in float64, and the staircase of the paper's figure."""

import math

import pytest
import torch
from torch.autograd import gradcheck

import hitnet
from hitnet import CentripetalLoss, HitNetError, centripetal_loss
from hitnet.losses import ghost_mask, staircase


def naive_staircase(x, step, height, start):
    if x - start < 0:
        return 0.0
    f = math.floor((x - start) / step)
    return (f + 1) * height * (x - start - 0.5 * f * step)


def naive_centripetal(d, truth, n=16, l=0.1, h=0.2, m=0.1, l2=0.1, h2=0.2, m2=0.9, weight=0.5, ghosts=0):  # noqa: E741
    """Equations 2 to 4 word for word, one image."""
    top = math.sqrt(n) / 2
    others = sorted((v, k) for k, v in enumerate(d) if not truth[k])
    ghost = {k for _, k in others[:ghosts]}
    total = 0.0
    for k, v in enumerate(d):
        if truth[k]:
            total += naive_staircase(v, l, h, m)
        elif k not in ghost:
            total += weight * naive_staircase(top - v, l2, h2, top - m2)
    return total


def some_distances(batch=32, classes=7, n=16, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    return torch.rand(batch, classes, dtype=torch.float64, generator=generator).mul(math.sqrt(n) / 2).to(dtype)


def truths(targets, classes):
    return [[k == t for k in range(classes)] for t in targets.tolist()]


@pytest.mark.parametrize("n", [4, 8, 16, 40])
@pytest.mark.parametrize("ghosts", [0, 1, 3])
def test_loss_against_a_loop(n, ghosts):
    d = some_distances(n=n)
    targets = torch.arange(32) % 7
    expected = [
        naive_centripetal(r, t, n=n, ghosts=ghosts) for r, t in zip(d.tolist(), truths(targets, 7), strict=True)
    ]
    losses = CentripetalLoss(capsule_dim=n, reduction="none", ghosts=ghosts)(d, targets)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_options_of_a_loss_are_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        CentripetalLoss(16)


def test_loss_with_other_hyperparameters():
    d, targets = some_distances(), torch.arange(32) % 7
    options = {"hit_radius": 0.2, "miss_radius": 1.3, "hit_step": 0.15, "hit_height": 0.3, "miss_step": 0.25}
    loss = CentripetalLoss(**options, miss_height=0.4, miss_weight=0.7, reduction="none")
    losses = loss(d, targets)
    expected = [
        naive_centripetal(r, t, m=0.2, m2=1.3, l=0.15, h=0.3, l2=0.25, h2=0.4, weight=0.7)
        for r, t in zip(d.tolist(), truths(targets, 7), strict=True)
    ]
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_several_true_classes():
    d = some_distances()
    truth = torch.rand(32, 7, generator=torch.Generator().manual_seed(1)) < 0.3
    expected = [naive_centripetal(r, t) for r, t in zip(d.tolist(), truth.tolist(), strict=True)]
    for targets in (truth, truth.float(), truth.long()):
        losses = CentripetalLoss(reduction="none")(d, targets)
        torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_reductions():
    d, targets = some_distances(), torch.arange(32) % 7
    each = CentripetalLoss(reduction="none")(d, targets)
    assert each.shape == (32,)
    torch.testing.assert_close(CentripetalLoss()(d, targets), each.mean())
    torch.testing.assert_close(CentripetalLoss(reduction="sum")(d, targets), each.sum())


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12), (torch.bfloat16, 2e-2)]
)
def test_dtypes(dtype, tolerance):
    d, targets = some_distances(), torch.arange(32) % 7
    exact = CentripetalLoss()(d, targets)
    loss = CentripetalLoss()(d.to(dtype), targets)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert loss.item() == pytest.approx(exact.item(), rel=tolerance)


def away_from_kinks(shape, generator):
    """Distances in the middle of the rings, where the loss is differentiable."""
    rings = torch.randint(0, 20, shape, generator=generator)
    return (rings * 0.1 + 0.02 + 0.06 * torch.rand(shape, generator=generator)).double()


@pytest.mark.parametrize("ghosts", [0, 1, 2])
def test_gradcheck_away_from_the_kinks(ghosts):
    d = away_from_kinks((6, 5), torch.Generator().manual_seed(0)).requires_grad_()
    loss = CentripetalLoss(ghosts=ghosts)
    targets = torch.tensor([0, 1, 2, 3, 4, 0])
    assert gradcheck(lambda x: loss(x, targets), (d,))


def slope(x, *, hit):
    d = torch.tensor([[x, x]], dtype=torch.float64, requires_grad=True)
    centripetal_loss(d, torch.tensor([[True, False]])).sum().backward()
    return d.grad[0, 0 if hit else 1].item()


def test_derivative_of_a_hit_is_the_rising_staircase():
    assert slope(0.05, hit=True) == 0  # hit zone
    for ring in range(19):
        assert slope(0.15 + 0.1 * ring, hit=True) == pytest.approx(0.2 * (ring + 1))


def test_derivative_of_a_miss_is_the_falling_staircase():
    for x in (0.95, 1.5, 2.0):
        assert slope(x, hit=False) == 0  # miss zone
    for ring in range(9):
        assert slope(0.85 - 0.1 * ring, hit=False) == pytest.approx(-0.5 * 0.2 * (ring + 1))


@pytest.mark.parametrize("stair", range(12))
def test_staircase_is_continuous_at_every_step(stair):
    edge = 0.1 + 0.1 * stair
    x = torch.tensor([edge - 1e-9, edge, edge + 1e-9], dtype=torch.float64)
    below, at, above = staircase(x, step=0.1, height=0.2, start=0.1).tolist()
    assert at == pytest.approx(below, abs=1e-7)
    assert at == pytest.approx(above, abs=1e-7)


def test_ghosts_carry_no_loss_and_no_gradient():
    d = torch.tensor([[0.3, 0.2, 0.5, 0.8]], dtype=torch.float64, requires_grad=True)
    CentripetalLoss(ghosts=1)(d, torch.tensor([0])).backward()
    assert d.grad[0, 1] == 0
    assert (d.grad[0, [0, 2, 3]] != 0).all()


def test_ghost_rule_nearer_excuses_only_what_is_nearer_than_the_truth():
    d = torch.tensor([[0.3, 0.2, 0.5], [0.3, 0.4, 0.5], [0.6, 0.4, 0.5], [0.3, 0.3, 0.5]])  # the last: a tie
    truth, ghost = torch.tensor([[True, False, False]] * 4), [False, True, False]
    assert ghost_mask(d, truth, ghosts=1, rule="nearer").tolist() == [ghost, [False] * 3, ghost, [False] * 3]
    assert ghost_mask(d, truth, ghosts=1).tolist() == [ghost] * 4


def test_ghosts_with_a_probability():
    d, truth = torch.rand(4000, 3), torch.tensor([[True, False, False]]).expand(4000, 3)
    torch.manual_seed(0)
    share = ghost_mask(d, truth, ghosts=1, probability=0.3).any(dim=1).float().mean().item()
    assert 0.27 < share < 0.33


def test_the_loss_lets_go_by_its_own_rule_and_probability():
    d, targets = torch.tensor([[0.3, 0.2, 0.5], [0.3, 0.4, 0.5]]), torch.tensor([0, 0])
    strict, ghostly, nearer, never = (
        CentripetalLoss(reduction="none", **options)(d, targets).tolist()
        for options in (
            {},
            {"ghosts": 1},
            {"ghosts": 1, "ghost_rule": "nearer"},
            {"ghosts": 1, "ghost_probability": 0.0},
        )
    )
    assert ghostly[0] < strict[0]
    assert ghostly[1] < strict[1]
    assert nearer == [ghostly[0], strict[1]]
    assert never == strict


def test_with_two_classes_a_ghost_leaves_nothing_to_miss():
    d = torch.tensor([[0.05, 0.0]])
    assert CentripetalLoss(ghosts=1)(d, torch.tensor([0])).item() == 0
    assert CentripetalLoss()(d, torch.tensor([0])).item() > 0


def test_more_ghosts_than_other_classes():
    d = some_distances(4, 3)
    targets = torch.tensor([0, 1, 2, 0])
    expected = [naive_centripetal(r, t, ghosts=2) for r, t in zip(d.tolist(), truths(targets, 3), strict=True)]
    losses = CentripetalLoss(ghosts=9, reduction="none")(d, targets)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64))


def test_the_functions_have_the_defaults_of_the_modules():
    d, targets = some_distances(), torch.arange(32) % 7
    truth = torch.tensor(truths(targets, 7))
    assert torch.equal(centripetal_loss(d, truth), CentripetalLoss(reduction="none")(d, targets))


def test_mistakes_are_named():
    d = some_distances(4, 3)
    with pytest.raises(HitNetError, match="4 images but 2 targets"):
        CentripetalLoss()(d, torch.tensor([0, 1]))
    with pytest.raises(HitNetError, match=r"\(B, K\)"):
        CentripetalLoss()(d[0], torch.tensor([0]))
    with pytest.raises(HitNetError, match="reduction must be one of"):
        CentripetalLoss(reduction="avg")
    for name in ("hit_step", "miss_step"):
        with pytest.raises(HitNetError, match=f"{name} must be finite and above 0"):
            CentripetalLoss(**{name: 0})
    for name in ("hit_radius", "miss_radius", "hit_height", "miss_height", "miss_weight"):
        for value in (-1, math.nan, math.inf):
            with pytest.raises(HitNetError, match=f"{name} must be finite and not negative; got {value}"):
                CentripetalLoss(**{name: value})
    with pytest.raises(HitNetError, match="ghost_probability"):
        CentripetalLoss(ghost_probability=1.5)
    with pytest.raises(HitNetError, match="ghost_rule must be one of"):
        CentripetalLoss(ghost_rule="near")


@pytest.mark.parametrize("options", [{"capsule_dim": 2}, {"capsule_dim": 3}, {"miss_radius": 2.0}])
def test_capsules_must_be_able_to_miss(options):
    with pytest.raises(HitNetError, match=r"at most \d\.\d\d from"):
        CentripetalLoss(**options)
    CentripetalLoss(capsule_dim=4)


def test_misfit_against_a_loop():
    """The loss of the nearest class, written out; 0 if one capsule hits and the others miss."""
    d = 1.4 * torch.rand(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    d[0] = torch.tensor([0.95, 0.1, 0.9, 1.3], dtype=torch.float64)
    expected = []
    for row in d.tolist():
        best = row.index(min(row))
        total = 0.0
        for k, value in enumerate(row):
            weight, excess = (1.0, value - 0.1) if k == best else (0.5, 0.9 - value)
            slope, rest = 0.2, max(excess, 0.0)
            while rest > 0:  # one stair of width 0.1 after the other
                total += weight * slope * min(rest, 0.1)
                slope, rest = slope + 0.2, rest - 0.1
        expected.append(total)
    torch.testing.assert_close(hitnet.misfit(d).tolist(), expected, rtol=1e-9, atol=1e-9)
    assert hitnet.misfit(d)[0] == pytest.approx(0, abs=1e-12)


def test_chances_may_be_given():
    d, targets = torch.rand(50, 3), torch.zeros(50, dtype=torch.long)
    chances = torch.rand(50, 1)
    by_chance, strict, ghostly = (
        CentripetalLoss(reduction="none", **options)
        for options in ({"ghosts": 1, "ghost_probability": 0.4}, {}, {"ghosts": 1})
    )
    expected = torch.where(chances[:, 0] < 0.4, ghostly(d, targets), strict(d, targets))
    assert torch.equal(by_chance(d, targets, chances=chances), expected)
