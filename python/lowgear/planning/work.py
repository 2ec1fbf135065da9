"""Results of `replan`: work before and after a change, and the plan to switch to."""

from __future__ import annotations

import html
from typing import Any, Dict, Mapping, Optional, Tuple

from .inputs import PathLike
from .results import Figures, Plan, save_files
from .texts import percent


class PlannedWork:
    """Some work on a partition, with a certified plan for it.

    layers: those of each stage. partition: the same as the trainer's setting (`custom:0,4,8`). full_clocks: everything
    at its highest clock, *replayed*. plan: *planned*, of all ranks, one GPU each. lower_bound_j: no plan of this
    partition and order can use less (J). fastest_s: T_min (s). forward_only_stages: those in which every layer is
    frozen. switches: clock changes an iteration.
    """

    def __init__(self, document: Mapping[str, Any]):
        self.document = dict(document)
        self.layers: Tuple[int, ...] = tuple(document["layers"])
        self.partition: str = document["partition"]
        self.microbatches: int = document["microbatches"]
        self.forward_only_stages: int = document["forward_only_stages"]
        self.fastest_s = float(document["fastest_s"])
        self.full_clocks = Figures(document["full_clocks"]["time_s"], document["full_clocks"]["energy_j"])
        plan = document["plan"]
        self.plan = Figures(plan["time_s"], plan["energy_j"])
        self.deadline_s = float(plan["deadline_s"])
        self.lower_bound_j: Optional[float] = plan.get("lower_bound_j")
        self.gap_pct: Optional[float] = plan.get("gap_pct")
        self.switches: int = plan["switches"]

    def __repr__(self) -> str:
        return (
            f"<PlannedWork: {self.partition} x {self.microbatches} microbatches; {self.plan.time_s:.6g} s, "
            f"{self.plan.energy_j:.6g} J planned>"
        )


class ReplanResult:
    """The work before and after, and the plan to switch to. A value that can be pickled.

    before: the work that was planned. same_partition: the new work on the old partition; None where that cannot keep
    the new deadline. after: the work to switch to. plan: the clocks of `after`. energy_pct, time_pct: change against the
    plan before, in per cent, per microbatch (*planned*). files: the new output folder of `lowgear plan` by name. notes:
    remarks on the input.
    """

    def __init__(self, document: Mapping[str, Any], files: Mapping[str, bytes], notes: Tuple[str, ...] = ()):
        self.document = dict(document)
        self.files: Dict[str, bytes] = dict(files)
        self.notes = notes
        self.before = PlannedWork(document["before"])
        same = document["same_partition"]
        self.same_partition = None if same is None else PlannedWork(same)
        self.after = PlannedWork(document["after"])
        self.plan = Plan.of_files(self.files, 0)
        saved = document["per_microbatch"]["against_plan"]
        self.energy_pct = float(saved["energy_pct"])
        self.time_pct = float(saved["time_pct"])

    def save(self, folder: PathLike) -> None:
        """Writes the new output folder of `lowgear plan`, which must not exist yet. Raises FileExistsError."""
        save_files(self.files, folder)

    def __repr__(self) -> str:
        moved = "" if self.after.layers == self.before.layers else f" -> {self.after.partition}"
        return (
            f"<ReplanResult: {self.before.partition}{moved}; plan {percent(self.energy_pct)} energy, "
            f"{percent(self.time_pct)} time a microbatch against the plan before (planned)>"
        )

    def _repr_html_(self) -> str:
        return f"<div>{self.plan._repr_svg_()}<p>{html.escape(repr(self)[1:-1])}</p></div>"
