"""Replaces a function of a framework by one that also calls an observer. The only place that replaces anything."""

import functools
import inspect
import sys
from typing import Any, Callable, Dict, Generator, Iterable

Observer = Callable[[Dict[str, Any]], Generator[None, Any, None]]


class Unsupported(Exception):
    """This version of a framework lacks a part that an adapter needs, or has one that it does not support."""


def version_of(module_name: str) -> str:
    """The version that the innermost package of a module gives, or "of unknown version"."""
    parts = module_name.split(".")
    for end in range(len(parts), 0, -1):
        version = getattr(sys.modules.get(".".join(parts[:end])), "__version__", None)
        if isinstance(version, str):
            return f"version {version}"
    return "of unknown version"


def _place(owner: Any) -> str:
    """`file (package version)` of a module, class or function."""
    module = owner if inspect.ismodule(owner) else sys.modules.get(getattr(owner, "__module__", ""))
    name = getattr(module, "__name__", "?")
    return f"{getattr(module, '__file__', None) or name} ({name.split('.')[0]} {version_of(name)})"


def require(owner: Any, names: Iterable[str]) -> None:
    """Raises Unsupported where one of these attributes is missing."""
    missing = sorted(name for name in names if not hasattr(owner, name))
    if missing:
        raise Unsupported(f"{_place(owner)} has no {', '.join(missing)}")


def is_wrapped(function: Any) -> bool:
    return hasattr(function, "__lowgear_original__")


def _binder(signature: inspect.Signature) -> Callable:
    """Gives the arguments of a call by name, defaults included: as Signature.bind does, in less time where all
    parameters may be given either way. The binder raises TypeError for a call that is wrong."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    names = tuple(signature.parameters)
    known = set(names)
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()
                if parameter.default is not parameter.empty}

    def by_signature(args, kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def by_name(args, kwargs):
        arguments = {**defaults, **dict(zip(names, args)), **kwargs}
        if arguments.keys() != known or len(args) > len(names) or not kwargs.keys().isdisjoint(names[: len(args)]):
            return by_signature(args, kwargs)
        return arguments

    return by_name if kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD} else by_signature


def _signature_of(owner: Any, function: Callable) -> inspect.Signature:
    """A method after a decorator that hides its parameters is `(*args, **kwargs)`: the first one is the object."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if inspect.isclass(owner) and parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        parameters.insert(0, inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY))
    return signature.replace(parameters=parameters)


def observed(function: Callable, signature: inspect.Signature, needs: Iterable[str], observer: Observer, fail: Callable,
             place: str) -> Callable:
    """`function` of this signature, observed: `observer` is a generator function that gets the arguments by the names of
    the parameters, runs to its `yield` before the call and gets the result from it after the call. When the call raises,
    the generator is closed there and the exception passes on unchanged. An exception of the observer goes to `fail(error)`.

    Raises Unsupported where the function lacks a parameter of `needs`.
    """
    if is_wrapped(function):
        return function
    name = getattr(function, "__qualname__", str(function))
    missing = sorted(set(needs) - set(signature.parameters))
    if missing:
        raise Unsupported(f"{place}: {name}{signature} has no parameter {', '.join(missing)}")

    bind = _binder(signature)

    def begun(args, kwargs):
        try:
            arguments = bind(args, kwargs)
        except TypeError:
            return None  # the call is wrong: the function says so itself
        generator = observer(arguments)
        next(generator)
        return generator

    def finish(generator, result):
        try:
            generator.send(result)
        except StopIteration:
            pass

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        generator = _guarded(fail, begun, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            if generator is not None:
                _guarded(fail, generator.close)
            raise
        if generator is not None:
            _guarded(fail, finish, generator, result)
        return result

    wrapped.__lowgear_original__ = function
    return wrapped


def _guarded(fail, function, *args):
    """None where the observer fails, which must not concern the job."""
    try:
        return function(*args)
    except StopIteration:
        return None  # an observer that has nothing to say of this call
    except Exception as error:
        fail(error)
        return None


def wrap(owner: Any, name: Any, needs: Iterable[str], observer: Observer, fail: Callable) -> None:
    """Replaces `owner.name`, or `owner[name]` of a dict, by the observed function (see `observed`).

    Raises Unsupported where there is no such function, or it lacks a parameter.
    """
    if isinstance(owner, dict):
        function = owner[name]
        owner[name] = observed(function, inspect.signature(function), needs, observer, fail, _place(function))
        return
    require(owner, [name])
    function = getattr(owner, name)
    setattr(owner, name, observed(function, _signature_of(owner, function), needs, observer, fail, _place(owner)))
