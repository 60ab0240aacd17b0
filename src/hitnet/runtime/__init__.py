"""What all work here stands on: devices, processes, progress, files that are written whole, locks."""

import importlib
from typing import TYPE_CHECKING, Any

from hitnet.runtime.files import appending as appending
from hitnet.runtime.files import check_regular as check_regular
from hitnet.runtime.files import expand as expand
from hitnet.runtime.files import read_json as read_json
from hitnet.runtime.files import remove_litter as remove_litter
from hitnet.runtime.files import replacing as replacing
from hitnet.runtime.files import write_json as write_json
from hitnet.runtime.files import write_text as write_text
from hitnet.runtime.progress import Progress as Progress
from hitnet.runtime.progress import Together as Together
from hitnet.runtime.progress import Training as Training
from hitnet.runtime.schemas import ANYTHING as ANYTHING
from hitnet.runtime.schemas import check_schema as check_schema
from hitnet.runtime.schemas import find_problem as find_problem
from hitnet.runtime.schemas import schema_of as schema_of

if TYPE_CHECKING:
    from hitnet.runtime.bar import shown as shown
    from hitnet.runtime.device import pick_device as pick_device

# PyTorch takes seconds to import, and commands that only print do without.
WITH_TORCH = {"pick_device": "hitnet.runtime.device", "shown": "hitnet.runtime.bar"}


def __getattr__(name: str) -> Any:
    if name in WITH_TORCH:
        return getattr(importlib.import_module(WITH_TORCH[name]), name)
    raise AttributeError(f"module 'hitnet.runtime' has no attribute {name!r}")
