"""A job as its framework knows it: this rank's place, and the order in which every rank runs its units."""

import hashlib
import json
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .._units import LETTERS

Unit = Tuple[str, int, int]  # kind, virtual stage, microbatch


class Place(NamedTuple):
    """A rank's place in the pipeline, among replicas and among ranks that share layers, with the size of each."""

    pp_rank: int
    pp: int
    dp_rank: int = 0
    dp: int = 1
    tp_rank: int = 0
    tp: int = 1

    @property
    def speaks(self) -> bool:
        """Whether this rank's pipeline writes the messages of the job; the others stay silent."""
        return self.dp_rank == 0 and self.tp_rank == 0


class Job(NamedTuple):
    framework: str
    place: Place
    orders: Optional[List[List[Unit]]]  # of every pipeline rank; None: iterations only
    microbatches: int = 1
    microbatch_size: int = 1

    @property
    def expected(self) -> Optional[List[Unit]]:
        """This rank's units in one iteration, in order."""
        return None if self.orders is None else self.orders[self.place.pp_rank]

    def chunks(self) -> int:
        """Stages of a rank."""
        if self.orders is None:
            return 1
        return max(len({stage for _, stage, _ in order}) for order in self.orders)


def name_of(unit: Unit) -> str:
    kind, stage, microbatch = unit
    return f"{kind.replace('_', ' ')} of microbatch {microbatch} on stage {stage}"


def schedule_csv(orders: List[List[Unit]]) -> str:
    """PyTorch's notation: one row a rank, one action a cell."""
    rows = [",".join(f"{stage}{LETTERS[kind]}{microbatch}" for kind, stage, microbatch in order) for order in orders]
    return "\n".join(rows) + "\n"


def first_difference(expected: List[Unit], seen: List[Unit]) -> Optional[str]:
    """The first difference of the units that ran from the schedule, in words; None without one."""
    if expected == seen:
        return None
    for at, (wanted, got) in enumerate(zip(expected, seen)):
        if wanted != got:
            return f"unit {at}: the schedule lists {name_of(wanted)}, the job ran {name_of(got)}"
    if len(seen) < len(expected):
        return f"the job ran {len(seen)} units, the schedule lists {len(expected)}: next {name_of(expected[len(seen)])}"
    return f"the job ran {len(seen)} units, the schedule lists {len(expected)}: then came {name_of(seen[len(expected)])}"


def _command_digest() -> str:
    """Tells jobs with other arguments apart. It is the same on all ranks, to which launchers pass --local_rank of their own."""
    words = [word for word in sys.argv if not word.startswith(("--local_rank", "--local-rank"))]
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:12]


def job_spec(job: Job) -> Dict[str, Any]:
    """The body of POST /v1/jobs (docs/server-api.md), the same on all ranks. LOWGEAR_JOB_SPEC overrides it;
    LOWGEAR_SLOWDOWN is `slowdown_pct`, LOWGEAR_SWITCH_LATENCY `switch_latency_ms`.

    Raises ValueError where one of them is invalid.
    """
    place = job.place
    spec: Dict[str, Any] = {
        "name": os.path.basename(sys.argv[0]) or "python",
        "framework": job.framework,
        "model": f"{os.path.basename(sys.argv[0]) or 'python'} {_command_digest()}",
        "parallel": {"pp": place.pp, "dp": place.dp, "tp": place.tp, "chunks": job.chunks()},
        "schedule": "gpipe" if job.orders is None else {"csv": schedule_csv(job.orders)},
        "microbatches": job.microbatches,
        "microbatch_size": job.microbatch_size,
    }
    if job.orders is None:
        spec["profile"] = None  # without units there is nothing that clocks could be tried out on
    for variable, member in (("LOWGEAR_SLOWDOWN", "slowdown_pct"), ("LOWGEAR_SWITCH_LATENCY", "switch_latency_ms")):
        if os.environ.get(variable):
            spec[member] = float(os.environ[variable])
    given = json.loads(os.environ.get("LOWGEAR_JOB_SPEC") or "{}")
    if not isinstance(given, dict):
        raise ValueError("LOWGEAR_JOB_SPEC: expected a JSON object, as docs/server-api.md shows")
    return {**spec, **given}
