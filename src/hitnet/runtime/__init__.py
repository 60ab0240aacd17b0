"""What all work here stands on: devices, processes, progress, files that are written whole, locks."""

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
from hitnet.runtime.progress import Progress
from hitnet.runtime.schemas import ANYTHING, find_problem, schema_of
from hitnet.runtime.schemas import check as check_schema

if TYPE_CHECKING:
    from hitnet.runtime.device import pick_device

__all__ = [
    "ANYTHING",
    "Progress",
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
    "write_json",
    "write_text",
]


def __getattr__(name: str) -> Any:
    if name == "pick_device":  # PyTorch takes seconds to import, and commands that only print do without
        from hitnet.runtime.device import pick_device

        return pick_device
    raise AttributeError(f"module 'hitnet.runtime' has no attribute {name!r}")
