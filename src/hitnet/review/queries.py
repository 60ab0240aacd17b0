"""What a page asks for: which images, in which order, from which place on. Read from the address of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hitnet.audit.correction_files import DECISIONS
from hitnet.errors import HitNetError, check_choice

SORTS = ("doubt", "audit", "file", "strange")
STATES = ("undecided", "decided", "by others", "disputed", *DECISIONS)
MOST_ROWS = 400  # in one answer


@dataclass(frozen=True)
class Query:
    """Filters, all of which must hold, and the order.

    Attributes:
        given: Index of the given class.
        suggested: Index of the suggested class.
        either: Index of a class that is given or suggested.
        flags: Indices of flags, any of which may hold.
        state: One of STATES.
        lowest: Lowest score.
        highest: Highest score.
        text: Part of a path, in small letters, or an image's number.
        sort: One of SORTS.
        grouped: Whether images of the same given and suggested class stand together.
    """

    given: int | None = None
    suggested: int | None = None
    either: int | None = None
    flags: tuple[int, ...] = ()
    state: str | None = None
    lowest: float | None = None
    highest: float | None = None
    text: str = ""
    sort: str = "doubt"
    grouped: bool = False

    def __post_init__(self) -> None:
        check_choice("review", "sort", self.sort, SORTS)
        if self.state is not None:
            check_choice("review", "state", self.state, STATES)


def read_query(values: Mapping[str, str]) -> Query:
    """The query in the parameters of an address; raises HitNetError for values that are none."""
    try:
        given, suggested, either = (
            int(values[name]) if values.get(name) else None for name in ("given", "suggested", "either")
        )
        lowest, highest = (float(values[name]) if values.get(name) else None for name in ("lowest", "highest"))
        flags = tuple(int(flag) for flag in values.get("flags", "").split(",") if flag)
    except ValueError as error:
        raise HitNetError(f"review: {error}.") from None
    return Query(
        given=given,
        suggested=suggested,
        either=either,
        lowest=lowest,
        highest=highest,
        flags=flags,
        state=values.get("state") or None,
        text=values.get("text", "").lower(),
        sort=values.get("sort") or "doubt",
        grouped=values.get("grouped") == "1",
    )


def read_whole(values: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """A whole number from 0 on in the parameters of an address."""
    value = values.get(name)
    if value is None or value == "":
        return default
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise HitNetError(f"review: {name} must be a whole number; got {value!r}.")
    return int(value)
