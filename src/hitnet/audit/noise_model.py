"""What happened to the labels: a model of true classes and of errors, fitted to what judges say and to the labels.

The true class z of an image has the prior probability q = softmax(Σ w_j ℓ_j), where ℓ_j (N, K) are the logits of judge
j and w_j says how much the judge counts. The given label comes from z by a matrix T (K, K): T[z, g] is the probability
that an image of class z is labelled g. Expectation-maximisation fits w and T:

- posterior (N, K): softmax over z of ln q + ln T[z, given];
- w: the maximum of Σ posterior · ln q, by Newton's method;
- T: the posterior counts of (z, given), each row drawn towards the overall rate of errors and towards errors that fall
  on all classes evenly. How strongly, in imagined errors per class (`pull`), is chosen by the likelihood of labels held
  out: little where errors follow pairs of classes, else much. Judges confuse pairs of classes too, which looks like
  errors. But they do so on images of which they are not sure: so only the surer half of the images is counted and held
  out, and errors are even unless pairs of classes make the labels likelier by two standard errors.

Everything else follows. A label's score is the posterior probability of the given class, the number of wrong labels is
the sum of 1 − score, and the class to propose is the most probable one.

How much a judge counts can only be learned where it has not seen the label that it judges.
"""

import math
from dataclasses import dataclass

import torch
from scipy.optimize import nnls
from torch import Tensor

PULLS = (4.0, 16.0, 64.0, 256.0, 1024.0)
FIRST_RATE = 0.05  # of wrong labels, to begin with
ROUNDS = 30
TOLERANCE = 1e-3  # of weights and rates


@dataclass(frozen=True)
class NoiseModel:
    """The fitted model."""

    weights: Tensor  # (J,), how much each judge counts
    errors: Tensor  # T, (K, K)
    pull: float  # the chosen strength, in imagined errors per class
    log_prior: Tensor  # ln q, (N, K)
    posterior: Tensor  # (N, K), probability of each class given the label


def fit_noise_model(logits: Tensor, labels: Tensor) -> NoiseModel:
    """Fit the model to logits (J, N, K) of J judges and to the given labels (N,)."""
    judges, classes = len(logits), logits.shape[2]
    weights = logits.new_full((judges,), 1 / judges)
    errors = logits.new_full((classes, classes), FIRST_RATE / (classes - 1)).fill_diagonal_(1 - FIRST_RATE)
    weights, errors = _fit(logits, labels, weights, errors, PULLS[len(PULLS) // 2])
    pull = choose_pull(log_prior(logits, weights), labels, errors)
    weights, errors = _fit(logits, labels, weights, errors, pull)
    prior = log_prior(logits, weights)
    return NoiseModel(weights, errors, pull, prior, posterior(prior, labels, errors))


def log_prior(logits: Tensor, weights: Tensor) -> Tensor:
    """ln q (N, K), from logits (J, N, K) and weights (J,)."""
    return torch.log_softmax(torch.einsum("j,jnk->nk", weights, logits), dim=1)


def posterior(prior: Tensor, labels: Tensor, errors: Tensor) -> Tensor:
    """Probability of each class (N, K) given the labels (N,): q(z) T[z, given], made to sum to 1."""
    return torch.softmax(prior + errors.log().T[labels], dim=1)


def beats_chance(prior: Tensor, labels: Tensor, posteriors: Tensor) -> bool:
    """Whether judges make the labels (N,) likelier than the shares of the classes do, by two standard errors.

    The likelihood is (1 − r) q + r (1 − q) / (K − 1), q that of the given class by ln q (N, K) and r the rate of errors
    by the posteriors (N, K), at most (K − 1) / K: it tells nothing that judges are always wrong. Else the images, or
    the labels, are such that nobody can tell them apart.
    """
    classes, given = prior.shape[1], labels[:, None]
    shares = torch.bincount(labels, minlength=classes).double() / len(labels)
    rate = (1 - posteriors.gather(1, given).double().mean()).clamp_max(1 - 1 / classes)
    q = prior.gather(1, given)[:, 0].double().exp()
    return proven(((1 - rate) * q + rate * (1 - q) / (classes - 1)).log() - shares.log()[labels])


def proven(gain: Tensor) -> bool:
    """Whether the mean of gains (N,) in log-likelihood is more than two standard errors above 0."""
    return bool(gain.mean() > 2 * gain.std(correction=0) / math.sqrt(len(gain)) + 1e-9)  # of rounding


def surest(prior: Tensor) -> Tensor:
    """The half of the images (N,) with the highest probability of any class by ln q (N, K): judges are surest of it."""
    best = prior.amax(dim=1)
    return best >= best.median()


def error_matrix(posteriors: Tensor, labels: Tensor, sure: Tensor, pull: float) -> Tensor:
    """T (K, K) from the posteriors (N, K) of labels (N,), by the images that are `sure` (N,).

    Of n sure images of a class, e of them wrong, the rate is (e + pull) / (n + pull / r), r the rate over all classes;
    among wrong labels, class g has the share (e_g + pull / (K − 1)) / (e + pull). r is the minimax estimate of a rate,
    (E + √N / 2) / (N + √N) for E wrong labels of all N: it does not fall to 0 where judges err more often than labels.
    """
    classes = posteriors.shape[1]
    counts = posteriors.new_zeros(classes, classes).index_add_(0, labels[sure], posteriors[sure]).T  # true x given
    wrong = counts - torch.diag(counts.diagonal())
    total = wrong.sum(dim=1)
    few = math.sqrt(len(labels))
    overall = (len(labels) - posteriors.gather(1, labels[:, None]).sum() + few / 2) / (len(labels) + few)
    even = (1 - torch.eye(classes, dtype=counts.dtype, device=counts.device)) / (classes - 1)
    rate = (total + pull) / (counts.sum(dim=1) + pull / overall)
    return (wrong + pull * even) / (total + pull)[:, None] * rate[:, None] + torch.diag(1 - rate)


def improve_weights(logits: Tensor, posteriors: Tensor, weights: Tensor) -> Tensor:
    """One step of Newton's method towards the maximum of the mean of Σ posterior · ln q over w ≥ 0.

    The mean is over the images and one more, which would have the weights stay as they are: they cannot run away where
    judges are never wrong.
    """
    count = logits.shape[1] + 1
    prior = log_prior(logits, weights).exp()
    expected = torch.einsum("nk,jnk->jn", prior, logits)
    gradient = torch.einsum("nk,jnk->j", posteriors - prior, logits) / count
    spread = logits - expected[..., None]
    curvature = torch.stack([torch.einsum("nk,jnk->j", prior * each, spread) for each in spread]) / count
    curvature += torch.eye(len(weights), dtype=curvature.dtype, device=curvature.device) / count
    # The step's quadratic form, of which w ≥ 0 is to be the maximum, as least squares |Rw − b|².
    root = torch.linalg.cholesky(curvature.double()).T
    target = root @ weights.double() + torch.linalg.solve(root.T, gradient.double())
    stepped = torch.from_numpy(nnls(root.cpu().numpy(), target.cpu().numpy())[0]).to(weights)
    # No leaps: far from the maximum, the step is too long.
    return torch.minimum(stepped, 4 * weights + 0.05)


def _fit(logits: Tensor, labels: Tensor, weights: Tensor, errors: Tensor, pull: float) -> tuple[Tensor, Tensor]:
    """Weights (J,) and T (K, K) for one pull, from those of an earlier fit."""
    for _ in range(ROUNDS):
        before = torch.cat([weights, errors.diagonal()])
        prior = log_prior(logits, weights)
        sure = surest(prior)
        for _ in range(3):
            errors = error_matrix(posterior(prior, labels, errors), labels, sure, pull)
        weights = improve_weights(logits, posterior(prior, labels, errors), weights)
        if float((torch.cat([weights, errors.diagonal()]) - before).abs().max()) < TOLERANCE:
            break
    return weights, errors


def choose_pull(prior: Tensor, labels: Tensor, errors: Tensor) -> float:
    """The pull that makes the labels of sure images held out likeliest; the strongest, unless another is proven so."""
    sure, likelihood = surest(prior), prior.new_zeros(len(PULLS), len(labels), dtype=torch.float64)
    half = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).to(labels.device) % 2 == 0
    for known in (half, ~half):
        for index, pull in enumerate(PULLS):
            fitted = errors
            for _ in range(4):
                fitted = error_matrix(posterior(prior[known], labels[known], fitted), labels[known], sure[known], pull)
            likelihood[index, ~known] = torch.logsumexp(prior[~known] + fitted.log().T[labels[~known]], dim=1).double()
    gains = (likelihood - likelihood[-1])[:, sure]
    best = int(gains.sum(dim=1).argmax())
    return PULLS[best] if proven(gains[best]) else PULLS[-1]
