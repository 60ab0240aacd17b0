"""`hitnet audit`, `hitnet apply` and `hitnet export-audit`."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from hitnet.audit import Audit, Judges, audit_labels, open_audit
from hitnet.audit.judges import Kind
from hitnet.audit.results import ExportFormat
from hitnet.cli import options
from hitnet.cli.terminal import console, plural, print_written, short_name, table_of_files
from hitnet.data import open_data
from hitnet.decisions.corrections import Applied
from hitnet.errors import HitNetError
from hitnet.runtime import ranks
from hitnet.runtime.spreadsheets import write_csv

VERIFIED_BY = {
    "mnist-sample": "five people each found wrong",
    "clothing-sample": "the developers found wrong by looking at the most doubtful ones",
}
JUDGES = options.OptionGroup(Judges, ("backbone", "weights", "features", "networks", "epochs", "seed"))
HELP = options.attribute_help(Judges)
AuditFolder = Annotated[Path, typer.Argument(metavar="AUDIT", help="A folder that `hitnet audit` wrote")]


app = typer.Typer()


@app.command("audit")
@options.takes(data_options=options.DATA, judge_options=JUDGES)
def audit_command(
    data: options.Data,
    data_options: options.Values,
    judge_options: options.Values,
    judges: Annotated[Kind, typer.Option(help=HELP["kind"])] = "auto",
    model: Annotated[list[str] | None, typer.Option(help=f"{HELP['model']}; may be given several times")] = None,
    runs: Annotated[list[Path] | None, typer.Option(help=f"{HELP['runs']}; may be given several times")] = None,
    recipe: Annotated[options.RecipeName, typer.Option(help=HELP["recipe"])] = "fast",
    split: options.AuditSplit = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write (default: audits/DATA)")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted audit")] = False,
    device: options.Device = "auto",
) -> None:
    """Find mislabeled images: rank the labels of DATA, most doubtful first.

    \b
    1. hitnet audit DATA
       scores every label with models that suit the data, and writes audits/DATA:
       audit.csv, audit.parquet, summary.json, report.html
    2. hitnet review audits/DATA
       opens a page that shows the worst first; decisions are saved at once
       (or open audits/DATA/report.html, and export decisions.jsonl there)
    3. hitnet apply audits/DATA --out NEW
       writes the corrected dataset to NEW; the original is never touched

    \b
    Where a label is right, its class's capsule hits the centre in every
    network; where it is wrong, the capsule stays away, or another class's hits.
    Scores go from 0 (surely wrong) to 1 (surely right). Flags: wrong,
    doubtful, ambiguous: two labels, none of the classes, ok; each with its rule.

    \b
    Try it on the photographs and digits that come with the package:
    hitnet audit clothing-sample, hitnet audit mnist-sample
    """
    chosen = Judges(judges, model=model, runs=runs or None, recipe=recipe, **judge_options)
    opened, folder = open_data(data, **data_options), out or Path("audits") / short_name(data)
    audit = audit_labels(opened, judges=chosen, split=split, out=folder, resume=resume, device=device)
    if ranks.rank() == 0:
        print_audit(audit)


def print_audit(audit: Audit, most: int = 10) -> None:
    summary = audit.summary
    kind = "network" if summary.sentence is None else "judge"
    count = plural(summary.models, kind, f"{kind}s")
    about = f"; about {summary.expected_errors:.0f} are wrong" if summary.sentence is None else ""
    judged = f"{summary.images:,} labels judged by {count} ({summary.model}) in {summary.seconds:.0f} s"
    console.print(f"{summary.data}: {judged}{about}")
    if summary.sentence is not None:
        console.print(summary.sentence)
    console.print(", ".join(f"{flag}: {count:,}" for flag, count in summary.flags.items()))
    differ = (summary.duplicates or {}).get("labels_differ", 0)
    if differ:
        where = "" if audit.folder is None else f": see {audit.folder / 'duplicates.csv'}"
        pairs = plural(differ, "pair of near-duplicates has", "pairs of near-duplicates have")
        console.print(f"{pairs} different labels{where}", soft_wrap=True)
    if set(summary.flags) == {"ok"} and not differ and summary.sentence is None:
        console.print(
            "No label stands out: all are right, or the networks have learned them by heart, as they may where images "
            "are few. The order still says where to look first; with fewer --epochs, more labels are in doubt."
        )
    columns = ("id", "path", "given", "suggested", "score", "votes", "flag")
    rows = [
        row | {"score": f"{row['score']:.3f}", "votes": f"{row['votes']}/{row['models']}"}
        for row in audit.table.head(most).to_dict("records")
    ]
    cells = [[str(row[column]) for column in columns] for row in rows]
    console.print(table_of_files(columns, cells, path=columns.index("path")))
    known = summary.verified_errors
    if known and known["errors"]:
        console.print(
            f"Of {known['errors']} labels here that {VERIFIED_BY[summary.source]}, {known['in_top_100']} are among "
            f"the 100 most doubtful and {known['in_top_200']} among the 200."
        )
    if audit.folder is not None:
        console.print(f"review page: {audit.folder / 'report.html'}", soft_wrap=True)
        console.print(f"to review and save as you go: hitnet review {audit.folder}", soft_wrap=True)


@app.command("apply")
def apply_command(
    folder: AuditFolder,
    corrections: Annotated[
        Path | None,
        typer.Argument(
            help="The file that a review page exported (.jsonl, .csv), or Label Studio's JSON (default: the decisions "
            "of `hitnet review`)"
        ),
    ] = None,
    *,
    out: Annotated[Path | None, typer.Option(help="Folder for the corrected dataset; must be new or empty")] = None,
    labels_only: Annotated[Path | None, typer.Option(help="Write only the labels, a new .csv, not the data")] = None,
    reviewer: Annotated[
        str | None, typer.Option(help="Only this person's decisions (default: where all agree)")
    ] = None,
    trust: Annotated[
        float | None,
        typer.Option(
            help="Also relabel images that nobody decided on, if flagged as wrong with at least this probability, "
            "e.g. 0.95"
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Where the audited data is now, if it has moved")] = None,
    data_dir: options.DataDir = None,
) -> None:
    """Write the corrected dataset, or only its labels; the original is never touched."""
    audit = open_audit(folder)
    if out is not None and labels_only is None:
        whole = audit.summary.split == "all" and audit.summary.limit is None
        print_applied(audit.apply(corrections, out=out, data=data, reviewer=reviewer, trust=trust), whole=whole)
    elif labels_only is not None and out is None and data is None:
        write_labels(audit.corrected_labels(corrections, reviewer=reviewer, trust=trust), labels_only)
    else:
        raise HitNetError("apply: give --out for a corrected copy of the data, or only --labels-only for its labels.")


def write_labels(labels: pd.DataFrame, out: Path) -> None:
    if out.suffix.lower() != ".csv" or out.exists():
        raise HitNetError(f"{out}: --labels-only takes a new .csv file.")
    write_csv(out, labels)
    changed = int((labels["label"] != labels["given"]).sum())
    console.print(f"{plural(len(labels), 'label', 'labels')}, {changed:,} changed")
    print_written([out])


def print_applied(applied: Applied, *, whole: bool) -> None:
    """Print what was changed; `whole`: all images that there were have been audited."""
    counts = {
        "relabelled": applied.relabelled,
        "dropped": applied.dropped,
        "kept": applied.kept,
        "unsure": applied.unsure,
        **({"where neither label fits": applied.neither} if applied.neither else {}),
        **({"decided but left out": applied.left_out} if applied.left_out else {}),
        "not looked at": applied.untouched - applied.disputed,
    }
    console.print(", ".join(f"{count} {what}" for what, count in counts.items()))
    if applied.alone:
        console.print(f"{applied.alone:,} of these were relabelled by the audit alone: nobody has looked at them.")
    if applied.neither:
        console.print("Images where neither label fits stay as they are.")
    if applied.disputed:
        one, many = (f"on which reviewers disagree {stay}" for stay in ("stays as it is", "stay as they are"))
        disputed = plural(applied.disputed, f"image {one}", f"images {many}")
        console.print(f"{disputed}. Settle this in the review (filter: disputed), or choose --reviewer.")
    if applied.not_audited:
        reason = "not there when the audit was made" if whole else "not part of the audit"
        one, many = f"image was {reason} and is copied as it is", f"images were {reason} and are copied as they are"
        console.print(plural(applied.not_audited, one, many))
    if applied.changed:
        names = ", ".join(applied.changed[:5]) + (", …" if len(applied.changed) > 5 else "")
        stay = plural(len(applied.changed), "decided file stays as it is", "decided files stay as they are")
        console.print(
            f"{stay}, because of changes since the audit: {names}. Audit again with --resume.", soft_wrap=True
        )
    if applied.gone:
        console.print(f"{applied.gone:,} of the audited images {'is' if applied.gone == 1 else 'are'} no longer there")
    if applied.note:
        console.print(applied.note)
    for name in applied.emptied:
        console.print(f"class without images now: {name}")
    console.print(f"corrected dataset: {applied.data}", soft_wrap=True)


@app.command("export-audit")
def export_audit_command(
    folder: AuditFolder,
    out: Annotated[Path, typer.Option(help="File to write: .json for label-studio, .npy for pred-probs")],
    format: Annotated[ExportFormat, typer.Option(help="What to write")] = "label-studio",
    image_root: Annotated[
        str | None,
        typer.Option(help="Put before each path for Label Studio (default: its local storage of the audited folder)"),
    ] = None,
) -> None:
    """Export an audit: tasks for Label Studio, or class probabilities that cleanlab takes as pred_probs."""
    print_written(open_audit(folder).export(out, format=format, image_root=image_root))
