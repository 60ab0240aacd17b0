"""What all work here stands on: devices, processes, progress, files that are written whole, locks."""

from hitnet.runtime.progress import Progress, Training

__all__ = ["Progress", "Training"]
