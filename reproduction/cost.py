"""How long a run takes: estimated from speeds measured once, then from the ledger's own runs on this device.

The unit of work is training on one grey image of 28 x 28. Larger images cost more: in proportion to the
multiplications of the paper's two convolutions or, for networks with other features, to their pixels. Testing on an
image costs a third of training on it.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hitnet.training import AT_ONCE
from reproduction.experiments import Experiment, Shape
from reproduction.records import RunRecord

# Images per second in training, 28 x 28 grey: a single network, eight side by side (benchmarks/records/training.json).
H200 = "NVIDIA H200"
FULL = 6  # networks that fill a GPU: HitNet takes 51 to 56 s per run with 5 side by side, 51 to 59 s with 8
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
    "dropconnect": (300_000.0, 350_000.0),  # a guess, not measured
}
CPU_HITNET = 253.0  # two cores with AMX (benchmarks/records/cpu.json)
OTHER_GPU = 0.25  # of an H200's speed, a guess
FLOAT32 = 0.19  # of a GPU's speed in mixed precision: the run of cifar10-float32-60, beside those of cifar10-top-0
TEST_COST = 1 / 3
# Decoding by the network behind hybrid augmentation: 0.04 for all images, 0.2 for a quarter by a convolutional decoder.
TEACHER_COST = 0.1


def device_name(device: torch.device) -> str:
    """The name of a device in the ledger; processors differ by kind and number of threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu ({platform.processor() or platform.machine()}, {torch.get_num_threads()} threads)"


def known_speed(network: str, device: str, precision: str = "mixed") -> float:
    """Images per second, before anything was measured on this device."""
    base = SPEEDS[network][1]
    if device.startswith("cpu"):
        return CPU_HITNET * base / SPEEDS["hitnet"][1]
    speed = base if device == H200 else OTHER_GPU * base
    return FLOAT32 * speed if precision == "float32" else speed


def convolution_work(shape: Shape) -> float:
    """Multiplications of the two 9x9 convolutions of 256 channels (strides 1 and 2), per image."""
    channels, height, width = shape
    first = max(1, height - 8) * max(1, width - 8)
    second = max(1, (height - 15) // 2) * max(1, (width - 15) // 2)
    return 256 * 81 * (first * channels + second * 256)


def image_work(experiment: Experiment) -> float:
    """The work of training on one image of an experiment, in units."""
    if experiment.features in ("paper", "primary-capsules"):
        return convolution_work(experiment.in_shape) / convolution_work((1, 28, 28))
    _, height, width = experiment.in_shape
    return height * width / (28 * 28)


def epoch_work(experiment: Experiment, images: int) -> float:
    """The work of one epoch, in units."""
    training = images * (1 + (TEACHER_COST if experiment.teacher else 0))
    return image_work(experiment) * (training + TEST_COST * experiment.tested_each_epoch)


def further_work(experiment: Experiment, readings: int) -> float:
    """The work outside the epochs, in units: reading ghosts, and the last test if epochs have smaller ones."""
    tested = experiment.test_images if experiment.each_epoch else 0
    return image_work(experiment) * TEST_COST * (tested + readings * experiment.images)


@dataclass(frozen=True)
class Costs:
    """Estimates for one device.

    Attributes:
        device: Its name, as `device_name` gives it.
        measured: Experiments with their recorded runs; only runs on the same device are used.
    """

    device: str
    measured: Sequence[tuple[Experiment, RunRecord]] = ()

    def speed(self, experiment: Experiment) -> float:
        """Units of work per second: measured on this experiment, else on its network and precision, else known."""
        precision = experiment.full_recipe().precision
        here = [
            (other, record)
            for other, record in self.measured
            if record.device == self.device and record.epoch_seconds > 0
        ]
        same_experiment = [(other, record) for other, record in here if other.name == experiment.name]
        same_network = [
            (other, record)
            for other, record in here
            if other.network == experiment.network and other.full_recipe().precision == precision
        ]
        if measured := same_experiment or same_network:
            return statistics.median(
                epoch_work(other, record.images) / record.epoch_seconds / self.fullness(other, record.beside)
                for other, record in measured
            )
        return known_speed(experiment.network, self.device, precision)

    def fullness(self, experiment: Experiment, beside: float) -> float:
        """Which part of its full speed the device reaches with `beside` such networks side by side.

        It rises in equal steps from the speed of a single network to the full speed. That larger images fill the
        device as more networks would, and that a single network in float32 fills it, are guesses.
        """
        filled = beside * image_work(experiment)
        if self.device.startswith("cpu") or filled >= FULL or experiment.full_recipe().precision == "float32":
            return 1.0
        single, together = SPEEDS[experiment.network]
        return 1 - (1 - single / together) * (FULL - filled) / (FULL - 1)

    def seconds(
        self,
        experiment: Experiment,
        *,
        epochs: float | None = None,
        images: int | None = None,
        readings: int | None = None,
    ) -> float:
        """Seconds of one run, or of the rest of it; on a GPU its share, with many networks side by side.

        Args:
            epochs: Epochs left; None: all.
            images: Training images; None: all.
            readings: Readings of ghosts left; None: all.
        """
        work = epoch_work(experiment, experiment.images if images is None else images)
        count = experiment.epochs if epochs is None else epochs
        further = further_work(experiment, len(experiment.read_ghosts) if readings is None else readings)
        return (count * work + further) / self.speed(experiment)

    def seconds_for_runs(self, experiment: Experiment, runs: int) -> float:
        """Seconds of several runs together, side by side as they are trained."""
        at_once = AT_ONCE["cpu" if self.device.startswith("cpu") else "cuda"]
        groups = -(-runs // at_once)
        return runs * self.seconds(experiment) / self.fullness(experiment, runs / groups) if runs else 0.0


def duration_text(seconds: float) -> str:
    """A time as people say it: "40 s", "12 min", "3.5 h", "12 days"."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 10 and unit != "min" else f"{value:.0f} {unit}"
    return f"{seconds:.0f} s"
