"""How tests wait: for a condition, as long as ctest lets them (CMakePresets.json). No test has a limit of its own: on a machine
that has other work to do everything takes longer, and no figure is long enough."""

import sys
import time

PATIENCE_S = None  # of what asks for a timeout: none
NOTED_EVERY_S = 60


def wait_until(condition, what, pause_s=0.02):
    """The condition's value, once it is true. Writes now and then what it waits for, a text or a function that returns one:
    ctest shows the last lines of a test that it ends. Where a process may end instead, the condition has to fail then."""
    noted_s = time.monotonic()
    while not (value := condition()):
        time.sleep(pause_s)
        if time.monotonic() - noted_s > NOTED_EVERY_S:
            noted_s = time.monotonic()
            print(f"still waiting: {what() if callable(what) else what}", file=sys.stderr, flush=True)
    return value
