"""The average of a network's weights over its last steps, which often has a lower error than the last weights."""

import copy

import torch
from torch import Tensor

from hitnet.models.network import Network

EVERY = 4  # steps between additions: weights change little in between, and adding them takes time


class Average:
    """A copy of a network whose weights and batch-norm statistics are the average over the steps of its training.

    `decay` is the share that one step leaves of the average before it: the average reaches back over about
    1 / (1 − decay) steps. Until there are that many it is the plain mean, so that it forgets the weights that training
    began with. Nothing here waits for the device.
    """

    def __init__(self, model: Network, decay: float) -> None:
        self.network = copy.deepcopy(model)
        self.decay = decay
        pairs = list(zip(self.network.state_dict().values(), model.state_dict().values(), strict=True))
        self.kept = [own for own, _ in pairs if own.is_floating_point()]
        self.taken = [live for _, live in pairs if live.is_floating_point()]
        self.counts = [pair for pair in pairs if not pair[0].is_floating_point()]

    @torch.no_grad()
    def add(self, steps: int) -> None:
        """Add the weights after `steps` steps of training, counted from 1."""
        if steps % EVERY != 1:
            return
        weight = max(1 - self.decay**EVERY, 1 / (1 + steps // EVERY))
        torch._foreach_lerp_(self.kept, self.taken, weight)
        for own, live in self.counts:
            own.copy_(live)

    def state(self) -> dict[str, Tensor]:
        """The tensors by name. They are live: copying into them restores a state."""
        return {f"average.{name}": value for name, value in self.network.state_dict().items()}
