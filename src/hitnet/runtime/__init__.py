"""What all work here stands on: devices, processes, progress, files that are written whole, locks."""

import importlib
from typing import TYPE_CHECKING, Any

from hitnet.runtime.files import (
    appending,
    check_regular,
    expand,
    read_json,
    remove_litter,
    replacing,
    write_json,
    write_text,
)
from hitnet.runtime.progress import Progress, Together, Training
from hitnet.runtime.schemas import ANYTHING, find_problem, schema_of
from hitnet.runtime.schemas import check as check_schema

if TYPE_CHECKING:
    from hitnet.runtime.bar import shown
    from hitnet.runtime.device import pick_device

__all__ = [
    "ANYTHING",
    "Progress",
    "Together",
    "Training",
    "appending",
    "check_regular",
    "check_schema",
    "expand",
    "find_problem",
    "pick_device",
    "read_json",
    "remove_litter",
    "replacing",
    "schema_of",
    "shown",
    "write_json",
    "write_text",
]

# PyTorch takes seconds to import, and commands that only print do without.
WITH_TORCH = {"pick_device": "hitnet.runtime.device", "shown": "hitnet.runtime.bar"}


def __getattr__(name: str) -> Any:
    if name in WITH_TORCH:
        return getattr(importlib.import_module(WITH_TORCH[name]), name)
    raise AttributeError(f"module 'hitnet.runtime' has no attribute {name!r}")
