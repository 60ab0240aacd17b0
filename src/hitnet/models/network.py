"""A network: a feature extractor, a head of capsules, and optionally a decoder; and its answers in batches."""

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.capsules import QUICK_MOMENTUM, CapsuleLayer, check_tensor
from hitnet.errors import HitNetError, check_entries, finite, unknown_name, whole
from hitnet.losses import misfit
from hitnet.models.decoders import DECODERS, Decoder, ExtraComponents, build_decoder
from hitnet.models.features import BackboneFeatures, Features
from hitnet.models.folding import PACKS, folded
from hitnet.models.registry import FEATURES, HEADS, is_backbone, not_registered
from hitnet.runtime import schemas
from hitnet.runtime.device import evaluation_batch, evaluation_precision, filled

PRETRAINED_BATCH = 64  # images per step of a backbone's training: a GPU takes seconds to prepare another size
CPU_BATCH = 4  # images in a backbone at a time: their maps fit into a core's cache
FEW = 64  # images; for fewer, `for_inference` does not pay


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to build a network; stored beside its weights.

    Attributes:
        in_shape: (C, H, W) of an image.
        num_classes: K.
        capsule_dim: Components of a capsule, n (paper: 16).
        features: Feature extractor by name: paper, small, resnet9, a registered one (`register_features`), or a
            pretrained backbone, "efficientnet-lite0" or "timm:NAME".
        head: Head by name: hit-or-miss, softmax, or a registered one (`register_head`).
        decoder: paper (the capsule itself), standardised (its deviation in units of m/√n), conv (the same, decoded by
            convolutions) or none.
        reconstruction_weight: α of the loss L1 + α L2 (paper: 0.392).
        extra_dim: Components that only the decoder sees, e.g. for the background (paper: 0).
        norm: Which values share a mean and a variance in the head's batch-norm: shared (those of one component, over
            all classes; paper), each (none) or class (those of one class). None: the head's first.
        weights: A .safetensors file that a backbone starts from. None: its published weights.
        typical: Whether the network keeps the mean features of each class, to tell images that are unlike all of them.
    """

    in_shape: tuple[int, int, int]
    num_classes: int
    capsule_dim: int = 16
    features: str = "paper"
    head: str = "hit-or-miss"
    decoder: str = "paper"
    reconstruction_weight: float = 0.392
    extra_dim: int = 0
    weights: str | None = None
    norm: str | None = None
    typical: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_shape", tuple(self.in_shape))
        if len(self.in_shape) != 3 or min(self.in_shape) < 1:
            raise HitNetError(f"in_shape must be (channels, height, width); got {self.in_shape}.")
        for name, least in (("num_classes", 1), ("capsule_dim", 1), ("extra_dim", 0)):
            object.__setattr__(self, name, whole("Network", name, getattr(self, name), least))
        weight = finite("Network", "reconstruction_weight", self.reconstruction_weight)
        object.__setattr__(self, "reconstruction_weight", weight)
        if self.num_classes < 2:
            raise HitNetError(f"A classifier needs at least two classes; got {self.num_classes}.")
        if self.features not in FEATURES and not is_backbone(self.features):
            raise not_registered("feature extractor", self.features, FEATURES)
        if self.weights is not None and not self.pretrained:
            raise HitNetError(
                f"`weights` are for a pretrained backbone, not for features {self.features!r}. Choose the model "
                "hitnet-pretrained."
            )
        if self.head not in HEADS:
            raise not_registered("head", self.head, HEADS)
        norms = HEADS[self.head].norms
        if self.norm is None and norms:
            object.__setattr__(self, "norm", norms[0])
        elif self.norm is not None and self.norm not in norms:
            known = f"only the batch-norm {' and '.join(norms)}" if norms else "no batch-norm"
            raise HitNetError(
                f"norm: the head {self.head!r} has {known}; got {self.norm!r}. Leave it out, or choose another head."
            )
        if self.decoder not in DECODERS:
            raise unknown_name("decoder", self.decoder, DECODERS)
        if HEADS[self.head].loss == "cross-entropy" and self.decoder != "none":
            raise HitNetError(
                f"A softmax head has no capsules for decoder {self.decoder!r}. Use decoder 'none', or another head."
            )
        if self.pretrained and self.in_shape[0] not in (1, 3):
            raise HitNetError(f"A pretrained backbone takes grey or colour images; got {self.in_shape[0]} channels.")
        if self.extra_dim and self.decoder == "none":
            raise HitNetError("extra_dim adds inputs to the decoder, but decoder is 'none'. Choose a decoder.")

    @property
    def pretrained(self) -> bool:
        """Whether the features are those of a pretrained backbone."""
        return is_backbone(self.features)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"in_shape": list(self.in_shape)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        check_entries("model option", values, (f.name for f in fields(cls)))
        schemas.check_schema(values, schemas.schema_of(cls), "the network's configuration")
        return cls(**values)


class Output(NamedTuple):
    """The output of a network for B images.

    Attributes:
        capsules: (B, K, n).
        distances: (B, K), the prediction vector of the paper.
        prediction: (B,), index of the winning class.
        reconstruction: (B, C, H, W) in [0, 1], decoded from the capsule of the true class in training, and of the
            predicted class otherwise. None without a decoder.
        extra: (B, e), the extra components. None for a network without them.
        misfit: (B,), how unlike the images of every class it is; see `Network.misfits`.
    """

    capsules: Tensor
    distances: Tensor
    prediction: Tensor
    reconstruction: Tensor | None
    extra: Tensor | None = None
    misfit: Tensor | None = None


class Network(nn.Module):
    """An image classifier, built from its configuration."""

    typical: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        shape, name = config.in_shape, config.features
        self.features: Features = (
            BackboneFeatures(shape, name, frozen=config.typical) if config.pretrained else FEATURES[name](shape)
        )
        norm = {} if config.norm is None else {"norm": config.norm}
        self.head = HEADS[config.head](self.features.num_features, config.num_classes, config.capsule_dim, **norm)
        if config.pretrained and isinstance(self.head, CapsuleLayer):
            self.head.norm.momentum = QUICK_MOMENTUM
        self.extra: ExtraComponents | None = None
        if config.extra_dim:
            self.extra = ExtraComponents(self.features.num_features, config.extra_dim)
        if config.typical:
            self.register_buffer("typical", torch.zeros(config.num_classes, self.features.num_features))
        inputs = config.num_classes * config.capsule_dim + config.extra_dim
        self.decoder: Decoder | None = build_decoder(config.decoder, shape, inputs, centre=self.head.centre)

    def forward(self, images: Tensor, targets: Tensor | None = None, reconstruct: bool = True) -> Output:
        """Classify images and reconstruct them.

        Args:
            images: (B, C, H, W), floats in [0, 1].
            targets: (B,), the classes to decode in training. Without them, the predicted classes are decoded.
            reconstruct: False skips the decoder.
        """
        shape = f"(B, {', '.join(map(str, self.config.in_shape))})"
        check_tensor("Network: images", images, 4, shape)
        if tuple(images.shape[1:]) != self.config.in_shape or not images.is_floating_point():
            raise HitNetError(
                f"This network takes floats in [0, 1] of shape {shape}; got {images.dtype} {tuple(images.shape)}."
            )
        features = self.features(images)
        capsules = self.head(features)
        extra = None if self.extra is None else self.extra(features)
        distances = self.head.distances(capsules)
        prediction = self.head.predict(distances)
        reconstruction = None
        if self.decoder is not None and reconstruct:
            classes = targets if self.training and targets is not None else prediction
            reconstruction = self.decoder(capsules, classes, extra)
        unlike = None if self.training else self.misfits(features, distances)
        return Output(capsules, distances, prediction, reconstruction, extra, unlike)

    def misfits(self, features: Tensor, distances: Tensor) -> Tensor | None:
        """How unlike the images of every class B images are (B,); None for networks other than HitNet.

        With `typical` (K, D), the mean directions of the classes' features: 1 − the cosine of the nearest of them.
        Otherwise, the centripetal loss of the winning class; see `hitnet.misfit`.
        """
        if self.head.loss != "centripetal":
            return None
        if not self.config.typical:
            return misfit(distances)
        return 1 - (F.normalize(features.float(), dim=1) @ self.typical.T).amax(dim=1)

    def load_pretrained(self) -> None:
        """Let a pretrained backbone start from its weights; other feature extractors start as they are."""
        self.features.load_pretrained(self.config.weights)

    def count_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())


class HitNet(Network):
    """The network of the paper, for images of `in_shape` (C, H, W) and any number of classes."""

    def __init__(self, in_shape: tuple[int, int, int], num_classes: int, capsule_dim: int = 16) -> None:
        super().__init__(ModelConfig(in_shape, num_classes, capsule_dim))


def weights_fingerprint(network: Network) -> str:
    """A short hash of a network's weights, the same on every device and in every memory order."""
    digest = hashlib.blake2b(digest_size=8)
    for name, value in network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def unit_images(pixels: Tensor) -> Tensor:
    """Convert uint8 images in 0..255 to floats in [0, 1]."""
    return pixels.to(torch.float32) / 255


@contextmanager
def evaluating(model: Network) -> Iterator[torch.device]:
    """Yield the network's device, with the network in evaluation mode and precision; restore its mode at the end."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with evaluation_precision(device):
            yield device
    finally:
        model.train(was_training)


def for_inference(network: Network) -> Network:
    """On a CPU, a copy of a network whose backbone is `folded`, which is twice as fast; others as they are."""
    features = network.features
    if not isinstance(features, BackboneFeatures) or next(network.parameters()).device.type != "cpu":
        return network
    quick = copy.deepcopy(network)
    module = folded(features.module, features.seen, packed=PACKS)
    quick.features.module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return quick


def class_distances(model: Network, pixels: Tensor) -> Tensor:
    """Distances (N, K) of uint8 images (N, C, H, W), computed in batches on the model's device."""
    return distances_and_misfits(model, pixels)[0]


@torch.inference_mode()
def distances_and_misfits(model: Network, pixels: Tensor) -> tuple[Tensor, Tensor | None]:
    """Distances (N, K) and misfits (N,) of uint8 images (N, C, H, W); see `Network.misfits`."""
    model = for_inference(model) if len(pixels) >= FEW else model
    with evaluating(model) as device:
        sizes = {"cuda": PRETRAINED_BATCH, "cpu": CPU_BATCH} if model.config.pretrained else {}
        size = sizes.get(device.type) or evaluation_batch(pixels.shape[1:])
        batches = (to_device(part, device) for part in pixels.split(size))
        if sizes and device.type == "cuda":
            batches = (filled(batch, size) for batch in batches)
        outputs: list[Output] = [model(batch, reconstruct=False) for batch in batches]
    distances = torch.cat([output.distances.float() for output in outputs])[: len(pixels)]
    unlike = [output.misfit for output in outputs if output.misfit is not None]
    return distances, torch.cat(unlike)[: len(pixels)].float() if unlike else None


def to_device(pixels: Tensor, device: torch.device) -> Tensor:
    """uint8 images as floats in [0, 1] on a device, in the memory order that is fastest for convolutions."""
    return unit_images(pixels.to(device, non_blocking=True)).contiguous(memory_format=torch.channels_last)
