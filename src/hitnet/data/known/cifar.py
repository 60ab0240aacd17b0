"""The binary version of CIFAR-10: records of one label byte and 3 x 32 x 32 pixel bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hitnet.errors import HitNetError

RECORD = 1 + 3 * 32 * 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
LARGEST = 1 << 30  # bytes; the original files hold 31 MB


def read_batches(paths: Sequence[Path]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images (N, 3, 32, 32) and labels (N,) of the files, in their order."""
    records = np.concatenate([_records(path) for path in paths])
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def _records(path: Path) -> npt.NDArray[np.uint8]:
    try:
        size = path.stat().st_size
        if size == 0 or size % RECORD or size > LARGEST:
            raise HitNetError(
                f"{path} holds {size:,} bytes, which is no whole number of records of {RECORD:,} bytes. "
                "Fetch the binary version of CIFAR-10 again."
            )
        records = np.fromfile(path, np.uint8).reshape(-1, RECORD)
    except OSError as error:
        raise HitNetError(f"{path} cannot be read: {error.strerror}.") from error
    if records[:, 0].max() >= len(CLASSES):
        raise HitNetError(
            f"{path} has label {records[:, 0].max()}, but CIFAR-10 has {len(CLASSES)} classes. "
            "Fetch the binary version of CIFAR-10 (not CIFAR-100) again."
        )
    return records
