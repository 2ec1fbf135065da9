"""Results of `plan`, `verify` and `simulate`: values that print and draw themselves."""

from __future__ import annotations

import csv
import functools
import html
import io
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .._library import InvalidUse
from .._units import LETTERS
from .drawing import Bar, Point, energy_over_time, timeline
from .inputs import PathLike
from .table import Table
from .texts import counted, percent


class Figures(NamedTuple):
    """Time and energy of one iteration, all ranks, one GPU each."""

    time_s: float
    energy_j: float


class PlanRow(NamedTuple):
    """A plan without its ops: *planned* figures of one iteration, one GPU a rank."""

    plan: int  # its number
    deadline_s: float
    time_s: float
    energy_j: float
    lower_bound_j: Optional[float]  # no plan of this time can use less
    gap_pct: Optional[float]  # energy over that bound, in per cent
    switches: int  # clock changes an iteration, all ranks


class PolicyRow(NamedTuple):
    """Another policy on the same pipeline, *replayed* the same way for all."""

    policy: str
    time_s: float
    energy_j: float
    switches: int
    lower_bound_j: Optional[float]
    note: str


class Op(NamedTuple):
    """A unit of one iteration, at its clock."""

    rank: int
    stage: int  # virtual stage
    instruction: str
    microbatch: int
    clock_mhz: int
    start_s: float  # since the iteration began
    duration_s: float
    energy_j: Optional[float]  # of one GPU; None in a plan, which does not state it


class RankRow(NamedTuple):
    """A rank in one iteration."""

    rank: int
    busy_s: float
    blocked_s: float  # waiting for others


def change_pct(before: float, after: float) -> float:
    return 100 * (after - before) / before


def _timeline_of(title: str, ops: Sequence[Op], time_s: float) -> str:
    bars = [
        Bar(
            op.rank,
            f"{LETTERS.get(op.instruction, op.instruction)}{op.microbatch} of stage {op.stage}",
            op.clock_mhz,
            op.start_s,
            op.duration_s,
        )
        for op in ops
    ]
    return timeline(title, bars, time_s)


def _known(value: Any) -> Optional[float]:
    """A figure of a document or a cell. Files write whole numbers without a point, and leave unknown figures out."""
    return None if value in (None, "") else float(value)


def _rows(content: bytes) -> List[Dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def save_files(files: Mapping[str, bytes], folder: PathLike) -> None:
    """Writes an output folder of `lowgear plan`, which must not exist yet. Raises FileExistsError."""
    if not os.fspath(folder):
        raise InvalidUse("folder: it is empty; name a new folder")
    root = Path(folder)
    try:
        root.mkdir(parents=True)
    except FileExistsError:
        raise FileExistsError(f"{folder}: exists already; name another folder, or delete it first") from None
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Plan:
    """One clock for each op of an iteration. All figures are *planned*.

    deadline_s, time_s: s; energy_j, lower_bound_j: J of all ranks, one GPU each; gap_pct: % of energy over the bound;
    switches: clock changes an iteration. lower_bound_j and gap_pct are None where no bound was computed.
    `document` is the plan as `lowgear.plan/1` of docs/formats.md.
    """

    def __init__(self, document: Mapping[str, Any], profile_csv: bytes, blocking_power_w: Sequence[float], number: int):
        self.document = dict(document)
        self.number = number
        self.policy: str = document["policy"]
        self.schedule: str = document["schedule"]
        self.microbatches: int = document["microbatches"]
        self.gpu: Optional[str] = document.get("gpu")
        self.deadline_s = float(document["deadline_s"])
        self.time_s = float(document["time_s"])
        self.energy_j = float(document["energy_j"])
        self.lower_bound_j = _known(document.get("lower_bound_j"))
        self.gap_pct = _known(document.get("gap_pct"))
        self.switches: int = document["switches"]
        self.profile_csv = profile_csv  # that it was planned with
        self.blocking_power_w = tuple(blocking_power_w)

    @classmethod
    def of_files(cls, files: Mapping[str, bytes], number: int) -> Plan:
        """A plan of an output folder of `lowgear plan`."""
        power_w = json.loads(files["run.json"])["blocking_power_w"]
        return cls(json.loads(files[f"plans/{number:05}.json"]), files["profile.csv"], power_w, number)

    @functools.cached_property
    def ops(self) -> Table[Op]:
        """All ops, rank by rank in the order of execution."""
        rows = (
            Op(
                rank["stage"],
                op.get("virtual_stage", rank["stage"]),
                op["op"],
                op["microbatch"],
                op["mhz"],
                float(op["start_s"]),
                float(op["duration_s"]),
                None,
            )
            for rank in self.document["stages"]
            for op in rank["ops"]
        )
        return Table(Op, rows, f"ops of plan {self.number} (planned)")

    @property
    def clocks_mhz(self) -> List[List[int]]:
        """Clock of each op in MHz: a list for each rank, in the order of execution."""
        return [[op["mhz"] for op in rank["ops"]] for rank in self.document["stages"]]

    def save(self, path: PathLike) -> None:
        """Writes the plan as a file that `Client.load_plan`, `lowgear train` and `lowgear verify --replay` read."""
        Path(path).write_text(json.dumps(self.document), encoding="utf-8")

    def to_csv(self, path: Optional[PathLike] = None) -> Optional[str]:
        """The ops as CSV."""
        return self.ops.to_csv(path)

    def to_dataframe(self):
        """The ops as a pandas.DataFrame."""
        return self.ops.to_dataframe()

    def __repr__(self) -> str:
        # Rounding of the bound may put a plan that reaches it a hair below.
        gap = "" if self.gap_pct is None else f", within {max(self.gap_pct, 0.0):.3g} % of the least"
        return (
            f"<Plan {self.number}: {self.schedule}, {counted(len(self.document['stages']), 'rank', 'ranks')} x "
            f"{counted(self.microbatches, 'microbatch', 'microbatches')}; {self.time_s:.6g} s, {self.energy_j:.6g} J planned{gap}; {counted(self.switches, 'clock change', 'clock changes')}>"
        )

    def _repr_svg_(self) -> str:
        title = f"plan {self.number}, planned: {self.time_s:.6g} s, {self.energy_j:.6g} J"
        return _timeline_of(title, self.ops, self.time_s)

    def _repr_html_(self) -> str:
        return f"<div>{self._repr_svg_()}<p>{html.escape(repr(self)[1:-1])}</p></div>"


class PlanResult:
    """The proven frontier, and plans on it. A value: it needs no folder and can be pickled.

    files: the output folder of `lowgear plan` by name, as docs/formats.md describes it: report.html, certificate.txt...
    notes: remarks on the input, one line each.
    """

    def __init__(self, document: Mapping[str, Any], files: Mapping[str, bytes], notes: Tuple[str, ...] = ()):
        self.document = dict(document)
        self.files = dict(files)
        self.notes = (*notes, *(line for line in document["warnings"] if line not in notes))
        self._run = json.loads(self.files["run.json"])

    def _points(self, file: str, title: str) -> Table[Figures]:
        rows = (Figures(float(row["time_s"]), float(row["energy_j"])) for row in _rows(self.files[file]))
        return Table(Figures, rows, title)

    @functools.cached_property
    def frontier(self) -> Table[Figures]:
        """Vertices of the frontier of the policy, fastest (T_min) first; between them energy is linear. s and J of one
        iteration, all ranks, one GPU each, blocking energy included."""
        return self._points("frontier.csv", "frontier (planned)")

    @functools.cached_property
    def lower_bound(self) -> Table[Figures]:
        """The proven bound below the frontier at the same times: the frontier itself where that is exact."""
        file = "lower_bound.csv" if "lower_bound.csv" in self.files else "exact_frontier.csv"
        return self._points(file if file in self.files else "frontier.csv", "lower bound")

    @functools.cached_property
    def plans(self) -> Table[PlanRow]:
        """All plans, fastest first, without their ops; `plan(number)` has them."""
        rows = (
            PlanRow(
                int(row["plan"]),
                float(row["deadline_s"]),
                float(row["time_s"]),
                float(row["energy_j"]),
                _known(row["lower_bound_j"]),
                _known(row["gap_pct"]),
                int(row["switches"]),
            )
            for row in _rows(self.files["plans.csv"])
        )
        return Table(PlanRow, rows, "plans (planned)")

    @functools.cached_property
    def policies(self) -> Table[PolicyRow]:
        """Other policies on the same pipeline, *replayed*; empty for pipelines that are too large for that."""
        rows = (
            PolicyRow(
                row["policy"],
                row["time_s"],
                row["energy_j"],
                row["switches"],
                row.get("lower_bound_j"),
                row["note"],
            )
            for row in self._run["policies"]
        )
        return Table(PolicyRow, rows, "policies (replayed)")

    @property
    def baseline(self) -> Figures:
        """Every op at its highest profiled clock, *replayed*. Savings are against it."""
        return Figures(self.document["baseline"]["time_s"], self.document["baseline"]["energy_j"])

    @property
    def blocking_power_w(self) -> List[float]:
        """Power of a GPU that waits, in W, by rank."""
        return list(self._run["blocking_power_w"])

    @property
    def method(self) -> str:
        """How the frontier was computed: `exact`, or `sandwich` between bounds `epsilon` apart."""
        return self.document["frontier"]["method"]

    @property
    def epsilon(self) -> float:
        """Largest relative distance between frontier and lower bound, a share of 1; 0 where it is exact."""
        return self.document["frontier"]["epsilon"]

    @functools.cached_property
    def shown_plan(self) -> Plan:
        """The slowest plan that takes no longer than the baseline, or else the fastest. `saving_pct` is that of this plan."""
        return self.plan(self.document["shown_plan"])

    @property
    def saving_pct(self) -> float:
        """Share of the baseline's energy that the shown plan saves, in per cent."""
        return -change_pct(self.baseline.energy_j, self.shown_plan.energy_j)

    @property
    def slowdown_pct(self) -> float:
        """Time of the shown plan above that of the baseline, in per cent."""
        return change_pct(self.baseline.time_s, self.shown_plan.time_s)

    @property
    def late(self) -> Optional[Figures]:
        """The shown plan *replayed* as if clocks were requested only as units begin; None where they are not requested
        ahead, and for a searched order."""
        return _figures(self.document.get("switch_latency", {}), "replayed")

    def plan(self, number: int) -> Plan:
        """A plan with its ops, by its number in `plans`. Raises InvalidUse when there is none."""
        if f"plans/{number:05}.json" not in self.files:
            raise InvalidUse(f"there is no plan {number}; there are 0 to {len(self.plans) - 1}")
        return Plan.of_files(self.files, number)

    def save(self, folder: PathLike) -> None:
        """Writes the output folder of `lowgear plan`, which must not exist yet. Raises FileExistsError."""
        save_files(self.files, folder)

    def to_csv(self, path: Optional[PathLike] = None) -> Optional[str]:
        """The list of plans as CSV; `frontier.to_csv()` is the frontier."""
        return self.plans.to_csv(path)

    def to_dataframe(self):
        """The list of plans as a pandas.DataFrame."""
        return self.plans.to_dataframe()

    def __repr__(self) -> str:
        fastest, slowest = self.frontier[0], self.frontier[-1]
        shown, late = self.shown_plan, ""
        if self.late:
            energy_pct = change_pct(self.baseline.energy_j, self.late.energy_j)
            time_pct = change_pct(self.baseline.time_s, self.late.time_s)
            late_ms = 1e3 * self.document["switch_latency"]["replayed"]["switch_latency_s"]
            late = f"; if clocks came {late_ms:g} ms late: {percent(energy_pct)} energy, {percent(time_pct)} time (replayed)"
        nothing = next((f"; {note}" for note in self.notes if note.startswith("the plan saves nothing")), "")
        return (
            f"<PlanResult: {self._run['schedule']}, {counted(self._run['stages'], 'rank', 'ranks')} x "
            f"{counted(self._run['microbatches'], 'microbatch', 'microbatches')}; frontier {fastest.time_s:.6g} s, {fastest.energy_j:.6g} J to {slowest.time_s:.6g} s, "
            f"{slowest.energy_j:.6g} J ({self.method}); {counted(len(self.plans), 'plan', 'plans')}; plan {shown.number}: "
            f"{percent(-self.saving_pct)} energy, {percent(self.slowdown_pct)} time against full clocks (planned){late}{nothing}>"
        )

    def _repr_svg_(self) -> str:
        dots = [Point(f"plan {row.plan}", row.time_s, row.energy_j) for row in self.plans]
        marks = [Point("full clocks", *self.baseline)]
        bound = () if self.method == "exact" else list(self.lower_bound)
        return energy_over_time("energy of an iteration over its time, planned", list(self.frontier), dots, marks, bound)

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return (
            f"<div>{self._repr_svg_()}{self.shown_plan._repr_svg_()}<p>{html.escape(repr(self)[1:-1])}</p>"
            + (f"<ul>{notes}</ul>" if notes else "")
            + f"{self.plans._repr_html_()}</div>"
        )


class Verification:
    """Result of `verify`, whose code shares nothing with the planner. True when every check held.

    vertices, plans: numbers of those checked. epsilon: largest relative distance between frontier and bound, a share of 1.
    max_gap_pct: largest energy of a plan over its bound, in %. failures: checks that failed, one line each.
    """

    def __init__(self, document: Mapping[str, Any]):
        self.document = dict(document)
        self.ok: bool = document["ok"]
        self.vertices: int = document["vertices"]
        self.plans: int = document["plans"]
        self.epsilon: float = document["epsilon"]
        self.max_gap_pct: float = document["max_gap_pct"]
        self.failures: Tuple[str, ...] = tuple(document["failures"])

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        if not self.ok:
            return "<Verification: NOT verified: " + "; ".join(self.failures) + ">"
        return (
            f"<Verification: verified; {counted(self.vertices, 'vertex', 'vertices')} within "
            f"{100 * self.epsilon:.3g} % of their bound, {counted(self.plans, 'plan', 'plans')}, largest gap {self.max_gap_pct:.3g} %>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>"


def _figures(document: Mapping[str, Any], name: str) -> Optional[Figures]:
    found = document.get(name)
    return Figures(float(found["time_s"]), float(found["energy_j"])) if found else None


class Simulation:
    """A plan as `simulate` has replayed it. All figures are *replayed*, of one iteration.

    time_s: s; energy_j: J of all ranks, one GPU each. ranks: seconds busy and waiting. planned: the plan's own figures.
    unslowed: without the given slow stages. late: with clocks that change late by a usual switch latency, where none is
    known. cluster: all data-parallel pipelines together. Each of them is None where it does not apply.
    """

    def __init__(self, document: Mapping[str, Any], trace: str, notes: Tuple[str, ...] = ()):
        self.document = dict(document)
        self.trace = trace  # for ui.perfetto.dev
        self.notes = notes
        self.time_s = float(document["time_s"])
        self.energy_j = float(document["energy_j"])
        self.planned = _figures(document, "planned")
        self.unslowed = _figures(document, "unslowed")
        self.late = _figures(document, "replayed_late")
        self.cluster = _figures(document, "cluster")

    @property
    def ranks(self) -> Table[RankRow]:
        """Each rank's seconds."""
        pairs = zip(self.document["busy_s"], self.document["blocked_s"])
        return Table(RankRow, (RankRow(rank, *pair) for rank, pair in enumerate(pairs)), "ranks (replayed)")

    @functools.cached_property
    def ops(self) -> Table[Op]:
        """All ops, rank by rank in the order of execution; times are rounded to nanoseconds, as in the trace."""
        rows = (
            Op(
                event["pid"] - 1,
                event["args"]["stage"],
                event["args"]["kind"],
                event["args"]["microbatch"],
                event["args"]["clock_mhz"],
                event["ts"] / 1e6,
                event["dur"] / 1e6,
                event["args"]["energy_j"],
            )
            for event in json.loads(self.trace)["traceEvents"]
            if event["ph"] == "X"
        )
        return Table(Op, rows, "ops (replayed)")

    def save_trace(self, path: PathLike) -> None:
        """Writes the timeline for Perfetto and chrome://tracing."""
        Path(path).write_text(self.trace, encoding="utf-8")

    def to_csv(self, path: Optional[PathLike] = None) -> Optional[str]:
        """The ops as CSV."""
        return self.ops.to_csv(path)

    def to_dataframe(self):
        """The ops as a pandas.DataFrame."""
        return self.ops.to_dataframe()

    def __repr__(self) -> str:
        text = f"{self.document['schedule']}, {counted(len(self.ranks), 'rank', 'ranks')}: "
        text += f"{self.time_s:.6g} s, {self.energy_j:.6g} J replayed"
        for name in ("planned", "unslowed", "late", "cluster"):
            figures = getattr(self, name)
            if figures:
                text += f"; {name} {figures.time_s:.6g} s, {figures.energy_j:.6g} J"
        return f"<Simulation: {text}>"

    def _repr_svg_(self) -> str:
        return _timeline_of(f"replayed: {self.time_s:.6g} s, {self.energy_j:.6g} J", self.ops, self.time_s)

    def _repr_html_(self) -> str:
        text = html.escape(repr(self)[1:-1])
        return f"<div>{self._repr_svg_()}<p>{text}</p>{self.ranks._repr_html_()}</div>"
