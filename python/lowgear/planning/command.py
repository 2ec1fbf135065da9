"""The command `lowgear`: where it is, and one run of it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .._library import InvalidUse, LowgearError

_PACKAGE = Path(__file__).resolve().parent.parent
_BAD_USAGE = 2
_PATIENCE_S = 10  # for a command that was asked to end


class CommandNotFound(LowgearError):
    """There is no command `lowgear` to plan with."""


class LowgearWarning(UserWarning):
    """What the command warns of, such as a profile in other units."""


class Completed(NamedTuple):
    """What a run of the command printed."""

    document: Any  # its JSON
    notes: Tuple[str, ...]  # what it said of it, one line each


def _installed_with_the_package() -> Iterator[Path]:
    """Where pip has put the command of the wheel that this package is from."""
    try:
        distribution = metadata.distribution("lowgear")
    except metadata.PackageNotFoundError:
        return
    for file in distribution.files or ():
        path = Path(distribution.locate_file(file))
        if file.name == "lowgear" and path.is_file() and _is_of(distribution):
            yield path


def _is_of(distribution: metadata.Distribution) -> bool:
    """Whether this package is the one that the distribution has installed."""
    return Path(distribution.locate_file("lowgear")).resolve() == _PACKAGE


def _candidates() -> Iterator[Path]:
    yield from _installed_with_the_package()
    on_path = shutil.which("lowgear")
    if on_path:
        yield Path(on_path)
    yield _PACKAGE.parent.parent / "build" / "release" / "bin" / "lowgear"  # this package is in the source tree


def find_command() -> Path:
    """The command that all functions of this package run.

    It is what LOWGEAR_COMMAND names; or the one that was installed with this package; or the one on PATH; or that of the
    build folder, where the package is used from the source tree. Raises CommandNotFound when there is none, or none
    where LOWGEAR_COMMAND says.
    """
    named = os.environ.get("LOWGEAR_COMMAND")
    if named:
        if os.access(named, os.X_OK) and os.path.isfile(named):
            return Path(named).resolve()
        raise CommandNotFound(f"LOWGEAR_COMMAND: {named} is not a program; set it to the path of lowgear, or unset it")
    for path in _candidates():
        if os.access(path, os.X_OK):
            return path.resolve()
    raise CommandNotFound(
        "the command lowgear is neither installed with this package nor on PATH; install Lowgear's wheel or package, or "
        "set LOWGEAR_COMMAND to its path (build/release/bin/lowgear)"
    )


@functools.lru_cache(maxsize=None)
def _require_same_version(command: Path) -> None:
    from .. import __version__  # known once the package is whole

    try:
        said = subprocess.run([str(command), "--version"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise LowgearError(f"{command} cannot be run: {error.strerror}; set LOWGEAR_COMMAND to the path of lowgear") from None
    version = said.stdout.decode("utf-8", "replace").strip()
    if version != f"lowgear {__version__}":
        raise LowgearError(
            f"{command} is {version or 'no Lowgear'}, and this package is of version {__version__}; install both from "
            "one release, or set LOWGEAR_COMMAND"
        )


def _end(process: subprocess.Popen) -> None:
    """Ends the command and waits until it has ended: first so that it can remove what it had begun to write."""
    for stream in (process.stdout, process.stderr):
        stream.close()
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Handles SIGINT after the block instead of within it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # Python calls handlers in its main thread alone
        return
    waiting: List[Tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *which: waiting.append(which))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(*waiting[0])


def _execute(words: Sequence[str], folder: Optional[Path]) -> Tuple[int, str, str]:
    """Exit code, output and errors of a program. One that is interrupted is ended first."""
    process = None
    try:
        with _interrupts_wait():  # one within Popen() would leave a program that is started and has no name here
            process = subprocess.Popen(
                words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        output, errors = process.communicate()
    except BaseException:
        if process is not None:
            _end(process)
        raise
    return process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def option_words(options: Mapping[str, Any]) -> List[str]:
    """Options by their names in Python: `micro_batch=2` is `--micro-batch=2`. None is left out, True is a flag, and a
    list is the option several times."""
    words: List[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        several = value if isinstance(value, (list, tuple)) else [value]
        words.extend(f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in several)
    return words


def _place_in(file: str, name: str, line: Optional[str]) -> str:
    """A line of a file that was written for the command, for who has given the rows and not the file."""
    if line is None or not file.endswith(".csv"):
        return name
    return f"{name}, header" if line == "1" else f"{name}, row {int(line) - 2}"


class Wording(NamedTuple):
    """How messages of the command name what it was given, for who has called a function."""

    options: Mapping[str, str] = {}  # option without `--` -> parameter, where they differ by more than `-` and `_`
    files: Mapping[str, str] = {}  # file that was written for the command -> what it was written from

    def of(self, message: str) -> str:
        message = re.sub(r"; see lowgear [a-z]+ --help$", "", message)
        for file, name in self.files.items():
            message = re.sub(
                re.escape(file) + r"(?::(\d+)(?::\d+)?)?", lambda place: _place_in(file, name, place[1]), message
            )
        return re.sub(r"--([a-z][a-z0-9-]*)", lambda option: self._parameter(option[1]), message)

    def _parameter(self, option: str) -> str:
        return self.options.get(option, option.replace("-", "_"))


def _lines(errors: str, level: str) -> List[str]:
    start = f"lowgear: {level}: "
    return [line[len(start) :] for line in errors.splitlines() if line.startswith(start)]


def _failure(verb: str, code: int, errors: str, wording: Wording) -> LowgearError:
    if code < 0:
        return LowgearError(f"lowgear {verb} was ended by {signal.Signals(-code).name}")
    message = "; ".join(map(wording.of, _lines(errors, "error")))
    message = message or errors.strip() or f"lowgear {verb} ended with {code} and said nothing"
    return InvalidUse(message) if code == _BAD_USAGE else LowgearError(message)


def run(
    verb: str, words: Sequence[str], *, folder: Optional[Path] = None, wording: Optional[Wording] = None
) -> Completed:
    """One run of `lowgear VERB ... --json` in a folder (default the present one).

    Raises InvalidUse with the command's message for what it refuses (exit code 2), LowgearError for what failed, and
    CommandNotFound. What it warns of becomes a LowgearWarning. An interrupt (Ctrl-C) ends the command, too.
    """
    wording = wording or Wording()
    command = find_command()
    _require_same_version(command)
    code, output, errors = _execute([str(command), verb, *words, "--json"], folder)
    # A command that answers "no" says so in its document and by its exit code.
    if code not in (0, 1) or not output.startswith("{"):
        raise _failure(verb, code, errors, wording)
    for warning in _lines(errors, "warning"):
        warnings.warn(wording.of(warning), LowgearWarning, stacklevel=3)
    return Completed(json.loads(output), tuple(map(wording.of, _lines(errors, "info"))))
