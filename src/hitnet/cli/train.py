"""`hitnet train`, `hitnet models` and `hitnet extract`."""

import statistics
from pathlib import Path
from typing import Annotated, Any

import typer

from hitnet.cli import options
from hitnet.cli.terminal import console, plural, print_json, print_table, print_written, short_name
from hitnet.data import open_data
from hitnet.errors import HitNetError
from hitnet.features.dataset_features import extract_features
from hitnet.models import PRETRAINED, ModelChoice, choose_model, list_models
from hitnet.models.backbones import DEFAULT, unknown_backbone
from hitnet.models.registry import is_backbone
from hitnet.runtime import ranks
from hitnet.training import MINUTES, Run, TensorBoard, choose_recipe, train, train_many

app = typer.Typer()


def check_ghosts(recipe_options: options.Values) -> None:
    """Raise if ghosts are described but there are none."""
    described = [name for name in recipe_options if name.startswith("ghost") and name != "ghosts"]
    if described and not recipe_options.get("ghosts"):
        raise HitNetError("Ghost options require --ghosts N, e.g. --ghosts 1.")


@app.command("train")
@options.takes(data_options=options.TRAINING_DATA, recipe_options=options.RECIPE, model_options=options.MODEL)
def train_command(
    data: options.Data,
    data_options: options.Values,
    recipe_options: options.Values,
    model_options: options.Values,
    model: Annotated[
        str | None, typer.Option(help="Model name (see `hitnet models`). Default: chosen from the data and device")
    ] = None,
    backbone: options.Backbone = None,
    recipe: Annotated[
        options.RecipeName, typer.Option(help="paper: 250 epochs at a constant rate; paper-decay: at a falling rate")
    ] = "fast",
    seed: Annotated[int, typer.Option(help="Same seed, same machine, same result")] = 0,
    seeds: Annotated[int | None, typer.Option(min=1, help="Train N networks, with seeds SEED, SEED + 1, …")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/DATA-MODEL-RECIPE[-AUGMENT]-SEED")] = None,
    device: options.Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="TensorBoard curves in OUT/tensorboard")] = False,
    minutes: Annotated[
        float, typer.Option(min=0, help="Photographs, no --model: time to try more than a head on kept features")
    ] = MINUTES,
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
    given: dict[str, Any] = {
        "model": chosen,
        "recipe": choose_recipe(recipe, **recipe_options),
        "out": out or Path("runs") / "-".join(words),
        "device": device,
        "resume": resume,
        "augment_from": augment_from,
        "minutes": minutes,
        "callbacks": [TensorBoard()] if tensorboard else [],
    }
    opened = open_data(data, **data_options)
    if seeds is None:
        runs = [train(opened, seed=seed, **given)]
    else:
        runs = train_many(opened, seeds=range(seed, seed + seeds), **given)
    if ranks.rank() == 0:
        print_training(runs[0]) if seeds is None else print_trainings(runs)


def chosen_model(name: str | None, backbone: str | None, given: options.Values) -> ModelChoice:
    """The network that was asked for; a backbone means a pretrained network."""
    if backbone is None:
        return choose_model(name, **given)
    if name not in (None, PRETRAINED):
        raise HitNetError(f"--backbone is for {PRETRAINED}, not for {name}. Leave out --model.")
    if not is_backbone(backbone):
        raise unknown_backbone(backbone)
    return choose_model(PRETRAINED, features=backbone, **given)


def print_training(run: Run) -> None:
    last, config = run.history[-1], run.config
    seconds, images = sum(row["seconds"] for row in run.history), f"{config.data['images']:,} images"
    if "held_out_error" in last:
        console.print(f"{config.model_name} on {config.data['name']}: head on features of {images} in {seconds:.0f} s")
        console.print(f"error {100 * last['held_out_error']:.2f} % on these images, each by a head that did not see it")
    else:
        speed = statistics.harmonic_mean([row["images_per_second"] for row in run.history])  # of all epochs together
        work = f"{plural(last['epoch'], 'epoch', 'epochs')} of {images} in {seconds:.0f} s ({speed:,.0f} images/s)"
        console.print(f"{config.model_name} on {config.data['name']}: {work}")
    if "test_error" in last:
        hits = f", {100 * last['test_hits']:.1f} % hits" if "test_hits" in last else ""
        console.print(f"test error {100 * last['test_error']:.2f} % on {config.data['test_images']:,} images{hits}")
    console.print(f"run folder: {run.folder}", soft_wrap=True)


def print_trainings(runs: list[Run]) -> None:
    """A line per network, then mean and standard deviation."""
    kind = "test" if "test_error" in runs[0].history[-1] else "train"
    errors = [100 * run.history[-1][f"{kind}_error"] for run in runs]
    for run, error in zip(runs, errors, strict=True):
        seconds, last = sum(row["seconds"] for row in run.history), run.history[-1]["epoch"]
        work = f"{plural(last, 'epoch', 'epochs')} in {seconds:.0f} s, run folder: {run.folder}"
        console.print(f"seed {run.config.seed}: {kind} error {error:.2f} %, {work}", soft_wrap=True)
    spread = f" ± {statistics.stdev(errors):.2f}" if len(errors) > 1 else ""
    meaning = "mean ± standard deviation of" if spread else "of"
    console.print(f"{kind} error {statistics.mean(errors):.2f}{spread} % ({meaning} {len(errors)} runs)")


@app.command("models")
def models_command(
    shape: Annotated[str, typer.Option(help="Images to count parameters for: channels,height,width")] = "1,28,28",
    classes: Annotated[int, typer.Option(help="Number of classes", max=1_000_000)] = 10,
    as_json: options.AsJson = False,
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
    lines = ((str(row["name"]), f"{row['parameters']:,}", str(row["summary"])) for row in rows)
    print_table(("model", "parameters", "what it is"), lines)


@app.command("extract")
@options.takes(data_options=options.DATA)
def extract_command(
    data: options.Data,
    data_options: options.Values,
    out: Annotated[Path, typer.Option(help="The .npy file to write, one row per image")],
    backbone: options.Backbone = None,
    weights: Annotated[Path | None, typer.Option(help="The backbone's weights, a .safetensors file")] = None,
    split: options.AuditSplit = None,
    device: options.Device = "auto",
) -> None:
    """Compute the features of all images by a pretrained backbone, and keep them for audits.

    For several processes or GPUs: torchrun --nproc-per-node N -m hitnet extract DATA --out FILE.npy
    """
    given: dict[str, Any] = {"backbone": backbone or DEFAULT, "weights": weights, "split": split, "device": device}
    features = extract_features(open_data(data, **data_options), out=out, **given)
    if ranks.rank() == 0:
        console.print(f"{features.shape[0]:,} images, {features.shape[1]:,} features each")
        print_written([out])
