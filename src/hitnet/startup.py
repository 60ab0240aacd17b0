"""The program `hitnet`: what runs before the command line is imported.

PyTorch takes seconds to import, and a traceback out of it says nothing to the user. So Ctrl-C ends the program at once
until its command is ready (see hitnet.cli.ready).
"""

import signal


def main() -> None:
    """Run the command line."""
    # A script may ignore interruptions in the background; that stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hitnet.cli import main as run

    run()
