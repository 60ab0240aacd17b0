"""Curves of a training for TensorBoard."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitnet.errors import HitNetError, MissingPackageError
from hitnet.runtime.progress import Progress, Training

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"
CURVES = {  # the entries of a row of history, grouped as TensorBoard shows them
    "loss": "loss/total",
    **{name: f"loss/{name}" for name in ("classification", "reconstruction")},
    **{f"{split}_{kind}": f"{kind}/{split}" for kind in ("error", "hits", "misses") for split in ("train", "test")},
    **{name: f"training/{name}" for name in ("learning_rate", "images_per_second", "seconds")},
}


class TensorBoard(Progress):
    """Writes the curves of each training for TensorBoard, once per epoch: RUN/tensorboard.

    A resumed run continues its curves: epochs that are trained again replace what was written of them.
    """

    def __init__(self) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise MissingPackageError("TensorBoard", "tensorboard")
        self.writers: dict[Path, SummaryWriter] = {}

    def start(self, training: Training) -> None:
        from torch.utils.tensorboard import SummaryWriter  # takes seconds to import

        if training.folder is None:
            raise HitNetError("TensorBoard needs a run folder: set `out`.")
        folder = training.folder / FOLDER
        begun = any(folder.glob("events.out.tfevents.*"))
        self.end(training)
        # TensorBoard drops what an interrupted process wrote of the step `purge_step` and later ones.
        purge = len(training.history) + 1 if begun else None
        self.writers[training.folder] = SummaryWriter(str(folder), purge_step=purge)
        for row in () if begun else training.history:  # of a run that was begun without TensorBoard
            self._write(training.folder, row)

    def epoch(self, training: Training) -> None:
        if training.folder is not None:
            self._write(training.folder, training.history[-1])

    def end(self, training: Training) -> None:
        writer = None if training.folder is None else self.writers.pop(training.folder, None)
        if writer is not None:
            writer.close()

    def _write(self, folder: Path, row: dict[str, Any]) -> None:
        for name, curve in CURVES.items():
            if name in row:
                self.writers[folder].add_scalar(curve, row[name], row["epoch"])
        self.writers[folder].flush()
