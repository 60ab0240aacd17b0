"""Ghosts in heads on features: do they find more wrong labels? Heads whose loss excuses the likeliest wrong class.

python benchmarks/ghost_heads.py [CLOTHING] [--cifar10n FILE.npz --data-dir DATA] [--seeds 100 101] [--cache FOLDER]

CLOTHING is a copy of clothing-dataset-small, as for photographs.py; 5 % of its labels are made wrong (the seeds are not
those reported elsewhere). FILE.npz holds the arrays `clean` and `aggregate` of CIFAR-10N: people's labels of the first
5,000 images; there the seed is only that of the heads. Heads are the audit's own on features of the frozen
EfficientNet-Lite0: Hit-or-Miss with the centripetal loss, and softmax; each without ghosts, with one ghost per image
("always"), and with a ghost only where it is likelier than the label ("nearer"). Prints the average precision of the
audit's score "margin". TRIALS.md has the outcome.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

import hitnet
from hitnet.audit import scores
from hitnet.audit.margins import margins
from hitnet.capsules import HIT_RADIUS
from hitnet.features.cache import cached_features
from hitnet.features.extraction import extract
from hitnet.features.heads import _Heads, _standardisation
from hitnet.features.opinions import HIT_OR_MISS, SOFTMAX
from hitnet.losses import centripetal_loss, ghost_loss, ghost_mask
from hitnet.models.backbones import open_backbone
from parts.noisy_labels import KINDS, clothing_files, with_noise

RULES = ("none", "always", "nearer")
CIFAR_IMAGES = 5_000


class GhostHeads(_Heads):
    """Heads whose loss excuses one wrong class per image."""

    rule = "none"

    def losses(self, inputs: Tensor, labels: Tensor) -> Tensor:
        outputs = torch.bmm(inputs, self.weight).transpose(0, 1).flatten(1)
        labels = labels.T
        truth = (labels[..., None] == torch.arange(self.num_classes)).flatten(0, 1)
        if self.options.loss == "softmax":
            logits = self.per_class(outputs + self.bias)[..., 0].flatten(0, 1)
            each = ghost_loss(logits, truth, self.excused(-logits, truth))
        else:
            distances = self.distances(self.normalise(outputs, training=True)).flatten(0, 1)
            each = centripetal_loss(distances, truth, excused=self.excused(distances, truth))
        return each.view(labels.shape).mean(dim=0)

    def excused(self, distances: Tensor, truth: Tensor) -> Tensor:
        if self.rule == "none":
            return torch.zeros_like(truth)
        return ghost_mask(distances, truth, ghosts=1, rule=self.rule)


def judged(features: Tensor, given: np.ndarray, rule: str, seed: int) -> dict[str, np.ndarray]:
    """Distances (3, N, K) of each kind of heads, on one scale."""
    labels, scaling = torch.from_numpy(given), _standardisation(features[None])
    said: dict[str, list[Tensor]] = {"hit-or-miss": [], "softmax": []}
    for options in (HIT_OR_MISS, SOFTMAX):
        for repeat in range(options.repeats):
            draw = torch.Generator().manual_seed(seed * 1_000_003 + repeat)
            heads = GhostHeads(features[None], labels, 10, options, draw, scaling)
            heads.rule = rule
            heads.train()
            judgement = heads.judge()
            said[options.loss].append(judgement if options.loss == "hit-or-miss" else -HIT_RADIUS * judgement)
    return {loss: torch.stack(distances).numpy().astype(np.float64) for loss, distances in said.items()}


def cases(args: argparse.Namespace) -> Iterator[tuple[str, Tensor, np.ndarray, Callable[[int], np.ndarray]]]:
    """Name, features and true labels of each case, and the labels to judge by seed."""
    backbone = open_backbone("efficientnet-lite0")
    if args.photos is not None:
        files, truth = clothing_files(args.photos)
        features = cached_features(files, backbone, folder=args.cache)
        for kind in KINDS:
            yield f"clothing {kind}", features, truth, partial(with_noise, truth, kind)
    if args.cifar10n is not None:
        images = hitnet.open_data("cifar10", data_dir=args.data_dir).load("train").first(CIFAR_IMAGES)
        labels = np.load(args.cifar10n, allow_pickle=False)
        truth, people = (labels[name][:CIFAR_IMAGES].astype(np.int64) for name in ("clean", "aggregate"))
        if not np.array_equal(truth, images.labels.numpy()):
            raise SystemExit("the clean labels of CIFAR-10N do not match CIFAR-10's order")
        yield "CIFAR-10N", extract(images.pixels, backbone), truth, lambda seed: people


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="?")
    parser.add_argument("--cifar10n", type=Path)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    for case, features, truth, labels in cases(args):
        for seed, rule in product(args.seeds, RULES):
            given = labels(seed)
            kinds = judged(features, given, rule, seed)
            kinds["both"] = np.concatenate(list(kinds.values()))
            doubts = {loss: scores.doubt(margins(each, given), given).value for loss, each in kinds.items()}
            figures = {loss: round(average_precision_score(given != truth, doubt), 4) for loss, doubt in doubts.items()}
            print(f"seed {seed}, {case}, ghosts {rule}: {figures}", flush=True)


if __name__ == "__main__":
    main()
