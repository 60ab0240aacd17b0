"""Start two processes that work together: by torchrun, or as torchrun starts them."""

import os
import subprocess
import sys
from datetime import timedelta
from tempfile import TemporaryFile

from torch.distributed import TCPStore


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
    command = [sys.executable, *map(str, arguments)]
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:  # no process waits until another one is read
        processes = [
            subprocess.Popen(
                command, stdout=out, stderr=err, env={**os.environ, **together, "RANK": rank, "LOCAL_RANK": rank}
            )
            for rank in ("0", "1")
        ]
        try:
            codes = [process.wait() for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, next(filter(None, codes), 0), out.read(), err.read())
