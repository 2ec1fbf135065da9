"""Calls of liblowgear_planning.so, which computes all figures: a JSON document in, another one out."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .._library import InvalidUse, LowgearError, LowgearWarning, open_library

_FILE = "liblowgear_planning.so"
_PACKAGE = Path(__file__).resolve().parent.parent

# Calls in place of the command lines that messages give as examples.
_EXAMPLES = {"plan": "lowgear.plan(profile, microbatches=32)"}
_COMMAND_LINE = re.compile(r"; for example: lowgear .*")


class Reply(NamedTuple):
    """What a call returns."""

    result: Any
    notes: Tuple[str, ...]  # remarks on it, one line each
    files: Dict[str, bytes]  # outputs that were kept in memory, by name

    def folder(self, name: str) -> Dict[str, bytes]:
        """The files of an output folder by their names in it."""
        start = name + "/"
        return {file[len(start) :]: text for file, text in self.files.items() if file.startswith(start)}


@functools.lru_cache(maxsize=None)
def _load(named: Optional[str]) -> ctypes.CDLL:
    from .. import __version__  # known once the package is whole

    in_source_tree = _PACKAGE.parent.parent / "build" / "release" / "lib" / _FILE
    candidates = [str(_PACKAGE / _FILE), _FILE, str(in_source_tree)]
    library = open_library(_FILE, "LOWGEAR_PLANNING_LIBRARY", candidates, named)
    try:
        library.lowgear_version.restype = ctypes.c_char_p
        version = library.lowgear_version().decode()
    except AttributeError:
        version = "unknown, as it is not Lowgear's planning library"
    if version != __version__:
        raise LowgearError(
            f"{library._name} is of version {version}, and this package of {__version__}; install both from one release, or "
            "set LOWGEAR_PLANNING_LIBRARY"
        )
    library.lowgear_call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int)]
    library.lowgear_call.restype = ctypes.c_void_p
    library.lowgear_free.argtypes = [ctypes.c_void_p]
    return library


def load() -> ctypes.CDLL:
    """The planning library: what LOWGEAR_PLANNING_LIBRARY names; or the one in this package; or where the system looks; or
    that of the build folder, where the package is used from the source tree. Raises LowgearError when there is none."""
    return _load(os.environ.get("LOWGEAR_PLANNING_LIBRARY") or None)


def _answer(verb: str, request: Mapping[str, Any]) -> Dict[str, Any]:
    library = load()
    try:
        text = json.dumps(request, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidUse(f"{error.object[max(0, error.start - 40) : error.end]!r}: a name or text is not UTF-8") from None
    cancelled = ctypes.c_int(0)

    def call() -> Dict[str, Any]:
        reply = library.lowgear_call(verb.encode(), text, ctypes.byref(cancelled))
        if not reply:
            raise MemoryError
        try:
            return json.loads(ctypes.string_at(reply))
        finally:
            library.lowgear_free(reply)

    # Python handles interrupts in its main thread and between its own steps alone: that thread waits, another one calls.
    with ThreadPoolExecutor(1) as pool:
        try:
            return pool.submit(call).result()
        except BaseException:
            cancelled.value = 1
            raise


class _Given(NamedTuple):
    """A file that a call hands over in memory."""

    text: str
    name: str  # of the argument that it was made of, for messages
    header_lines: Optional[int]  # before its rows; None: it has no rows

    def place(self, line: Union[int, str, None]) -> str:
        """A place in it for messages: the caller has rows instead of lines."""
        if not line or self.header_lines is None:
            return self.name
        return f"{self.name}, {self._row(int(line))}"

    def _row(self, line: int) -> str:
        row = line - (self.header_lines or 0) - 1
        return "header" if row < 0 else f"row {row}"

    def in_rows(self, text: str) -> str:
        """A text about it, whose further places are rows, too."""
        if self.header_lines is None:
            return text
        return re.sub(r"\bline (\d+)", lambda found: self._row(int(found[1])), text)


def _option(value: Any) -> Any:
    if value is True:
        return True
    if isinstance(value, (list, tuple)):
        return [_option(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


class Request:
    """A call of a verb: its options by their names in Python, and files in memory. `parameters` has the options that
    are named otherwise by more than `-` and `_`."""

    def __init__(self, verb: str, parameters: Optional[Mapping[str, str]] = None):
        self._verb = verb
        self._parameters = dict(parameters or {})
        self._given: Dict[str, _Given] = {}

    def give(self, file: str, text: str, name: str, header_lines: Optional[int] = None) -> str:
        """Hands over a file, which messages call `name`; returns the file."""
        self._given[file] = _Given(text, name, header_lines)
        return file

    def run(self, options: Mapping[str, Any], *arguments: Any, keep: Sequence[str] = ()) -> Reply:
        """Calls the verb. `keep` names outputs that are returned instead of written; options that are None or False are
        left out.

        Raises InvalidUse for what the verb refuses, and LowgearError for what failed. Doubts become LowgearWarnings. An
        interrupt (Ctrl-C) ends the call.
        """
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        answer = _answer(
            self._verb,
            {
                "options": {name.replace("_", "-"): _option(value) for name, value in given.items()},
                "arguments": [os.fspath(argument) for argument in arguments],
                "files": {file: given.text for file, given in self._given.items()},
                "keep": list(keep),
                "parameters": self._parameters,
            },
        )
        if "error" in answer:
            raise self._failure(answer["error"])
        for warning in answer["warnings"]:
            warnings.warn(self._named(warning), LowgearWarning, stacklevel=4)
        files = {name: text.encode() for name, text in answer["files"].items()}
        return Reply(answer["result"], tuple(map(self._named, answer["notes"])), files)

    def _named(self, message: str) -> str:
        """The message with the caller's names of files, and with a call as its example."""
        example = _EXAMPLES.get(self._verb)
        message = _COMMAND_LINE.sub(f"; for example: {example}" if example else "", message)
        for file, given in self._given.items():
            place = rf"(?<![\w/]){re.escape(file)}(?::(\d+)(?::\d+)?)?(?![\w/])"
            named = re.sub(place, lambda found, given=given: given.place(found[1]), message)
            message = message if named == message else given.in_rows(named)
        return message

    def _failure(self, error: Mapping[str, Any]) -> LowgearError:
        kind = InvalidUse if error["kind"] == "invalid" else LowgearError
        given = self._given.get(error.get("file", ""))
        if given is None:
            return kind(self._named(error["message"]))
        return kind(f"{given.place(error.get('line'))}: {given.in_rows(self._named(error['problem']))}")
