"""A training in a process of its own that kill -9 ends at a given step."""

import json
import signal

from forked import Forked

SCRIPT = """
import json, os, signal, sys, hitnet
from hitnet.training import engine
from hitnet.runtime.progress import Progress
options = json.loads(sys.argv[1])
engine.CHECKPOINT_SECONDS = 0.0
class Killing(Progress):
    left = options["step"]
    def step(self):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
data = hitnet.open_data(options["data"], stream=options["stream"])
recipe = hitnet.choose_recipe(**options["recipe"])
hitnet.train(data, model="hitnet-small", recipe=recipe, device="cpu", out=options["out"], progress=Killing())
"""


def train_until_killed(data, out, *, step, recipe, stream=None):
    """Train `hitnet-small` with a checkpoint at every step, until it is killed at number `step`."""
    options = {"data": str(data), "out": str(out), "step": step, "recipe": recipe, "stream": stream}
    process = Forked("-c", SCRIPT, json.dumps(options))
    assert process.wait() == -signal.SIGKILL, process.err
