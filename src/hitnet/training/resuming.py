"""Begin a run folder, or resume the run in it if it is the same run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from hitnet.errors import HitNetError
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder

# Fingerprints tell whether weights and images are the same, so their location does not matter.
NOT_COMPARED = {("augment_from", "run")}
NOT_COMPARED |= {("data", key) for key in ("limit", "source", "in_memory", "name", "data_dir")}


def prepare(folder: RunFolder, config: RunConfig, *, resume: bool, device: torch.device) -> RunFolder:
    """Start a run folder, or check that it holds this run, and claim it so that no other process trains it."""
    if not folder.finished and not folder.claim():
        raise HitNetError(
            f"{folder.path}: another process is training this run. Wait for it, or choose another folder."
        )
    try:
        if folder.exists:
            check_same(folder, config, resume=resume)
        else:
            folder.check_vacant()
            folder.create(config, device)
    except HitNetError:
        folder.release()
        raise
    return folder


def check_same(folder: RunFolder, config: RunConfig, *, resume: bool) -> None:
    """Raise unless this folder's run can be resumed with this configuration."""
    if not resume:
        raise HitNetError(f"{folder.path} already holds a run. Use `resume` to continue it, or choose another `out`.")
    there, asked = (replace(run, recipe=run.recipe.in_effect()).to_dict() for run in (folder.config(), config))
    changed = {
        (part, key): f"{part}{'.' + key if key else ''} was {old!r}, now {new!r}"
        for part in asked
        for key, old, new in differences(there[part], asked[part])
        if (part, key) not in NOT_COMPARED
        and (part != "data" or key in there["data"])  # older versions kept less of the data
    }
    if set(changed) == {("data", "fingerprint")}:
        raise HitNetError(
            f"{folder.path} cannot be resumed: its images or their labels have changed since. Choose another `out`."
        )
    if changed:
        raise HitNetError(
            f"{folder.path} holds another run, which cannot be resumed as this one: {'; '.join(changed.values())}. "
            "Give the same options as before, or choose another folder."
        )
    if folder.finished and not folder.history():
        raise HitNetError(f"{folder.history_file} of a finished run is missing. Put it back, or choose another folder.")


def differences(old: Any, new: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        return [(k, old.get(k), new.get(k)) for k in {**old, **new} if old.get(k) != new.get(k)]
    return [] if old == new else [("", old, new)]
