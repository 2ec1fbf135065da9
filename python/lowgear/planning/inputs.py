"""Values of users as the options and files that the planning library reads."""

from __future__ import annotations

import csv
import io
import json
import numbers
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from .._library import InvalidUse
from .call import Request

PathLike = Union[str, "os.PathLike[str]"]
# Rows, columns, a data frame, or a file.
ProfileLike = Union[PathLike, Mapping[str, Sequence[Any]], Iterable[Mapping[str, Any]], Any]
ScheduleLike = Union[PathLike, Mapping[int, Sequence[Any]], Sequence[Sequence[Any]]]
PowerLike = Union[float, Sequence[float], Mapping[int, float], PathLike]

# Columns of a profile: as the file has them, and as tables of this package name them.
_PROFILE_COLUMNS = {
    "stage": "stage",
    "instruction": "instruction",
    "frequency": "clock_mhz",
    "time": "time_s",
    "energy": "energy_j",
}
_WHOLE_NUMBERS = ("stage", "frequency", "rank")


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def file_path(path: PathLike) -> str:
    """The whole path, with which messages name the file. The library refuses an address, by its own name."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def absolute_path(path: PathLike, name: str) -> str:
    """Of a file or folder to read or write."""
    if not is_path(path):
        raise InvalidUse(f"{name}: expected a path, not {path!r}")
    return os.path.abspath(path)


def _require_once(names: Iterable[Any], what: str) -> None:
    """Names of columns, of which none may occur twice once blanks are gone, as the command's reader has it."""
    seen = set()
    for name in names:
        text = str(name).strip()
        if text in seen:
            raise InvalidUse(f"{what}: column {text!r} occurs twice; keep one of them")
        seen.add(text)


def rename_columns(columns: Mapping[str, List[Any]], names: Mapping[str, str], what: str) -> Dict[str, List[Any]]:
    """Columns by the names that the command reads: `names` has a second one for each. Refuses both names of a figure."""
    renamed = dict(columns)
    for name, second in names.items():
        if name == second or second not in renamed:
            continue
        if name in renamed:
            raise InvalidUse(f"{what}: columns {name!r} and {second!r} are two names of one figure; keep the right one")
        renamed[name] = renamed.pop(second)
    return renamed


def _columns_of(data: Any, what: str) -> Dict[str, List[Any]]:
    """Columns by name, of columns, of rows, or of anything that has `columns`, as data frames have."""
    if isinstance(data, Mapping):
        _require_once(data, what)
        return {str(name).strip(): list(column) for name, column in data.items()}
    if hasattr(data, "columns"):
        _require_once(data.columns, what)
        return {str(name).strip(): list(data[name]) for name in data.columns}
    rows = listed(data, f"{what}: expected rows as dicts, a dict of columns, a data frame or the path of a CSV file")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidUse(
                f"{what}, row {number}: expected a dict such as {{'stage': 0, 'instruction': 'forward', ...}}, not "
                f"{type(row).__name__}; give rows, columns, a data frame or a path"
            )
    names = list(dict.fromkeys(name for row in rows for name in row))
    _require_once(names, what)
    return {str(name).strip(): [row.get(name) for row in rows] for name in names}


def listed(values: Any, expected: str) -> List[Any]:
    try:
        return list(values)
    except TypeError:
        raise InvalidUse(f"{expected}, not {values!r}") from None


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    # Data frames make floats of whole numbers.
    if name in _WHOLE_NUMBERS and isinstance(value, numbers.Real) and float(value).is_integer():
        return str(int(value))
    return str(value)


def profile_csv(data: Any) -> str:
    """A stage profile as the command reads it (docs/formats.md). Numbers are not looked at: the command does, and its
    messages name the row."""
    columns = rename_columns(_columns_of(data, "profile"), _PROFILE_COLUMNS, "profile")
    if not columns:
        raise InvalidUse("profile: it is empty; give its rows, columns, a data frame or the path of a CSV file, as lowgear "
                         "profile makes one")
    for name, with_unit in _PROFILE_COLUMNS.items():
        if name not in columns:
            if any(other.startswith((f"{name}_", "clock_") if name == "frequency" else f"{name}_") for other in columns):
                continue  # such as time_ms: the command refuses its unit
            known = ", ".join(map(repr, columns)) or "none"
            either = repr(name) if name == with_unit else f"{name!r} or {with_unit!r}"
            raise InvalidUse(f"profile: there is no column {either}; it has {known}")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidUse(f"profile: its columns differ in length: {lengths}")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values()):
        writer.writerow(_cell(name, value) for name, value in zip(columns, row))
    return out.getvalue()


def profile_file(request: Request, profile: ProfileLike) -> str:
    if is_path(profile):
        return file_path(profile)
    return request.give("profile.csv", profile_csv(profile), "profile", header_lines=1)


def power_option(request: Request, power_w: PowerLike) -> str:
    """A number for all ranks, or one for each: as a list, as a dict by rank, or in a file."""
    if is_path(power_w):
        text = os.fspath(power_w)
        return os.path.abspath(text) if os.path.exists(text) else text
    if isinstance(power_w, numbers.Real):
        return str(power_w)
    expected = "blocking_power_w: expected a number in W, one for each rank, or the path of a CSV file"
    ranks = power_w.items() if isinstance(power_w, Mapping) else enumerate(listed(power_w, expected))
    text = "stage,blocking_power\n" + "".join(f"{rank},{value}\n" for rank, value in ranks)
    return request.give("blocking_power.csv", text, "blocking_power_w", header_lines=1)


def schedule_option(request: Request, schedule: ScheduleLike) -> str:
    """A name, a file, or for each rank its actions in PyTorch's notation; also its `pipeline_order`, as it is."""
    if is_path(schedule):
        text = os.fspath(schedule)
        return os.path.abspath(text) if os.path.exists(text) else text
    if isinstance(schedule, Mapping):
        for rank, given in enumerate(sorted(schedule)):
            if rank != given:
                raise InvalidUse(f"schedule: there is no rank {rank}, though rank {given} is there; number them from 0")
        schedule = [schedule[rank] for rank in sorted(schedule)]
    expected = "schedule: expected a name such as '1f1b', the path of a CSV file, or a list of actions for each rank"
    schedule = [listed(actions, expected) for actions in listed(schedule, expected)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for actions in schedule:
        writer.writerow("" if action is None else str(action) for action in actions)
    return request.give("schedule.csv", out.getvalue(), "schedule", header_lines=0)


def factors_option(factors: Optional[Mapping[int, float]], name: str, key: str) -> List[str]:
    """`NUMBER=FACTOR` words of ranks or stages that are slower."""
    if factors is not None and not isinstance(factors, Mapping):
        raise InvalidUse(f"{name}: expected a dict from {key} to factor such as {{1: 1.2}}, not {factors!r}")
    return [f"{number}={factor}" for number, factor in (factors or {}).items()]


def job_option(request: Request, job: Union[PathLike, Mapping[str, Any], None]) -> Optional[str]:
    """A job file, or a dict as such a file has it: JSON is YAML."""
    if job is None:
        return None
    if is_path(job):
        return os.fspath(job)
    if not isinstance(job, Mapping):
        raise InvalidUse(f"job: expected a dict, or the path of a job file, not {job!r}")
    try:
        text = json.dumps(job, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidUse(f"job: {error}; give numbers, texts, lists and dicts as a job file has them") from None
    return request.give("job.yaml", text, "job")
