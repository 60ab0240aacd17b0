"""The label audit: let judges look at the labels as given, and rank the images by how doubtful theirs is."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from hitnet.audit import scores
from hitnet.audit.annotators import compare_annotators
from hitnet.audit.calibration import calibrate
from hitnet.audit.choice import SuitableJudges
from hitnet.audit.judges import Case, Judges
from hitnet.audit.kept import Kept
from hitnet.audit.likeness import add_likeness, duplicate_table
from hitnet.audit.results import Audit
from hitnet.audit.summary import summarise, verified_errors
from hitnet.data import Images, Source, open_data
from hitnet.errors import HitNetError
from hitnet.runtime import files, locks, schemas
from hitnet.runtime.bar import shown
from hitnet.runtime.device import pick_device
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import started_by_torchrun

log = logging.getLogger("hitnet")
SETTINGS = "settings.json"
CLAIM = ".auditing"  # exists while a process audits into a folder


def audit_labels(
    data: Source,
    *,
    judges: Judges | None = None,
    split: str | None = None,
    score: scores.Method = "margin",
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device = "auto",
    progress: Progress | bool = True,
) -> Audit:
    """Find the doubtful labels of a data set.

    Args:
        data: Opened data, or what `open_data` takes.
        judges: Who judges the labels: `FeatureHeads(...)`, `FineTuned(...)`, `NewNetworks(...)` or
            `FinishedRuns(...)`. None: what suits the images and the device.
        split: train, test or all. None: train for known sets, all for samples and your own data.
        score: How doubt is measured; see `scores.doubt`.
        out: Folder for the table, the summary and the page; new networks are kept in out/models.
        resume: Resume the audit in `out`.
        device: auto, cpu, cuda, cuda:1, or a torch.device.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
    """
    started = time.perf_counter()
    scores.check_method(score)
    if started_by_torchrun():
        raise HitNetError(
            "An audit runs in one process. Let torchrun start `hitnet extract`, which shares the images. Then audit "
            "without it."
        )
    opened = open_data(data)
    opened.check_outside(out)
    if out is not None:
        has_begun(files.expand(out), resume=resume)  # before the images, which may take long to read
    split = split or opened.audit_split
    images = opened.load(split)
    if len(images) < 2:
        raise HitNetError(
            f"{images.name}: an audit needs at least two images; the split {split} has one. Choose another `split`, or "
            "a larger `limit`."
        )
    grows = opened.by_path and opened.options.limit is None
    settings = {"source": opened.address, "split": split, "images": len(images)}
    folder = prepare(out, settings, resume=resume, may_grow=grows)
    try:
        with shown(progress, f"Auditing {opened.name}") as bar:
            case = Case(opened, images, split, pick_device(device), folder, bar)
            return _audit(case, judges or SuitableJudges(), score, started)
    finally:
        if folder is not None:
            locks.release(folder / CLAIM)


def _audit(case: Case, judges: Judges, score: scores.Method, started: float) -> Audit:
    """Judge a case, and write the result into its folder, if there is one."""
    judgement = judges.judge(case)
    case.progress.part("results")
    result = judge(
        judgement.distances,
        judgement.images,
        method=score,
        trained=judgement.trained,
        capsules=judgement.capsules,
    )
    table = compare_annotators(case.data.annotations(), result.table)
    order = arrangement(judgement.images.ids, torch.tensor(table["id"].tolist()))
    kinds = judgement.kinds or ("networks",) * len(judgement.distances)
    duplicates = None
    about = judgement.about | result.summary
    if judgement.features is not None and result.images is not None:
        features = judgement.features[order]
        table = add_likeness(table, features, result.images, case.device)
        duplicates = duplicate_table(features, result.images, case.device)
        about["duplicates"] = {"pairs": len(duplicates), "labels_differ": int(duplicates["labels_differ"].sum())}
    about |= describe_case(case) | {"verified_errors": verified_errors(table, case.data.sample), "score": score}
    about["seconds"] = time.perf_counter() - started
    finished = replace(
        result,
        table=table,
        summary=summarise(table, judgement.images, about),
        prototypes=judgement.prototypes,
        duplicates=duplicates,
        kept=Kept.of(judgement.distances, kinds, judgement.features, order),
        folder=case.folder,
        data=case.data,
    )
    if case.folder is not None:
        check_in_place(case.folder)
        _warn_of_other_judges(case.folder, finished.summary)
        finished.write(case.folder)
    return finished


def _warn_of_other_judges(folder: Path, summary: dict[str, Any]) -> None:
    """Say so if a finished audit by other judges is replaced."""
    earlier: Any = summary
    with suppress(HitNetError):  # a damaged one is replaced
        file = folder / "summary.json"
        earlier = files.read_json(file) if file.is_file() else summary
    if isinstance(earlier, dict) and earlier.get("model") != summary["model"]:
        log.warning(
            "%s held an audit by other judges (%s). Its ranking is replaced; decisions stay.",
            folder,
            earlier.get("model"),
        )


def describe_case(case: Case) -> dict[str, Any]:
    """What the summary says of the data that was audited, enough to open it again."""
    options = case.data.options
    return {
        "source": case.data.address,
        "in_memory": case.data.in_memory,
        "split": case.split,
        "limit": options.limit,
        "image_size": list(case.images.shape[1:]),
        "data_dir": None if options.data_dir is None else str(files.expand(options.data_dir).absolute()),
    }


def arrangement(ids: torch.Tensor, arranged: torch.Tensor) -> torch.Tensor:
    """Where each of the `arranged` ids stands among `ids`."""
    place = {number: i for i, number in enumerate(ids.tolist())}
    return torch.tensor([place[number] for number in arranged.tolist()])


def prepare(out: str | Path | None, settings: dict[str, Any], *, resume: bool, may_grow: bool = False) -> Path | None:
    """The folder of an audit, new or to be resumed.

    Args:
        out: The folder; None: none.
        settings: What is audited.
        resume: Whether it may hold an audit already.
        may_grow: Whether files may have come or gone since. Heads on features then judge all anew, but only new files
            are looked at: the features of the others are kept.
    """
    if out is None:
        return None
    folder = files.expand(out)
    begun, settings_file = has_begun(folder, resume=resume), folder / SETTINGS
    earlier = files.read_json(settings_file) if begun else settings
    schemas.check(earlier, schemas.SETTINGS, settings_file)
    # Networks that were trained on other images cannot be resumed; what heads stand on can.
    grown = may_grow and earlier | {"images": 0} == settings | {"images": 0} and not (folder / "models").exists()
    if earlier != settings and not grown:
        raise HitNetError(
            f"{folder} holds the audit of other images ({earlier['images']:,} of {earlier['source']}, split "
            f"{earlier['split']}). Choose another `out`."
        )
    if not locks.claim(folder / CLAIM):
        raise HitNetError(f"{folder}: another process is auditing here. Wait for it, or choose another `out`.")
    files.remove_litter(folder)
    files.write_json(settings_file, settings)
    return folder


def has_begun(folder: Path, *, resume: bool) -> bool:
    """Whether a folder holds an audit to resume; raises HitNetError if the folder cannot be used."""
    try:
        # An audit that never started, because of a wrong option or a kill, leaves only its settings.
        begun = any(not _is_unimportant(path.name) for path in folder.iterdir())
    except FileNotFoundError:
        return False
    except NotADirectoryError as error:
        raise HitNetError(f"{folder} is a file or lies in one; choose another `out`.") from error
    except OSError as error:
        raise HitNetError(f"{folder} cannot be used: {error.strerror}. Choose another `out`.") from error
    if begun and not (folder / SETTINGS).is_file():
        raise HitNetError(f"{folder} holds no audit to resume, but other files. Choose another `out`.")
    if begun and not resume:
        raise HitNetError(f"{folder} is not empty. Use `resume` to continue the audit there, or choose another `out`.")
    return begun


def _is_unimportant(name: str) -> bool:
    """Whether a file in the folder of an audit is no result of it."""
    return name in (SETTINGS, CLAIM) or files.LITTER.fullmatch(name) is not None


def check_in_place(folder: Path) -> None:
    """Raise HitNetError if the folder of an audit was moved meanwhile: its name must not be made anew."""
    claimed = locks.moved_to(folder / CLAIM)
    if claimed is not None:
        where = "" if claimed.parent == folder.absolute() else f" to {claimed.parent}"
        raise HitNetError(
            f"{folder} was moved{where} or removed while it was audited. The networks that were trained are in it: "
            "repeat the audit in its new place with `resume`."
        )


def judge(
    distances: np.ndarray,
    images: Images,
    *,
    method: scores.Method = "margin",
    trained: int | None = None,
    capsules: int | None = None,
) -> Audit:
    """The audit's table from class distances (M, N, K), without any training.

    Args:
        distances: Of M networks, N images and K classes.
        images: The images, with the labels to judge.
        method: How doubt is measured; see `scores.doubt`.
        trained: How many of the M, from the first on, were trained on the labels that they judge. Scores are
            calibrated by the others (see calibration.py). None: all.
        capsules: How many of the M, from the first on, are distances of capsules, for which hits and misses have a
            meaning. None: all.
    """
    labels = images.labels.numpy()
    evidence = scores.gather(distances.astype(np.float64), labels)
    seen = evidence if capsules is None else scores.gather(distances[:capsules].astype(np.float64), labels)
    doubts = scores.doubt(evidence, labels, method)
    values = scores.score(doubts.value)
    behind = len(distances) if capsules is None else capsules  # judges whose mean the audit keeps as its distances
    summary: dict[str, Any] = {"trained": 1.0 if trained is None else min(trained, behind) / behind}
    wrong = None
    if trained is not None and trained < len(distances):
        calibration = calibrate(distances[trained:].astype(np.float64), labels, doubts.value)
        values, wrong = 1 - calibration.probability, calibration.flagged
        summary["in_words"] = calibration.sentence
    flags = scores.flags(seen, doubts, wrong, expected=round(float((1 - values).sum())))
    table = _table(images, evidence, seen, values, flags, scores.suggest(doubts, labels, flags))
    order = np.lexsort((table["id"], -doubts.value))
    table = table.iloc[order].reset_index(drop=True)
    arranged = images.select(torch.from_numpy(order))
    return Audit(table, seen.mean[order].astype(np.float32), images.class_names, summary, arranged)


def _table(
    images: Images,
    evidence: scores.Evidence,
    seen: scores.Evidence,
    values: scores.Floats,
    flags: list[str],
    suggested: scores.Ints,
) -> pd.DataFrame:
    """The audit's table in the order of the images; `seen` is the evidence of capsules only."""
    names = np.array(images.class_names, dtype=object)
    return pd.DataFrame(
        {
            "id": images.ids.numpy(),
            "path": list(images.paths) if images.paths is not None else [""] * len(images),
            "given": names[images.labels.numpy()],
            "suggested": names[suggested],
            "score": values,
            "hits": seen.hits,
            "votes": evidence.votes(suggested),
            "models": evidence.models,
            "margin_mean": seen.margin_mean,
            "margin_std": seen.margin_std,
            "ghost": names[seen.ghost],
            "ghost_distance": seen.ghost_distance,
            "flag": flags,
            "rule": [scores.FLAGS[flag] for flag in flags],
        }
    )
