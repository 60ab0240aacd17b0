"""Softmax heads that learn the true classes although some labels are wrong.

A head that learns the labels as they are learns the errors too, and then confirms them. Here its probabilities p(z) of
the true class pass through the matrix of errors T before they meet the label (Patrini et al., 2017): the label g has
the likelihood Σ_z p(z) T[z, g]. Where classes are many, such probabilities tell more than distances of capsules.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from hitnet.features.heads import HeadOptions, batches, deal, descend, drop, mean_of_seen
from hitnet.features.least_squares import BLOCK, standardisation
from hitnet.runtime.progress import Progress

RATE = 1e-3  # the highest learning rate


def fit_softmax_heads(
    features: Tensor,
    labels: Tensor,
    errors: Tensor,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress = Progress(),
) -> Callable[[Tensor], Tensor]:
    """What heads that have not seen images (B,) say of them: ln p (B, K).

    They learn from features (N, D), labels (N,) and errors T (K, K): T[z, g] > 0 is the probability that an image of
    class z is labelled g. The seed decides folds, batches and dropout; `progress` is called after each step.
    """
    options, classes, count = HeadOptions(), len(errors), len(labels)
    draw, noise = torch.Generator().manual_seed(seed), torch.Generator(device).manual_seed(seed)
    labels = labels.to("cpu", torch.int64)
    dealt, labels = deal(labels, options.folds, draw).to(device), labels.to(device)
    features, chances = features.to(device), errors.to(device).log().T.contiguous()  # (K, K), of each label by class
    mean, scale = standardisation(features)
    weight = torch.zeros(features.shape[1], options.folds * classes, device=device, requires_grad=True)
    bias = torch.zeros(options.folds * classes, device=device, requires_grad=True)

    def said(index: Tensor, dropout: float) -> Tensor:
        """ln p (B, F, K) by all heads."""
        rows = drop((features[index].float() - mean) * scale, dropout, noise)
        return torch.log_softmax((rows @ weight + bias).view(len(index), -1, classes), dim=2)

    def loss(index: Tensor) -> Tensor:
        losses = -torch.logsumexp(said(index, options.dropout) + chances[labels[index], None], dim=2)  # (B, F)
        return mean_of_seen(losses, dealt[index])

    steps, size = options.steps_for(count), min(options.batch, count)
    descend([weight, bias], RATE, batches(count, steps, size, draw, device), loss, progress)

    @torch.no_grad()
    def judge(index: Tensor) -> Tensor:
        parts = index.split(BLOCK)
        return torch.cat([said(part, 0.0)[torch.arange(len(part)), dealt[part]] for part in parts])

    return judge
