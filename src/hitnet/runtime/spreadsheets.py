"""CSV files that are safe to open in a spreadsheet, which runs text such as =HYPERLINK(…) as a formula."""

import re
from pathlib import Path
from typing import Any

from hitnet.runtime.files import replacing

# What begins so is a formula, perhaps after marks of our own. Plain numbers are harmless.
FORMULA = re.compile(r"'*(?![-+]?[0-9]*[.]?[0-9]+$)[=+\-@\t\r\n]")


def write_csv(path: str | Path, table: Any) -> None:
    """Write a pandas table as CSV, whole or not at all; texts that would be formulas get a ' before them."""
    with replacing(path) as temporary:
        without_formulas(table).to_csv(temporary, index=False)


def without_formulas(table: Any) -> Any:
    """A copy of a pandas table in which texts that would be formulas have a ' before them."""
    safe = table.rename(columns=defuse)
    for place, kind in enumerate(safe.dtypes):
        if kind.kind not in "biufcM":
            column = safe.iloc[:, place].astype(object)
            formulas = {value: safe_text for value in column.unique() if (safe_text := defuse(value)) is not value}
            safe.isetitem(place, [formulas.get(value, value) for value in column])
    return safe


def defuse(value: Any) -> Any:
    """A text that no spreadsheet runs: with a ' before it where it would be a formula. Other values stay."""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def undefuse(text: str) -> str:
    """The text that `defuse` was given."""
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text
