"""How long tests wait for what must happen: so long that a slow machine passes, and a hang still ends."""

import time

PATIENCE = 900.0  # seconds


def wait_until(condition, what):
    """Wait until `condition()` gives a true value, and return it."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.02)
    return value
