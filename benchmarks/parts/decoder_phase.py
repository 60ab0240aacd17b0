"""Train only the decoder further, after its classifier is finished: the capsules then no longer move."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hitnet
from hitnet.losses import CentripetalLoss
from hitnet.models.decoders import DenseDecoder
from hitnet.models.features import keras_init
from hitnet.models.hybrid import decode_batch, encode_batch, need_decoder
from hitnet.models.network import Network, to_device
from hitnet.runtime.device import training_precision
from hitnet.synthesis.distributions import fit, paper_gaussians, true_capsules
from hitnet.training.augmentation import augment, draw
from hitnet.training.batches import epoch_seed


@dataclass(frozen=True)
class Phase:
    """Epochs of only the decoder, by Adam from 1e-3 down to 0 (cosine), on images shifted as in training.

    Attributes:
        name: What it is called in the record.
        epochs: Passes over the images.
        width: 1 continues with the decoder as it is; N > 1 starts a new dense decoder, N times as wide.
        named: Weight, beside the reconstruction, of the centripetal loss of pictures decoded from Gaussian capsules:
            the classifier must name their class.
        batch_size: Images per step.
        learning_rate: The first learning rate.
    """

    name: str
    epochs: int = 10
    width: int = 1
    named: float = 0.0
    batch_size: int = 512
    learning_rate: float = 1e-3

    @property
    def work(self) -> float:
        """About how many epochs of a whole training take as long. Features are computed once; for decoded pictures
        also backwards."""
        return self.epochs * (1 / 3 + (1 if self.named else 0))


def widen(decoder: nn.Module, width: int) -> None:
    """Give a dense decoder new layers, `width` times as wide."""
    if not isinstance(decoder, DenseDecoder):
        raise SystemExit("only a dense decoder can be made wider here")
    first, last = decoder.layers[0], decoder.layers[-1]
    decoder.layers = nn.Sequential(
        nn.Linear(first.in_features, 512 * width),
        nn.ReLU(),
        nn.Linear(512 * width, 1024 * width),
        nn.ReLU(),
        nn.Linear(1024 * width, last.out_features),
    )
    keras_init(decoder)


class Sampler:
    """Draws capsules, followed by their extra components.

    Every other capsule comes from its class's Gaussian, fitted to the images as they are; the rest come from the
    paper's N(0.5, m/√n), so that the surroundings of the prototype are seen too.
    """

    def __init__(self, network: Network, images: hitnet.Images) -> None:
        laws = (fit(true_capsules(network, images), images.labels, images.num_classes), paper_gaussians(network))
        device, classes = next(network.parameters()).device, range(images.num_classes)
        roots = torch.stack([torch.stack([law.root(k) for k in classes]) for law in laws])
        self.mean = torch.stack([law.mean for law in laws]).float().to(device)
        self.roots = roots.float().to(device)

    def __call__(self, labels: Tensor) -> Tensor:
        law = torch.arange(len(labels), device=labels.device) % 2
        normal = torch.randn(len(labels), self.mean.shape[2], 1, device=labels.device)
        return self.mean[law, labels] + (self.roots[law, labels] @ normal)[..., 0]


def train_decoder(run: hitnet.Run, images: hitnet.Images, phase: Phase) -> hitnet.Run:
    """The run with a decoder trained further; the run that is given stays as it is."""
    network = copy.deepcopy(run.model).eval().requires_grad_(False)
    decoder, device, seed = need_decoder(network), next(network.parameters()).device, run.config.seed
    torch.manual_seed(seed)
    if phase.width > 1:
        widen(decoder, phase.width)
    decoder.to(device).train().requires_grad_(True)
    sampler = Sampler(network, images) if phase.named else None
    optimizer = torch.optim.Adam(decoder.parameters(), lr=phase.learning_rate, eps=1e-7, fused=True)
    recipe = replace(run.config.recipe, flip=run.config.recipe.flip and images.flip)
    pixels, labels = images.pixels.to(device), images.labels.to(device)
    steps = phase.epochs * -(-len(images) // phase.batch_size)
    done = 0
    for epoch in range(1, phase.epochs + 1):
        # Epochs continue the classifier's numbering, so that these shifts are new.
        generator = torch.Generator().manual_seed(epoch_seed(seed, recipe.epochs + epoch))
        order = torch.randperm(len(images), generator=generator).to(device)
        draws = draw(recipe, len(images), images.shape[1:], generator).to(device)
        for index, drawn in zip(order.split(phase.batch_size), draws.split(phase.batch_size), strict=True):
            optimizer.param_groups[0]["lr"] = phase.learning_rate * 0.5 * (1 + math.cos(math.pi * done / steps))
            seen = to_device(augment(recipe, pixels[index], drawn), device)
            optimizer.zero_grad(set_to_none=True)
            with training_precision(device):
                loss = rebuilding(network, seen, labels[index])
                if sampler is not None:
                    loss = loss + phase.named * naming(network, sampler(labels[index]), labels[index])
            loss.backward()
            optimizer.step()
            done += 1
    network.eval().requires_grad_(True)
    if device.type == "cuda":
        torch.cuda.synchronize()  # so that it can be timed
    return replace(run, model=network)


def rebuilding(network: Network, seen: Tensor, labels: Tensor) -> Tensor:
    """Mean squared error of what is decoded from the true class's capsule."""
    with torch.no_grad():
        capsules, extra = encode_batch(network, seen, labels)
    return F.mse_loss(decode_batch(network, capsules, labels, extra), seen)


def naming(network: Network, vectors: Tensor, labels: Tensor) -> Tensor:
    """The classifier's own loss on pictures decoded from capsules and extra components (B, n + e)."""
    n = network.config.capsule_dim
    extra = vectors[:, n:] if network.config.extra_dim else None
    pictures = decode_batch(network, vectors[:, :n], labels, extra)
    return CentripetalLoss(capsule_dim=n)(network(pictures, reconstruct=False).distances, labels)
