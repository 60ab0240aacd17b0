"""`hitnet data list`, `fetch` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hitnet.cli.terminal import console, make_table, print_json
from hitnet.cli.train import AsJson, DataDir, ImageSize
from hitnet.data import catalogue, load_report
from hitnet.data.listing import in_words
from hitnet.data.sources import SOURCES, is_known

app = typer.Typer(help="Data sets: what there is, fetch it, check it.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A data set's name; see `hitnet data list`")]


@app.command("list")
def list_command(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Name the known data sets, their licences, and whether they are here."""
    rows = []
    for name, source in SOURCES.items():
        here = all(state.usable for state in catalogue.check(name, data_dir))
        rows.append({"name": name, "here": here, "about": source.about, "licence": source.licence, "page": source.page})
    if as_json:
        print_json(rows)
        return
    table = make_table("name", "here", "what it is", "licence")
    for row in rows:
        table.add_row(str(row["name"]), "yes" if row["here"] else "no", str(row["about"]), str(row["licence"]))
    console.print(table)
    console.print(f"data folder: {catalogue.data_folder(data_dir)}", soft_wrap=True)


@app.command("fetch")
def fetch_command(name: Name, data_dir: DataDir = None) -> None:
    """Download what a data set lacks, with checksums."""
    folder = catalogue.fetch(name, data_dir)
    console.print(f"{name} is complete in {folder}", soft_wrap=True)


@app.command("check")
def check_command(
    source: Annotated[str, typer.Argument(help="A data set's name, or a folder, .npz, CSV or Parquet of your own")],
    data_dir: DataDir = None,
    image_size: ImageSize = None,
    as_json: AsJson = False,
) -> None:
    """Check every file of a data set; exit code 1 when something is missing, damaged or had to be left out."""
    if is_known(source):
        sound = check_known(source, data_dir, as_json=as_json)
    else:
        sound = check_own(source, image_size=image_size, as_json=as_json)
    if not sound:
        raise typer.Exit(1)


def check_known(name: str, data_dir: Path | None, *, as_json: bool) -> bool:
    states = catalogue.check(name, data_dir)
    if as_json:
        print_json(
            [{"file": str(s.path), "state": s.state, "bytes": s.size, "note": s.note} for s in states],
        )
    else:
        table = make_table("file", "state", "bytes", "")
        for state in states:
            table.add_row(str(state.path), state.state, "" if state.size is None else f"{state.size:,}", state.note)
        console.print(table)
    return all(state.usable for state in states)


def check_own(path: str, *, image_size: int | None, as_json: bool) -> bool:
    report = load_report(path, "all", image_size=image_size)
    images = report.images
    counts = images.labels.bincount(minlength=images.num_classes).tolist()
    if as_json:
        print_json(
            {
                "images": len(images),
                "shape": list(images.shape),
                "classes": dict(zip(images.class_names, counts, strict=True)),
                "left_out": [{"path": item.path, "reason": item.reason} for item in report.skipped],
                "ignored": report.ignored,
            }
        )
        return not report.skipped
    console.print(f"{images.name}: {len(images):,} images of {images.shape}, {images.num_classes} classes")
    table = make_table("class", "images")
    for name, count in zip(images.class_names, counts, strict=True):
        table.add_row(name, str(count))
    console.print(table)
    for item in report.skipped:
        console.print(f"left out: {item.path}: {item.reason}", soft_wrap=True)
    if report.ignored:
        console.print(f"ignored: {in_words(report.ignored)}", soft_wrap=True)
    return not report.skipped
