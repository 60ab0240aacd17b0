"""Commands that draw or make pictures: what a network has learned, new images, training curves, ghosts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from hitnet import plots, synthesis
from hitnet.cli import options
from hitnet.cli.terminal import console, print_json, print_table, print_written
from hitnet.data import Images
from hitnet.errors import HitNetError
from hitnet.plots.ghosts import MOST_DRAWN
from hitnet.plots.synthesis import check_steps
from hitnet.runtime.files import check_vacant
from hitnet.synthesis.datasets import STRENGTH, check_new
from hitnet.synthesis.decoding import open_decoder, to_pixels
from hitnet.synthesis.distributions import Law, run_images
from hitnet.training import analyse_ghosts

app = typer.Typer()
MOST_IN_GRID = 10_000


@app.command("prototypes")
def prototypes_command(
    run: options.RunPath, out: options.Picture, classes: options.Classes = None, device: options.Device = "auto"
) -> None:
    """Draw the prototype of each class: what the network takes as its reference image."""
    plots.check_file_type(out)
    prototypes = synthesis.prototypes(run, classes=classes, device=device)
    print_written(plots.save(plots.prototype_figures(prototypes), out))


@app.command("traverse")
def traverse_command(
    run: options.RunPath,
    out: options.Picture,
    classes: options.Classes = None,
    image: Annotated[Path | None, typer.Option(help="Sweep this image file's capsule, not the central one")] = None,
    reach: Annotated[float, typer.Option(help="How far from 0.5, in units of m/√n (paper: 2)")] = 2.0,
    steps: Annotated[int, typer.Option(help="Pictures in a row")] = 11,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Draw what each capsule component does, and say which ones change the picture most.

    One page per class; with --image, one page for the class that the network predicts, or one per --class.
    """
    plots.check_file_type(out)
    check_steps(steps)
    trained = open_decoder(run, device=device)
    names: Sequence[str | None] = list(dict.fromkeys(classes or ())) or ([None] if image else trained.class_names)
    swept = [synthesis.traverse(trained, name, image=image, reach=reach, steps=steps, device=device) for name in names]
    written = plots.save([page for each in swept for page in plots.traversal_figures(each)], out)
    rows: list[Any] = [{"class": each.class_name, "components": each.summary().to_dict("records")} for each in swept]
    if as_json:
        print_json({"classes": rows, "written": list(map(str, written))})
        return
    most = ([f"{part['component']} ({100 * part['share']:.0f} %)" for part in row["components"][:5]] for row in rows)
    headers = ("class", "components that change the picture most (share of all change)")
    print_table(headers, ((row["class"], ", ".join(parts)) for row, parts in zip(rows, most, strict=True)))
    print_written(written)


@app.command("capsules")
def capsules_command(
    run: options.RunPath,
    out: options.Picture,
    data: options.OtherData = None,
    classes: options.Classes = None,
    split: Annotated[options.Split, typer.Option(help="Which images")] = "train",
    limit: Annotated[int | None, typer.Option(help="Use at most N images")] = None,
    device: options.Device = "auto",
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw how the true classes' capsule components are distributed, beside the paper's N(0.5, m/√n).

    With only one --class, one panel per component.
    """
    plots.check_file_type(out)
    measured = synthesis.capsule_distributions(run, data, split=split, classes=classes, limit=limit, device=device)
    written = plots.save(plots.distribution_figures(measured), out)
    if as_json:
        rows = measured.table().to_dict("records")
        about = {"data": measured.data, "expected_mean": measured.centre, "expected_spread": measured.spread}
        print_json({**about, "components": rows, "written": list(map(str, written))})
        return
    lines = (
        (row["class"], str(row["images"]), f"{row['mean']:.3f}", f"{row['spread']:.3f}", f"{100 * row['within']:.1f}")
        for row in measured.by_class().to_dict("records")
    )
    print_table(("class", "images", "mean", "spread", "within 2σ, %"), lines)
    console.print(f"expected: mean {measured.centre}, spread m/√n = {measured.spread:.3g}, 95.4 % within 2σ")
    print_written(written)


@app.command("generate")
def generate_command(
    run: options.RunPath,
    out: Annotated[Path, typer.Option(help="A picture (.png, .svg, .pdf), a .npz of arrays, or a new folder of PNGs")],
    classes: options.Classes = None,
    count: Annotated[int, typer.Option(help="Images per class")] = 10,
    law: Annotated[
        Law, typer.Option(help="Gaussian of the capsules: fitted to the run's training images, or paper: N(0.5, m/√n)")
    ] = "fitted",
    spread: Annotated[float, typer.Option(help="Factor of the Gaussian's spread: less is safer, more is bolder")] = 1.0,
    seed: Annotated[int, typer.Option(help="Same seed, same images")] = 0,
    data: Annotated[str | None, typer.Option(help="Fit the Gaussians to another dataset")] = None,
    device: options.Device = "auto",
    data_dir: options.DataDir = None,
) -> None:
    """Make new images of the classes from Gaussian capsules."""
    picture = bool(out.suffix) and out.suffix.lower() != ".npz"
    if picture:
        try:
            plots.check_file_type(out)
        except HitNetError as error:
            raise HitNetError(f"{error} Arrays go to a .npz file, single images to a folder without a dot.") from None
    else:
        check_new(out)
    trained = open_decoder(run, device=device)
    names = trained.class_names
    total = count * len(set(classes or names))
    if picture and total > MOST_IN_GRID:
        raise HitNetError(f"{out}: {total:,} images are too many for a picture. Write to a .npz file or a folder.")
    given: dict[str, Any] = {"law": law, "spread": spread, "seed": seed, "data": data, "device": device}
    batches = synthesis.generate(trained, classes, count, **given)
    if picture:
        made = list(batches)
        labels = [names[k] for batch in made for k in batch.labels.tolist()]
        figures = plots.class_figures(torch.cat([batch.images for batch in made]), labels)
        print_written(plots.save(figures, out))
        return
    parts = (
        ("train", Images(to_pixels(images), labels, names, "generated", torch.arange(len(labels))))
        for images, labels in batches
    )
    title, shape = f"generated by {trained.config.model_name}", trained.config.model.in_shape
    write(synthesis.ImageStream(parts, total, names, shape, title), out)


def write(stream: synthesis.ImageStream, out: Path) -> None:
    synthesis.write_images(stream, out)
    console.print(f"{stream.total:,} images")
    print_written([out])


@app.command("augment")
def augment_command(
    run: options.RunPath,
    data: options.OtherData = None,
    out: Annotated[Path | None, typer.Option(help="The augmented set: a .npz of arrays or a folder of PNGs")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw examples, as the paper does: .png, .svg, .pdf")] = None,
    copies: Annotated[int | None, typer.Option(help="Modified copies per training image (default 1)")] = None,
    strength: Annotated[float, typer.Option(help="Noise on each capsule component, in units of m/√n")] = STRENGTH,
    originals: Annotated[
        bool | None, typer.Option(help="Keep the original training images beside the copies (default: keep)")
    ] = None,
    examples: Annotated[int | None, typer.Option(min=1, help="Images in the picture (default 2)")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same images")] = 0,
    device: options.Device = "auto",
    data_dir: options.DataDir = None,
) -> None:
    """Hybrid data augmentation: modify capsules, decode them, put the lost details back.

    Writes a dataset that `hitnet train` reads: training images and their modified copies, test images untouched.
    """
    if out is None and picture is None:
        raise HitNetError("Nothing to write: give --out for the augmented set, --picture for examples, or both.")
    if out is None and (copies is not None or originals is not None):
        raise HitNetError("--copies and --originals require --out, the place of the augmented set.")
    if picture is None and examples is not None:
        raise HitNetError("--examples requires --picture, the picture to draw.")
    if picture is not None:
        plots.check_file_type(picture)
    if out is not None and out.suffix.lower() not in ("", ".npz"):
        raise HitNetError(f"{out}: --out takes a .npz or a folder without a dot. Pictures of examples: --picture.")
    if out is not None:
        check_new(out)
    trained = open_decoder(run, device=device)
    if picture is not None:
        train = run_images(trained, data)
        few = train.select(torch.linspace(0, len(train) - 1, examples or 2).long())
        modified = synthesis.hybrid_examples(trained, few, strength=strength, seed=seed, device=device)
        print_written(plots.save(plots.hybrid_figures(modified), picture))
    if out is not None:
        given: dict[str, Any] = {"strength": strength, "seed": seed, "device": device}
        number = 1 if copies is None else copies
        write(synthesis.augment(trained, data, copies=number, originals=originals is not False, **given), out)


@app.command("plot")
def plot_command(runs: options.RunPaths, out: options.Picture) -> None:
    """Draw error and loss over the epochs of one run, or of several to compare them; also while they train."""
    plots.check_file_type(out)
    print_written(plots.save([plots.plot_history(runs)], out))


@app.command("ghosts")
def ghosts_command(
    runs: options.RunPaths,
    data: Annotated[str, typer.Option(help="The dataset whose images to analyse")],
    out: Annotated[Path, typer.Option(help="Folder for tables and pictures")] = Path("ghosts"),
    split: options.AuditSplit = None,
    device: options.Device = "auto",
    data_dir: options.DataDir = None,
) -> None:
    """The paper's analysis of ghost capsules over several runs: agreement, pairs, distances, doubtful images."""
    check_vacant(out)
    ghosts, images = analyse_ghosts(runs, data, split=split, device=device)
    written = plots.write_ghosts(ghosts, images, out)
    networks = "the network" if ghosts.models == 1 else f"all {ghosts.models} networks"
    console.print(
        f"{images.name}: {len(ghosts.agreed()):,} of {len(images):,} images have one ghost class in {networks}; "
        f"{len(ghosts.doubtful()):,} of these are doubtful (mean distance within the hit zone)"
    )
    print_written(written)
    if len(ghosts.doubtful()) > MOST_DRAWN:
        console.print(f"The pictures show the {MOST_DRAWN} images with the most hits; doubtful.csv has all.")
