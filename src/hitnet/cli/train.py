"""`hitnet train`, `evaluate`, `predict`, `export` and `models`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hitnet.cli.options import (
    MODEL,
    RECIPE,
    TRAINING_DATA,
    AsJson,
    Backbone,
    Data,
    DataDir,
    Device,
    RunPath,
    Values,
    takes,
)
from hitnet.cli.progress import training_progress
from hitnet.cli.terminal import console, fits, make_table, print_json, print_written, short_name
from hitnet.data import open_data
from hitnet.errors import HitNetError
from hitnet.inference import Evaluation, evaluate, export_run, predict
from hitnet.models import PRETRAINED, ModelChoice, choose_model, list_models
from hitnet.models.backbones import unknown_backbone
from hitnet.models.registry import is_backbone
from hitnet.runtime import ranks
from hitnet.training import Run, RunFolder, TensorBoard, choose_recipe, train, train_many

app = typer.Typer()
Keep = Annotated[
    float | None,
    typer.Option(help='Say "none" so that this share of known images, e.g. 0.95, keeps its class; else if all miss'),
]
Known = Annotated[str | None, typer.Option(help="Data whose test images --keep is measured on; else the run's own")]


def check_ghosts(recipe_options: Values) -> None:
    """Raise if ghosts are described but there are none."""
    described = [name for name in recipe_options if name.startswith("ghost") and name != "ghosts"]
    if described and not recipe_options.get("ghosts"):
        raise HitNetError("Ghost options require --ghosts N, e.g. --ghosts 1.")


@app.command("train")
@takes(data_options=TRAINING_DATA, recipe_options=RECIPE, model_options=MODEL)
def train_command(
    data: Data,
    data_options: Values,
    recipe_options: Values,
    model_options: Values,
    model: Annotated[str | None, typer.Option(help="See `hitnet models`; by default one to suit data, device")] = None,
    backbone: Backbone = None,
    recipe: Annotated[str, typer.Option(help="fast, paper (250 epochs, constant rate) or paper-decay")] = "fast",
    seed: Annotated[int, typer.Option(help="Same seed, same machine, same result")] = 0,
    seeds: Annotated[int | None, typer.Option(help="Train N networks, with seeds SEED, SEED + 1, …")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/DATA-MODEL-RECIPE[-AUGMENT]-SEED")] = None,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Write where a step's time goes (profile.txt)")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write curves for TensorBoard (OUT/tensorboard)")
    ] = False,
    augment_from: Annotated[Path | None, typer.Option(help="Run whose network modifies images (hybrid)")] = None,
) -> None:
    """Train a network on DATA and keep it in a run folder.

    If it is interrupted, the same command with --resume continues it. With --seeds, each network has a run folder of
    its own, OUT/seed-S.
    """
    augment = recipe_options.get("augment")
    if augment is None and {"augment_strength", "augment_share", "augment_noise"} & set(recipe_options):
        raise HitNetError("--augment-strength, --augment-share and --augment-noise require --augment hybrid.")
    check_ghosts(recipe_options)
    last_word = str(seed) if seeds is None else "seeds"
    chosen = chosen_model(model, backbone, model_options)
    words = [short_name(data), chosen.name or "default", recipe, *([augment] if augment else []), last_word]
    with training_progress(f"Training on {short_name(data)}") as bar:
        options: dict[str, Any] = {
            "model": chosen,
            "recipe": choose_recipe(recipe, **recipe_options),
            "out": out or Path("runs") / "-".join(words),
            "device": device,
            "resume": resume,
            "augment_from": augment_from,
            "progress": bar,
            "callbacks": [TensorBoard()] if tensorboard else [],
            "profile": profile,
        }
        opened = open_data(data, **data_options)
        if seeds is None:
            runs = [train(opened, seed=seed, **options)]
        else:
            if seeds < 1:
                raise HitNetError(f"--seeds must be a whole number from 1 on; got {seeds}.")
            runs = train_many(opened, seeds=range(seed, seed + seeds), **options)
    if ranks.rank():
        return
    if seeds is None:
        print_training(runs[0])
    else:
        print_trainings(runs)


def chosen_model(name: str | None, backbone: str | None, options: Values) -> ModelChoice:
    """The network that was asked for; a backbone means a pretrained network."""
    if backbone is None:
        return choose_model(name, **options)
    if name not in (None, PRETRAINED):
        raise HitNetError(f"--backbone is for {PRETRAINED}, not for {name}. Leave out --model.")
    if not is_backbone(backbone):
        raise unknown_backbone(backbone)
    return choose_model(PRETRAINED, features=backbone, **options)


def print_training(run: Run) -> None:
    last, config = run.history[-1], run.config
    seconds = sum(row["seconds"] for row in run.history)
    speed = statistics.harmonic_mean([row["images_per_second"] for row in run.history])  # of all epochs together
    console.print(
        f"{config.model_name} on {config.data['name']}: {epochs_in_words(run)} of {config.data['images']:,} images "
        f"in {seconds:.0f} s ({speed:,.0f} images/s)",
    )
    if "test_error" in last:
        hits = f", {last['test_hits']:.1f} % hits" if "test_hits" in last else ""
        console.print(f"test error {last['test_error']:.2f} % on {config.data['test_images']:,} images{hits}")
    console.print(f"run folder: {run.folder}", soft_wrap=True)


def epochs_in_words(run: Run) -> str:
    return f"{len(run.history)} epoch{'' if len(run.history) == 1 else 's'}"


def print_trainings(runs: list[Run]) -> None:
    """A line per network, then mean and standard deviation."""
    kind = "test" if "test_error" in runs[0].history[-1] else "train"
    errors = [run.history[-1][f"{kind}_error"] for run in runs]
    for run, error in zip(runs, errors, strict=True):
        seconds = sum(row["seconds"] for row in run.history)
        console.print(
            f"seed {run.config.seed}: {kind} error {error:.2f} %, {epochs_in_words(run)} in {seconds:.0f} s, "
            f"run folder: {run.folder}",
            soft_wrap=True,
        )
    spread = f" ± {statistics.stdev(errors):.2f}" if len(errors) > 1 else ""
    meaning = "mean ± standard deviation of" if spread else "of"
    console.print(f"{kind} error {statistics.mean(errors):.2f}{spread} % ({meaning} {len(errors)} runs)")


@app.command("evaluate")
def evaluate_command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN… [DATA]", help="Run folders, then another data set than the run's own")
    ],
    split: Annotated[str, typer.Option(help="train, test or all")] = "test",
    device: Device = "auto",
    data_dir: DataDir = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first image that cannot be used")] = False,
    as_json: AsJson = False,
) -> None:
    """Error rate, per-class table, confusion, hits and misses of a trained run.

    Several runs judge together, as a committee: by the mean of their distances, or of their probabilities for networks
    with softmax.
    """
    members, data = runs_and_data(runs)
    if strict and data is None:
        raise HitNetError("evaluate: --strict is for data that you name after the run. Name the data, or leave it out.")
    other = None if data is None else open_data(data, strict=strict)
    result = evaluate(members[0] if len(members) == 1 else members, other, split=split, device=device)
    if as_json:
        print_json(result.to_dict())
        return
    together = f" by {result.networks} networks together" if result.networks > 1 else ""
    console.print(f"{result.data}: error {result.error:.2f} % on {result.images:,} images{together}")
    if result.hits is not None and result.misses is not None:
        console.print(f"{result.hits:.1f} % of the true capsules hit, {result.misses:.1f} % of the others miss")
    if result.mse is not None:
        console.print(f"reconstruction: mean squared error {result.mse:.4f}")
    console.print(class_table(result))


def runs_and_data(arguments: list[str]) -> tuple[list[str], str | None]:
    """The runs among the arguments, and the data: the last argument if it is not a run folder."""
    *members, last = arguments
    if not members or RunFolder(last).exists:
        return arguments, None
    return members, last


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


@app.command("predict")
def predict_command(
    run: Annotated[Path, typer.Argument(help="A run folder, or an .onnx file that `hitnet export` wrote")],
    images: Annotated[list[Path], typer.Argument(help="Image files")],
    keep: Keep = None,
    known: Known = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say which class each image hits; "none" when every capsule misses."""
    predictions = predict(run, images, keep=keep, known=known, device=device)
    if as_json:
        print_json([prediction.to_dict() for prediction in predictions])
        return
    value = "output" if predictions[0].verdict is None else "distance"
    table = make_table("image", "class", value, "", "runner-up", value)
    for prediction in predictions:
        table.add_row(
            prediction.image,
            prediction.label or "none",
            f"{prediction.distance:.3f}",
            prediction.verdict or "",
            prediction.runner_up,
            f"{prediction.runner_up_distance:.3f}",
        )
    console.print(table)


@app.command("export")
def export_command(
    run: RunPath,
    out: Annotated[Path, typer.Option(help="File to write: .onnx")],
    format: Annotated[str, typer.Option(help="onnx")] = "onnx",
    part: Annotated[str, typer.Option(help="classifier or decoder")] = "classifier",
    keep: Keep = None,
    known: Known = None,
) -> None:
    """Export a run as an ONNX file, which other programs run without PyTorch; `hitnet predict` takes it, too."""
    print_written([export_run(run, out, format=format, part=part, keep=keep, known=known)])


@app.command("models")
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
    rows = list_models((channels, height, width), classes)
    if as_json:
        print_json(rows)
        return
    table = make_table("model", "parameters", "what it is")
    for row in rows:
        table.add_row(str(row["name"]), f"{row['parameters']:,}", str(row["summary"]))
    console.print(table)
