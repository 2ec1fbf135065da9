"""Finds frameworks as they are imported and has their adapters installed."""

import importlib
import os
import sys
from types import ModuleType
from typing import Optional

from .._lengths import Told
from .importing import ADAPTERS, AfterImport, is_asked_for
from .marks import Marks
from .messages import is_first_rank, say, say_once
from .wrapping import Unsupported

_MARKS = Marks()


def adapter_of(name: str) -> ModuleType:
    """The adapter that observes a module of ADAPTERS."""
    return importlib.import_module(f"{__package__}.{ADAPTERS[name]}")


def install(name: str, module: object, marks: Marks = _MARKS) -> None:
    """Has the adapter of a module installed. Never raises: it refuses what it does not support, and the job continues. Where
    the adapter marks no units, no plan depends on it: a pipeline may run in the same process, by another framework."""
    follows_plans = True
    try:
        adapter = adapter_of(name)
        follows_plans = adapter.MARKS_UNITS
        adapter.install(module, marks)
        return
    except Unsupported as error:
        problem = f"{error}; docs/attaching.md lists what is supported"
    except Exception as error:
        problem = f"the adapter of {name} does not work here: {type(error).__name__}: {error}"
    if follows_plans:
        marks.refuse(problem)
    elif is_first_rank():
        say(f"not attached to {name}: {problem}")


def complain(problem: str) -> None:
    """Says once what is wrong with a call of the program."""
    if is_first_rank():
        say_once(problem)


def tell(iteration: Optional[int], told: Told) -> None:
    """Lengths that the program tells. Never raises."""
    try:
        _MARKS.tell(iteration, told)
    except Exception as error:
        _MARKS.fail(error)


def activate() -> None:
    """Attaches to the training framework of this process, where a LOWGEAR_* variable asks for it. Never raises; may be called
    again."""
    try:
        if is_asked_for(os.environ) and not any(type(finder).__name__ == AfterImport.__name__ for finder in sys.meta_path):
            AfterImport(ADAPTERS, install).install()
    except Exception as error:
        if is_first_rank():
            say(f"not attached: {error}")
