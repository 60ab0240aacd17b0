"""From opinions and labels to scores, flags and suggestions, by the noise model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hitnet.audit.margins import Floats, Margins, margins
from hitnet.audit.margins import doubt as doubt_by_networks
from hitnet.audit.noise_model import NoiseModel, beats_chance, fit_noise_model, label_chances, log_prior
from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.errors import log
from hitnet.features.opinions import Ints, Opinion, all_distances, class_at, column_of

Mask = npt.NDArray[np.bool_]
PRECISION = 0.9  # expected of the labels that are flagged as wrong
FEWEST_IMAGES = 5  # of a class, whose labels may be flagged and counted
FEWEST_CONTRADICTED = 5  # labels, for which another class is more probable, that a number of errors needs
HALFWAY = (HIT_RADIUS + MISS_RADIUS) / 2
UNSURE = 0.1  # of the images, on which judges are taken to be half as sure as they say when labels are ranked
# By which factors the number of wrong labels may differ from the expected one; see the evidence of the audit.
LESS, MORE = 1.35, 3.3

FLAGS = {
    "wrong": "another class is so much more probable that about nine of ten such labels are wrong",
    "doubtful": "among the most doubtful labels, but not sure enough to be called wrong",
    "ambiguous: two labels": (
        f"given and suggested class both nearer than {HALFWAY} on average, less than {HIT_RADIUS * 3:.1f} apart"
    ),
    "none of the classes": f"every class's capsule misses on average (distance of at least {MISS_RADIUS})",
    "ok": "none of the other rules",
}


@dataclass(frozen=True)
class Scores:
    """What opinions come to, for N labels."""

    score: Floats  # (N,), the probability that the label is right
    doubt: Floats  # (N,), by which labels are ranked, the highest first
    suggested: Ints  # (N,), the class to propose
    flag: list[str]  # (N,), one of FLAGS, which also has the rule of each
    # Where the opinions can tell: between which numbers that of the wrong labels probably lies, and a sentence on it.
    error_range: tuple[float, float] | None = None
    sentence: str | None = None


def capsule_opinions(opinions: Sequence[Opinion]) -> list[Opinion]:
    """The opinions whose distances are those of capsules, as the page draws them; all if there are none."""
    return [opinion for opinion in opinions if opinion.capsules] or list(opinions)


def logits_by_kind(opinions: Sequence[Opinion]) -> Tensor:
    """Logits (J, N, k) of the J kinds of judges: the mean of their distances, in hit radii, turned round."""
    kinds = dict.fromkeys(opinion.kind for opinion in opinions)
    means = [all_distances(each for each in opinions if each.kind == kind).mean(axis=0) for kind in kinds]
    return -torch.from_numpy(np.stack(means)).float() / HIT_RADIUS


def score_labels(opinions: Sequence[Opinion], labels: Ints, device: torch.device | str = "cpu") -> Scores:
    """Score labels (N,) by all opinions; the noise model is fitted on a device.

    Heads and others that have not seen the labels say how much each of them counts, how errors came about, and so how
    many labels are wrong. Networks that have seen them join with their weight (see judgement.py): they change the order
    of the labels, not their scores as a whole. Alone, or with the most similar images, they say no number (margins.py).
    Judges that do no better than chance are not heard.
    """
    given, classes = torch.from_numpy(labels), opinions[0].classes
    at, own = (None if classes is None else torch.from_numpy(classes)), column_of(labels, classes)
    unseen, seen = ([each for each in opinions if each.in_sample is kind] for kind in (False, True))
    can_tell = any(opinion.capsules for opinion in unseen)
    if can_tell:
        logits = logits_by_kind(unseen)
        model = fit_noise_model(logits, given, at, device)
        if not beats_chance(model.log_prior, given, model.posterior, at):
            return score_labels(seen, labels) if seen else unknown(labels)
        chances = label_chances(model.errors, given, at)
        doubt, rival = log_odds((model.log_prior + chances).double(), own, classes)
    else:
        by_networks = doubt_by_networks(margins(all_distances(opinions), labels, classes), labels)
        doubt, rival = by_networks.value / HIT_RADIUS, by_networks.rival
    score = 1 / (1 + np.exp(np.clip(doubt, -500, 500)))
    if can_tell:
        joint = (cautious(logits, model, at) + chances).double()
        if seen and seen[0].weight is not None:
            joint += seen[0].weight * freed_logits(seen, own)
        doubt, rival = log_odds(joint, own, classes)
        score[np.argsort(-doubt, kind="stable")] = np.sort(score)
    lonely = images_of_small_classes(labels, 2)
    score[lonely], doubt[lonely] = 0.5, 0.0
    shown = margins(all_distances(capsule_opinions(opinions)), labels, classes)
    near = shown.mean.min(axis=1) < MISS_RADIUS  # others get another flag
    wrong = near & (score < 0.5)
    told: tuple[tuple[float, float] | None, str | None] = (None, None)
    if can_tell:
        few = images_of_small_classes(labels, FEWEST_IMAGES)
        wrong = near & flagged(np.where(few, 0, 1 - score))
        told = count_errors(1 - score, wrong, few)
        wrong &= told[0] is not None
    flags = flag_labels(shown, doubt, rival, wrong, lonely, expected=round(float((1 - score)[~lonely].sum())))
    two_labels = np.array(flags) == "ambiguous: two labels"
    suggested = np.where((score < 0.5) | two_labels, rival, labels)
    return Scores(score, doubt, suggested, flags, *told)


def cautious(logits: Tensor, model: NoiseModel, classes: Tensor | None) -> Tensor:
    """ln q (N, k) of the model if judges, with logits (J, N, k), were half as sure as they say on one image in ten.

    Where judges contradict a label with great confidence, it then matters more whether they find it possible at all.
    """
    unsure = log_prior(logits, model.weights / 2, classes) + math.log(UNSURE)
    return torch.logaddexp(model.log_prior + math.log(1 - UNSURE), unsure)


def log_odds(joint: Tensor, own: Ints, classes: Ints | None) -> tuple[Floats, Ints]:
    """How much more probable than the given class all others are together (N,), and the strongest of them (N,).

    `joint` (N, k) are logarithms of probabilities up to a constant per image, `own` (N,) the column of the given class.
    """
    given = torch.from_numpy(own)[:, None]
    rest = joint.scatter(1, given, -torch.inf)
    named = rest if classes is None else rest[:, :-1]
    odds = rest.logsumexp(dim=1) - joint.gather(1, given)[:, 0]
    return odds.numpy(), class_at(named.argmax(dim=1).numpy(), classes)


def freed_logits(opinions: Sequence[Opinion], own: Ints) -> Tensor:
    """Logits (N, k) of networks that were trained on the labels, by how much less than usual they confirm them.

    Such networks confirm nearly every label. The given class, in the column `own` (N,), therefore loses what it usually
    leads by, the median.
    """
    logits, given = logits_by_kind(opinions).sum(dim=0), torch.from_numpy(own)[:, None]
    own_logits = logits.gather(1, given)
    lead = own_logits - logits.scatter(1, given, -torch.inf).amax(dim=1, keepdim=True)
    return logits.scatter(1, given, own_logits - lead.median())


def images_of_small_classes(labels: Ints, fewest: int) -> Mask:
    """Which labels (N,) belong to classes with fewer images than that; a warning tells what this means for them."""
    counts = np.bincount(labels)
    small: Mask = counts[labels] < fewest
    number = int(((counts > 0) & (counts < fewest)).sum())
    if number:
        classes, have = ("1 class", "has") if number == 1 else (f"{number:,} classes", "have")
        size = "a single image" if fewest == 2 else f"fewer than {fewest} images"
        what = "cannot be judged" if fewest == 2 else "are ranked, but neither counted nor flagged as wrong"
        log.warning("%s %s %s: such labels %s.", classes, have, size, what)
    return small


def unknown(labels: Ints) -> Scores:
    """Scores of labels (N,) whose images nobody can tell apart: 0.5 each."""
    count = len(labels)
    sentence = (
        "These images cannot be told apart: judges that have not seen a label guess it no better than chance. So no "
        "label can be called right or wrong."
    )
    return Scores(np.full(count, 0.5), np.zeros(count), labels.copy(), ["ok"] * count, None, sentence)


def flagged(probability: Floats) -> Mask:
    """The most probably wrong labels, as many as keep the mean of their probabilities at PRECISION or more."""
    order = np.argsort(-probability, kind="stable")
    running = np.cumsum(probability[order]) / np.arange(1, len(order) + 1)
    chosen = np.zeros(len(order), np.bool_)
    chosen[order] = (running >= PRECISION) & (probability[order] > 0.5)
    return chosen


def count_errors(probability: Floats, wrong: Mask, few: Mask) -> tuple[tuple[float, float] | None, str]:
    """Between which numbers that of the wrong labels probably lies, where this can be told, and a sentence on it.

    From the `probability` (N,) that each label is wrong, which labels are flagged as `wrong` (N,), and which belong to
    classes with too `few` images (N,).
    """
    judged = probability[~few]
    if not len(judged):
        return None, (
            f"No class has {FEWEST_IMAGES} images: these are too few to tell how many labels are wrong. The order says "
            "where to look first."
        )
    count, contradicted = len(judged), int((judged > 0.5).sum())
    if contradicted < FEWEST_CONTRADICTED:
        return None, (
            f"Too few labels are contradicted ({contradicted} of {count:,}) to say how many are wrong: go through the "
            "most doubtful ones."
        )
    expected, spread = float(judged.sum()), 2 * float(np.sqrt((judged * (1 - judged)).sum()))
    low, high = max(0.0, expected / LESS - spread), min(float(count), expected * MORE + spread)
    about = f"About {expected:,.0f} of {count:,} labels are wrong ({low:,.0f} to {high:,.0f})"
    which = ", but no single label is sure enough to be flagged as wrong: go through the doubtful ones."
    if wrong.any():
        which = (
            f". {int(wrong.sum()):,} are flagged as wrong; about {float(probability[wrong].mean()):.0%} of these are."
        )
    return (low, high), f"{about}{which}"


def flag_labels(
    evidence: Margins, doubt: Floats, rival: Ints, wrong: Mask, lonely: Mask, *, expected: int
) -> list[str]:
    """One of FLAGS per image. If several rules hold, the first one below counts.

    From the distances of capsules, the doubt (N,) of each label, the strongest other class (N,), which labels are wrong
    by their score (N,), and which cannot be judged (N,). As many of the most doubtful labels as are `expected` to be
    wrong are at least "doubtful".
    """
    doubtful = np.zeros(len(doubt), np.bool_)
    doubtful[np.argsort(-doubt, kind="stable")[:expected]] = True
    given, other = evidence.given_distance, evidence.distance_of(rival)
    rules = {
        "none of the classes": evidence.mean.min(axis=1) >= MISS_RADIUS,
        "wrong": wrong,
        "ambiguous: two labels": (given < HALFWAY) & (other < HALFWAY) & (np.abs(given - other) < 3 * HIT_RADIUS),
        "doubtful": doubtful,
    }
    return np.where(lonely, "ok", np.select(list(rules.values()), list(rules), default="ok")).tolist()
