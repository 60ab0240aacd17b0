"""Print on a terminal what files and people are called, without letting a name control the terminal."""

import os
import re
from typing import Any

from rich.console import Console
from rich.text import Text

# Control characters could clear the screen or change what was printed; some others turn the direction of a text.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with control characters other than line ends and tabs shown as escapes, e.g. \\x1b."""
    return CONTROLS.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


class SafeConsole(Console):
    """A console that shows control characters in texts, such as names of files, as escapes."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def make_console(*, stderr: bool = False) -> Console:
    """Prints names of files and classes as they are, without markup or emoji; breaks lines only on a terminal."""
    console = SafeConsole(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 1000
    return console
