"""Keywords of public functions: an unknown one is refused by an error that names the closest."""

from __future__ import annotations

import difflib
import functools
import inspect
from types import MappingProxyType
from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar, cast

from ._library import InvalidUse, UnknownParameter

Function = TypeVar("Function", bound=Callable[..., Any])


def _unknown(name: str, known: Sequence[str], parameters: Mapping[str, str]) -> Optional[UnknownParameter]:
    """The error for a parameter that does not exist; None where no parameter is close to it."""
    close = parameters.get(name.replace("_", "-"))
    if close not in known:
        words = name.replace("-", "_")
        close = next(iter([one for one in known if one == words] or difflib.get_close_matches(words, known, 1)), None)
    return UnknownParameter(f"there is no option {name}; did you mean {close}?") if close else None


def with_suggestions(parameters: Mapping[str, str] = MappingProxyType({})) -> Callable[[Function], Function]:
    """A decorator of functions. An unknown keyword raises UnknownParameter, which names the closest parameter. Of functions
    that call a verb, `parameters` has the verb's options that are named otherwise in Python, and keywords that the function
    takes by `**` are options of the verb, which refuses those that it does not have."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function).parameters
        known = [name for name, one in signature.items() if one.kind is not one.VAR_KEYWORD and name != "self"]
        passes_on = any(one.kind is one.VAR_KEYWORD for one in signature.values())

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            unknown = [name for name in named if name not in known]
            for name in unknown:
                is_other_name = parameters.get(name.replace("_", "-")) in known or name.replace("-", "_") in known
                if is_other_name or not passes_on:
                    message = f"there is no option {name}; there are {', '.join(known)}"
                    raise _unknown(name, known, parameters) or UnknownParameter(message)
            try:
                return function(*arguments, **named)
            except InvalidUse as error:
                refused = [name for name in unknown if f"there is no option {name}" in str(error)]
                if not refused:
                    raise
                raise _unknown(refused[0], known, parameters) or UnknownParameter(str(error)) from None

        return cast(Function, call)

    return decorate
