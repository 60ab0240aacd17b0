"""Layers that draw random numbers in training, and how a training step draws for them.

On a GPU a step is captured in a CUDA graph, and several networks are trained side by side. Their graphs must not draw:
all of them read one place in memory for where the generator stands. So the step draws before it runs, into tensors that
stay where they are, and the layers only read them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

Draws = tuple[Tensor, ...]


class RandomLayer(nn.Module):
    """Base class of layers that draw random numbers in training; its `forward` takes them from `draws_for`."""

    given: Draws | None = None  # what the training step has drawn

    @abstractmethod
    def empty_draws(self, count: int) -> Draws:
        """Tensors for the random numbers of `count` images, on the layer's device, not drawn yet."""

    @abstractmethod
    def draw(self, draws: Draws) -> None:
        """Draw random numbers into such tensors, in place."""

    def draws_for(self, count: int) -> Draws:
        """The random numbers of a batch of `count` images: those that the step has drawn, or new ones."""
        if self.given is not None:
            return self.given
        draws = self.empty_draws(count)
        self.draw(draws)
        return draws


def random_layers(model: nn.Module) -> list[RandomLayer]:
    """The layers of a network that draw random numbers in training."""
    return [layer for layer in model.modules() if isinstance(layer, RandomLayer)]


@contextmanager
def given_draws(layers: Sequence[RandomLayer], draws: Sequence[Draws]) -> Iterator[None]:
    """Let layers use random numbers that were drawn before."""
    for layer, own in zip(layers, draws, strict=True):
        layer.given = own
    try:
        yield
    finally:
        for layer in layers:
            layer.given = None
