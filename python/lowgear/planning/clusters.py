"""`emulate`, `evaluate`, `windows` and `thin`: clusters from one profile, and folders of Perseus."""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .._keywords import with_suggestions
from .._library import InvalidUse
from .call import Request
from .inputs import PathLike, ProfileLike, is_path, profile_file
from .table import Table

_PARAMETERS = {
    "blocking-power": "blocking_power_w",
    "straggler": "stragglers",
    "perseus-unit": "perseus_unit_s",
    "tp": "tensor_parallel",
}


class EmulatedRow(NamedTuple):
    """A cluster with one straggler (straggler 1: none, without energies). *Emulated*: energies are of all GPUs."""

    gpus: int
    pipelines: int
    microbatches: int
    straggler: float
    time_s: float
    baseline_j: Optional[float]
    energy_j: Optional[float]
    saving_pct: float
    extrinsic_saving_pct: float


class CellRow(NamedTuple):
    """A published cell in per cent, with three values to compare: from the results in the folders, from the method planned
    again, and from Lowgear's plan."""

    table: str
    gpu: str
    model: str
    cell: str
    published_pct: float
    from_results_pct: Optional[float]
    replanned_pct: Optional[float]
    lowgear_pct: Optional[float]
    state: str
    missing: Optional[str]


class PointRow(NamedTuple):
    """A measured point of figure 9."""

    gpu: str
    model: str
    method: str
    number: int
    time_s: float
    energy_j: float


class WindowRow(NamedTuple):
    """A measured window of a job: an iteration, its power states, and its saving against windows 0 and 1."""

    folder: str
    window: int
    lowest_state: Optional[int]
    highest_state: Optional[int]
    time_s: float
    energy_j: float
    saving_pct: Optional[float]
    slowdown_pct: Optional[float]


def _rows_of(cluster: Mapping[str, Any]) -> Iterable[EmulatedRow]:
    size = (cluster["gpus"], cluster["pipelines"], cluster["microbatches"])
    yield EmulatedRow(*size, 1, cluster["time_s"], None, None, cluster["intrinsic_saving_pct"], 0)
    for row in cluster["stragglers"]:
        figures = (row[name] for name in EmulatedRow._fields[4:])
        yield EmulatedRow(*size, row["factor"], *figures)


def _with_commas(values: Union[float, Sequence[float], None]) -> Optional[str]:
    if values is None:
        return None
    return ",".join(map(str, [values] if isinstance(values, (int, float)) else values))


@with_suggestions(_PARAMETERS)
def emulate(
    profile: ProfileLike,
    *,
    blocking_power_w: float,
    microbatches: Union[int, Sequence[int]],
    pipelines: Optional[int] = None,
    global_microbatches: Optional[int] = None,
    tensor_parallel: Optional[int] = None,
    stragglers: Union[float, Sequence[float], None] = None,
    policy: Optional[str] = None,
    perseus_unit_s: Optional[float] = None,
    accounting: Optional[str] = None,
) -> Table[EmulatedRow]:
    """Energy of a cluster from one pipeline's profile, by degree of a straggler: planned, *emulated*.

    Args:
        profile: as `plan` takes it. blocking_power_w: of a GPU that waits, in W.
        microbatches: of a pipeline in an iteration; several for a table of strong scaling.
        pipelines: data-parallel ones; or global_microbatches, of all pipelines together.
        tensor_parallel: GPUs of a stage. stragglers: how many times as long one of the pipelines takes, 1 or more.
        policy: `lowgear` or `perseus`, with perseus_unit_s, its time step in s.
        accounting: `corrected` or `published`, as Perseus' evaluation counts.

    Raises InvalidUse with the command's message. Source: Chung et al., SOSP'24, section 6.3.
    """
    request = Request("published emulate", _PARAMETERS)
    options = {
        "profile": profile_file(request, profile),
        "blocking_power": blocking_power_w,
        "microbatches": _with_commas(microbatches),
        "pipelines": pipelines,
        "global_microbatches": global_microbatches,
        "tensor_parallel": tensor_parallel,
        "straggler": _with_commas(stragglers),
        "policy": policy,
        "perseus_unit": perseus_unit_s,
        "accounting": accounting,
    }
    document = request.run(options).result
    rows = (row for cluster in document["clusters"] for row in _rows_of(cluster))
    return Table(EmulatedRow, rows, f"emulated with plans of {document['plans']}")


def _paths(folders: Sequence[PathLike]) -> Sequence[str]:
    if not folders or not all(map(is_path, folders)):
        raise InvalidUse("paths of folders are missing")
    return [os.path.abspath(os.fspath(folder)) for folder in folders]


@with_suggestions()
def evaluate(*folders: PathLike) -> Tuple[Table[CellRow], Table[PointRow]]:
    """Compares the published tables of Perseus (SOSP'24) cell by cell.

    The values come from folders of the artifact's shape and from Lowgear. Also returns the measured points of figure 9.

    Raises InvalidUse with the command's message where a folder cannot be read or has no such file.
    """
    document = Request("published evaluate").run({}, *_paths(folders)).result
    if "cells" not in document:
        raise InvalidUse("no file of the shape of Perseus' sosp24_data; windows() shows the results of jobs")
    cells = (CellRow(**row) for row in document["cells"])
    points = (PointRow(**row) for row in document["figure9"])
    return Table(CellRow, cells, "cells of Perseus' tables"), Table(PointRow, points, "points of Perseus' figure 9")


@with_suggestions()
def windows(*folders: PathLike) -> Table[WindowRow]:
    """The windows of jobs whose results Perseus' server, or Lowgear in its place, has left in these folders (`N.prof.json`):
    measured, of an iteration, the first two of a window left out.

    Raises InvalidUse with the command's message where a folder has none.
    """
    document = Request("published evaluate").run({}, *_paths(folders)).result
    if not document["dumps"]:
        raise InvalidUse("no N.prof.json of a job's results; evaluate() shows Perseus' published tables")
    rows = (WindowRow(dump["folder"], **row) for dump in document["dumps"] for row in dump["windows"])
    return Table(WindowRow, rows, "windows of jobs, measured")


@with_suggestions()
def thin(folder: PathLike, *, keep: Union[int, str], out: PathLike) -> int:
    """Copies a subset of a folder's plans for Perseus or Zeus to `out`, in the order of their names. Returns its size.

    Args:
        keep: a number of plans, evenly; `every:50` for every 50th and the last; or `all`.

    Raises InvalidUse with the command's message.
    """
    options = {"keep": keep, "out": os.path.abspath(os.fspath(out))}
    return Request("plan --thin").run(options, os.path.abspath(os.fspath(folder))).result["kept"]
