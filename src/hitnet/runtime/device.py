"""Devices, precision, and how much memory there is."""

import math
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

import psutil
import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.errors import HitNetError, log

Device = str | torch.device  # as users give it


def pick_device(device: Device, *, mps: bool = False) -> torch.device:
    """The device for auto, cpu, cuda, cuda:1, … or mps; raises HitNetError if it is not there.

    Args:
        device: auto is a CUDA GPU, or else the CPU. A GPU with a number becomes PyTorch's current one.
        mps: Whether the work runs on Apple's GPUs. Otherwise, the CPU takes the place of mps.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        chosen = torch.device("meta")
    if chosen.type not in ("cpu", "cuda", "mps"):
        raise HitNetError(f"`device` must be auto, cpu, cuda, cuda:N or mps; got {str(device)!r}.")
    if chosen.type == "mps" and not torch.backends.mps.is_available():
        raise HitNetError("`device` is mps, but PyTorch finds no Apple GPU here. Use `device` cpu.")
    if chosen.type == "mps" and not mps:
        log.warning("This work does not run on Apple's GPUs (mps): the CPU does it.")
        return torch.device("cpu")
    if chosen.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count <= (chosen.index or 0):
            found = "no CUDA GPU" if not count else f"only {count}, from cuda:0 on,"
            raise HitNetError(f"`device` is {chosen}, but PyTorch finds {found} here. Use another `device`, e.g. cpu.")
        if chosen.index is not None:
            torch.cuda.set_device(chosen)
    return chosen


def training_precision(device: torch.device, precision: str = "mixed") -> torch.autocast:
    """A context in which matrix work is in bfloat16, if the device has instructions for it.

    With a recipe's `precision` other than "mixed", or on other devices, it changes nothing. Weights are cast once per
    use.
    """
    fast = device.type == "cuda" or bfloat16_in_cpu()
    return torch.autocast(device.type, torch.bfloat16, enabled=fast and precision == "mixed", cache_enabled=False)


def evaluation_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix work is in bfloat16 on a CUDA GPU, and in float32 elsewhere.

    On a CPU, the other images of a batch therefore change an image's distances only by rounding.
    """
    if device.type == "mps":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)


def evaluation_batch(shape: tuple[int, ...]) -> int:
    """How many images of a shape (C, H, W) a network looks at at once where it learns nothing.

    Fewer large ones, so that the memory does not grow with them.
    """
    return max(1, min(1000, 2**22 // math.prod(shape)))


def filled(images: Tensor, size: int) -> Tensor:
    """Images (B, C, H, W) in channels-last order, with black ones added up to a batch of `size`.

    For each new size of batches, cuDNN takes seconds to choose its ways through a deep network.
    """
    if len(images) == size:
        return images
    padded = F.pad(images, (0, 0, 0, 0, 0, 0, 0, size - len(images)))
    return padded.contiguous(memory_format=torch.channels_last)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device without waiting for the work that is queued on the device."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Stopwatch:
    """Measures the device's own time from its creation to `stop`. Only reading `seconds` waits for the device."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.marks = [self.mark()]

    def mark(self) -> float | torch.cuda.Event:
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def stop(self) -> None:
        self.marks.append(self.mark())

    @property
    def seconds(self) -> float:
        start, stop = self.marks
        if isinstance(start, torch.cuda.Event) and isinstance(stop, torch.cuda.Event):
            stop.synchronize()
            return start.elapsed_time(stop) / 1000
        return stop - start  # type: ignore[operator]


def bfloat16_in_cpu() -> bool:
    """Whether the CPU multiplies matrices in bfloat16 (AMX); False if this version of PyTorch cannot tell."""
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return capabilities.get("amx_bf16") is True


def room_for_images(device: torch.device) -> int:
    """How many bytes of images may be kept in memory: half of what is free, here and on the device.

    The processes that torchrun starts on a machine share its memory.
    """
    free = int(psutil.virtual_memory().available) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if device.type == "cuda":
        free = min(free, torch.cuda.mem_get_info()[0])
    return free // 2
