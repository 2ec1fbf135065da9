"""Lowgear for training processes in Python: GPU clocks that follow a plan, and measured energy.

    import lowgear

    with lowgear.Client(recording="run1") as client:
        client.load_plan("out/plans/00000.json")
        for batch in data:
            with client.iteration():
                for microbatch in range(8):
                    with client.unit("forward", stage, microbatch):
                        forward(...)

Clocks are set by the agent of the node (`lowgear agent`). Without one everything works all the same but for the clocks;
`Client.status()` says what is missing. The package needs nothing but liblowgear.so: the library that LOWGEAR_LIBRARY
names, or else the one next to this package, or the system's.

It also plans: `plan`, `replan`, `verify`, `simulate`, `estimate`, `search`, `emulate`, `evaluate` and `thin` are the
commands of these names as functions (lowgear.planning, docs/python.md).
"""

from ._client import Client, Measurement, OperatingPoint, Status, Window
from ._library import AgentUnavailable, InvalidUse, LowgearError, Refused

__version__ = "0.1.0"

_PLANNING = ("emulate", "estimate", "evaluate", "load_prof", "plan", "replan", "search", "simulate", "thin",
             "total_time_and_energy", "verify", "windows")

__all__ = [
    "AgentUnavailable",
    "Client",
    "InvalidUse",
    "LowgearError",
    "Measurement",
    "OperatingPoint",
    "Refused",
    "Status",
    "Window",
    "__version__",
    *_PLANNING,
]


def __getattr__(name):
    """Loads the functions for planning (docs/python.md) when one is first used: training processes do without."""
    if name not in _PLANNING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import planning

    return getattr(planning, name)


def __dir__():
    return sorted({*globals(), *__all__})
