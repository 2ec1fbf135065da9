"""Lowgear for training processes in Python: GPU clocks that follow a plan, and measured energy.

    import lowgear

    with lowgear.Client(recording="run1") as client:
        client.load_plan("out/plans/00000.json")
        for batch in data:
            with client.iteration():
                for microbatch in range(8):
                    with client.unit("forward", stage, microbatch):
                        forward(...)

The agent of the node (`lowgear agent`) sets the clocks. Without an agent everything else works; `Client.status()` says what
is missing. The package needs only liblowgear.so, which it searches in LOWGEAR_LIBRARY, next to this package, and in the
system's library folders.
"""

from ._client import Client, Measurement, Status, Window
from ._library import AgentUnavailable, InvalidUse, LowgearError, Refused

__version__ = "0.1.0"

__all__ = [
    "AgentUnavailable",
    "Client",
    "InvalidUse",
    "LowgearError",
    "Measurement",
    "Refused",
    "Status",
    "Window",
    "__version__",
]
