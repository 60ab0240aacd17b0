"""The label audit: let judges look at the labels as given, and rank the images by how doubtful theirs is."""

import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch

from hitnet.audit import audit_folder, audit_table
from hitnet.audit.audit_folder import SUMMARY, Kept, Settings
from hitnet.audit.judgement import Case, Judgement
from hitnet.audit.judges import Judges
from hitnet.audit.results import Audit, open_audit
from hitnet.audit.scoring import capsule_opinions, score_labels
from hitnet.data import Data, ImageSet, Source, open_data
from hitnet.data.reading.findings import Look
from hitnet.errors import HitNetError, log
from hitnet.features.neighbours import Directions, most_typical, nearest
from hitnet.features.one_pass import OnePass
from hitnet.features.opinions import NEIGHBOURS, on_same_classes
from hitnet.runtime import Progress, files, shown
from hitnet.runtime.device import Device, pick_device
from hitnet.runtime.ranks import connect, started_by_torchrun, watched


def audit_labels(
    data: Source,
    *,
    judges: Judges | str = "auto",
    split: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    device: Device = "auto",
    progress: Progress | bool = True,
) -> Audit:
    """Find the doubtful labels of a dataset.

    Args:
        data: Opened data, or what `open_data` takes.
        judges: Who judges the labels: `Judges(...)`, or only its kind, e.g. "features". auto: what suits the images
            and the device.
        split: train, test or all. None: train for known sets, all for samples and your own data.
        out: Folder for the table, the summary and the page; new networks are kept in out/models.
        resume: Resume the audit in `out`.
        device: auto, cpu, cuda, cuda:1, or a torch.device.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
    """
    started = time.perf_counter()
    # What can be known at once comes before the images, which may take long to read.
    judges, where = Judges(judges) if isinstance(judges, str) else judges, pick_device(device)
    judges.wanted(where)
    if out is None and started_by_torchrun():
        raise HitNetError("Several processes need `out`, a folder that all of them see.")
    ranks = connect(where)
    with watched(ranks), ExitStack() as stack:
        opened = open_data(data)
        opened.check_outside(out)
        folder = ranks.from_first(lambda: stack.enter_context(audit_folder.claimed(out, resume=resume)))
        split = split or opened.audit_split
        bar = stack.enter_context(shown(progress, f"Auditing {opened.name}"))
        backbone, look = None, None
        if not judges.needs_pixels(opened, where):
            bar.plan(judges.likely_parts(where))
            backbone = judges.frozen_backbone()
            look = OnePass(backbone, device=where, progress=bar, ranks=ranks)
        images = images_to_audit(opened, split, look)
        settings = Settings(opened.address, split, len(images))
        if ranks.from_first(lambda: settings) != settings:
            raise HitNetError(f"Process {ranks.rank} sees other images than process 0. Give all the same data.")
        may_grow = opened.by_path and opened.options.limit is None
        if folder is not None:
            ranks.from_first(lambda: audit_folder.write_settings(folder, settings, may_grow=may_grow))
        case = Case(opened, images, split, where, folder, bar, ranks, backbone)
        judgement = judges.judge(case)
        if ranks.size == 1:
            return finished(case, judgement, started)
        ranks.from_first(lambda: finished(case, judgement, started).folder)
        return open_audit(str(folder))


def images_to_audit(data: Data, split: str, look: Look | None = None) -> ImageSet:
    """The images of a split, in memory or as `look` sees their files; HitNetError if these cannot be audited."""
    images = data.looked_at(split, look)
    if len(images) < 2:
        raise HitNetError(
            f"{images.name}: an audit needs at least two images; the split {split} has one. Choose another `split`, or "
            "a larger `limit`."
        )
    if len(set(images.class_names)) < images.num_classes:
        raise HitNetError(f"{images.name}: two classes have the same name. Give every class a different name.")
    return images


def finished(case: Case, judgement: Judgement, started: float) -> Audit:
    """The audit that a judgement gives, written into its folder, if it has one."""
    case.progress.part("results", 2)
    audit = judged_audit(case, judgement, started)
    case.progress.step()
    if case.folder is not None:
        audit_folder.check_in_place(case.folder)
        _warn_of_other_judges(case.folder, audit.summary)
        audit.write(case.folder)
    case.progress.step()
    return audit


def judged_audit(case: Case, judgement: Judgement, started: float) -> Audit:
    """The audit that a judgement gives, without any training."""
    images = judgement.images
    opinions = on_same_classes(judgement.opinions, images.labels)
    scored = score_labels(opinions, images.labels.numpy(), case.device)
    table, distances, places = audit_table.make_table(images, opinions, scored)
    table = audit_table.add_annotators(table, case.data.annotations())
    table = audit_table.add_checksums(table, case.data, images, places)
    order = torch.from_numpy(places)
    arranged, duplicates, typical, about = images.select(order), None, list[list[int]](), dict[str, Any]()
    if judgement.features is not None:
        rows, row_of = Directions(judgement.features, order, case.device), torch.argsort(order)
        if judgement.neighbours is None:
            near = nearest(rows, NEIGHBOURS, arranged.labels)
        else:
            alike, which = (each[order] for each in judgement.neighbours)
            near = alike.to(case.device), row_of[which].to(case.device)
        table = audit_table.add_likeness(table, rows, near, arranged)
        duplicates = audit_table.duplicate_table(rows, near, arranged)
        if judgement.typical:
            members = most_typical(judgement.features, images.labels, images.num_classes, 1)
            typical = [row_of[own.cpu()].tolist() for own in members]
        about["duplicates"] = {"pairs": len(duplicates), "labels_differ": int(duplicates["labels_differ"].sum())}
    options, shown = case.data.options, capsule_opinions(opinions)
    summary = audit_table.summarise(
        table,
        images.class_names,
        data=images.name,
        source=case.data.address,
        in_memory=case.data.in_memory,
        split=case.split,
        limit=options.limit,
        image_size=list(case.images.shape[1:]),
        data_dir=None if options.data_dir is None else str(files.expand(options.data_dir).absolute()),
        models=len(opinions),
        model=judgement.model,
        networks=list(judgement.networks),
        in_sample=sum(opinion.in_sample for opinion in shown) / len(shown),
        prototypes="typical" if judgement.typical else "decoded",
        error_range=None if scored.error_range is None else list(scored.error_range),
        sentence=scored.sentence,
        verified_errors=audit_table.verified_errors(table, case.data.sample),
        seconds=time.perf_counter() - started,
        **about,
    )
    return Audit(
        table,
        distances,
        images.class_names,
        summary,
        images=arranged,
        classes=None if (classes := opinions[0].classes) is None else classes[places],
        prototypes=judgement.prototypes,
        duplicates=duplicates,
        kept=Kept.of(opinions, judgement.features, order),
        typical=typical,
        folder=case.folder,
        data=case.data,
    )


def _warn_of_other_judges(folder: Path, summary: audit_table.Summary) -> None:
    earlier = summary
    with suppress(HitNetError):  # a damaged one is replaced
        if (folder / SUMMARY).is_file():
            earlier = audit_table.Summary.from_json(files.read_json(folder / SUMMARY), folder / SUMMARY)
    if earlier.model != summary.model:
        log.warning(
            "%s held an audit by other judges (%s). Its ranking is replaced; decisions stay.", folder, earlier.model
        )
