"""Features of images by a frozen backbone, in bounded memory.

On a CPU, each of several threads decodes a few images and passes them through the network on one core. That keeps the
maps of the network in the core's cache, needs no exchange between processes, and no core waits for another. On a GPU,
JPEG files are decoded on the GPU itself where torchvision can, and other files by threads.
"""

import copy
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hitnet.data.reading.stored import AnyFile
from hitnet.errors import HitNetError
from hitnet.features import photographs
from hitnet.models.backbones import Backbone
from hitnet.runtime.device import bfloat16_in_cpu, filled, sent
from hitnet.runtime.progress import Progress
from hitnet.runtime.threads import in_threads

Source = Sequence[str | AnyFile] | Tensor
AT_ONCE = {"cpu": 4, "cuda": 256}  # images in the network at a time; on a CPU, their maps fit into a core's cache
PER_TASK = 16  # images that a thread takes at a time


class Extractor:
    """A backbone made ready to compute features on a device: on a CPU, with as many threads as PyTorch uses."""

    def __init__(self, backbone: Backbone, *, device: torch.device | str = "cpu") -> None:
        self.backbone, self.device, self.size = backbone, torch.device(device), backbone.input_size
        self.threads = _cores(self.device)
        module = folded(backbone.module, self.size).to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.half = self.device.type == "cuda" or bfloat16_in_cpu()
        self.module = module.to(torch.bfloat16) if self.half else module
        self.gpu_decoder = photographs.gpu_reader() if self.device.type == "cuda" else None

    def features(self, pixels: Tensor) -> Tensor:
        """uint8 images (B, 1 or 3, H, W) of any size → float32 features (B, D) on the same device as the network."""
        images = self.backbone.normalise(pixels.to(self.device, non_blocking=True))
        if images.shape[2:] != (self.size, self.size):
            images = F.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        images = images.to(torch.bfloat16 if self.half else torch.float32, memory_format=torch.channels_last)
        with torch.inference_mode():
            size = AT_ONCE[self.device.type]
            parts = images.split(size)
            if self.device.type == "cuda":
                parts = [filled(part, size) for part in parts]
            return torch.cat([self.module(part) for part in parts])[: len(images)].float()

    def run(self, source: Source) -> Iterator[tuple[range, Tensor]]:
        """Features of consecutive images, in order: (which, float32 (b, D) on the CPU).

        The source is image files, of which one that cannot be read raises HitNetError, or uint8 (N, 1 or 3, H, W).
        """
        if isinstance(source, Tensor) and (source.dtype != torch.uint8 or source.ndim != 4):
            raise HitNetError(f"images must be uint8 (N, C, H, W); got {source.dtype} {tuple(source.shape)}.")
        if self.device.type == "cuda":
            yield from self._on_gpu(source)
            return
        yield from self._in_order(self._on_core, source, PER_TASK, begin=partial(torch.set_num_threads, 1))

    def _on_core(self, part: Source) -> Tensor:
        """The whole work for a few images, a network's batch at a time."""
        batch = AT_ONCE["cpu"]
        return torch.cat([self.features(self._pixels(part[i : i + batch])) for i in range(0, len(part), batch)])

    def _pixels(self, part: Source) -> Tensor:
        """uint8 images of one size: (b, C, H, W)."""
        if isinstance(part, Tensor):
            return part
        return torch.stack([photographs.read(path, self.size) for path in part])

    def _on_gpu(self, source: Source) -> Iterator[tuple[range, Tensor]]:
        pending: tuple[range, Tensor] | None = None
        for which, pixels in self._to_gpu(source):
            features = self.features(pixels)
            # The copy of one batch back waits for the GPU only once the next is under way.
            if pending is not None:
                yield pending[0], pending[1].cpu()
            pending = which, features
        if pending is not None:
            yield pending[0], pending[1].cpu()

    def _to_gpu(self, source: Source) -> Iterator[tuple[range, Tensor]]:
        """uint8 images of consecutive batches, on the GPU."""
        batch = AT_ONCE["cuda"]
        if isinstance(source, Tensor) or self.gpu_decoder is None:
            for which, pixels in self._in_order(self._pixels, source, batch):
                yield which, sent(pixels, self.device)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            read = self.gpu_decoder(self.size, self.device, pool)
            for start in range(0, len(source), batch):
                which = range(start, min(start + batch, len(source)))
                yield which, read(source[start : which.stop])

    def _in_order(
        self, work: Callable[[Any], Tensor], source: Source, per_task: int, begin: Callable[[], None] | None = None
    ) -> Iterator[tuple[range, Tensor]]:
        """Results of consecutive parts of the source, two tasks per thread under way at most."""
        parts = [range(start, min(start + per_task, len(source))) for start in range(0, len(source), per_task)]
        results = in_threads(
            lambda which: work(source[which.start : which.stop]),
            parts,
            ahead=2 * self.threads,
            threads=self.threads,
            begin=begin,
        )
        return zip(parts, results, strict=True)


def extract(
    source: Source, backbone: Backbone, *, device: torch.device | str = "cpu", progress: Progress = Progress()
) -> Tensor:
    """Features (N, D) of all images in float16, in the order of the source; see `Extractor` for the arguments."""
    features = torch.empty(len(source), backbone.num_features, dtype=torch.float16)
    for which, part in Extractor(backbone, device=device).run(source):
        features[which.start : which.stop] = in_half(part)
        progress.step(len(which))
    return features


def in_half(features: Tensor) -> Tensor:
    """Features as float16; raises HitNetError where they are too large for it, or no numbers."""
    half = features.to(torch.float16)
    if not half.isfinite().all():
        raise HitNetError(
            "The backbone gives features that are not finite in half precision (above 65,504, or NaN). Divide its "
            "output by a constant, or end it in a normalisation."
        )
    return half


def _cores(device: torch.device) -> int:
    if device.type == "cpu":
        return torch.get_num_threads()
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def folded(module: nn.Module, input_size: int) -> nn.Module:
    """A copy for inference, in which each batch normalisation is part of the convolution registered just before it.

    A network may use its parts in another order than they are registered in. So the copy is compared with the original
    on random images, and where they differ, the copy is given with nothing folded.
    """
    merged = copy.deepcopy(module).eval()
    place = next(module.parameters(), torch.zeros(0))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, 3, input_size, input_size, generator=generator).to(place.device, place.dtype)
    with torch.inference_mode():
        before = merged(images)
    for part in list(merged.modules()):
        names = list(part._modules)
        for first, second in itertools.pairwise(names):
            convolution, norm = part._modules[first], part._modules[second]
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats:
                setattr(part, first, fuse_conv_bn_eval(convolution, norm))
                # timm's normalisation may end with the activation.
                activation = getattr(norm, "act", None)
                setattr(part, second, activation if isinstance(activation, nn.Module) else nn.Identity())
    try:
        with torch.inference_mode():
            same = torch.allclose(merged(images), before, rtol=1e-3, atol=1e-3 * float(before.abs().max()))
    except RuntimeError:  # shapes that do not fit: parts are used in another order
        same = False
    return merged if same else copy.deepcopy(module).eval()
