"""Features of images by a frozen backbone, in bounded memory.

On a CPU, each of several threads passes a few images through the network on one core: that keeps the maps of the
network in the core's cache, and no core waits for another. On a GPU, JPEG files are decoded on the GPU itself where
torchvision can; all other files are decoded before (see one_pass.py).
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.errors import HitNetError
from hitnet.features import photographs
from hitnet.features.photographs import Jpeg
from hitnet.models.backbones import Backbone
from hitnet.models.folding import PACKS, folded
from hitnet.runtime.device import Device, bfloat16_in_cpu, filled, sent
from hitnet.runtime.progress import Progress
from hitnet.runtime.threads import in_threads

AT_ONCE = {"cpu": 4, "cuda": 256}  # images in the network at a time; on a CPU, their maps fit into a core's cache


class Extractor:
    """A backbone made ready to compute features on a device: on a CPU, with as many threads as PyTorch uses."""

    def __init__(self, backbone: Backbone, *, device: Device = "cpu") -> None:
        self.backbone, self.device, self.size = backbone, torch.device(device), backbone.input_size
        self.threads = torch.get_num_threads()  # on a CPU
        self.half = self.device.type == "cuda" or bfloat16_in_cpu()
        module = folded(backbone.module, (self.size, self.size), packed=PACKS and not self.half)
        dtype = torch.bfloat16 if self.half else torch.float32
        self.module = module.to(self.device, dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
        decoder = photographs.gpu_reader() if self.device.type == "cuda" else None
        self.gpu_decoder = None if decoder is None else decoder(self.size, self.device)

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

    def run(self, images: Iterable[Tensor | Jpeg]) -> Iterator[Tensor]:
        """Features of consecutive images, in order: float32 (b, D) on the CPU. Images are uint8, of one shape."""
        rest = iter(images)
        batches = iter(lambda: list(islice(rest, AT_ONCE[self.device.type])), [])
        if self.device.type == "cuda":
            return self._on_gpu(batches)
        options: Any = {"ahead": 2 * self.threads, "threads": self.threads, "begin": partial(torch.set_num_threads, 1)}
        return in_threads(lambda batch: self.features(self._pixels(batch)), batches, **options)

    def _on_gpu(self, batches: Iterator[list[Tensor | Jpeg]]) -> Iterator[Tensor]:
        pending: Tensor | None = None
        # A thread decodes the next batch while this one asks the network for features of the last: in a stream of its
        # own, which has memory of its own (see GpuReader.decoded).
        own, side = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)

        def decoded(batch: list[Tensor | Jpeg]) -> tuple[Tensor, torch.cuda.Event]:
            with torch.cuda.stream(side):
                return self._pixels(batch), side.record_event()

        for pixels, ready in in_threads(decoded, batches, ahead=2, threads=1):
            own.wait_event(ready)
            pixels.record_stream(own)
            features = self.features(pixels)
            # The copy of one batch back waits for the GPU only once the next is under way.
            if pending is not None:
                yield pending.cpu()
            pending = features
        if pending is not None:
            yield pending.cpu()

    def _pixels(self, batch: list[Tensor | Jpeg]) -> Tensor:
        """uint8 (b, C, H, W)."""
        if self.gpu_decoder is not None and any(isinstance(each, Jpeg) for each in batch):
            return self.gpu_decoder(batch)
        return sent(torch.stack(batch), self.device)  # type: ignore[arg-type]


def extract(pixels: Tensor, backbone: Backbone, *, device: Device = "cpu", progress: Progress = Progress()) -> Tensor:
    """Features (N, D) in float16 of uint8 images (N, 1 or 3, H, W); see `Extractor` for the arguments."""
    if pixels.dtype != torch.uint8 or pixels.ndim != 4:
        raise HitNetError(f"images must be uint8 (N, C, H, W); got {pixels.dtype} {tuple(pixels.shape)}.")
    features = torch.empty(len(pixels), backbone.num_features, dtype=torch.float16)
    done = 0
    for part in Extractor(backbone, device=device).run(pixels[i] for i in range(len(pixels))):
        features[done : done + len(part)] = in_half(part)
        done += len(part)
        progress.step(len(part))
    return features


def in_half(features: Tensor) -> Tensor:
    """Features as float16; raises HitNetError where they are too large for it, or no numbers."""
    half = features.to(torch.float16)
    if not all_finite(half):
        raise HitNetError(
            "The backbone gives features that are not finite in half precision (above 65,504, or NaN). Divide its "
            "output by a constant, or end it in a normalisation."
        )
    return half


def all_finite(numbers: Tensor) -> bool:
    """Whether no number is infinite or NaN: the least and the largest tell it, in a tenth of the time."""
    return not numbers.numel() or bool(torch.stack(numbers.aminmax()).isfinite().all())
