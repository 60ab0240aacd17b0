"""What the JSON files and tables that hitnet reads must hold: one schema per kind of file, checked before use.

A schema is built of these parts:

str, bool, int, float     a value of that type; an int counts as a float, and floats must be finite
None                      null
(a, b)                    a or b
[a]                       a list of a
{"x": a, "y?": b, str: c} an object with the entry x, perhaps y, and others of type c (without `str`: any)
ANYTHING                  any value
"""

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from hitnet.errors import HitNetError

ANYTHING = object()
LARGEST_NUMBER = 2**64  # no number in a file that hitnet writes is larger
SCHEMAS: dict[type, Mapping[Any, Any]] = {}  # of dataclasses, as far as they were asked for


def check_schema(value: Any, schema: Any, where: str | Path) -> None:
    """Raise HitNetError, naming the first wrong entry and the file `where` it is, unless a value fits a schema."""
    problem = find_problem(value, schema, "")
    if problem is not None:
        raise HitNetError(f"{where} is damaged: {problem}. Restore it from a copy, or make it again.")


def find_problem(value: Any, schema: Any, place: str) -> str | None:
    """What is wrong with a value, or None."""
    if schema is ANYTHING:
        return None
    if isinstance(schema, tuple):
        return None if any(find_problem(value, option, "") is None for option in schema) else _wrong(value, place)
    if isinstance(schema, list):
        if not isinstance(value, list):
            return _wrong(value, place, "a list")
        odd = next((i for i, item in enumerate(value) if find_problem(item, schema[0], "") is not None), None)
        return None if odd is None else find_problem(value[odd], schema[0], f"{place}[{odd}]")
    if isinstance(schema, Mapping):
        return _object_problem(value, schema, place)
    return None if _is_a(value, schema) else _wrong(value, place, "null" if schema is None else schema.__name__)


def _object_problem(value: Any, schema: Mapping[Any, Any], place: str) -> str | None:
    if not isinstance(value, dict):
        return _wrong(value, place, "an object")
    named = {str(key).removesuffix("?"): part for key, part in schema.items() if key is not str}
    missing = [key for key in schema if key is not str and not str(key).endswith("?") and key not in value]
    if missing:
        return f"{place or 'it'} lacks {', '.join(missing)}"
    for key, item in value.items():
        part = named.get(key, schema.get(str, ANYTHING))
        problem = find_problem(item, part, f"{place}.{key}" if place else str(key))
        if problem is not None:
            return problem
    return None


def _is_a(value: Any, kind: Any) -> bool:
    if kind is None or kind is type(None):
        return value is None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(_small(value))
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and math.isfinite(_small(value))
    return isinstance(value, kind)


def _small(value: float) -> float:
    return value if not isinstance(value, int) or abs(value) <= LARGEST_NUMBER else math.inf


def _wrong(value: Any, place: str, expected: str = "of another type") -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) <= LARGEST_NUMBER else "a number that is too large"
    return f"{place or 'it'} must be {expected}; got {text if len(text) <= 60 else text[:60] + '…'}"


def schema_of(definition: type) -> Mapping[Any, Any]:
    """The schema of a dataclass that was written as a JSON object; entries with a default may be missing."""
    if definition not in SCHEMAS:  # made once: a ledger has hundreds of lines of one kind
        hints = typing.get_type_hints(definition)
        needed = {e.name: e.default is MISSING and e.default_factory is MISSING for e in fields(definition)}
        SCHEMAS[definition] = {name if needed[name] else f"{name}?": _part(hints[name]) for name in needed}
    return SCHEMAS[definition]


def _part(hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return str
    if origin in (typing.Union, types.UnionType):
        return tuple(_part(option) for option in arguments)
    if origin in (list, tuple):
        return [_part(arguments[0])]
    if origin is dict:
        return {str: _part(arguments[1])}
    if is_dataclass(hint):
        return schema_of(hint)  # type: ignore[arg-type]
    return ANYTHING if hint is Any else hint
