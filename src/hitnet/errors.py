"""What a user's mistake raises: a sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable
from typing import Any


class HitNetError(Exception):
    """A mistake that the user can mend; the command line prints the message alone, without a traceback."""


class DivergedError(HitNetError):
    """A training whose loss is no longer finite; `runs` are the finished runs of others beside it."""

    runs: tuple[Any, ...] = ()


class ToldElsewhereError(HitNetError):
    """An error that another process of the same work tells the user of."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> HitNetError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return HitNetError(f"There is no {kind} named {name!r}.{hint} Known: {', '.join(names)}.")


def check_entries(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of which one does not exist."""
    names = set(known)
    for name in given:
        if name not in names:
            raise unknown_name(kind, name, names)


def whole(owner: str, name: str, value: Any, least: int) -> int:
    """A whole number as an int, also where it is one of numpy's; an error for any other value, or one below `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise HitNetError(f"{owner}: {name} must be a whole number from {least} on; got {value!r}.")
    return number


def finite(owner: str, name: str, value: Any, *, above_0: bool = False) -> float:
    """A finite number that is not negative as one of Python's own; an error for any other value, or for 0 too."""
    try:
        number = value if isinstance(value, int | float) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (0 < number < math.inf or (number == 0 and not above_0)):
        bound = "above 0" if above_0 else "not negative"
        raise HitNetError(f"{owner}: {name} must be finite and {bound}; got {value!r}.")
    return number


def check_choice(owner: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise HitNetError(f"{owner}: {name} must be one of {', '.join(choices)}; got {value!r}.")
