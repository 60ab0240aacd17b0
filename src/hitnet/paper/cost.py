"""What a run costs: estimated from speeds that were measured once, then from the ledger's own runs on this device.

The unit of work is the training on one grey image of 28 x 28. Larger images cost more: in proportion to the
multiplications of the paper's two convolutions or, for networks with other features, to their pixels. Testing on an
image costs a third of training on it.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hitnet.paper.experiments import Experiment, Shape
from hitnet.paper.records import RunRecord
from hitnet.training.together import AT_ONCE

# Images a second in training, 28 x 28 grey: one network alone, eight side by side (benchmarks/records/training.json).
H200 = "NVIDIA H200"
FULL = 6  # networks that fill a GPU: the ledger's runs of HitNet take 51 to 56 s five abreast, 51 to 59 s eight abreast
SPEEDS: dict[str, tuple[float, float]] = {
    "hitnet": (177_929.0, 330_368.0),
    "n1": (266_245.0, 414_662.0),
    "n2": (177_581.0, 330_460.0),
    "n2b": (181_746.0, 334_389.0),
    "hitnet-squash": (173_897.0, 330_117.0),
    "capsnet": (80_788.0, 108_976.0),
    "hitnet-conv": (100_586.0, 169_305.0),
    "hitnet-small": (226_118.0, 868_241.0),
    "hitnet-resnet9": (141_645.0, 182_130.0),
}
CPU_HITNET = 253.0  # two cores with AMX (benchmarks/records/cpu.json)
OTHER_GPU = 0.25  # a guess, of an H200's speed
TEST_COST = 1 / 3
# Decoding by the network behind hybrid augmentation: 0.04 for all images, 0.2 for a quarter by a convolutional decoder.
TEACHER_COST = 0.1


def device_name(device: torch.device) -> str:
    """What the ledger calls a device; processors differ by kind and threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu ({platform.processor() or platform.machine()}, {torch.get_num_threads()} threads)"


def known_speed(network: str, device: str) -> float:
    """Images a second before anything was measured on this very device."""
    base = SPEEDS[network][1]
    if device == H200:
        return base
    if device.startswith("cpu"):
        return CPU_HITNET * base / SPEEDS["hitnet"][1]
    return OTHER_GPU * base


def convolution_work(shape: Shape) -> float:
    """Multiplications of the two 9x9 convolutions of 256 channels (strides 1 and 2), per image."""
    channels, height, width = shape
    first = max(1, height - 8) * max(1, width - 8)
    second = max(1, (height - 15) // 2) * max(1, (width - 15) // 2)
    return 256 * 81 * (first * channels + second * 256)


def image_work(experiment: Experiment) -> float:
    """An image of an experiment in units of work."""
    if experiment.features in ("paper", "primary-capsules"):
        return convolution_work(experiment.in_shape) / convolution_work((1, 28, 28))
    _, height, width = experiment.in_shape
    return height * width / (28 * 28)


def epoch_work(experiment: Experiment, images: int) -> float:
    """An epoch in units of work."""
    training = images * (1 + (TEACHER_COST if experiment.teacher else 0))
    return image_work(experiment) * (training + TEST_COST * experiment.tested_each_epoch)


def further_work(experiment: Experiment, readings: int) -> float:
    """What is not done in every epoch: the test on all images, where epochs were tested on fewer; reading ghosts."""
    tested = experiment.test_images if experiment.each_epoch else 0
    return image_work(experiment) * TEST_COST * (tested + readings * experiment.images)


@dataclass(frozen=True)
class Costs:
    """Estimates for one device. `measured` holds experiments with their runs; those on other devices say nothing."""

    device: str
    measured: Sequence[tuple[Experiment, RunRecord]] = ()

    def speed(self, experiment: Experiment) -> float:
        """Units of work a second: measured on this experiment, else on its network, else known."""
        here = [(one, r) for one, r in self.measured if r.device == self.device and r.epoch_seconds > 0]
        same = [pair for pair in here if pair[0].name == experiment.name]
        near = same or [pair for pair in here if pair[0].network == experiment.network]
        if near:
            return statistics.median(
                epoch_work(one, r.images) / r.epoch_seconds / self.fullness(one, r.beside) for one, r in near
            )
        return known_speed(experiment.network, self.device)

    def fullness(self, experiment: Experiment, beside: float) -> float:
        """How much of its speed the device reaches with so many such networks side by side: by equal steps from that
        of one alone to all of it. That larger images fill it as more networks would is a guess."""
        filled = beside * image_work(experiment)
        if self.device.startswith("cpu") or filled >= FULL:
            return 1.0
        alone, together = SPEEDS[experiment.network]
        return 1 - (1 - alone / together) * (FULL - filled) / (FULL - 1)

    def seconds(
        self,
        experiment: Experiment,
        *,
        epochs: float | None = None,
        images: int | None = None,
        readings: int | None = None,
    ) -> float:
        """A run, or what is left of one (epochs, readings of ghosts); on a GPU its share, with many side by side."""
        work = epoch_work(experiment, experiment.images if images is None else images)
        count = experiment.epochs if epochs is None else epochs
        further = further_work(experiment, len(experiment.read_ghosts) if readings is None else readings)
        return (count * work + further) / self.speed(experiment)

    def of_runs(self, experiment: Experiment, runs: int) -> float:
        """Seconds that so many runs take together, side by side as they are trained."""
        most = AT_ONCE["cpu" if self.device.startswith("cpu") else "cuda"]
        groups = -(-runs // most)
        return runs * self.seconds(experiment) / self.fullness(experiment, runs / groups) if runs else 0.0


def in_words(seconds: float) -> str:
    """A time as people say it: "40 s", "12 min", "3.5 h", "12 days"."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 10 and unit != "min" else f"{value:.0f} {unit}"
    return f"{seconds:.0f} s"
