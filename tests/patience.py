"""How long tests wait for what must happen; tests/hanging.py ends those that hang."""

import os
import time

PATIENCE = 60.0 * float(os.environ.get("HITNET_PATIENCE", "1"))  # seconds


def wait_until(condition, what):
    """Wait until `condition()` gives a true value, and return it."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.02)
    return value
