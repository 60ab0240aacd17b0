"""Start two processes that work together: by torchrun, or as torchrun starts them."""

import subprocess
import sys
from datetime import timedelta

from torch.distributed import TCPStore

from forked import Forked


def torchrun(*arguments):
    """Run `-m hitnet …` or a script in two processes, and return what they printed and how they ended."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run([*launcher, *map(str, arguments)], capture_output=True, text=True)


def two_processes(*arguments):
    """The same without torchrun, whose own start takes as long as theirs: with the variables that it sets.

    As with torchrun, the store by which they find each other is in the process that starts them.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(minutes=5))
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    together |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    first = Forked(*arguments, **together, RANK="0", LOCAL_RANK="0")
    processes = [first, Forked(*arguments, files=first.files, **together, RANK="1", LOCAL_RANK="1")]
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()
    return subprocess.CompletedProcess(arguments, next(filter(None, codes), 0), first.out, first.err)
