"""Planning in Python: the commands `plan`, `replan`, `verify`, `simulate`, `estimate`, `search`, `emulate`, `evaluate` and
`thin` of `lowgear` as functions; and what Perseus' analysis of a job's results calls (`dumps`).

They take dicts, lists, data frames or paths, and return objects that print themselves in terminals and draw themselves
in notebooks. All that they compute the command computes (`lowgear`, found as `command.find_command` says): figures are
its figures, refusals its messages. Nothing but Python's standard library is needed; pandas only where one asks for a
data frame.
"""

from .clusters import CellRow, EmulatedRow, PointRow, WindowRow, emulate, evaluate, thin, windows
from .command import CommandNotFound, LowgearWarning, find_command
from .dumps import ProfilingResult, load_prof, total_time_and_energy
from .estimates import Estimate, PublishedEstimate, SearchResult
from .jobs import estimate, search
from .pipelines import plan, simulate, verify
from .replans import Scale, replan
from .results import Plan, PlanResult, Simulation, Verification
from .table import Table
from .work import PlannedWork, ReplanResult

__all__ = [
    "CellRow",
    "CommandNotFound",
    "EmulatedRow",
    "Estimate",
    "LowgearWarning",
    "Plan",
    "PlanResult",
    "PlannedWork",
    "PointRow",
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
    "find_command",
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
