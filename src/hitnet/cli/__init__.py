"""The command line: a thin shell over the public functions.

Each command lies in a module of this package, which is imported only when the command is called: `hitnet --help` reads
the commands' first sentences from the source, without importing PyTorch.
"""

import ast
import errno
import importlib
import io
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from hitnet import __version__
from hitnet.cli.terminal import console, errors, make_table
from hitnet.errors import HitNetError, ReportedElsewhereError, log
from hitnet.runtime.terminal import printable

__all__ = ["app", "console", "main", "make_table"]

# What the system says of a path or a disk that the user can change; any other of its errors is a bug.
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOSPC, errno.EDQUOT)

RESUME_HINT = " Progress is saved; run the command again with --resume."
SMALLER = ("image_size", "limit")  # options that save memory
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # typer, too, exits so after Ctrl-C

COMMANDS = {  # by module, as `hitnet --help` lists them
    "train": ("train", "models", "extract"),
    "runs": ("evaluate", "predict", "export"),
    "audit": ("audit", "apply", "export-audit"),
    "review": ("review",),
    "data": ("data",),
    "pictures": ("prototypes", "traverse", "capsules", "generate", "augment", "plot", "ghosts"),
}
MODULES = {command: module for module, commands in COMMANDS.items() for command in commands}
GROUPS = ("data",)  # commands that have commands of their own
OPTIONS: set[str] = set()  # of the command that is called, by the names of their parameters; messages name them


def ready() -> None:
    """From now on an interruption raises KeyboardInterrupt, as in any Python program (see hitnet.startup)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class LazyGroup(TyperGroup):
    """The group of all commands; a command's module is imported when the command is called."""

    listing = False

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name) for name in MODULES}  # for the list, and to suggest names

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in MODULES:
            return None
        if self.listing:
            return TyperCommand(cmd_name, help=first_sentence(cmd_name))
        group = get_group(importlib.import_module(f"hitnet.cli.{MODULES[cmd_name]}").app)
        ready()
        command: Any = group if cmd_name in GROUPS else group.commands[cmd_name]
        OPTIONS.update(option_names(command))
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False


def option_names(command: Any) -> Iterator[str]:
    """The names of the options of a command and of those in it."""
    for each in (command, *getattr(command, "commands", {}).values()):
        yield from (parameter.name for parameter in each.params if parameter.param_type_name == "option")


@cache
def first_sentence(command: str) -> str:
    """The first line of a command's help, read from its source."""
    tree = ast.parse((Path(__file__).parent / f"{MODULES[command]}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (docstring := ast.get_docstring(node)):
            marks = [ast.unparse(decorator) for decorator in node.decorator_list]
            wanted = "app.callback()" if command in GROUPS else f"app.command({command!r})"
            if wanted in marks:
                return docstring.splitlines()[0]
    return ""


app = typer.Typer(
    cls=LazyGroup,
    name="hitnet",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(asked: bool) -> None:
    if asked:
        print(f"hitnet {__version__}")
        raise typer.Exit


@app.callback()
def hitnet(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also print what other libraries report")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only results, warnings and errors")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """HitNet: capsules that hit or miss. Train, see what was learned, and find wrong labels."""
    logging.getLogger().setLevel(logging.INFO if verbose else logging.WARNING)
    log.setLevel(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)
    if quiet:
        os.environ["HITNET_PROGRESS"] = "0"


def with_options(message: str) -> str:
    """A message of the library in the words of the command line.

    If the command has the option, `out` becomes --out, and `stream` = False becomes --no-stream.
    """

    def translate(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in OPTIONS:
            return match[0].replace("`", "")
        option = name.replace("_", "-")
        if value in ("True", "False"):
            return f"--{option}" if value == "True" else f"--no-{option}"
        return f"--{option}" if value is None else f"--{option} {value}"

    return re.sub(r"`(\w+)`(?: = (\w+))?", translate, message)


class Messages(logging.StreamHandler[IO[str]]):
    """Prints log messages in the words of the command line, on standard error, which a progress bar replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        return printable(with_options(super().format(record)))


def stop_on_signal(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def refuse_empty(arguments: list[str]) -> None:
    """Raise HitNetError if an argument is empty: as a path, it would mean the current folder."""
    for before, argument in zip(["hitnet", *arguments], arguments, strict=False):
        if not argument or re.fullmatch(r"--[\w-]+=", argument):
            place = argument.rstrip("=") or f"the argument after {before}"
            raise HitNetError(f"{place} is empty. Give a value; perhaps a variable of your shell is not set.")


def failed(message: str, code: int = 1) -> SystemExit:
    """Print what went wrong; returns the end of the program, to be raised."""
    errors.print(message, style="red")
    return SystemExit(code)


def main(program: typer.Typer = app) -> None:
    """Run a program; a user's mistake ends in one sentence and exit code 1, never in a traceback.

    Args:
        program: `hitnet` itself, or another that is built on this library.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show must not end the work
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(handlers=[Messages()], format="%(message)s")
    log.setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, stop_on_signal)  # so that half-written files are removed, as after Ctrl-C
    OPTIONS.clear()
    OPTIONS.update(option_names(get_command(program)))
    try:
        refuse_empty(sys.argv[1:])
        program()
    except ReportedElsewhereError:
        raise SystemExit(1) from None
    except HitNetError as error:
        raise failed(f"Error: {with_options(str(error))}") from None
    except (KeyboardInterrupt, SystemExit) as end:
        code = end.code if isinstance(end, SystemExit) else INTERRUPTED
        if code not in (INTERRUPTED, TERMINATED):
            raise
        errors.print(f"Interrupted.{RESUME_HINT if 'resume' in OPTIONS else ''}")
        raise SystemExit(code) from None
    except MemoryError:
        smaller = [f"--{name.replace('_', '-')}" for name in SMALLER if name in OPTIONS]
        advice = f" Try a smaller {' or '.join(smaller)}." if smaller else ""
        raise failed(f"Error: Out of memory.{advice}") from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in REFUSALS:
            what = "Cannot write the output" if error.filename is None else f"Cannot use {error.filename}"
            raise failed(f"Error: {what}: {error.strerror}. Choose another place.") from None
        if os.environ.get("HITNET_TRACEBACK"):
            raise
        advice = "Set HITNET_TRACEBACK=1 to see where it happened, and please report it."
        raise failed(f"Unexpected error: {type(error).__name__}: {error}\n{advice}", 70) from None
