"""Planning in Python: the commands `plan`, `verify`, `estimate` and `search` of `lowgear` as functions; `replan`
(`plan --change`), `simulate` (`verify --replay`), `thin` (`plan --thin`), `evaluate` and `emulate` (`published evaluate`
and `published emulate`); and what Perseus' analysis of a job's results calls (`dumps`).

They take dicts, lists, data frames or paths, and return objects that print themselves in terminals and draw themselves
in notebooks. liblowgear_planning.so computes all figures, with the code of the command: figures are its figures, refusals
its messages. Nothing else but Python's standard library is needed; pandas only where you ask for a data frame.
"""

from .._library import LowgearWarning
from .clusters import CellRow, EmulatedRow, PointRow, WindowRow, emulate, evaluate, thin, windows
from .dumps import ProfilingResult, load_prof, total_time_and_energy
from .estimates import Estimate, PowerSearchResult, PublishedEstimate, SearchResult
from .jobs import estimate, search
from .pipelines import plan, simulate, verify
from .replans import Scale, replan
from .results import Plan, PlanResult, Simulation, Verification
from .table import Table
from .work import PlannedWork, ReplanResult

__all__ = [
    "CellRow",
    "EmulatedRow",
    "Estimate",
    "LowgearWarning",
    "Plan",
    "PlanResult",
    "PlannedWork",
    "PointRow",
    "PowerSearchResult",
    "ProfilingResult",
    "PublishedEstimate",
    "ReplanResult",
    "Scale",
    "SearchResult",
    "Simulation",
    "Table",
    "Verification",
    "WindowRow",
    "emulate",
    "estimate",
    "evaluate",
    "load_prof",
    "plan",
    "replan",
    "search",
    "simulate",
    "thin",
    "total_time_and_energy",
    "verify",
    "windows",
]
