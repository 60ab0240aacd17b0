"""Start two processes as torchrun does."""

import subprocess
import sys


def torchrun(*arguments):
    """Run `-m hitnet …` or a script in two processes, and return what they printed and how they ended."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run([*launcher, *map(str, arguments)], capture_output=True, text=True)
