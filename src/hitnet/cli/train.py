"""`hitnet train`, `evaluate`, `predict` and `models`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.table import Table

from hitnet import models
from hitnet.cli.terminal import console, fits, make_table, print_json, short_name, training_progress
from hitnet.data.decode import check_shape
from hitnet.errors import HitNetError
from hitnet.training import Evaluation, Run, distributed, evaluate, load, train
from hitnet.training.prediction import predict

Data = Annotated[
    str, typer.Argument(help="A data set's name (see `hitnet data list`), or a folder, .npz, CSV, Parquet")
]
RunPath = Annotated[Path, typer.Argument(help="A run folder, as `hitnet train` writes it")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
DataDir = Annotated[Path | None, typer.Option(help="Where named data sets lie (default: HITNET_DATA or the cache)")]
ImageSize = Annotated[int | None, typer.Option(help="Bring the images of a folder or table to this height and width")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at the first image that cannot be used instead of leaving it out")
]
Mirror = Annotated[
    bool | None, typer.Option(help="Whether images may be mirrored, as photographs may (default: known sets know)")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]


def register(app: typer.Typer) -> None:
    app.command("train")(train_command)
    app.command("evaluate")(evaluate_command)
    app.command("predict")(predict_command)
    app.command("models")(models_command)


def check_ghosts(ghosts: int | None, *options: str | float | None) -> None:
    """An error where ghosts are described but there are none."""
    if not ghosts and any(option is not None for option in options):
        raise HitNetError("The options of ghosts say when they go unpunished. Say how many there are: add --ghosts 1.")


def train_command(
    data: Data,
    model: Annotated[str | None, typer.Option(help="See `hitnet models`; by default one to suit data, device")] = None,
    recipe: Annotated[str, typer.Option(help="fast, paper (250 epochs, constant rate) or paper-decay")] = "fast",
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's own number")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same machine, same result")] = 0,
    seeds: Annotated[int | None, typer.Option(help="Train so many networks, with seeds SEED, SEED + 1, …")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/DATA-MODEL-RECIPE[-AUGMENT]-SEED")] = None,
    device: Device = "auto",
    limit: Annotated[
        int | None, typer.Option(help="Use N training images: a known set's first, else an even draw")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Write where a step's time goes (profile.txt)")] = False,
    data_dir: DataDir = None,
    image_size: ImageSize = None,
    strict: Strict = False,
    stream: Annotated[
        bool | None, typer.Option(help="Read images from disk as training goes (default: if memory is short)")
    ] = None,
    mirror: Mirror = None,
    decoder: Annotated[str | None, typer.Option(help="paper, standardised, conv or none")] = None,
    capsule_dim: Annotated[int | None, typer.Option(help="Components of a capsule (paper: 16)")] = None,
    extra_dim: Annotated[int | None, typer.Option(help="Components for the decoder alone, e.g. background")] = None,
    reconstruction_weight: Annotated[float | None, typer.Option(help="α of the loss (paper: 0.392)")] = None,
    augment: Annotated[str | None, typer.Option(help="hybrid: on images that a trained network modifies")] = None,
    augment_from: Annotated[Path | None, typer.Option(help="Run folder of that network")] = None,
    augment_strength: Annotated[float | None, typer.Option(help="Noise on its capsules, in m/√n (default 0.5)")] = None,
    augment_share: Annotated[float | None, typer.Option(help="Part of each batch to modify (default 0.25)")] = None,
    ghosts: Annotated[int | None, typer.Option(help="Ghost capsules: classes that an image may hit unpunished")] = None,
    ghost_rule: Annotated[str | None, typer.Option(help="always (the paper) or nearer (than the true class)")] = None,
    ghost_probability: Annotated[float | None, typer.Option(help="Chance that a ghost goes unpunished")] = None,
    ghosts_from_epoch: Annotated[int | None, typer.Option(help="First epoch with ghosts")] = None,
) -> None:
    """Train a network on DATA and keep it in a run folder.

    Interrupted at any moment, the same command with --resume goes on where it was. With --seeds, each network has a
    run folder of its own, OUT/seed-S.
    """
    if augment is None and (augment_strength is not None or augment_share is not None):
        raise HitNetError("--augment-strength and --augment-share say how images are modified. Add --augment hybrid.")
    check_ghosts(ghosts, ghost_rule, ghost_probability, ghosts_from_epoch)
    last_word = str(seed) if seeds is None else "seeds"
    words = [short_name(data), model or "default", recipe, *([augment] if augment else []), last_word]
    with training_progress(f"Training on {short_name(data)}") as bar:
        trained = train(
            data,
            model=model,
            recipe=recipe,
            epochs=epochs,
            augment=augment,
            augment_from=augment_from,
            seed=seed,
            seeds=seeds,
            out=out or Path("runs") / "-".join(words),
            device=device,
            limit=limit,
            resume=resume,
            data_dir=data_dir,
            image_size=image_size,
            strict=strict,
            stream=stream,
            mirror=mirror,
            model_options=given(
                decoder=decoder,
                capsule_dim=capsule_dim,
                extra_dim=extra_dim,
                reconstruction_weight=reconstruction_weight,
            ),
            recipe_options=given(
                augment_strength=augment_strength,
                augment_share=augment_share,
                ghosts=ghosts,
                ghost_rule=ghost_rule,
                ghost_probability=ghost_probability,
                ghosts_from_epoch=ghosts_from_epoch,
            ),
            progress=bar,
            profile=profile,
        )
    if distributed.rank():
        return
    if isinstance(trained, Run):
        print_training(trained)
    else:
        print_trainings(trained)


def given(**options: Any) -> dict[str, Any]:
    """The options that the user gave; the others keep what network or recipe say."""
    return {name: value for name, value in options.items() if value is not None}


def print_training(run: Run) -> None:
    last, config = run.history[-1], run.config
    seconds = sum(row["seconds"] for row in run.history)
    console.print(
        f"{config.model_name} on {config.data['name']}: {epochs_in_words(run)} of {config.data['images']:,} images "
        f"in {seconds:.0f} s ({last['images_per_second']:,.0f} images/s)",
    )
    if "test_error" in last:
        hits = f", {last['test_hits']:.1f} % hits" if "test_hits" in last else ""
        console.print(f"test error {last['test_error']:.2f} % on {config.data['test_images']:,} images{hits}")
    console.print(f"run folder: {run.folder}", soft_wrap=True)


def epochs_in_words(run: Run) -> str:
    return f"{len(run.history)} epoch{'' if len(run.history) == 1 else 's'}"


def print_trainings(runs: list[Run]) -> None:
    """A line for each of several networks, then mean and standard deviation."""
    kind = "test" if "test_error" in runs[0].history[-1] else "train"
    found = [run.history[-1][f"{kind}_error"] for run in runs]
    for run, error in zip(runs, found, strict=True):
        seconds = sum(row["seconds"] for row in run.history)
        console.print(
            f"seed {run.config.seed}: {kind} error {error:.2f} %, {epochs_in_words(run)} in {seconds:.0f} s, "
            f"run folder: {run.folder}",
            soft_wrap=True,
        )
    spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
    meaning = "mean ± standard deviation of" if spread else "of"
    console.print(f"{kind} error {statistics.mean(found):.2f}{spread} % ({meaning} {len(found)} runs)")


def evaluate_command(
    run: RunPath,
    data: Annotated[str | None, typer.Argument(help="Another data set than the run's own")] = None,
    split: Annotated[str, typer.Option(help="train, test or all")] = "test",
    device: Device = "auto",
    data_dir: DataDir = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Error rate, per-class table, confusion, hits and misses of a trained run."""
    result = evaluate(run, data, split=split, device=device, data_dir=data_dir, strict=strict)
    if as_json:
        print_json(result.to_dict())
        return
    console.print(f"{result.data}: error {result.error:.2f} % on {result.images:,} images")
    if result.hits is not None and result.misses is not None:
        console.print(f"{result.hits:.1f} % of the true capsules hit, {result.misses:.1f} % of the others miss")
    if result.mse is not None:
        console.print(f"reconstruction: mean squared error {result.mse:.4f}")
    console.print(class_table(result))


def class_table(result: Evaluation, most: int = 20) -> Table:
    """Figures of each class and, for up to `most` classes and where there is room, the confusion beside them."""
    table = figures_table(result, confusion=len(result.class_names) <= most)
    return table if fits(table) else figures_table(result, confusion=False)


def figures_table(result: Evaluation, *, confusion: bool) -> Table:
    table = make_table("class", "images", "error %", "precision %")
    for name in result.class_names if confusion else ():
        table.add_column(f"→{name}", justify="right", style="dim", overflow="fold", max_width=8)
    for k, row in enumerate(result.per_class()):
        figures = ["-" if row[key] is None else f"{row[key]:.2f}" for key in ("error_percent", "precision_percent")]
        counts = [str(count) if count else "·" for count in result.confusion[k]] if confusion else []
        table.add_row(row["class"], str(row["images"]), *figures, *counts)
    return table


def predict_command(
    run: RunPath,
    images: Annotated[list[Path], typer.Argument(help="Image files")],
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say which class each image hits; "none" when every capsule misses."""
    found = predict(load(run), images, device=device)
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    table = make_table("image", "class", "distance", "", "runner-up", "distance")
    for one in found:
        table.add_row(
            one.image,
            one.label or "none",
            f"{one.distance:.3f}",
            one.verdict or "",
            one.runner_up,
            f"{one.runner_up_distance:.3f}",
        )
    console.print(table)


def models_command(
    shape: Annotated[str, typer.Option(help="Images to count parameters for: channels,height,width")] = "1,28,28",
    classes: Annotated[int, typer.Option(help="Number of classes", max=1_000_000)] = 10,
    as_json: AsJson = False,
) -> None:
    """List the networks that can be trained, with their number of parameters."""
    try:
        channels, height, width = (int(part) for part in shape.split(","))
    except ValueError:
        raise typer.BadParameter("give three numbers, e.g. 3,32,32", param_hint="--shape") from None
    in_shape = channels, height, width
    check_shape(in_shape)
    with torch.device("meta"):  # to count parameters, none need lie in memory
        counts = {name: models.build(name, in_shape, classes).count_parameters() for name in models.MODELS}
    rows = [
        {"name": name, "parameters": counts[name], "summary": entry.summary} for name, entry in models.MODELS.items()
    ]
    if as_json:
        print_json(rows)
        return
    table = make_table("model", "parameters", "what it is")
    for row in rows:
        table.add_row(str(row["name"]), f"{row['parameters']:,}", str(row["summary"]))
    console.print(table)
