"""The command line: a thin shell over the public functions."""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import sys
from types import FrameType

import typer

from hitnet.cli import audit, data, plot, reproduce, synthesis, train
from hitnet.cli.terminal import errors
from hitnet.errors import HitNetError, ToldElsewhereError
from hitnet.startup import started

# What the system says of a path or a disk that the user can change; any other of its errors is a bug.
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOSPC, errno.EDQUOT)

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # typer, too, exits so after Ctrl-C

app = typer.Typer(
    name="hitnet",
    help="HitNet: capsules that hit or miss. Train, see what was learned, and find wrong labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
train.register(app)
synthesis.register(app)
plot.register(app)
audit.register(app)
reproduce.register(app)
app.add_typer(data.app, name="data")


def told_to_stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence and exit code 1, never in a traceback."""
    started()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show must not end the work
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[logging.StreamHandler(sys.stderr)])
    signal.signal(signal.SIGTERM, told_to_stop)  # so that half-written files are removed, as after Ctrl-C
    try:
        app()
    except ToldElsewhereError:
        raise SystemExit(1) from None
    except HitNetError as error:
        errors.print(f"Error: {error}", style="red")
        raise SystemExit(1) from None
    except (KeyboardInterrupt, SystemExit) as end:
        code = end.code if isinstance(end, SystemExit) else INTERRUPTED
        if code not in (INTERRUPTED, TERMINATED):
            raise
        errors.print("Interrupted. Nothing that was written is lost; commands that have --resume go on with it.")
        raise SystemExit(code) from None
    except MemoryError:
        errors.print("Error: the memory does not hold what was asked for. Ask for less at a time.", style="red")
        raise SystemExit(1) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in REFUSALS:
            what = "Cannot write the output" if error.filename is None else f"Cannot use {error.filename}"
            errors.print(f"Error: {what}: {error.strerror}. Choose another place.", style="red")
            raise SystemExit(1) from None
        if os.environ.get("HITNET_TRACEBACK"):
            raise
        errors.print(
            f"Unexpected error: {type(error).__name__}: {error}\n"
            "Set HITNET_TRACEBACK=1 to see where it happened, and please report it.",
            style="red",
        )
        raise SystemExit(70) from None
