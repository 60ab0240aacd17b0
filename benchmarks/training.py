"""Training on a GPU: errors of the fast recipe, the speed of every network, and what makes it.

    python benchmarks/training.py --data-dir DATA [--parts ladder speed hybrid fast parity float32]

ladder   the paper's network from a plain eager loop to networks side by side, beside the card's rate of matrix products
speed    images a second of every network, alone and eight side by side
hybrid   images a second of the paper's network on images that a trained network modifies
fast     test errors of the paper's network after the fast recipe, ten seeds
parity   how far the losses of the first 100 steps stray from eager float32, without TF32
float32  test errors of the fast recipe cut to five epochs, in float32 without TF32 and as usual, five seeds each

Replaces the rows of these parts in benchmarks/records/training.json; each row is a run or a measurement.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils.flop_counter import FlopCounterMode

import hitnet
from hitnet import models
from hitnet.training import step as steps
from parts.record import Row, about, replace_rows
from parts.textbook import TextbookCapsNet, images_per_second, textbook_step

RECORDS = Path(__file__).with_name("records") / "training.json"
PARITY_STEPS, FLOAT32_EPOCHS, TOGETHER, SPEED_IMAGES = 100, 5, 8, 25_600
CUDA = torch.device("cuda")


@contextmanager
def tf32(*, products: bool = False, convolutions: bool = False) -> Iterator[None]:
    """Whether the GPU may round float32 matrix products and convolutions to TF32; afterwards all is as before."""
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [flag.allow_tf32 for flag in flags]
    try:
        for flag, allowed in zip(flags, (products, convolutions), strict=True):
            flag.allow_tf32 = allowed
        yield
    finally:
        for flag, allowed in zip(flags, before, strict=True):
            flag.allow_tf32 = allowed


def trained(train: hitnet.Images, seeds: int, **options: Any) -> tuple[list[hitnet.Run], float]:
    """So many networks, trained side by side as users would, and the seconds that it took."""
    started = time.perf_counter()
    runs = hitnet.train(train, seeds=seeds, **options)
    return runs, time.perf_counter() - started


def rate(train: hitnet.Images, name: str, networks: int) -> float:
    """Training images a second of all networks together, in their third epoch."""
    runs, _ = trained(train.first(SPEED_IMAGES), networks, model=name, epochs=3)
    return sum(run.history[-1]["images_per_second"] for run in runs)


def operations(network: torch.nn.Module, shape: tuple[int, ...]) -> float:
    """Floating-point operations of the matrix products of a training step, for one image."""
    with FlopCounterMode(display=False) as counter:
        output = network(torch.rand(2, *shape), torch.tensor([0, 1]))
        (output.distances.sum() + output.reconstruction.sum()).backward()
    return counter.get_total_flops() / 2


def matmul_rate(size: int = 8192, repeats: int = 10) -> float:
    """Operations a second of a large bfloat16 matrix product on this card."""
    a, b = (torch.randn(size, size, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        a @ b
    torch.cuda.synchronize()
    return repeats * 2 * size**3 / (time.perf_counter() - started)


def ladder(train: hitnet.Images, test: hitnet.Images) -> Iterator[Row]:
    peak = matmul_rate()
    each = operations(models.build("hitnet", train.shape, train.num_classes), train.shape)
    pytorch_alone = mock.patch("hitnet.kernels.usable", return_value=False)

    def row(what: str, found: float, *, share: bool = True) -> Row:
        of_peak = {"of_matmul_rate": round(found * each / peak, 4)} if share else {}
        return {"experiment": "ladder", "what": what, "images_per_second": round(found), **of_peak}

    network = models.build("hitnet", train.shape, train.num_classes)
    found = images_per_second(textbook_step(network, train))
    yield row("plain eager loop, float32 as PyTorch sets it", found)
    with tf32(products=True, convolutions=True):
        found = images_per_second(textbook_step(TextbookCapsNet(), train))
    yield row("textbook CapsNet, eager, TF32", found, share=False)
    with pytorch_alone:
        yield row("bfloat16, one CUDA graph, PyTorch's convolutions", rate(train, "hitnet", 1))
        yield row("the same, eight networks side by side", rate(train, "hitnet", TOGETHER))
    yield row("own kernels", rate(train, "hitnet", 1))
    yield row("own kernels, eight networks side by side", rate(train, "hitnet", TOGETHER))
    yield {"experiment": "ladder", "what": "matrix product 8192 x 8192 x 8192", "tflops": round(peak / 1e12)}


def speed(train: hitnet.Images, test: hitnet.Images) -> Iterator[Row]:
    for name in models.MODELS:
        config = models.config(name, train.shape, train.num_classes)
        batch = hitnet.recipe("fast", features=config.features).batch_size
        for networks in (1, TOGETHER):
            found = round(rate(train, name, networks))
            yield {
                "experiment": "speed",
                "network": name,
                "batch_size": batch,
                "networks": networks,
                "images_per_second": found,
            }


def hybrid(train: hitnet.Images, test: hitnet.Images) -> Iterator[Row]:
    """Speed in the third epoch as a whole, with all that precedes its steps: the noise is drawn there."""
    images = train.first(SPEED_IMAGES)
    teachers = {name: trained(images, 1, model=name, epochs=1)[0][0] for name in ("hitnet", "hitnet-conv")}
    plain: dict[int, float] = {}
    for teacher, share in [(None, 0.0), ("hitnet", 1.0), ("hitnet-conv", 0.25), ("hitnet-conv", 1.0)]:
        options: dict[str, Any] = {}
        if teacher is not None:
            options = {
                "augment": "hybrid",
                "augment_from": teachers[teacher],
                "recipe_options": {"augment_share": share},
            }
        for networks in (1, TOGETHER):
            runs, _ = trained(images, networks, model="hitnet", epochs=3, **options)
            found = sum(len(images) / run.history[-1]["seconds"] for run in runs)
            plain.setdefault(networks, found)
            yield {
                "experiment": "hybrid",
                "teacher": teacher,
                "share": share,
                "networks": networks,
                "images_per_second": round(found),
                "of_plain": round(found / plain[networks], 3),
            }


def fast(
    train: hitnet.Images, test: hitnet.Images, *, seeds: int = 10, experiment: str = "fast recipe", **options: Any
) -> Iterator[Row]:
    """Test errors of the paper's network at the end of the fast recipe, one row a seed."""
    runs, seconds = trained(train, seeds, test=test, model="hitnet", recipe="fast", recipe_options=options)
    for run in runs:
        yield {
            "experiment": experiment,
            "network": "hitnet",
            "data": "mnist",
            "seed": run.config.seed,
            "epochs": len(run.history),
            "error_percent": round(run.history[-1]["test_error"], 2),
            "error_percent_by_epoch": [round(row["test_error"], 2) for row in run.history],
            "seconds": round(seconds / len(runs), 2),  # its share of the whole call
        }


def float32(train: hitnet.Images, test: hitnet.Images) -> Iterator[Row]:
    for precision in ("float32", "mixed"):
        with tf32(convolutions=precision == "mixed"):
            rows = list(fast(train, test, seeds=5, experiment="float32", precision=precision, epochs=FLOAT32_EPOCHS))
        yield from (row | {"precision": precision} for row in rows)


def losses(train: hitnet.Images, *, capture: bool, mixed: bool) -> torch.Tensor:
    """The loss of each of the first 100 steps of the paper's recipe."""
    torch.manual_seed(0)
    network = models.build("hitnet", train.shape, train.num_classes)
    network = network.to(device=CUDA, memory_format=torch.channels_last)
    recipe = hitnet.recipe("paper", precision="mixed" if mixed else "float32")
    augmentation = recipe.augmentation(mirrored_ok=False)
    step = steps.Step(network, recipe, augmentation, CUDA)
    step.capture = capture
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(train), generator=generator)[: PARITY_STEPS * 128].split(128)
    draws = augmentation.draw(PARITY_STEPS * 128, train.shape[1:], generator).split(128)
    found = []
    for index, drawn in zip(order, draws, strict=True):
        step.totals.zero_()
        step((train.pixels[index].to(CUDA), train.labels[index].to(CUDA), drawn.to(CUDA)), 1e-3)
        found.append(float(step.totals[0]) / len(index))
    return torch.tensor(found)


def parity(train: hitnet.Images, test: hitnet.Images) -> Iterator[Row]:
    captured, eager = (losses(train, capture=capture, mixed=True) for capture in (True, False))
    with tf32():
        exact = losses(train, capture=False, mixed=False)
    relative = (captured - exact).abs() / exact
    yield {
        "experiment": "parity",
        "network": "hitnet",
        "steps": PARITY_STEPS,
        "largest_relative_difference_to_float32": float(relative.max()),
        "mean_relative_difference_to_float32": float(relative.mean()),
        "largest_difference_to_eager_bfloat16": float((captured - eager).abs().max()),
    }


PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    "ladder": ladder,
    "speed": speed,
    "hybrid": hybrid,
    "fast": fast,
    "parity": parity,
    "float32": float32,
}


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path, default=RECORDS)
    args = parser.parse_args(given)
    train, test = (hitnet.data.load("mnist", split, data_dir=args.data_dir) for split in ("train", "test"))
    rows: list[Row] = []
    for part in args.parts:
        found: list[Row] = []
        with tf32(convolutions=True):  # as PyTorch sets it
            for row in PARTS[part](train, test):
                found.append(row | about(CUDA))
                print(row, flush=True)
                rows = replace_rows(args.out, found, "experiment")
    errors = [row["error_percent"] for row in rows if row["experiment"] == "fast recipe"]
    if len(errors) > 1:
        print(
            f"fast recipe: mean {statistics.mean(errors):.3f} %, sd {statistics.stdev(errors):.3f}, {len(errors)} runs"
        )


if __name__ == "__main__":
    main()
