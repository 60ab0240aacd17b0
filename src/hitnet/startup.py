"""Ctrl-C while a command starts: PyTorch takes seconds to import, and a traceback out of it tells nobody anything.

Imported before all else. Where hitnet is the program, an interruption ends it at once until `started`; where it is a
library, nothing is touched.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import PurePath


def is_program(words: Sequence[str]) -> bool:
    """Whether Python was called for the command: `python …/bin/hitnet …` or `python … -m hitnet …`."""
    options = iter(words[1:])
    for word in options:
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(options, None)
        elif word == "-m":
            return next(options, None) == "hitnet"
        elif not word.startswith("-"):
            return PurePath(word).stem == "hitnet"
    return False


def started() -> None:
    """From now on an interruption raises KeyboardInterrupt, as elsewhere."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# In the background of a script interruptions are ignored, which stays so.
if is_program(sys.orig_argv) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
