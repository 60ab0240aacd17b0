"""Training on a GPU: errors of the fast recipe, and the speed of every network with its causes.

    python benchmarks/training.py --data-dir DATA [--parts ladder speed hybrid fast parity float32]

ladder   the paper's network from a plain eager loop to networks side by side, beside the card's rate of matrix products
speed    images per second of every network, one network and eight side by side
hybrid   images per second of the paper's network on images that a trained network modifies
fast     test errors of the paper's network after the fast recipe, ten seeds
parity   how far the losses of the first 100 steps are from eager float32 without TF32
float32  test errors of the fast recipe cut to five epochs, in float32 without TF32 and as usual, five seeds each

Replaces the rows of these parts in benchmarks/records/training.json; each row is one run or measurement.
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
from hitnet.training.augmentation import draw
from parts.record import Row, about, replace_rows
from parts.textbook import TextbookCapsNet, images_per_second, textbook_step

RECORDS = Path(__file__).with_name("records") / "training.json"
PARITY_STEPS, FLOAT32_EPOCHS, TOGETHER, SPEED_IMAGES = 100, 5, 8, 25_600
CUDA = torch.device("cuda")


@contextmanager
def tf32(*, products: bool = False, convolutions: bool = False) -> Iterator[None]:
    """Whether the GPU may round float32 matrix products and convolutions to TF32; restored afterwards."""
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [flag.allow_tf32 for flag in flags]
    try:
        for flag, allowed in zip(flags, (products, convolutions), strict=True):
            flag.allow_tf32 = allowed
        yield
    finally:
        for flag, allowed in zip(flags, before, strict=True):
            flag.allow_tf32 = allowed


def trained(data: hitnet.Images | hitnet.Data, seeds: int, **options: Any) -> tuple[list[hitnet.Run], float]:
    """Networks trained side by side as users would, and the seconds that it took."""
    started = time.perf_counter()
    runs = hitnet.train_many(data, seeds=seeds, **options)
    return runs, time.perf_counter() - started


def rate(train: hitnet.Images, name: str, networks: int) -> float:
    """Training images per second of all networks together, in their third epoch."""
    runs, _ = trained(train.first(SPEED_IMAGES), networks, model=name, recipe=hitnet.choose_recipe("fast", epochs=3))
    return sum(run.history[-1]["images_per_second"] for run in runs)


def operations(network: torch.nn.Module, shape: tuple[int, ...]) -> float:
    """Floating-point operations per image of the matrix products of a training step."""
    with FlopCounterMode(display=False) as counter:
        output = network(torch.rand(2, *shape), torch.tensor([0, 1]))
        (output.distances.sum() + output.reconstruction.sum()).backward()
    return counter.get_total_flops() / 2


def matmul_rate(size: int = 8192, repeats: int = 10) -> float:
    """Operations per second of a large bfloat16 matrix product on this card."""
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
    only_pytorch = mock.patch("hitnet.kernels.usable", return_value=False)

    def row(what: str, speed: float, *, share: bool = True) -> Row:
        of_peak = {"of_matmul_rate": round(speed * each / peak, 4)} if share else {}
        return {"experiment": "ladder", "what": what, "images_per_second": round(speed), **of_peak}

    network = models.build("hitnet", train.shape, train.num_classes)
    yield row("plain eager loop, float32 as PyTorch sets it", images_per_second(textbook_step(network, train)))
    with tf32(products=True, convolutions=True):
        textbook = images_per_second(textbook_step(TextbookCapsNet(), train))
    yield row("textbook CapsNet, eager, TF32", textbook, share=False)
    with only_pytorch:
        yield row("bfloat16, one CUDA graph, PyTorch's convolutions", rate(train, "hitnet", 1))
        yield row("the same, eight networks side by side", rate(train, "hitnet", TOGETHER))
    yield row("own kernels", rate(train, "hitnet", 1))
    yield row("own kernels, eight networks side by side", rate(train, "hitnet", TOGETHER))
    yield {"experiment": "ladder", "what": "matrix product 8192 x 8192 x 8192", "tflops": round(peak / 1e12)}


def speed(train: hitnet.Images, test: hitnet.Images) -> Iterator[Row]:
    for name in models.MODELS:
        config = models.choose_model(name).config(train.shape, train.num_classes)
        batch = hitnet.choose_recipe("fast").complete(features=config.features).batch_size
        for networks in (1, TOGETHER):
            yield {
                "experiment": "speed",
                "network": name,
                "batch_size": batch,
                "networks": networks,
                "images_per_second": round(rate(train, name, networks)),
            }


def hybrid(train: hitnet.Images, test: hitnet.Images) -> Iterator[Row]:
    """Speed in the third epoch as a whole, with what comes before its steps: the noise is drawn there."""
    images = train.first(SPEED_IMAGES)
    brief = hitnet.choose_recipe("fast", epochs=1)
    teachers = {name: trained(images, 1, model=name, recipe=brief)[0][0] for name in ("hitnet", "hitnet-conv")}
    plain: dict[int, float] = {}
    for teacher, share in [(None, 0.0), ("hitnet", 1.0), ("hitnet-conv", 0.25), ("hitnet-conv", 1.0)]:
        changes = {} if teacher is None else {"augment": "hybrid", "augment_share": share}
        recipe = hitnet.choose_recipe("fast", epochs=3, **changes)
        source = None if teacher is None else teachers[teacher]
        for networks in (1, TOGETHER):
            runs, _ = trained(images, networks, model="hitnet", recipe=recipe, augment_from=source)
            speed = sum(len(images) / run.history[-1]["seconds"] for run in runs)
            plain.setdefault(networks, speed)
            yield {
                "experiment": "hybrid",
                "teacher": teacher,
                "share": share,
                "networks": networks,
                "images_per_second": round(speed),
                "of_plain": round(speed / plain[networks], 3),
            }


def fast(
    train: hitnet.Images, test: hitnet.Images, *, seeds: int = 10, experiment: str = "fast recipe", **options: Any
) -> Iterator[Row]:
    """Test errors of the paper's network at the end of the fast recipe, one row per seed."""
    recipe = hitnet.choose_recipe("fast", **options)
    runs, seconds = trained(hitnet.open_data(train, test=test), seeds, model="hitnet", recipe=recipe)
    for run in runs:
        yield {
            "experiment": experiment,
            "network": "hitnet",
            "data": "mnist",
            "seed": run.config.seed,
            "epochs": len(run.history),
            "error_percent": round(100 * run.history[-1]["test_error"], 2),
            "error_percent_by_epoch": [round(100 * row["test_error"], 2) for row in run.history],
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
    recipe = hitnet.choose_recipe("paper", precision="mixed" if mixed else "float32").complete()
    step = steps.Step(network, recipe, CUDA)
    step.capture = capture
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(train), generator=generator)[: PARITY_STEPS * 128].split(128)
    draws = draw(recipe, PARITY_STEPS * 128, train.shape[1:], generator).split(128)
    values = []
    for index, drawn in zip(order, draws, strict=True):
        step.totals.zero_()
        step((train.pixels[index].to(CUDA), train.labels[index].to(CUDA), drawn.to(CUDA)), 1e-3)
        values.append(float(step.totals[0]) / len(index))
    return torch.tensor(values)


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
    data = hitnet.open_data("mnist", data_dir=args.data_dir)
    train, test = data.load("train"), data.load("test")
    rows: list[Row] = []
    for part in args.parts:
        measured: list[Row] = []
        with tf32(convolutions=True):  # as PyTorch sets it
            for row in PARTS[part](train, test):
                measured.append(row | about(CUDA))
                print(row, flush=True)
                rows = replace_rows(args.out, measured, "experiment")
    errors = [row["error_percent"] for row in rows if row["experiment"] == "fast recipe"]
    if len(errors) > 1:
        print(
            f"fast recipe: mean {statistics.mean(errors):.3f} %, sd {statistics.stdev(errors):.3f}, {len(errors)} runs"
        )


if __name__ == "__main__":
    main()
