"""What users are told: errors for mistakes that they can fix, each with what is wrong, where and what to do; a log."""

import difflib
import importlib
import logging
import math
import operator
from collections.abc import Iterable
from typing import Any

__all__ = ["DivergedError", "HitNetError", "check_choice", "check_entries", "finite", "share", "unknown_name", "whole"]

log = logging.getLogger("hitnet")
NAMES_SHOWN = 30
LINE_ENDS = {ord(sign): repr(sign)[1:-1] for sign in "\n\t"}


class HitNetError(ValueError):
    """A mistake that the user can fix. The command line prints only the message, without a traceback."""


class MissingFileError(HitNetError, FileNotFoundError):
    """A file or folder that does not exist."""


class MissingPackageError(HitNetError, ImportError):
    """Packages that are not installed: `what` needs them, e.g. "ONNX files"."""

    def __init__(self, what: str, *packages: str) -> None:
        needs = "need" if what.endswith("s") else "needs"
        super().__init__(f"{what} {needs} {' and '.join(packages)}: pip install {' '.join(packages)}.")


def need(what: str, *packages: str) -> Any:
    """The package, or several of them, imported; raise MissingPackageError, which says `what` needs them."""
    try:
        modules = [importlib.import_module(package) for package in packages]
    except ImportError as error:
        raise MissingPackageError(what, *packages) from error
    return modules if len(modules) > 1 else modules[0]


class DivergedError(HitNetError):
    """The loss of a training is no longer finite.

    Attributes:
        runs: The finished runs of the same call.
    """

    runs: tuple[Any, ...] = ()


class ReportedElsewhereError(HitNetError):
    """An error that another process of the same work reports to the user."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> HitNetError:
    """The error for an unknown name; it suggests the nearest known name."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return HitNetError(f"There is no {kind} named {name!r}.{hint} Known: {', '.join(names[:NAMES_SHOWN])}{more}.")


def one_line(name: str) -> str:
    """A name of a file or a class with line ends and tabs shown as escapes, so that it cannot look like two names."""
    return name.translate(LINE_ENDS)


def check_entries(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise HitNetError for the first name that is not known."""
    known = set(known)
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)


def whole(owner: str, name: str, value: Any, least: int) -> int:
    """Convert a whole number (also numpy's) to an int; raise HitNetError for other values and below `least`.

    The message names the parameter and its `owner`, a class or a function; so do those of the functions below.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise HitNetError(f"{owner}: {name} must be a whole number from {least} on; got {value!r}.")
    return number


def finite(owner: str, name: str, value: Any, *, above_0: bool = False) -> float:
    """Convert a finite number from 0 on, or above it, to one of Python's own; raise HitNetError for other values."""
    try:
        number = value if isinstance(value, int | float) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (0 < number < math.inf or (number == 0 and not above_0)):
        bound = "above 0" if above_0 else "not negative"
        raise HitNetError(f"{owner}: {name} must be finite and {bound}; got {value!r}.")
    return number


def share(owner: str, name: str, value: Any, *, most: float = 1) -> float:
    """Convert a number from 0 to `most` to one of Python's own; raise HitNetError for other values."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= most:
        raise HitNetError(f"{owner}: {name} must be in [0, {most}]; got {value!r}.")
    return number


def check_choice(owner: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise HitNetError unless `value`, passed as parameter `name` of `owner`, is one of the choices."""
    if value not in choices:
        raise HitNetError(f"{owner}: {name} must be one of {', '.join(choices)}; got {value!r}.")
