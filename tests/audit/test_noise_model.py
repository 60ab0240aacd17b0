"""The noise model: each formula against plain loops, and what it finds on labels that were made wrong in known ways."""

import math

import pytest
import torch

from hitnet.audit.noise_model import (
    PULLS,
    choose_pull,
    confusions,
    error_matrix,
    even_errors,
    fit_noise_model,
    improve_weights,
    log_prior,
    posterior,
    proven,
    surest,
)


def simulated(count, classes, *, rate=0.1, pairs=False, seed=0, knowledge=(3.0, 2.0)):
    """Logits of judges that know more or less, labels of which some are wrong, and the truth."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.randint(classes, (count,), generator=draw)
    wrong = torch.rand(count, generator=draw) < rate
    step = torch.ones(count, dtype=torch.int64) if pairs else torch.randint(1, classes, (count,), generator=draw)
    given = torch.where(wrong, (truth + step) % classes, truth)
    # Logits of a normal observation about the truth: the prior with weight 1 is then exactly right.
    logits = []
    for strength in knowledge:
        seen = torch.randn(count, classes, generator=draw, dtype=torch.float64)
        seen[torch.arange(count), truth] += strength
        logits.append(strength * seen)
    return torch.stack(logits), given, truth


def test_the_posterior_against_loops():
    draw = torch.Generator().manual_seed(1)
    logits, labels, _ = simulated(30, 4)
    weights = torch.tensor([0.7, 0.2], dtype=torch.float64)
    errors = torch.softmax(torch.randn(4, 4, generator=draw, dtype=torch.float64), dim=1)
    found = posterior(log_prior(logits, weights), labels, errors)
    for i in range(30):
        q = [math.exp(0.7 * float(logits[0, i, z]) + 0.2 * float(logits[1, i, z])) for z in range(4)]
        joint = [q[z] * float(errors[z, labels[i]]) for z in range(4)]
        assert found[i].tolist() == pytest.approx([each / sum(joint) for each in joint])


@pytest.mark.parametrize("pull", [4.0, 256.0])
def test_the_matrix_of_errors_against_loops(pull):
    logits, labels, _ = simulated(200, 3)
    prior = torch.log_softmax(logits[0], dim=1)
    posteriors, sure = prior.exp(), surest(prior)
    best = prior.amax(dim=1)
    assert int(sure.sum()) == 101  # as many as the median and above
    assert float(best[sure].min()) > float(best[~sure].max())
    assert surest(prior, rate=0.01).tolist() == (best >= max(float(best.median()), math.log(0.99))).tolist()
    assert 0 < int(surest(prior, rate=1e-6).sum()) < 101
    target = torch.tensor([[0, 0.2, 0.8], [0.5, 0, 0.5], [1, 0, 0]], dtype=torch.float64)
    found = error_matrix(posteriors, labels, sure, pull, target)
    counts = [
        [sum(float(posteriors[i, z]) for i in range(200) if sure[i] and labels[i] == g) for g in range(3)]
        for z in range(3)
    ]
    wrong = [sum(counts[z]) - counts[z][z] for z in range(3)]
    all_wrong = sum(1 - float(posteriors[i, labels[i]]) for i in range(200))
    overall = (all_wrong + math.sqrt(200) / 2) / (200 + math.sqrt(200))
    for z in range(3):
        rate = (wrong[z] + pull) / (sum(counts[z]) + pull / overall)
        for g in range(3):
            share = (counts[z][g] + pull * float(target[z, g])) / (wrong[z] + pull)
            assert float(found[z, g]) == pytest.approx(1 - rate if g == z else rate * share)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(3, dtype=torch.float64))


def test_look_alikes_against_loops():
    logits, _, _ = simulated(60, 5)
    logits[:, :, 4] -= 50  # never the most probable: its errors are even
    q = torch.softmax(logits[0], dim=1)
    found = confusions(q.log(), 5)
    for z in range(4):
        rows = [q[i].tolist() for i in range(60) if int(q[i].argmax()) == z]
        sums = [sum(row[g] for row in rows) if g != z else 0.0 for g in range(5)]
        assert found[z].tolist() == pytest.approx([each / sum(sums) for each in sums], abs=1e-9)
    torch.testing.assert_close(found[4], even_errors(q, 5)[4])


def alike(count, *, seed, even=False):
    """Judges tell classes of a pair apart less well; 8 % of the labels are wrong, of a pair or, if `even`, of any."""
    classes, draw = 40, torch.Generator().manual_seed(seed)
    truth = torch.arange(count) % classes
    wrong = torch.rand(count, generator=draw) < 0.08
    other = (truth + torch.randint(1, classes, (count,), generator=draw)) % classes if even else truth ^ 1
    seen = torch.randn(count, classes, generator=draw, dtype=torch.float64)
    rows = torch.arange(count)
    seen[rows, truth] += 6
    seen[rows, truth ^ 1] += 3
    # The logits of the observation: each class z explains a lead of 6 for itself and of 3 for its pair.
    logits = 6 * seen + 3 * seen[:, torch.arange(classes) ^ 1]
    return logits[None], torch.where(wrong, other, truth)


@pytest.mark.parametrize("seed", range(4))
def test_what_judges_confuse_on_unclear_images_is_not_taken_for_errors_between_pairs(seed):
    """Errors are even. But on a quarter of the images judges cannot tell two classes apart and prefer the wrong one."""
    logits, given, truth = simulated(4000, 6, rate=0.05, seed=seed, knowledge=(4.0, 4.0))
    draw = torch.Generator().manual_seed(seed)
    unclear = torch.rand(4000, generator=draw) < 0.25
    rows, following = torch.arange(4000)[unclear], ((truth + 1) % 6)[unclear]
    lead = 2 * torch.randn(len(rows), generator=draw, dtype=torch.float64) + 1
    logits[:, rows, following] = logits[:, rows, truth[unclear]] + lead
    model = fit_noise_model(logits, given)
    off_diagonal = model.errors[~torch.eye(6, dtype=torch.bool)]
    assert model.pull == PULLS[-1]
    assert float(off_diagonal.max()) < 1.2 * float(off_diagonal.min())


def test_a_step_of_the_weights_is_that_of_newtons_method():
    logits, _, truth = simulated(50, 3)
    target = torch.nn.functional.one_hot(truth, 3).double()
    weights = torch.tensor([0.8, 0.9], dtype=torch.float64)

    def value(w):
        stay = -((w - weights.detach()) ** 2).sum() / 2  # the one more image
        return ((target * log_prior(logits, w)).sum() + stay) / 51

    gradient = torch.autograd.functional.jacobian(value, weights)
    curvature = -torch.autograd.functional.hessian(value, weights)
    expected = (weights + torch.linalg.solve(curvature, gradient)).clamp_min(0)
    assert value(expected) > value(weights)  # it need not be halved
    torch.testing.assert_close(improve_weights(logits, target, weights), expected)


@pytest.mark.parametrize("start", [0.3, 0.5, 0.8])
def test_a_step_of_the_weights_does_not_leap_over_the_maximum(start):
    """Newton's own step would fall to weights of 0, where the errors that were found are lost."""
    logits, labels, _ = simulated(300, 10, knowledge=(3.0, 2.0))
    target = 0.9 * torch.nn.functional.one_hot(labels, 10).double() + 0.1 / 10

    def value(w):
        return float((target * log_prior(logits, w)).sum())

    weights, values = torch.full((2,), start, dtype=torch.float64), []
    for _ in range(8):
        values.append(value(weights))
        weights = improve_weights(logits, target, weights)
    assert values[0] < values[1]
    assert value(weights) >= max(values) - 1e-6
    assert weights.tolist() == pytest.approx([0.29, 0.27], abs=0.01)


def test_a_judge_that_would_count_against_the_others_does_not_move_them():
    logits, given, truth = simulated(400, 3)
    noise = logits[0].clone()
    noise[torch.arange(400), truth] -= 9.0  # what the first says beside the truth: its best weight is negative
    logits = torch.cat([logits, noise[None]])
    target = torch.nn.functional.one_hot(truth, 3).double()
    weights = torch.full((3,), 0.3, dtype=torch.float64)
    for _ in range(20):
        weights = improve_weights(logits, target, weights)
    others = torch.full((2,), 0.3, dtype=torch.float64)
    for _ in range(20):
        others = improve_weights(logits[:2], target, others)
    assert float(weights[2]) == 0
    torch.testing.assert_close(weights[:2], others, rtol=1e-4, atol=1e-4)
    fitted, alone = fit_noise_model(logits, given), fit_noise_model(logits[:2], given)
    torch.testing.assert_close(fitted.posterior, alone.posterior, rtol=0, atol=1e-2)


@pytest.mark.parametrize(("count", "classes"), [(2000, 2), (3000, 10), (6000, 100)])
def test_number_and_place_of_the_errors_are_found(count, classes):
    logits, given, truth = simulated(count, classes, rate=0.08, knowledge=(4.0, 3.0))
    model = fit_noise_model(logits, given)
    wrong = 1 - model.posterior[torch.arange(count), given]
    assert float(wrong.sum()) / float((given != truth).sum()) == pytest.approx(1, abs=0.15)
    sure = wrong > 0.9
    assert float((given != truth)[sure].float().mean()) > 0.85
    assert float((model.posterior.argmax(dim=1) == truth).float().mean()) > 0.95


def test_weights_are_found():
    """Judges whose logits are right count with the weight 1, and one whose logits are half as large with 2."""
    logits, given, _ = simulated(6000, 5, knowledge=(2.0, 2.0))
    logits[1] /= 2
    assert fit_noise_model(logits, given).weights.tolist() == pytest.approx([1, 2], rel=0.2)


def test_a_judge_that_knows_nothing_does_not_count():
    logits, given, _ = simulated(2000, 5)
    nothing = torch.randn(2000, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    weights = fit_noise_model(torch.stack([logits[0], nothing]), given).weights
    assert weights[1] < 0.05 < weights[0]


def test_errors_between_pairs_of_classes_are_learned_and_random_ones_are_drawn_to_evenness():
    logits, given, _ = simulated(4000, 6, rate=0.2, pairs=True)
    paired = fit_noise_model(logits, given)
    assert paired.pull <= 16
    assert 0.1 < float(paired.errors[2, 3]) < 0.25
    assert float(paired.errors[2, 5]) < 0.03
    logits, given, _ = simulated(4000, 6, rate=0.2)
    even = fit_noise_model(logits, given)
    assert even.pull >= 64
    assert float(even.errors[2, 3]) == pytest.approx(0.04, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_errors_between_look_alikes_are_learned_though_each_class_has_few(seed):
    """Forty images of a class have three errors. What judges confuse tells where others are to be expected."""
    pair = torch.arange(40), torch.arange(40) ^ 1
    errors = fit_noise_model(*alike(1600, seed=seed)).errors
    assert float((errors[pair] / (1 - errors.diagonal())).min()) > 0.3
    errors = fit_noise_model(*alike(1600, seed=seed, even=True)).errors
    assert float((errors[pair] / (1 - errors.diagonal())).max()) < 0.1


def test_the_best_of_many_alternatives_needs_more_to_be_proven():
    gain = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(200)  # its standard error is 0.05
    for errors, alternatives in ((1.9, 0), (2.1, 1), (2.3, 2), (2.6, 5), (2.8, 9)):
        shifted = gain + errors * 0.05
        assert [n for n in range(1, 10) if proven(shifted, n)] == list(range(1, alternatives + 1))
    assert not proven(gain[:0])
    assert not proven(gain[1:2])


def claimed(*, seed, alike_errors):
    """Judges claim to be right on 96 % of a third of the images, and are; else on 87 %, but are right on 60 %.

    They confuse pairs of 40 classes. 5 % of the labels are wrong, of the pair or of any class. Gives ln q and labels.
    """
    draw, count, rows = torch.Generator().manual_seed(seed), 3000, torch.arange(3000)
    truth, clear = rows % 40, rows % 3 == 0
    wrong = torch.rand(count, generator=draw) < 0.05
    other = truth ^ 1 if alike_errors else (truth + torch.randint(1, 40, (count,), generator=draw)) % 40
    told = torch.where(clear | (torch.rand(count, generator=draw) < 0.6), truth, truth ^ 1)
    q, sure = torch.full((count, 40), 1e-3, dtype=torch.float64), torch.where(clear, 0.999, 0.9).double()
    q[rows, told], q[rows, told ^ 1] = sure, 1 - sure
    return (q / q.sum(dim=1, keepdim=True)).log(), torch.where(wrong, other, truth)


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_images_that_judges_do_not_know_do_not_tell_of_look_alikes(seed):
    even = even_errors(torch.zeros((), dtype=torch.float64), 40)
    errors = 0.05 * even + 0.95 * torch.eye(40)
    for alike_errors in (False, True):
        prior, labels = claimed(seed=seed, alike_errors=alike_errors)
        confused = confusions(prior, 40)
        misled, found, nothing = (
            choose_pull(prior, labels, errors, confused, surest(prior, rate=rate)) for rate in (1.0, 0.06, 0.0)
        )
        torch.testing.assert_close(misled[1], (even + confused) / 2)
        torch.testing.assert_close(found[1], (even + confused) / 2 if alike_errors else even)
        assert nothing[0] == PULLS[-1]  # no image is sure
        # Judges' errors are rarer on the surer half of these, labels' are not.
        half_clear = (torch.arange(3000) % 3 == 0) | (torch.arange(3000) < 1490)
        target = choose_pull(prior, labels, errors, confused, half_clear)[1]
        torch.testing.assert_close(target, (even + confused) / 2 if alike_errors else even)


@pytest.mark.parametrize(
    "case",
    {
        "judges that are never wrong": (torch.eye(2).repeat(40, 1)[None] * 50, torch.arange(80) % 2),
        "identical images": (torch.zeros(1, 24, 2), torch.arange(24) % 2),
        "all labels wrong": (torch.eye(2).repeat(40, 1)[None] * 50, (torch.arange(80) + 1) % 2),
        "one class has nearly all": (torch.randn(1, 100, 2), torch.cat([torch.zeros(99), torch.ones(1)]).long()),
        "two images": (torch.randn(2, 2, 2), torch.tensor([0, 1])),
        "many classes of three images": (torch.randn(1, 900, 300), torch.arange(900) % 300),
    }.items(),
    ids=lambda case: case[0],
)
def test_odd_cases_give_probabilities(case):
    logits, labels = case[1]
    model = fit_noise_model(logits, labels)
    assert torch.isfinite(model.weights).all()
    assert torch.isfinite(model.posterior).all()
    torch.testing.assert_close(model.posterior.sum(dim=1), torch.ones(len(labels)))
    torch.testing.assert_close(model.errors.sum(dim=1), torch.ones(len(model.errors)), rtol=1e-4, atol=1e-4)
