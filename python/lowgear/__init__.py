"""Lowgear plans GPU clocks with which training uses less energy and takes no longer, follows them, and measures energy.

Plan (no GPU needed), from times and energies of each stage at each clock:

    import lowgear

    result = lowgear.plan("profile.csv", microbatches=12, blocking_power_w=70)
    result.shown_plan.save("plan.json")

`plan`, `verify`, `estimate` and `search` do what the commands of these names do; `replan` is `lowgear plan --change`,
`simulate` `verify --replay`, `thin` `plan --thin`, `evaluate` and `emulate` are those of `lowgear published`. They use
liblowgear_planning.so and are loaded when one is first used (docs/python.md).

Measure the energy of a block of code:

    with lowgear.measure() as energy:
        train()
    print(energy)

Follow a plan and record a run:

    with lowgear.Client(recording="run1") as client:
        client.load_plan("plan.json")
        for batch in data:
            with client.iteration():
                for microbatch in range(12):
                    with client.unit("forward", stage, microbatch):
                        forward(...)

The agent of the node (`lowgear agent`) sets the clocks. Without it everything works but the clocks: `Client.status()`
says what is missing. On a machine without a GPU and an agent the client warns once and does nothing but keep time. It
uses liblowgear.so: the library that LOWGEAR_LIBRARY names, or else the one next to this package, or the system's
(docs/client.md).
"""

from ._client import Client, OperatingPoint, Status
from ._lengths import tell_lengths
from ._library import AgentUnavailable, InvalidUse, LowgearError, LowgearWarning, Refused, UnknownParameter
from ._measure import measure
from ._windows import Measurement, Window

__version__ = "0.1.0"

_PLANNING = ("plan", "replan", "verify", "simulate", "estimate", "search", "emulate", "evaluate", "thin", "windows",
             "load_prof", "total_time_and_energy")

__all__ = [
    *_PLANNING,
    "measure",
    "tell_lengths",
    "Client",
    "Measurement",
    "OperatingPoint",
    "Status",
    "Window",
    "LowgearError",
    "InvalidUse",
    "UnknownParameter",
    "AgentUnavailable",
    "Refused",
    "LowgearWarning",
    "__version__",
]

for _class in (AgentUnavailable, InvalidUse, LowgearError, LowgearWarning, Refused, UnknownParameter):
    _class.__module__ = __name__  # tracebacks show the name that programs catch


def __getattr__(name):
    """Loads the functions for planning (docs/python.md) when one is first used: training processes do without."""
    if name == "compare":
        raise AttributeError(
            f"module {__name__!r} has no attribute 'compare': lowgear.plan(...).policies compares policies, as does the "
            "command lowgear compare"
        )
    if name not in _PLANNING:
        import difflib

        close = difflib.get_close_matches(name, __all__, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    from . import planning

    return getattr(planning, name)


def __dir__():
    return sorted({*globals(), *__all__})
