"""Results of `estimate` and `search`: values that print and draw themselves."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from .drawing import Point, energy_over_time
from .inputs import PathLike
from .results import Figures
from .table import Table

_GIB = 2.0**30


class Part(NamedTuple):
    """A part of the time of an iteration, on the pipeline rank that works longest."""

    name: str
    time_s: float


class MemoryRow(NamedTuple):
    """Memory of a GPU of a pipeline rank at its fullest moment, in bytes."""

    rank: int
    parameters: float  # before ZeRO divides them
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    buffers_bytes: float
    fragmentation_bytes: float
    total_bytes: float


class ClockRow(NamedTuple):
    """Time and energy of the job at some choice of clocks: of all GPUs, in one iteration."""

    name: str  # `full clocks`, `no later`, `least energy`, or the request
    basis: str  # `estimated`, `planned` or `replayed`
    time_s: float
    energy_j: float
    saving_pct: float  # of the energy at full clocks
    mean_power_w: float
    cost_usd: Optional[float]  # with prices
    co2_g: Optional[float]  # with co2


class ProfileRow(NamedTuple):
    """A cell of an estimated stage profile, of one GPU."""

    stage: int
    instruction: str
    clock_mhz: int
    time_s: float
    energy_j: float


class Layout(NamedTuple):
    """A layout of a search with its *estimated* figures of one iteration: energies are of all GPUs. The fields after
    quick_planned_energy_j are *planned*, for the best layouts only."""

    dp: int
    tp: int
    pp: int
    virtual_stages: int
    ep: int
    cp: int
    sequence_parallel: bool
    micro_batch: int  # sequences of a microbatch
    recompute: str
    zero: int
    shard_size: int  # ranks of dp x cp that ZeRO shards among; 0: all
    name: str  # as `lowgear search` shows the layout
    time_s: float  # at full clocks
    error_s: float  # half the width of the 90 % interval of time_s
    mfu: float  # share of 1
    memory_bytes: float  # of the fullest GPU
    energy_j: float  # at full clocks
    quick_planned_energy_j: float  # with clocks that cost no time, by a quick stand-in for a plan
    no_later_time_s: Optional[float]
    no_later_energy_j: Optional[float]
    least_energy_time_s: Optional[float]
    least_energy_energy_j: Optional[float]
    cost_usd: Optional[float]
    co2_g: Optional[float]

    def options(self) -> Dict[str, Any]:
        """The layout as options: `lowgear.estimate(model=..., **layout.options())`."""
        names = self._fields[: self._fields.index("name")]
        return {name: getattr(self, name) for name in names if name != "shard_size" or self.shard_size}


class ShownLayout(NamedTuple):
    """What a notebook shows of a layout."""

    layout: str
    time_s: float
    error_s: float
    memory_gib: float
    full_clocks_energy_j: float
    no_later_energy_j: Optional[float]
    cost_usd: Optional[float]
    co2_g: Optional[float]


class WhyRow(NamedTuple):
    """A part of an iteration on the busiest rank, of the winner and of its rival."""

    part: str
    winner_s: float
    rival_s: float


def _layout(document: Mapping[str, Any]) -> Layout:
    figures = {name: document.get(name) for name in Layout._fields}
    figures.update(document["layout"])
    for name in ("no_later", "least_energy"):
        planned = document.get(name, {})
        figures[f"{name}_time_s"], figures[f"{name}_energy_j"] = planned.get("time_s"), planned.get("energy_j")
    return Layout(**{name: figures[name] for name in Layout._fields})


class Estimate:
    """A training job that has not run. All figures are *estimated*, those of `clocks` and `frontier` *planned on
    estimated values*.

    time_s: s of one iteration at full clocks, +- error_s (90 % interval). fits: whether every GPU's memory holds its
    share, with a margin. mfu: model FLOPs over the data sheet's peak, a share of 1. tokens_per_s: of all GPUs. document: everything
    that was found, as `lowgear.estimate/1` of docs/formats.md. notes: assumptions, one line each.
    """

    def __init__(self, document: Mapping[str, Any], profile: Table[ProfileRow], notes: Tuple[str, ...] = ()):
        self.document = dict(document)
        iteration = document["iteration"]
        self.fits: bool = document["fits"]
        self.time_s: float = iteration["time_s"]
        self.error_s: float = iteration["error_s"]
        self.mfu: float = iteration["mfu"]
        self.tokens_per_s: float = iteration["tokens_per_s"]
        self.profile = profile  # of every stage and clock, for lowgear.plan
        self.notes = (*notes, *iteration["notes"])

    @property
    def breakdown(self) -> Table[Part]:
        """Parts of the time; they sum to time_s."""
        parts = self.document["iteration"]["breakdown"]["parts"]
        return Table(Part, (Part(part["name"], part["time_s"]) for part in parts), "time of an iteration (estimated)")

    @property
    def memory(self) -> Table[MemoryRow]:
        """Memory of a GPU of each pipeline rank."""
        ranks = self.document["memory"]["ranks"]
        names = MemoryRow._fields[1:]
        rows = (MemoryRow(rank, *(row[name] for name in names)) for rank, row in enumerate(ranks))
        return Table(MemoryRow, rows, "memory (estimated)")

    @property
    def clocks(self) -> Table[ClockRow]:
        """Time and energy at full clocks and on the frontier; empty without `plan=True`."""
        rows = self.document.get("plan", {}).get("rows", [])
        table = (ClockRow(**{name: row.get(name) for name in ClockRow._fields}) for row in rows)
        return Table(ClockRow, table, "clocks (planned on estimated values)")

    @property
    def frontier(self) -> Table[Figures]:
        """Least energy of all GPUs (J) over the time of an iteration (s), fastest first; empty without `plan=True`."""
        points = self.document.get("plan", {}).get("frontier", [])
        rows = (Figures(point["time_s"], point["energy_j"]) for point in points)
        return Table(Figures, rows, "frontier (planned on estimated values)")

    def to_csv(self, path: Optional[PathLike] = None) -> Optional[str]:
        """The breakdown as CSV."""
        return self.breakdown.to_csv(path)

    def to_dataframe(self):
        """The breakdown as a pandas.DataFrame."""
        return self.breakdown.to_dataframe()

    def __repr__(self) -> str:
        job, memory = self.document["job"], self.document["memory"]
        fullest = self.memory[memory["fullest_rank"]].total_bytes
        verdict = "" if self.fits else "NEAR THE LIMIT OF MEMORY: " if self.document["near_limit"] else "OUT OF MEMORY: "
        return (
            f"<Estimate: {verdict}{job['model']} on {job['parallel']['gpus']} x {job['gpu']}: {self.time_s:.4g} s +- "
            f"{self.error_s:.2g} an iteration, {self.tokens_per_s:.4g} tokens/s, MFU {100 * self.mfu:.3g} %, "
            f"{fullest / _GIB:.3g} of {memory['capacity_bytes'] / _GIB:.3g} GiB (estimated)>"
        )

    def _repr_svg_(self) -> Optional[str]:
        if not self.frontier:
            return None
        marks = [Point(row.name, row.time_s, row.energy_j) for row in self.clocks]
        title = "energy of an iteration over its time, planned on estimated values"
        return energy_over_time(title, list(self.frontier), (), marks)

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(repr(self)[1:-1])}</p>", self._repr_svg_() or ""]
        tables: List[Table] = [self.breakdown, self.clocks, self.memory]
        parts.extend(table._repr_html_() for table in tables if table)
        return "<div>" + "".join(parts) + "</div>"


class PublishedEstimate:
    """An estimate by the formula of the published estimator (DebarghaG/estimate-train-time).

    time_s: s of one iteration; that tool's `one_batch_predict` returns it in microseconds. It is the sum of
    pipeline_s, gradients_s and update_s. document: everything, as `lowgear.published_estimate/1` of docs/formats.md.
    """

    def __init__(self, document: Mapping[str, Any]):
        self.document = dict(document)
        self.time_s: float = document["time_s"]
        self.pipeline_s: float = document["pipeline_s"]
        self.gradients_s: float = document["gradients_s"]
        self.update_s: float = document["update_s"]

    @property
    def predictions(self) -> Table[Part]:
        """Predictions of the regressors for each operator and collective."""
        rows = (Part(row["name"], row["time_s"]) for row in self.document["predictions"])
        return Table(Part, rows, "predictions of the published estimator")

    def to_csv(self, path: Optional[PathLike] = None) -> Optional[str]:
        """The predictions as CSV."""
        return self.predictions.to_csv(path)

    def to_dataframe(self):
        """The predictions as a pandas.DataFrame."""
        return self.predictions.to_dataframe()

    def __repr__(self) -> str:
        return (
            f"<PublishedEstimate: {self.time_s:.6g} s an iteration: pipeline {self.pipeline_s:.6g} s, gradients "
            f"{self.gradients_s:.6g} s, update {self.update_s:.6g} s>"
        )

    def _repr_html_(self) -> str:
        return f"<div><p>{html.escape(repr(self)[1:-1])}</p>{self.predictions._repr_html_()}</div>"


class GpuCount(NamedTuple):
    """The best tokens a second of a number of GPUs within a power: *estimated* at full clocks, *planned* otherwise."""

    gpus: int
    full_clocks: Optional[float]
    one_clock: Optional[float]
    planned: Optional[float]
    bound: float  # no plan makes more


class PowerSearchResult:
    """Most tokens a second within a facility's power (`search(power=...)`).

    answer: the result in words. counts: numbers of GPUs. gap: distance of the best plan from the bound, a share.
    document: everything, as `lowgear.power_search/1` of docs/formats.md. notes: assumptions, one line each.
    """

    def __init__(self, document: Mapping[str, Any], notes: Tuple[str, ...] = ()):
        self.document = dict(document)
        self.notes = (*notes, *document["notes"])
        self.answer: str = document["answer"]
        self.gap: float = document["gap"]

        def tokens(row: Optional[Mapping[str, Any]]) -> Optional[float]:
            return row and row["tokens_per_s"]

        rows = (
            GpuCount(row["gpus"], *(tokens(row[name]) for name in GpuCount._fields[1:4]), row["bound_tokens_per_s"])
            for row in document["counts"]
        )
        self.counts = Table(GpuCount, rows, "tokens a second by number of GPUs (estimated and planned)")

    def __repr__(self) -> str:
        return f"<PowerSearchResult: {self.answer} At most {100 * self.gap:.2f} % more is possible.>"

    def _repr_html_(self) -> str:
        return f"<div><p>{html.escape(repr(self)[1:-1])}</p>{self.counts._repr_html_()}</div>"


class SearchResult:
    """Layouts of a job, best first, with *estimated* figures.

    best: the first layouts, planned. pareto: layouts that no other beats in both time and energy, fastest first. rival:
    the best layout with another tp or pp than the winner's; None: there is none. why: where the winner gains on it.
    document: everything, as `lowgear.search/1` of docs/formats.md. notes: assumptions, one line each.
    """

    def __init__(self, document: Mapping[str, Any], notes: Tuple[str, ...] = ()):
        self.document = dict(document)
        self.notes = (*notes, *document["notes"])
        self.best = Table(Layout, map(_layout, document["best"]), f"layouts by {document['objective']} (estimated)")
        self.pareto = Table(Layout, map(_layout, document["pareto"]), "Pareto front (estimated)")
        why = (WhyRow(row["part"], row["winner_s"], row["rival_s"]) for row in document["why"])
        self.rival = _layout(document["rival"]) if document["rival"] else None
        versus = f": {self.best[0].name} against its rival {self.rival.name}" if self.rival else ""
        self.why = Table(WhyRow, why, f"why the first is first{versus} (estimated)")

    def to_csv(self, path: Optional[PathLike] = None) -> Optional[str]:
        """The best layouts as CSV."""
        return self.best.to_csv(path)

    def to_dataframe(self):
        """The best layouts as a pandas.DataFrame."""
        return self.best.to_dataframe()

    def __repr__(self) -> str:
        counts = f"{self.document['estimated']} of {self.document['layouts']} layouts fit into memory"
        if not self.best:
            return f"<SearchResult: {counts}>"
        first = self.best[0]
        return (
            f"<SearchResult: {counts}; best by {self.document['objective']}: {first.name}: {first.time_s:.4g} s +- "
            f"{first.error_s:.2g}, {first.energy_j:.4g} J an iteration (estimated)>"
        )

    def _repr_svg_(self) -> str:
        def point(layout: Layout) -> Point:
            return Point(layout.name, layout.time_s, layout.quick_planned_energy_j)

        # The front is chosen by these energies; by those of full clocks it would not fall.
        curve = [(layout.time_s, layout.quick_planned_energy_j) for layout in self.pareto]
        title = "layouts: energy over time of an iteration, with clocks that cost no time, by a quick estimate"
        first = [point(row)._replace(label="first") for row in self.best[:1]]
        return energy_over_time(title, curve, [point(row) for row in self.best], first)

    def _shown(self) -> "Table[ShownLayout]":
        rows = (
            ShownLayout(
                row.name, row.time_s, row.error_s, row.memory_bytes / _GIB, row.energy_j, row.no_later_energy_j,
                row.cost_usd, row.co2_g,
            )
            for row in self.best
        )
        return Table(ShownLayout, rows, self.best.title)

    def _repr_html_(self) -> str:
        text = html.escape(repr(self)[1:-1])
        return f"<div><p>{text}</p>{self._repr_svg_()}{self._shown()._repr_html_()}{self.why._repr_html_()}</div>"
