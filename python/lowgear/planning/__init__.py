"""Planning in Python: the commands `plan`, `replan`, `verify`, `simulate`, `estimate`, `search`, `emulate`, `evaluate` and
`thin` of `lowgear` as functions.

They take dicts, lists, data frames or paths, and return objects that print themselves in terminals and draw themselves
in notebooks. All that they compute the command computes (`lowgear`, found as `command.find_command` says): figures are
its figures, refusals its messages. Nothing but Python's standard library is needed; pandas only where one asks for a
data frame.
"""

from .clusters import CellRow, EmulatedRow, PointRow, emulate, evaluate, thin
from .command import CommandNotFound, LowgearWarning, find_command
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
    "PublishedEstimate",
    "ReplanResult",
    "Scale",
    "SearchResult",
    "Simulation",
    "Table",
    "Verification",
    "emulate",
    "estimate",
    "evaluate",
    "find_command",
    "plan",
    "replan",
    "search",
    "simulate",
    "thin",
    "verify",
]
