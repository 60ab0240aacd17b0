"""Rivals of the engine on a GPU: the loop of a tutorial, and the CapsNet of public PyTorch code."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hitnet
from hitnet.losses import CentripetalLoss
from hitnet.models import Output
from parts.comparison import MarginLoss

BATCH = 128
STEPS = 100  # timed


class TextbookCapsNet(nn.Module):
    """CapsNet (Sabour et al., 2017) as its formulas say: all votes in memory, routed three times in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 256, 9), nn.Conv2d(256, 256, 9, stride=2)
        self.weight = nn.Parameter(0.05 * torch.randn(1, 1152, 10, 16, 8))
        sizes = (160, 512, 1024, 784)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.decoder = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], nn.Sigmoid())

    @staticmethod
    def squash(vectors: Tensor) -> Tensor:
        length = vectors.norm(dim=-1, keepdim=True)
        return length**2 / (1 + length**2) * vectors / (length + 1e-8)

    def votes(self, images: Tensor) -> Tensor:
        maps = self.conv2(F.relu(self.conv1(images)))
        primary = self.squash(maps.view(len(images), 32, 8, -1).permute(0, 1, 3, 2).reshape(len(images), 1152, 8))
        return (self.weight @ primary[:, :, None, :, None]).squeeze(-1)

    def forward(self, images: Tensor, targets: Tensor) -> Output:
        votes = self.votes(images)
        logits = torch.zeros_like(votes[..., :1])
        for i in range(3):
            capsules = self.squash((logits.softmax(dim=2) * votes).sum(dim=1, keepdim=True))
            if i < 2:
                logits = logits + (votes * capsules).sum(dim=-1, keepdim=True)
        capsules = capsules.squeeze(1)
        lengths = capsules.norm(dim=-1)
        kept = capsules * F.one_hot(targets, 10)[..., None]
        return Output(capsules, lengths, lengths.argmax(dim=1), self.decoder(kept.flatten(1)).view_as(images))


def textbook_step(network: nn.Module, train: hitnet.Images) -> Callable[[], None]:
    """One step of a plain loop on a batch that is on the GPU already: eager, float32, Adam."""
    network = network.cuda().train()
    loss: nn.Module = MarginLoss() if isinstance(network, TextbookCapsNet) else CentripetalLoss()
    optimizer = torch.optim.Adam(network.parameters())
    images, labels = train.pixels[:BATCH].cuda().float() / 255, train.labels[:BATCH].cuda()

    def step() -> None:
        output = network(images, labels)
        total = loss(output.distances, labels) + 0.392 * F.mse_loss(output.reconstruction, images)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()

    return step


def images_per_second(step: Callable[[], None]) -> float:
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return BATCH * STEPS / (time.perf_counter() - started)
