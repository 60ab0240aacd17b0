"""The random generators of a training: the seed of each epoch, and states that are kept and restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

RANK_STEP = 0x5851F42D4C957F2D  # between the seeds of two processes: more than any number of epochs


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    """One seed per epoch and process, so that an epoch can be repeated without the epochs before it."""
    return (seed * 1_000_003 + epoch + rank * RANK_STEP) % 2**63


@contextmanager
def own_randomness() -> Iterator[None]:
    """Restore the caller's random state at the end."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        yield


def random_state(device: torch.device, mark: str = "") -> dict[str, Tensor]:
    """The state of the random generators that a step draws from; `mark` stands before the names."""
    state = {f"{mark}random.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state[f"{mark}random.cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Tensor], mark: str = "") -> None:
    """Restore a random state; where more processes resume a training than began it, the others have none."""
    if f"{mark}random.cpu" in state:
        torch.set_rng_state(state[f"{mark}random.cpu"].to(torch.uint8))
    if f"{mark}random.cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state[f"{mark}random.cuda"])
