"""What happened to the labels: a model of true classes and of errors, fitted to what judges say and to the labels.

The true class z of an image has the prior probability q = softmax(Σ w_j ℓ_j), where ℓ_j (N, K) are the logits of judge
j and w_j says how much the judge counts. The given label comes from z by a matrix T (K, K): T[z, g] is the probability
that an image of class z is labelled g. Expectation-maximisation fits w and T:

- posterior (N, K): softmax over z of ln q + ln T[z, given];
- w: the maximum of Σ posterior · ln q, by Newton's method;
- T: the posterior counts of (z, given), each row drawn towards the overall rate of errors and towards errors that fall
  on all classes evenly. How strongly, in imagined errors per class (`pull`), is chosen by the likelihood of labels held
  out: little where errors follow pairs of classes, else much. Where classes have few images, pairs are learned from
  one or two errors. So if errors that fall on look-alikes, the classes that judges confuse, make the labels likelier
  than even ones do, rows are drawn half towards look-alikes. Judges confuse pairs of classes themselves, which looks
  like errors. But they do so on images of which they are not sure. So only images of the surer half on which judges err
  less often than labels are counted and held out, and errors are even unless it is certain that pairs or look-alikes
  make these labels likelier.

Everything else follows. A label's score is the posterior probability of the given class, the number of wrong labels is
the sum of 1 − score, and the class to propose is the most probable one.

How much a judge counts can only be learned where it has not seen the label that it judges.

Where opinions are kept on the classes near an image (see features/opinions.py), these are the columns of its logits,
and the last column is all others together. Labels go from these to the given one as from the mean of all classes.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import torch
from scipy.optimize import nnls
from torch import Tensor

PULLS = (4.0, 16.0, 64.0, 256.0, 1024.0)
FIRST_RATE = 0.05  # of wrong labels, to begin with
ROUNDS = 30
MOST_IMAGES = 200_000  # that weights and pull are fitted to
TOLERANCE = 1e-3  # of weights and rates


@dataclass(frozen=True)
class NoiseModel:
    """The fitted model."""

    weights: Tensor  # (J,), how much each judge counts
    errors: Tensor  # T, (K, K)
    pull: float  # the chosen strength, in imagined errors per class
    log_prior: Tensor  # ln q, (N, K)
    posterior: Tensor  # (N, K), probability of each class given the label


def fit_noise_model(
    logits: Tensor, labels: Tensor, classes: Tensor | None = None, device: torch.device | str = "cpu"
) -> NoiseModel:
    """Fit the model to logits (J, N, K) of J judges and to the given labels (N,), on a device; the model is on the CPU.

    Logits may also be (J, N, k) at classes (N, k), see `Opinion`. Of more than 200,000 images, as many that are drawn
    tell weights and pull; all tell T.
    """
    logits, labels = logits.to(device), labels.to(device)
    classes = None if classes is None else classes.to(device)
    judges, count = logits.shape[:2]
    number = logits.shape[2] if classes is None else int(classes[0, -1])
    weights = logits.new_full((judges,), 1 / judges)
    even = even_errors(logits, number)
    errors = FIRST_RATE * even + (1 - FIRST_RATE) * torch.eye(number).to(even)
    drawn = slice(None) if count <= MOST_IMAGES else _shuffled(labels)[:MOST_IMAGES]
    some = logits[:, drawn], labels[drawn], None if classes is None else classes[drawn]
    middle = PULLS[len(PULLS) // 2]
    weights, errors = _fit(*some, weights, errors, middle, even)
    prior = log_prior(logits, weights, classes)
    confused = confusions(prior[drawn], number, some[2])
    # If errors fall on look-alikes, there may be more than even ones explain.
    weights_then, errors_then = _fit(*some, weights, errors, middle, (even + confused) / 2)
    prior_then = log_prior(some[0], weights_then, some[2])
    rate = wrong_rate(posterior(prior_then, some[1], errors_then, some[2]), *some[1:])
    sure = surest(prior, classes, rate)
    pull, target = choose_pull(prior[drawn], some[1], errors, confused, sure[drawn], some[2])
    weights, errors = _fit(*some, weights, errors, pull, target, sure[drawn])
    prior = log_prior(logits, weights, classes)
    for _ in range(0 if count <= MOST_IMAGES else 3):
        errors = error_matrix(posterior(prior, labels, errors, classes), labels, sure, pull, target, classes)
    posteriors = posterior(prior, labels, errors, classes)
    return NoiseModel(weights.cpu(), errors.cpu(), pull, prior.cpu(), posteriors.cpu())


def even_errors(like: Tensor, number: int) -> Tensor:
    """(K, K), of K = `number` classes: the shares of wrong labels that fall on each class if all are hit alike."""
    return (1 - torch.eye(number, dtype=like.dtype, device=like.device)) / (number - 1)


def _shuffled(labels: Tensor) -> Tensor:
    """The numbers of images in an order that is always the same."""
    return torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).to(labels.device)


def log_prior(logits: Tensor, weights: Tensor, classes: Tensor | None = None) -> Tensor:
    """ln q (N, k), from logits (J, N, k) and weights (J,)."""
    logs = torch.einsum("j,jnk->nk", weights, logits)
    if classes is not None:
        logs[:, -1] += math.log(int(classes[0, -1]) - classes.shape[1] + 1)
    return torch.log_softmax(logs, dim=1)


def label_chances(errors: Tensor, labels: Tensor, classes: Tensor | None = None) -> Tensor:
    """ln T[z, given] (N, k) of labels (N,), for each class z."""
    if classes is None:
        return errors.log().T[labels]
    others = (errors.sum(dim=0) - errors.diagonal()) / (len(errors) - 1)
    chances = torch.cat([errors, others[None]]).log().flatten()
    return chances.index_select(0, _cells(labels, classes, len(errors))).view(classes.shape)


def _cells(labels: Tensor, classes: Tensor, number: int) -> Tensor:
    """The places (N · k,) of all pairs of true and given class in a flattened matrix (K + 1, K)."""
    return torch.add(labels[:, None], classes, alpha=number).flatten()


def posterior(prior: Tensor, labels: Tensor, errors: Tensor, classes: Tensor | None = None) -> Tensor:
    """Probability of each class (N, k) given the labels (N,): q(z) T[z, given], made to sum to 1."""
    return torch.softmax(prior + label_chances(errors, labels, classes), dim=1)


def beats_chance(prior: Tensor, labels: Tensor, posteriors: Tensor, classes: Tensor | None = None) -> bool:
    """Whether judges make the labels (N,) likelier than the shares of the classes do, with 95 % certainty.

    The likelihood is (1 − r) q + r (1 − q) / (K − 1), q that of the given class by ln q (N, K) and r the rate of errors
    by the posteriors (N, K), at most (K − 1) / K: it tells nothing that judges are always wrong. Else the images, or
    the labels, are such that nobody can tell them apart.
    """
    number = prior.shape[1] if classes is None else int(classes[0, -1])
    given = given_column(labels, classes)
    shares = torch.bincount(labels, minlength=number).double() / len(labels)
    rate = (1 - posteriors.gather(1, given).double().mean()).clamp_max(1 - 1 / number)
    q = prior.gather(1, given)[:, 0].double().exp()
    return proven(((1 - rate) * q + rate * (1 - q) / (number - 1)).log() - shares.log()[labels])


def given_column(labels: Tensor, classes: Tensor | None) -> Tensor:
    """The columns (N, 1) of the given classes (N,)."""
    return labels[:, None] if classes is None else (classes == labels[:, None]).int().argmax(dim=1, keepdim=True)


def proven(gain: Tensor, alternatives: int = 1) -> bool:
    """Whether the mean of gains (N,) in log-likelihood is above 0, with 95 % certainty.

    It is the highest of some alternatives: the more there are, the more standard errors it must lie above 0.
    """
    if len(gain) < 2:
        return False
    certain = NormalDist().inv_cdf(1 - 0.05 / 2 / alternatives)
    return bool(gain.mean() > certain * gain.std(correction=0) / math.sqrt(len(gain)) + 1e-9)  # of rounding


def surest(prior: Tensor, classes: Tensor | None = None, rate: Tensor | float = 1.0) -> Tensor:
    """The half of the images (N,) with the highest probability of any class by ln q (N, k): judges are surest of it.

    With a rate, only those of the half on which the most probable class is wrong no more often than that.
    """
    best = (prior if classes is None else prior[:, :-1]).amax(dim=1)
    return (best >= best.median()) & (-best.expm1() <= rate)


def wrong_rate(posteriors: Tensor, labels: Tensor, classes: Tensor | None = None) -> Tensor:
    """The share of wrong labels (N,) by the posteriors (N, k), (E + √N / 2) / (N + √N) for E wrong ones.

    This is the minimax estimate of a rate: it does not fall to 0 where judges err more often than labels.
    """
    count, few = len(labels), math.sqrt(len(labels))
    wrong = count - posteriors.gather(1, given_column(labels, classes)).sum()
    return (wrong + few / 2) / (count + few)


def confusions(prior: Tensor, number: int, classes: Tensor | None = None) -> Tensor:
    """(K, K), of K = `number` classes: the shares of wrong labels that fall on each class if they fall on look-alikes.

    Of class z, these are the sums of q (N, k), for each other class, over the images of which z is the most probable.
    """
    even, places = even_errors(prior, number), classes
    if places is None:
        places = torch.arange(number, device=prior.device).expand(prior.shape)
    best = places.gather(1, prior[:, : number if classes is None else -1].argmax(dim=1, keepdim=True))
    sums = prior.new_zeros(number * (number + 1))
    sums.index_add_(0, (best * (number + 1) + places).flatten(), prior.exp().flatten())
    sums = sums.view(number, number + 1)
    # What falls on all others together falls on each of them. A class that is never the most probable has even errors.
    shares = sums[:, :-1] * (even > 0) + (sums[:, -1:] + torch.finfo(prior.dtype).eps) * even
    return shares / shares.sum(dim=1, keepdim=True)


def error_matrix(
    posteriors: Tensor, labels: Tensor, sure: Tensor, pull: float, target: Tensor, classes: Tensor | None = None
) -> Tensor:
    """T (K, K) from the posteriors (N, k) of labels (N,), by the images that are `sure` (N,).

    Of n sure images of a class, e of them wrong, the rate is (e + pull) / (n + pull / r), r the rate over all classes;
    among wrong labels, class g has the share (e_g + pull · target_g) / (e + pull).
    """
    number, overall = len(target), wrong_rate(posteriors, labels, classes)
    posteriors, labels = posteriors[sure], labels[sure]
    if classes is None:
        counts = posteriors.new_zeros(number, number).index_add_(0, labels, posteriors).T  # by true and given class
    else:
        counts = posteriors.new_zeros((number + 1) * number)
        counts.index_add_(0, _cells(labels, classes[sure], number), posteriors.flatten())
        counts = counts.view(-1, number)
        counts = counts[:-1] + even_errors(counts, number) * counts[-1]  # those of all others fall on each of them
    wrong = counts - torch.diag(counts.diagonal())
    total = wrong.sum(dim=1)
    rate = (total + pull) / (counts.sum(dim=1) + pull / overall)
    return (wrong + pull * target) / (total + pull)[:, None] * rate[:, None] + torch.diag(1 - rate)


def improve_weights(logits: Tensor, posteriors: Tensor, weights: Tensor, classes: Tensor | None = None) -> Tensor:
    """One step of Newton's method towards the maximum of the mean of Σ posterior · ln q over w ≥ 0.

    The mean is over the images and one more, which would have the weights stay as they are: they cannot run away where
    judges are never wrong. A step that leaps over the maximum is halved until it climbs: far from it, Newton's method
    may swing between weights that are much too small and much too large.
    """
    count = logits.shape[1] + 1
    logs = log_prior(logits, weights, classes)
    prior = logs.exp()
    spread = logits - (prior * logits).sum(dim=2, keepdim=True)
    gradient = spread.flatten(1) @ (posteriors - prior).flatten() / count
    curvature = (prior * spread).flatten(1) @ spread.flatten(1).T / count
    curvature += torch.eye(len(weights), dtype=curvature.dtype, device=curvature.device) / count
    # The step's quadratic form, of which w ≥ 0 is to be the maximum, as least squares |Rw − b|².
    root = torch.linalg.cholesky(curvature.double()).T
    target = root @ weights.double() + torch.linalg.solve(root.T, gradient.double())
    step = torch.from_numpy(nnls(root.cpu().numpy(), target.cpu().numpy())[0]).to(weights) - weights
    reached = (posteriors * logs).sum(dtype=torch.float64)
    while (
        float(step.abs().max()) > TOLERANCE
        and (posteriors * log_prior(logits, weights + step, classes)).sum(dtype=torch.float64) < reached
    ):
        step /= 2
    return weights + step


def _fit(
    logits: Tensor,
    labels: Tensor,
    classes: Tensor | None,
    weights: Tensor,
    errors: Tensor,
    pull: float,
    target: Tensor,
    sure: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Weights (J,) and T (K, K) for one pull and target, from those of an earlier fit.

    T is counted on the sure images (N,), by default on the surer half.
    """
    for _ in range(ROUNDS):
        before = torch.cat([weights, errors.diagonal()])
        prior = log_prior(logits, weights, classes)
        counted = surest(prior, classes) if sure is None else sure
        for _ in range(3):
            errors = error_matrix(posterior(prior, labels, errors, classes), labels, counted, pull, target, classes)
        weights = improve_weights(logits, posterior(prior, labels, errors, classes), weights, classes)
        if float((torch.cat([weights, errors.diagonal()]) - before).abs().max()) < TOLERANCE:
            break
    return weights, errors


def choose_pull(
    prior: Tensor, labels: Tensor, errors: Tensor, confused: Tensor, sure: Tensor, classes: Tensor | None = None
) -> tuple[float, Tensor]:
    """How strongly rows of T are drawn, and towards what (K, K), by the likelihood of labels of sure images held out.

    Strongly towards even errors, unless another pull is proven to be better; half towards look-alikes (`confused`), if
    these are proven to be better than even errors with any pull. They must also be better on the surer half of the sure
    images: where judges are surer, they err less, but labels do not.
    """
    even = even_errors(errors, len(errors))
    pull, likelihood = _likeliest(prior, labels, errors, sure, even, classes)
    other_pull, of_confused = _likeliest(prior, labels, errors, sure, confused, classes)
    gain = of_confused[other_pull] - likelihood
    surer = surest(prior[sure], classes)
    if all(proven(gain[than], len(PULLS)) for than in (pull, -1)) and proven(gain[-1, surer]):
        return PULLS[other_pull], (even + confused) / 2
    return PULLS[pull] if proven(likelihood[pull] - likelihood[-1], len(PULLS) - 1) else PULLS[-1], even


def _likeliest(
    prior: Tensor, labels: Tensor, errors: Tensor, sure: Tensor, target: Tensor, classes: Tensor | None
) -> tuple[int, Tensor]:
    """The place in PULLS of the likeliest one, and log-likelihoods (pulls, sure images) of labels held out."""
    likelihood = prior.new_zeros(len(PULLS), len(labels), dtype=torch.float64)
    half = _shuffled(labels) % 2 == 0
    for known in (half, ~half):
        (q, given, at), (q_new, new, at_new) = (
            (prior[m], labels[m], None if classes is None else classes[m]) for m in (known, ~known)
        )
        for index, pull in enumerate(PULLS):
            fitted = errors
            for _ in range(4):
                fitted = error_matrix(posterior(q, given, fitted, at), given, sure[known], pull, target, at)
            likelihood[index, ~known] = torch.logsumexp(q_new + label_chances(fitted, new, at_new), dim=1).double()
    return int(likelihood[:, sure].sum(dim=1).argmax()), likelihood[:, sure]
