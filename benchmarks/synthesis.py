"""Synthesis: how good a network's pictures are, by decoder and weight, and the gain of training on hybrid images.

    python benchmarks/synthesis.py --data-dir DATA --parts decoders --budget 8
    python benchmarks/synthesis.py --data-dir DATA --parts hybrid-final --strength 0.5 --share 0.25 --epochs 80
    python benchmarks/synthesis.py --parts        # the tables of what is in the record

Each trained network becomes a row of benchmarks/records/synthesis.json as soon as it is measured. Rows that exist are
not made again, so that calls add up; after --budget minutes, no new training starts.

decoders       MNIST, the paper's network, fast recipe: what the decoder sees, and its weight (α)
paper-decoder  the paper's decoder and recipe, 250 epochs; --paper-run measures a finished run of it
hybrid         MNIST and Fashion-MNIST: search for the strength and share of hybrid images, with the last sixth of the
               training images held out; the test images are not used
hybrid-final   one strength and share compared with none, on other seeds, all training images, the test images
photographs    CIFAR-10 and SVHN, hitnet-resnet9: the convolutional decoder beside the dense one

Pictures are judged by an `n1` that is trained in the same call; parts/pictures.py explains what is measured.
--tiny runs every part in a minute on a CPU, only to check that everything works: its figures mean nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hitnet
from hitnet.errors import DivergedError
from hitnet.inference.evaluation import measure
from parts.arms import DECODERS, HYBRIDS, JUDGE, NO_HYBRID, PAPER, PHOTOGRAPHS, SOURCE, Arm, hybrid_arm
from parts.decoder_phase import train_decoder
from parts.pictures import picture_figures
from parts.record import Budget, Record, Row
from parts.tables import print_tables

RECORDS = Path(__file__).with_name("records") / "synthesis.json"
JUDGE_SEED, SOURCE_SEED, FINAL_SEED = (
    1000,
    2000,
    10,
)  # the seeds of the final comparison differ from those of the search
GREY, COLOUR = ("mnist", "fashion-mnist"), ("cifar10", "svhn")
TINY = 150  # images of a check that everything works


class Bench:
    """What the parts share: data, record, time budget, and the training of an arm's networks side by side."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.tiny = args, args.tiny
        self.record, self.budget = Record(args.out), Budget(args.budget)
        self.kept: dict[tuple[object, ...], Any] = {}

    def once(self, *key: object, make: Callable[[], Any]) -> Any:
        """The result of `make`, which is called only once per key."""
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def load(self, name: str, split: str) -> hitnet.Images:
        return self.once("images", name, split, make=lambda: self.read(name, split))

    def read(self, name: str, split: str) -> hitnet.Images:
        if not self.tiny:
            return hitnet.open_data(name, data_dir=self.args.data_dir).load(split)
        images = hitnet.open_data("mnist-sample", limit=TINY).load(split)
        return replace(images, pixels=images.pixels.expand(-1, 3, -1, -1).contiguous()) if name in COLOUR else images

    def seeds(self, count: int, first: int = 0) -> range:
        return range(first, first + (1 if self.tiny else self.args.seeds or count))

    def judge(self) -> tuple[hitnet.Run, float]:
        """A network of another kind, and its error."""

        def make() -> tuple[hitnet.Run, float]:
            run = self.train(JUDGE, self.load("mnist", "train"), [JUDGE_SEED])[0]
            return run, 100 * measure(run.model, self.load("mnist", "test")).error

        return self.once("judge", make=make)

    def source(self, part: str, data: str, train: hitnet.Images, test: hitnet.Images) -> tuple[hitnet.Run, float]:
        """The network that modifies the images of hybrid training, trained on them with its own seed, and its error."""

        def make() -> tuple[hitnet.Run, float]:
            run = self.train(SOURCE, train, [SOURCE_SEED])[0]
            return run, 100 * measure(run.model, test).error

        return self.once("source", part, data, make=make)

    def train(
        self, arm: Arm, images: hitnet.Images, seeds: Sequence[int], source: hitnet.Run | None = None
    ) -> list[hitnet.Run]:
        """Networks of an arm, side by side; those that diverge are left out."""
        model = hitnet.choose_model("hitnet-small" if self.tiny else arm.model, **arm.model_options)
        recipe = hitnet.choose_recipe(arm.recipe, epochs=1 if self.tiny else arm.epochs, **arm.recipe_options)
        with arm.patched():
            try:
                return hitnet.train_many(images, seeds=seeds, model=model, recipe=recipe, augment_from=source)
            except DivergedError as error:
                print(error, flush=True)
                return list(error.runs)

    def missing(self, part: str, data: str, arm: Arm, seeds: Sequence[int], images: hitnet.Images) -> list[int]:
        """The seeds to train now: none if all are in the record, or if there is no time left."""
        left = self.record.missing(part, data, arm.names, seeds)
        if left and not self.budget.allows(part, len(left) * len(images) * arm.work):
            print(f"no time left for {part}, {data}, {arm.name}, seeds {left}", flush=True)
            return []
        return left

    def networks(
        self,
        part: str,
        data: str,
        arm: Arm,
        seeds: Sequence[int],
        images: hitnet.Images,
        source: hitnet.Run | None = None,
    ) -> Iterator[tuple[hitnet.Run, Row]]:
        """Trained networks, each with the first entries of its row; those that diverged get a row here."""
        started = time.perf_counter()
        runs = {run.config.seed: run for run in self.train(arm, images, seeds, source)}
        seconds = time.perf_counter() - started
        epochs = 1 if self.tiny else arm.length
        trained = len(seeds) * len(images) * epochs
        # The pace is that of all these networks together, over their whole training.
        pace = {"networks": len(seeds), "seconds": round(seconds, 2), "images_per_second": round(trained / seconds)}
        for seed in seeds:
            row = {"part": part, "data": data, "arm": arm.name, "seed": seed, "diverged": seed not in runs}
            row |= {"epochs": epochs, "train_images": len(images), **pace}
            if seed in runs:
                yield runs[seed], row
            else:
                for name in arm.names:
                    self.record.add(row | {"arm": name})
        self.budget.took(part, len(seeds) * len(images) * arm.work, time.perf_counter() - started)


def pictures(bench: Bench, part: str, arms: Sequence[Arm], seeds: Sequence[int]) -> None:
    """Train each arm on MNIST and measure its pictures; also those after each further training of the decoder."""
    train, test = (bench.load("mnist", split) for split in ("train", "test"))
    samples = 20 if bench.tiny else 1000
    for arm in arms:
        left = bench.missing(part, "mnist", arm, seeds, train)
        if not left:
            continue
        judge, error = bench.judge()
        judged = {"judge_error_percent": error}
        for run, row in bench.networks(part, "mnist", arm, left, train):
            figures = picture_figures(run, train, test, judge.model, samples=samples)
            bench.record.add(row | figures | judged)
            for phase in arm.phases:
                started = time.perf_counter()
                further = train_decoder(run, train, replace(phase, epochs=1) if bench.tiny else phase)
                took = {"phase_seconds": round(time.perf_counter() - started, 2)}
                figures = picture_figures(further, train, test, judge.model, samples=samples)
                bench.record.add(row | {"arm": f"{arm.name}, {phase.name}"} | took | figures | judged)


def hybrids(
    bench: Bench, part: str, data: str, arms: Sequence[Arm], seeds: Sequence[int], sets: tuple[hitnet.Images, ...]
) -> None:
    train, test = sets
    for arm in arms:
        left = bench.missing(part, data, arm, seeds, train)
        if not left:
            continue
        source, error = bench.source(part, data, train, test)
        wanted = source if arm.recipe_options else None
        for run, row in bench.networks(part, data, arm, left, train, wanted):
            figures = {"error_percent": 100 * measure(run.model, test).error, "source_error_percent": error}
            bench.record.add(row | figures)


def held_out(images: hitnet.Images) -> tuple[hitnet.Images, hitnet.Images]:
    """All but the last sixth, and the last sixth: 50,000 and 10,000 images of 60,000."""
    kept = len(images) - len(images) // 6
    return images.select(range(kept)), images.select(range(kept, len(images)))


def decoders_part(bench: Bench) -> None:
    pictures(bench, "decoders", bench.args.arms(DECODERS), bench.seeds(5))


def paper_part(bench: Bench) -> None:
    if bench.args.paper_run is None:
        pictures(bench, "paper-decoder", [PAPER], bench.seeds(1))
        return
    run, recipe = hitnet.open_run(bench.args.paper_run), hitnet.choose_recipe(PAPER.recipe).complete()
    if run.config.recipe.in_effect() != recipe.in_effect() or run.config.model.decoder != "paper":
        raise SystemExit(f"{bench.args.paper_run} is no run of the paper's network by the paper's recipe")
    if not bench.record.missing("paper-decoder", "mnist", [PAPER.name], [run.config.seed]):
        raise SystemExit(f"{bench.record.path} has a run with seed {run.config.seed} already; give another, or --out")
    train, test = (bench.load("mnist", split) for split in ("train", "test"))
    judge, error = bench.judge()
    row = {"part": "paper-decoder", "data": "mnist", "arm": PAPER.name, "seed": run.config.seed, "diverged": False}
    row |= {"epochs": len(run.history), "train_images": run.config.data["images"], "judge_error_percent": error}
    bench.record.add(row | picture_figures(run, train, test, judge.model, samples=20 if bench.tiny else 1000))


def hybrid_part(bench: Bench) -> None:
    for data in bench.args.sets(GREY):
        sets = held_out(bench.load(data, "train"))
        hybrids(bench, "hybrid", data, bench.args.lasting(HYBRIDS), bench.seeds(3), sets)


def final_part(bench: Bench) -> None:
    arms = [arm.lasting(bench.args.epochs) for arm in (NO_HYBRID, hybrid_arm(bench.args.strength, bench.args.share))]
    for data in bench.args.sets(GREY):
        sets = (bench.load(data, "train"), bench.load(data, "test"))
        hybrids(bench, "hybrid-final", data, arms, bench.seeds(10, FINAL_SEED), sets)


def photographs_part(bench: Bench) -> None:
    for data in bench.args.sets(COLOUR):
        train, test = (bench.load(data, split) for split in ("train", "test"))
        for arm in bench.args.lasting(PHOTOGRAPHS):
            left = bench.missing("photographs", data, arm, bench.seeds(2), train)
            if not left:
                continue
            for run, row in bench.networks("photographs", data, arm, left, train):
                evaluation = measure(run.model, test)
                size = sum(p.numel() for p in run.model.decoder.parameters())
                figures = {"error_percent": 100 * evaluation.error, "mse": evaluation.mse, "decoder_parameters": size}
                bench.record.add(row | figures)


PARTS = {
    "decoders": decoders_part,
    "paper-decoder": paper_part,
    "hybrid": hybrid_part,
    "hybrid-final": final_part,
    "photographs": photographs_part,
}


def parse(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--budget", type=float, help="minutes after which no new training starts")
    parser.add_argument("--seeds", type=int, help="networks of each arm (default: the part's own number)")
    parser.add_argument("--data", nargs="+", choices=[*GREY, *COLOUR], help="only these of the part's sets")
    parser.add_argument("--only", nargs="+", help="only arms whose name is one of these")
    parser.add_argument("--epochs", type=int, help="of photographs and hybrids, instead of the recipe's own")
    parser.add_argument("--strength", type=float, default=0.5, help="of hybrid-final")
    parser.add_argument("--share", type=float, default=0.25, help="of hybrid-final")
    parser.add_argument(
        "--paper-run", type=Path, help="of paper-decoder: a finished run, e.g. of `python -m reproduction`"
    )
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, help=f"the record (default: {RECORDS.name} in benchmarks/records)")
    args = parser.parse_args(given)
    known = {arm.name for arm in (*DECODERS, PAPER, *HYBRIDS, *PHOTOGRAPHS)}
    if unknown := sorted(set(args.only or []) - known):
        parser.error(f"no arm is named {', '.join(unknown)}; there are: {'; '.join(sorted(known))}")
    if args.out is None:
        args.out = Path(tempfile.mkdtemp()) / RECORDS.name if args.tiny else RECORDS
    args.arms = lambda arms: [arm for arm in arms if not args.only or arm.name in args.only]
    args.lasting = lambda arms: [arm.lasting(args.epochs) for arm in args.arms(arms)]
    args.sets = lambda sets: [name for name in sets if not args.data or name in args.data]
    return args


def main(given: Sequence[str] | None = None) -> None:
    bench = Bench(parse(given))
    for part in bench.args.parts:
        PARTS[part](bench)
    print_tables(bench.record.rows)


if __name__ == "__main__":
    main()
