"""Which plan file LOWGEAR_PLAN names, and whether its order is the job's."""

import csv
import io
import json
import os
from pathlib import Path
from typing import List, Optional

from .._files import read_text
from .job import Unit, name_of


def plan_file(name: str) -> Path:
    """The plan that LOWGEAR_PLAN and LOWGEAR_SLOWDOWN ask for.

    `name` is a plan itself, or the output folder of `lowgear plan`: then the slowest plan of its plans.csv that takes at
    most LOWGEAR_SLOWDOWN per cent (0) longer than the fastest one.

    Raises OSError or ValueError where there is none.
    """
    path = Path(name)
    if not path.is_dir():
        return path
    slowdown_pct = float(os.environ.get("LOWGEAR_SLOWDOWN") or 0)
    rows = csv.DictReader(io.StringIO(read_text(path / "plans.csv")))
    plans = [(float(row["time_s"]), int(row["plan"])) for row in rows]
    if not plans:
        raise ValueError(f"{path / 'plans.csv'}: lists no plan")
    allowed_s = min(plans)[0] * (1 + slowdown_pct / 100)
    number = max(plan for plan in plans if plan[0] <= allowed_s)[1]
    return path / "plans" / f"{number:05d}.json"


def _planned_orders(path: Path) -> Optional[List[List[Unit]]]:
    """What every pipeline rank runs by a plan, in order; None where it is of a format that does not say."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None  # a plan of Perseus or Zeus
    return [[(op["op"], op.get("virtual_stage", rank["stage"]), op["microbatch"]) for op in rank["ops"]]
            for rank in plan["stages"]]


def order_problem(path: Path, orders: Optional[List[List[Unit]]]) -> Optional[str]:
    """Why a plan is not for a job that runs `orders` (by pipeline rank; None: iterations only), the same on all ranks; None
    where it is. `path` is a plan that the client has accepted. In another order ops have other slack: the plan's times hold for its own alone.

    Raises OSError where the file cannot be read.
    """
    if orders is None:
        return ("a plan sets clocks for the units of a pipeline, and this job has none whose units are marked; search its "
                "clock in place of --plan: lowgear run --search slowdown=2%")
    planned = _planned_orders(path)
    if planned is None or planned == orders:
        return None
    remedy = "plan the job's own order, or run the plan's (docs/attaching-orders.md)"
    if len(planned) != len(orders):
        return f"{path}: is a plan for {len(planned)} pipeline ranks, the job has {len(orders)}; {remedy}"
    rank = next(at for at, order in enumerate(orders) if planned[at] != order)
    for at, (wanted, run) in enumerate(zip(planned[rank], orders[rank])):
        if wanted != run:
            return (f"{path}: is a plan for another order: unit {at} of pipeline rank {rank} is {name_of(wanted)} there, and "
                    f"{name_of(run)} in the job; {remedy}")
    return (f"{path}: is a plan for another order: pipeline rank {rank} runs {len(planned[rank])} units there, and "
            f"{len(orders[rank])} in the job; {remedy}")
