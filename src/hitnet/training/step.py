"""One training step, on any device: uint8 batch → augmentation → network → loss → update, without waiting.

If the objects' masks are known, they follow their images as a last channel, so that both are augmented alike.

Matrix work is in bfloat16 if the device has instructions for it; batch-norm, distances and losses are in float32. On a
GPU the step is captured in a CUDA graph, one per batch size. If that is not possible, it runs eagerly.

The average of the weights over the last steps often has a lower error than the last weights.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.capsules import hits_and_misses
from hitnet.errors import HitNetError, log
from hitnet.kernels import beside, own_workspaces
from hitnet.models.decoders import masked_target
from hitnet.models.network import Network, Output, unit_images
from hitnet.runtime.device import training_precision
from hitnet.training.augmentation import augment
from hitnet.training.parallel import Parallel
from hitnet.training.recipes import Recipe

CLEAR_STEPS, TINY = 100, 1e-30
TERMS = ("loss", "classification", "reconstruction", "wrong", "hits", "misses")
Batch = tuple[Tensor, Tensor, Tensor]  # pixels (B, C or, with masks, C + 1, H, W) uint8, labels (B,), draws (B, D)

# What the losses of heads may take from a recipe, and what a network must have for it.
LOSS_OPTIONS = {
    "ghosts": "Ghost capsules need the centripetal loss; train a network whose name starts with hitnet.",
    "miss_weight": "miss_weight needs the centripetal loss; train a network whose name starts with hitnet.",
    "label_smoothing": "label_smoothing needs a network with softmax and cross-entropy (head softmax).",
}
EVERY = 4  # steps between additions: weights change little in between, and adding them takes time


class Objective:
    """Computes the terms of the loss by name; `loss` is their weighted sum.

    It is called with a network's output, the images that its decoder has to rebuild, and their labels. If it `draws`,
    it may be given the random numbers (B, 1) by which ghosts are excused.
    """

    def __init__(self, model: Network, recipe: Recipe, *, epoch: int) -> None:
        self.head, self.weight = model.head, model.config.reconstruction_weight
        for name, needed in LOSS_OPTIONS.items():
            if name not in self.head.loss_options and getattr(recipe, name) != getattr(Recipe, name):
                raise HitNetError(needed)
        self.ghosts = recipe.ghosts if epoch >= recipe.ghosts_from_epoch else 0
        options = {name: getattr(recipe, name) for name in self.head.loss_options}
        self.classify = self.head.make_loss(**options | ({"ghosts": self.ghosts} if "ghosts" in options else {}))
        self.draws = bool(getattr(self.classify, "draws", False))  # whether it is left to chance which are excused

    def __call__(
        self, output: Output, images: Tensor, targets: Tensor, chances: Tensor | None = None
    ) -> dict[str, Tensor]:
        given = {"chances": chances} if self.draws else {}
        loss = self.classify(self.head.loss_input(output.capsules, output.distances), targets, **given)
        terms = {"classification": loss}
        if output.reconstruction is not None:
            terms["reconstruction"] = F.mse_loss(output.reconstruction, images.float())
            loss = loss + self.weight * terms["reconstruction"]
        return {"loss": loss, **terms}


def make_optimizer(model: Network, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    """The recipe's optimizer with its state already in place, so that it can be saved, restored and captured."""
    groups = parameter_groups(model, recipe)
    for group in groups:
        # The rate is a tensor on a GPU, where a captured step must see it change.
        rate = recipe.learning_rate * group["factor"]
        group["lr"] = torch.tensor(rate, device=device) if device.type == "cuda" else rate
    optimizer: torch.optim.Optimizer
    if recipe.optimizer == "sgd":
        optimizer = torch.optim.SGD(groups, momentum=0.9, nesterov=True, fused=True)
    else:
        kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
        optimizer = kind(groups, eps=recipe.adam_epsilon, fused=True, capturable=device.type == "cuda")
    for p in trained_parameters(model):
        if recipe.optimizer == "sgd":
            optimizer.state[p] = {"momentum_buffer": torch.zeros_like(p)}
        else:
            moments = {name: torch.zeros_like(p) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[p] = {"step": torch.zeros((), device=device), **moments}
    return optimizer


def trained_parameters(model: Network) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def parameter_groups(model: Network, recipe: Recipe) -> list[dict[str, Any]]:
    """The parameters that are trained, in as few groups as weight decay and learning rates allow.

    `factor` is what a group's learning rate is multiplied by: `backbone_rate` for the feature extractor.
    """
    own = {id(p) for p in model.features.parameters()} if recipe.backbone_rate != 1 else set()
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for p in sorted(trained_parameters(model), key=lambda p: p.ndim <= 1):  # in this order since the first version
        decay = recipe.weight_decay if p.ndim > 1 else 0.0
        groups.setdefault((recipe.backbone_rate if id(p) in own else 1.0, decay), []).append(p)
    return [{"params": members, "factor": factor, "weight_decay": decay} for (factor, decay), members in groups.items()]


@torch.no_grad()
def clear_tiny_moments(optimizer: torch.optim.Optimizer) -> None:
    """Every 100 steps, set moments of Adam to 0 that are too small to change any weight.

    The moments of weights whose gradient stays 0 (behind units that ReLU has silenced) fade until they are denormal
    numbers, which make a CPU many times slower: after 1,300 steps, a step took twice as long.
    """
    states = list(optimizer.state.values())
    if "step" not in states[0] or int(states[0]["step"]) % CLEAR_STEPS:
        return
    for state in states:
        for name in ("exp_avg", "exp_avg_sq"):
            state[name].copy_(F.hardshrink(state[name], TINY))


@torch.no_grad()
def copy_into(state: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Restore a state: copy the tensors into the live tensors of the same names."""
    for name, value in state.items():
        value.copy_(tensors[name])


class Step:
    """The training step of one network, called with a batch and the learning rate. It adds its figures to `totals`."""

    def __init__(
        self, model: Network, recipe: Recipe, device: torch.device, *, parallel: Parallel | None = None
    ) -> None:
        self.model, self.recipe, self.device = model, recipe, device
        self.parallel = parallel
        self.network = model if parallel is None else parallel.network
        self.optimizer = make_optimizer(model, recipe, device)
        self.objective = Objective(model, recipe, epoch=1)
        self.totals = torch.zeros(len(TERMS), dtype=torch.float64, device=device)
        self.graphs: dict[int, Callable[[Batch], None]] = {}
        self.random_layers: list[Any] = [part for part in model.modules() if hasattr(part, "draw")]
        self.chances: dict[int, Tensor] = {}  # of ghosts, by batch size; captured steps read them
        self.capture = device.type == "cuda" and parallel is None
        self.side: torch.cuda.Stream | None = None

    @property
    def draws(self) -> bool:
        """Whether a step draws random numbers itself, in addition to those that come with its batch."""
        return bool(self.random_layers) or (self.recipe.ghosts > 0 and self.recipe.ghost_probability < 1)

    def state(self) -> dict[str, Tensor]:
        """All tensors that a step changes, by name. They are live: copying into them restores a state."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for name, p in self.model.named_parameters():
            for key, value in self.optimizer.state.get(p, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value
        return tensors

    def start_epoch(self, epoch: int) -> None:
        """Reset the sums. In the first epoch with ghosts the loss changes, so the step is captured again."""
        self.totals.zero_()
        objective = Objective(self.model, self.recipe, epoch=epoch)
        if objective.ghosts != self.objective.ghosts:
            self.objective = objective
            self.graphs.clear()

    def __call__(self, batch: Batch, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * group["factor"])
            else:
                group["lr"] = rate * group["factor"]
        size = len(batch[1])
        if self.capture and size not in self.graphs:
            self.graphs[size] = self.captured(batch)
        self.draw(size)
        self.graphs[size](batch) if self.capture else self.run(batch)

    def draw(self, size: int) -> None:
        """Draw the random numbers of the next step: those of layers with a method `draw`, and the chances of ghosts.

        On a GPU, several networks are trained side by side. Their captured graphs must not draw: all of them read one
        place in memory for where the generator stands. So they read what is drawn here, into tensors that stay.
        """
        for layer in self.random_layers:
            layer.draw(size)
        if self.objective.draws:
            self.chances.setdefault(size, torch.empty(size, 1, device=self.device)).uniform_()

    def run(self, batch: Batch) -> None:
        """The step itself."""
        labels = batch[1]
        with training_precision(self.device, self.recipe.precision):
            images, target = self.augmented(batch)
            output = self.network(images, labels)
            terms = self.objective(output, target, labels, self.chances.get(len(labels)))
            loss = terms["loss"] if self.parallel is None else terms["loss"] * self.parallel.weight
        with beside(self.device) as join:
            if self.parallel is None or self.parallel.counts:
                self.count(output, labels, terms)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if self.device.type == "cpu":
            clear_tiny_moments(self.optimizer)
        join()

    def augmented(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The images that the network sees, and those that its decoder has to rebuild: (B, C, H, W) in [0, 1]."""
        pixels, _, draws = batch
        channels = self.model.config.in_shape[0]
        moved = augment(self.recipe, pixels, draws, channels=channels)
        images = unit_images(moved[:, :channels]).contiguous(memory_format=torch.channels_last)
        masks = moved[:, channels:]
        return images, masked_target(images, masks) if masks.shape[1] else images

    @torch.no_grad()
    def count(self, output: Output, labels: Tensor, terms: dict[str, Tensor]) -> None:
        figures = {name: value.detach() * len(labels) for name, value in terms.items()}
        figures["wrong"] = (output.prediction != labels).sum()
        figures["hits"], figures["misses"] = hits_and_misses(output.distances, labels)
        zero = self.totals.new_zeros(())
        self.totals += torch.stack([figures.get(name, zero).double() for name in TERMS])

    def captured(self, batch: Batch) -> Callable[[Batch], None]:
        """Capture the step for batches of this size as a CUDA graph; the state is restored after the trial steps."""
        static: Batch = tuple(tensor.clone() for tensor in batch)  # type: ignore[assignment]
        before = {name: value.clone() for name, value in self.state().items()}
        totals, random = self.totals.clone(), torch.cuda.get_rng_state(self.device)
        graph = torch.cuda.CUDAGraph()
        side = self.side = self.side or torch.cuda.Stream()
        try:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.draw(len(static[1]))
                    self.run(static)
            torch.cuda.current_stream().wait_stream(side)
            self.draw(len(static[1]))
            self.optimizer.zero_grad(set_to_none=True)
            with own_workspaces(), torch.cuda.graph(graph, stream=side):
                self.run(static)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            log.warning("The training step could not be captured (%s); it runs eagerly, more slowly.", error)
            self.capture = False
        copy_into(self.state(), before)
        self.totals.copy_(totals)
        torch.cuda.set_rng_state(random, self.device)
        if not self.capture:
            return self.run

        def replay(batch: Batch) -> None:
            for fixed, given in zip(static, batch, strict=True):
                fixed.copy_(given)
            graph.replay()

        return replay


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
