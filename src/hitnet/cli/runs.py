"""`hitnet evaluate`, `predict` and `export`: what a trained run says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.cli.options import AsJson, DataDir, Device, OtherData, RunPath, RunPaths, Split
from hitnet.cli.terminal import console, excess, make_table, print_json, print_written, table_of_files
from hitnet.data import open_data
from hitnet.errors import HitNetError
from hitnet.inference import Evaluation, Prediction
from hitnet.inference.pictures import files_in
from hitnet.runtime.spreadsheets import write_csv
from hitnet.training import evaluate, open_run, predict

app = typer.Typer()
Keep = Annotated[
    float | None,
    typer.Option(
        help='Reject unlikely images as "none", keeping this fraction of in-distribution images (e.g. 0.95). '
        "Default: if all capsules miss"
    ),
]
Known = Annotated[str | None, typer.Option(help="Data whose test images --keep is measured on (default: the run's)")]


@app.command("evaluate")
def evaluate_command(
    runs: RunPaths,
    data: OtherData = None,
    split: Annotated[Split | None, typer.Option(help="Which images (default: test)")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first image that cannot be used")] = False,
    as_json: AsJson = False,
) -> None:
    """Error rate, per-class table, confusion, hits and misses of a trained run.

    Several runs judge together, as a committee: by the mean of their distances, or of their probabilities for networks
    with softmax.
    """
    if strict and data is None:
        raise HitNetError("evaluate: --strict requires --data. Name the data, or leave it out.")
    other = None if data is None else open_data(data, strict=strict)
    result = evaluate(list(runs), other, split=split, device=device)
    if as_json:
        print_json(result.to_dict())
        return
    together = f" by {result.networks} networks together" if result.networks > 1 else ""
    console.print(f"{result.data}: error {100 * result.error:.2f} % on {result.images:,} images{together}")
    if data is not None and split is None:
        console.print("These are the test images of this data; --split all takes all of its images.")
    if result.hits is not None and result.misses is not None:
        hits, misses = 100 * result.hits, 100 * result.misses
        console.print(f"{hits:.1f} % of the true capsules hit, {misses:.1f} % of the others miss")
    if result.mse is not None:
        console.print(f"reconstruction: mean squared error {result.mse:.4f}")
    console.print(class_table(result))


def class_table(result: Evaluation, most: int = 20) -> Table:
    """Figures of each class and, for up to `most` classes and where there is room, the confusion beside them."""
    table = figures_table(result, confusion=len(result.class_names) <= most)
    return table if excess(table) <= 0 else figures_table(result, confusion=False)


def figures_table(result: Evaluation, *, confusion: bool) -> Table:
    table = make_table("class", "images", "error %", "precision %")
    for name in result.class_names if confusion else ():
        table.add_column(f"→{name}", justify="right", style="dim", overflow="fold", max_width=8)
    for k, row in enumerate(result.per_class()):
        figures = ["-" if row[key] is None else f"{100 * row[key]:.2f}" for key in ("error", "precision")]
        counts = [str(count) if count else "·" for count in result.confusion[k]] if confusion else []
        table.add_row(row["class"], str(row["images"]), *figures, *counts)
    return table


@app.command("predict")
def predict_command(
    run: Annotated[Path, typer.Argument(help="A run folder, or an .onnx file that `hitnet export` wrote")],
    images: Annotated[list[Path], typer.Argument(help="Image files, or folders of them")],
    keep: Keep = None,
    known: Known = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Write a table instead: .csv")] = None,
    as_json: AsJson = False,
) -> None:
    """Print which class each image hits; "none" when every capsule misses."""
    if out is not None and out.suffix.lower() != ".csv":
        raise HitNetError(f"{out}: --out takes a .csv file.")
    files = [file for path in images for file in files_in(path)]
    predictions = predict(run, files, keep=keep, known=known, device=device)
    if out is not None:
        write_csv(out, predictions.table())
        print_written([out])
    if as_json:
        print_json([prediction.to_dict() for prediction in predictions])
    elif out is None:
        console.print(prediction_table(predictions))
        if any(prediction.verdict == "near" for prediction in predictions):
            console.print(f"near: neither a hit (up to {HIT_RADIUS}) nor a miss (from {MISS_RADIUS}), so less sure")


def prediction_table(predictions: Sequence[Prediction]) -> Table:
    value = "output" if predictions[0].verdict is None else "distance"
    probable = predictions[0].probability is not None
    capsule = ["capsule"] if value == "distance" else []
    headers = ["image", "class", *(["probability"] if probable else []), value, *capsule, "runner-up", value]
    rows = [
        [
            each.image,
            each.label or "none",
            *([] if each.probability is None else [f"{each.probability:.3f}"]),
            f"{each.distance:.3f}",
            *([] if each.verdict is None else [each.verdict]),
            each.runner_up,
            f"{each.runner_up_distance:.3f}",
        ]
        for each in predictions
    ]
    return table_of_files(headers, rows, path=0)


@app.command("export")
def export_command(
    run: RunPath, out: Annotated[Path, typer.Option(help="The new .onnx file")], keep: Keep = None, known: Known = None
) -> None:
    """Export a run as an ONNX file, which other programs run without PyTorch; `hitnet predict` takes it, too."""
    print_written([open_run(run).export(out, keep=keep, known=known)])
