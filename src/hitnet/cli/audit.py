"""`hitnet audit DATA`, `hitnet audit apply`, `hitnet audit export` and `hitnet ghosts`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hitnet import data as datasets
from hitnet.audit import apply_corrections, audit, export
from hitnet.audit.audit import Audit, read_audit
from hitnet.audit.ghost_analysis import ghosts_of_runs, write_ghosts
from hitnet.cli.terminal import console, make_table, short_name, training_progress
from hitnet.cli.train import Data, DataDir, Device, ImageSize, Mirror, Strict, check_ghosts
from hitnet.data.images import Images
from hitnet.data.sources import is_known
from hitnet.errors import HitNetError
from hitnet.files import check_vacant, expand
from hitnet.plots.ghosts import MOST_DRAWN

DEFAULT_SPLIT = "default: train of a known set, all of mnist-sample and of your own"
AuditFolder = Annotated[Path, typer.Argument(help="A folder that `hitnet audit` wrote")]


class RunByDefault(TyperGroup):
    """`hitnet audit DATA` means `hitnet audit run DATA`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=RunByDefault, no_args_is_help=True)


@app.callback()
def audit_group() -> None:
    """Which labels are wrong? Rank all labels of a data set, review the worst on a page, write the corrected set.

    \b
    1. hitnet audit DATA
       trains a few networks on the labels as they are and writes audits/DATA
    2. open audits/DATA/report.html
       shows the worst first; decide by keyboard and export corrections.csv
    3. hitnet audit apply audits/DATA corrections.csv --out NEW
       writes the corrected data set to NEW; the original is never touched

    \b
    Where a label is right, its class's capsule hits the centre in every
    network; where it is wrong, the capsule stays away, or another class's hits.
    Scores go from 0 (surely wrong) to 1 (surely right). Flags: wrong,
    ambiguous: two labels, none of the classes, ok; each with its rule.

    \b
    Try it on the digits that come with the package, of which people found
    15 labelled wrong: hitnet audit mnist-sample

    \b
    `hitnet audit DATA` is short for `hitnet audit run DATA`, which has the
    options (`hitnet audit run --help`). A folder of yours that is named like
    one of the commands is given as ./NAME.
    """


@app.command("run")
def run_command(
    data: Data,
    models: Annotated[int | None, typer.Option(help="Networks to train (default: 4, or 2 of each kind)")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="See `hitnet models`; given several times, kinds take turns")
    ] = None,
    recipe: Annotated[str, typer.Option(help="fast, paper or paper-decay")] = "fast",
    epochs: Annotated[int | None, typer.Option(help="Instead of the audit's own number")] = None,
    split: Annotated[str | None, typer.Option(help=f"train, test or all ({DEFAULT_SPLIT})")] = None,
    score: Annotated[str, typer.Option(help="margin, plain-margin or ghost-distance (the paper's)")] = "margin",
    ghosts: Annotated[int | None, typer.Option(help="Train with ghost capsules")] = None,
    ghost_rule: Annotated[str | None, typer.Option(help="always (the paper) or nearer")] = None,
    runs: Annotated[list[Path] | None, typer.Option(help="Judge by finished runs; may be given several times")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write (default: audits/DATA)")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted audit")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the first network")] = 0,
    device: Device = "auto",
    limit: Annotated[int | None, typer.Option(help="Look at only so many images")] = None,
    data_dir: DataDir = None,
    image_size: ImageSize = None,
    strict: Strict = False,
    mirror: Mirror = None,
) -> None:
    """Rank the labels of DATA, most doubtful first, and write audit.csv, audit.parquet, summary.json, report.html."""
    target = out or Path("audits") / short_name(data)
    check_ghosts(ghosts, ghost_rule)
    with training_progress(f"Auditing {short_name(data)}") as bar:
        result = audit(
            data,
            models=models,
            model=model,
            recipe=recipe,
            epochs=epochs,
            split=split,
            score=score,  # type: ignore[arg-type]
            runs=list(runs) if runs else None,
            out=target,
            resume=resume,
            seed=seed,
            device=device,
            limit=limit,
            data_dir=data_dir,
            image_size=image_size,
            strict=strict,
            mirror=mirror,
            recipe_options={"ghosts": ghosts, "ghost_rule": ghost_rule},
            progress=bar,
        )
    print_audit(result)


def print_audit(result: Audit, most: int = 10) -> None:
    summary = result.summary
    networks = "1 network" if summary["models"] == 1 else f"{summary['models']} networks"
    console.print(
        f"{summary['data']}: {summary['images']:,} labels judged by {networks} "
        f"({summary['model']}) in {summary['seconds']:.0f} s; about {summary['expected_errors']:.0f} are wrong",
    )
    console.print(", ".join(f"{flag}: {count:,}" for flag, count in summary["flags"].items()))
    if set(summary["flags"]) == {"ok"}:
        console.print(
            "No label stands out: all are right, or the networks know them by heart, as they may where images are few. "
            "The order still says where to look first; with fewer --epochs, more is in doubt.",
        )
    table = make_table("id", "path", "given", "suggested", "score", "votes", "flag")
    for row in result.table.head(most).itertuples():
        table.add_row(
            str(row.id),
            str(row.path),
            str(row.given),
            str(row.suggested),
            f"{row.score:.3f}",
            f"{row.votes}/{row.models}",
            str(row.flag),
        )
    console.print(table)
    known = summary["verified_errors"]
    if known and known["errors"]:
        console.print(
            f"Of {known['errors']} labels here that five people each found wrong, {known['in_top_100']} are among the "
            f"100 most doubtful and {known['in_top_200']} among the 200.",
        )
    if result.folder is not None:
        console.print(f"review page: {result.folder / 'report.html'}", soft_wrap=True)


@app.command("apply")
def apply_command(
    folder: AuditFolder,
    corrections: Annotated[Path, typer.Argument(help="The CSV that the review page exported")],
    out: Annotated[Path, typer.Option(help="Folder for the corrected data set; must be new or empty")],
    data: Annotated[str | None, typer.Option(help="Where the audited data is now, if it has moved")] = None,
    data_dir: DataDir = None,
) -> None:
    """Write the corrected data set; the original is never touched."""
    table, _, summary = read_audit(folder)
    source = audited_data(summary["source"], data)
    known = is_known(source)
    images = datasets.load(source, summary["split"] if known else "all", data_dir=data_dir)
    applied = apply_corrections(
        table,
        corrections,
        images,
        out,
        source=None if known else source,
        class_names=summary["class_names"],
        split=split_of(source, images, data_dir) if known and summary["split"] == "all" else None,
    )
    console.print(
        f"{applied.relabelled} relabelled, {applied.dropped} dropped, {applied.kept} kept, {applied.unsure} unsure, "
        f"{applied.untouched} not looked at",
    )
    if applied.not_audited:
        one = applied.not_audited == 1
        whole = summary["split"] == "all" and summary.get("limit") is None
        what = "not there when the audit was made" if whole else "not part of the audit"
        taken = "it is taken over as it is" if one else "they are taken over as they are"
        console.print(f"{applied.not_audited} {'image was' if one else 'images were'} {what}; {taken}")
    if applied.gone:
        console.print(f"{applied.gone} of the audited images {'is' if applied.gone == 1 else 'are'} no longer there")
    if applied.note:
        console.print(applied.note)
    for name in applied.emptied:
        console.print(f"class without images now: {name}")
    console.print(f"corrected data set: {applied.data}", soft_wrap=True)


def split_of(source: str, images: Images, data_dir: Path | None) -> list[str]:
    """To which split of a known set each of its images belongs."""
    tested = set(datasets.load(source, "test", data_dir=data_dir).ids.tolist())
    return ["test" if number in tested else "train" for number in images.ids.tolist()]


def audited_data(source: str, moved: str | None) -> str:
    """Where the audited data is: at its old place, or where it has moved to."""
    place = moved or source
    if is_known(place):
        return place
    path = expand(place)
    if not path.exists():
        what = "does not exist" if moved else "was audited, but is not there any more"
        raise HitNetError(f"{place} {what}. Say where the audited data is now: --data PATH.")
    return str(path.absolute())  # "./mnist" must not become the name of the known set


@app.command("export")
def export_command(
    folder: AuditFolder,
    out: Annotated[Path, typer.Option(help="File to write: .json for label-studio, .npy for pred-probs")],
    form: Annotated[str, typer.Option("--format", help="label-studio or pred-probs")] = "label-studio",
    image_root: Annotated[str, typer.Option(help="Put before each path for Label Studio")] = "/data/local-files/?d=",
) -> None:
    """Export an audit: tasks for Label Studio, or class probabilities that cleanlab takes as pred_probs."""
    table, distances, summary = read_audit(folder)
    written = [out]
    if form == "pred-probs":
        export.write_pred_probs(table, distances, out)
    elif form == "label-studio":
        written = export.label_studio(table, distances, summary["class_names"], out, image_root=image_root)
    else:
        raise HitNetError(f"--format must be label-studio or pred-probs; got {form!r}.")
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)


def ghosts_command(
    words: Annotated[list[str], typer.Argument(metavar="RUNS... DATA", help="Run folders, then the data")],
    out: Annotated[Path, typer.Option(help="Folder for tables and pictures")] = Path("ghosts"),
    split: Annotated[str | None, typer.Option(help=f"train, test or all ({DEFAULT_SPLIT})")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """The paper's analysis of ghost capsules over several runs: agreement, pairs, distances, doubtful images."""
    if len(words) < 2:
        raise HitNetError("Give at least one run folder and then the data, e.g. `hitnet ghosts runs/a runs/b mnist`.")
    *folders, data = words
    check_vacant(out)
    found, images = ghosts_of_runs(folders, data, split=split, device=device, data_dir=data_dir)
    written = write_ghosts(found, images, out)
    networks = "the network" if found.models == 1 else f"all {found.models} networks"
    console.print(
        f"{images.name}: {len(found.agreed()):,} of {len(images):,} images have one ghost class in {networks}; "
        f"{len(found.doubtful()):,} of these are doubtful (mean distance within the hit zone)",
    )
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)
    if len(found.doubtful()) > MOST_DRAWN:
        console.print(f"The pictures show the {MOST_DRAWN} images with the most hits, doubtful.csv has all.")


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="audit")
    parent.command("ghosts")(ghosts_command)
