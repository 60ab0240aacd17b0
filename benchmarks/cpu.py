"""Training on a CPU: our engine compared with the loops that people write.

    python benchmarks/cpu.py [--images 4096] [--paper-images 384] [--threads N] [--repeats 3]

Compares, in one run and on the same images of the sample that ships with the package,

    hitnet-small   the engine and a textbook loop: DataLoader, pictures through torchvision's transforms
    hitnet         the engine and eager PyTorch: the paper's network, batches from one tensor, no augmentation

The contestants take turns and each figure is the best of `--repeats`, so that other work on the machine disturbs all
equally. Writes benchmarks/records/cpu.json: one row per measurement, and the ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

import hitnet
from hitnet import models
from hitnet.losses import CentripetalLoss
from hitnet.runtime import files
from hitnet.training.batches import Feed
from hitnet.training.engine import Trainer
from parts.record import about
from parts.timing import best_of

RECORDS = Path(__file__).with_name("records") / "cpu.json"
BATCH = 128
CPU = torch.device("cpu")


class Pictures(Dataset[tuple[Tensor, int]]):
    """A textbook data set, like torchvision's own: one picture at a time, through transforms."""

    def __init__(self, images: hitnet.Images) -> None:
        self.images = images
        self.transform = transforms.Compose([transforms.RandomCrop(28, padding=2), transforms.ToTensor()])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = Image.fromarray(self.images.pixels[index, 0].numpy())
        return self.transform(picture), int(self.images.labels[index])


def engine_epoch(name: str, images: hitnet.Images, **changes: Any) -> Callable[[], float]:
    """Measures the seconds of one epoch of our engine; each call trains the next epoch of the same training."""
    torch.manual_seed(0)
    network = models.build(name, images.shape, images.num_classes)
    choice = hitnet.choose_recipe("fast", epochs=1000, batch_size=BATCH, **changes)
    recipe = choice.complete(features=network.config.features)
    trainer = Trainer(network, Feed(images, CPU), None, recipe, seed=0, device=CPU)
    work = trainer.work()

    def epoch() -> float:
        started, done = time.perf_counter(), len(trainer.history)
        while len(trainer.history) == done:
            next(work)
        return time.perf_counter() - started

    return epoch


def eager_step(network: hitnet.Network) -> Callable[[Tensor, Tensor], None]:
    """The step as a PyTorch tutorial writes it."""
    loss, optimizer = CentripetalLoss(), torch.optim.Adam(network.parameters(), lr=1e-3)

    def step(images: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        output = network(images, labels)
        total = loss(output.distances, labels)
        if output.reconstruction is not None:
            total = total + 0.392 * nn.functional.mse_loss(output.reconstruction, images)
        total.backward()
        optimizer.step()

    return step


def textbook_epoch(name: str, images: hitnet.Images, workers: int) -> Callable[[], float]:
    torch.manual_seed(0)
    network = models.build(name, images.shape, images.num_classes).train()
    step, loader = eager_step(network), DataLoader(Pictures(images), BATCH, shuffle=True, num_workers=workers)

    def epoch() -> float:
        started = time.perf_counter()
        for batch, labels in loader:
            step(batch, labels)
        return time.perf_counter() - started

    return epoch


def eager_epoch(name: str, images: hitnet.Images) -> Callable[[], float]:
    torch.manual_seed(0)
    network = models.build(name, images.shape, images.num_classes).train()
    step = eager_step(network)

    def epoch() -> float:
        started = time.perf_counter()
        for index in torch.randperm(len(images)).split(BATCH):
            step(images.pixels[index].float() / 255, images.labels[index])
        return time.perf_counter() - started

    return epoch


def compare(network: str, images: hitnet.Images, others: dict[str, Callable[[], float]], args: Any) -> dict[str, Any]:
    shift = {"shift": 0} if network == "hitnet" else {}
    seconds = best_of({"engine": engine_epoch(network, images, **shift), **others}, args.repeats)
    row = {
        "experiment": "speed",
        "network": network,
        "images": len(images),
        "images_per_second": {name: round(len(images) / value, 1) for name, value in seconds.items()},
        "engine_is_faster_by": {name: round(seconds[name] / seconds["engine"], 3) for name in others},
    }
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4096, help="for hitnet-small")
    parser.add_argument("--paper-images", type=int, default=384, help="for the paper's network")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="PyTorch's threads (default: its own choice)")
    parser.add_argument("--out", type=Path, default=RECORDS)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    sample = hitnet.open_data("mnist-sample").load("train")
    small, paper = sample.first(args.images), sample.first(args.paper_images)
    loaders = {f"textbook, {n} workers": textbook_epoch("hitnet-small", small, n) for n in (0, 2)}
    rows = [
        compare("hitnet-small", small, loaders, args),
        compare("hitnet", paper, {"eager PyTorch": eager_epoch("hitnet", paper)}, args),
    ]
    files.write_json(args.out, [row | about(CPU) for row in rows])


if __name__ == "__main__":
    main()
