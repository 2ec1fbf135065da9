"""Planning in Python: the commands `plan`, `verify`, `simulate`, `estimate` and `search` of `lowgear` as functions.

They take dicts, lists, data frames or paths, and return objects that print themselves in terminals and draw themselves
in notebooks. All that they compute the command computes (`lowgear`, found as `command.find_command` says): figures are
its figures, refusals its messages. Nothing but Python's standard library is needed; pandas only where one asks for a
data frame.
"""

from .command import CommandNotFound, LowgearWarning, find_command
from .estimates import Estimate, PublishedEstimate, SearchResult
from .jobs import estimate, search
from .pipelines import plan, simulate, verify
from .results import Plan, PlanResult, Simulation, Verification
from .table import Table

__all__ = [
    "CommandNotFound",
    "Estimate",
    "LowgearWarning",
    "Plan",
    "PlanResult",
    "PublishedEstimate",
    "SearchResult",
    "Simulation",
    "Table",
    "Verification",
    "estimate",
    "find_command",
    "plan",
    "search",
    "simulate",
    "verify",
]
