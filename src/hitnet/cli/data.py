"""`hitnet data list`, `fetch` and `check`."""

from typing import Annotated

import typer

from hitnet.cli.options import AsJson, DataDir
from hitnet.cli.terminal import console, print_json, print_table
from hitnet.data import FileState, Report, check_data, data_folder, fetch_data, list_data
from hitnet.data.reading.entries import list_ignored

app = typer.Typer(no_args_is_help=True, name="data")
Name = Annotated[str, typer.Argument(help="A dataset's name; see `hitnet data list`")]


@app.callback()
def data_group() -> None:
    """List, download and verify datasets."""


@app.command("list")
def list_command(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the known datasets, their licences, and whether they are on this machine."""
    rows = list_data(data_dir)
    if as_json:
        print_json(rows)
        return
    lines = ((row["name"], "yes" if row["here"] else "no", row["about"], row["licence"]) for row in rows)
    print_table(("name", "here", "what it is", "licence"), lines)
    console.print(f"data folder: {data_folder(data_dir)}", soft_wrap=True)


@app.command("fetch")
def fetch_command(name: Name, data_dir: DataDir = None) -> None:
    """Download the missing files of a known dataset and verify their checksums."""
    folder = fetch_data(name, data_dir)
    console.print(f"{name} is complete in {folder}", soft_wrap=True)


@app.command("check")
def check_command(
    source: Annotated[str, typer.Argument(help="A dataset's name, or a folder, .npz, CSV or Parquet of your own")],
    data_dir: DataDir = None,
    image_size: Annotated[int | None, typer.Option(help="Height and width of the images")] = None,
    as_json: AsJson = False,
) -> None:
    """Check every file of a dataset. The exit code is 1 if something is missing, damaged or left out."""
    checked = check_data(source, data_dir=data_dir, image_size=image_size)
    if checked.report is None:
        print_files(checked.files, as_json=as_json)
    else:
        print_report(checked.report, as_json=as_json)
    if not checked.sound:
        raise typer.Exit(1)


def print_files(states: tuple[FileState, ...], *, as_json: bool) -> None:
    if as_json:
        print_json([{"file": str(s.path), "state": s.state, "bytes": s.size, "note": s.note} for s in states])
        return
    lines = ((str(s.path), s.state, "" if s.size is None else f"{s.size:,}", s.note) for s in states)
    print_table(("file", "state", "bytes", ""), lines)


def print_report(report: Report, *, as_json: bool) -> None:
    images = report.images
    counts = images.labels.bincount(minlength=images.num_classes).tolist()
    classes = dict(zip(images.class_names, counts, strict=True))
    if as_json:
        about = {"images": len(images), "shape": list(images.shape), "classes": classes}
        print_json({**about, "left_out": [vars(item) for item in report.skipped], "ignored": report.ignored})
        return
    console.print(f"{images.name}: {len(images):,} images of {images.shape}, {images.num_classes} classes")
    print_table(("class", "images"), ((name, str(count)) for name, count in classes.items()))
    for item in report.skipped:
        console.print(f"left out: {item}", soft_wrap=True)
    if report.ignored:
        console.print(f"ignored: {list_ignored(report.ignored)}", soft_wrap=True)
