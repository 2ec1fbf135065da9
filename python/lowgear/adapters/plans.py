"""Which plan file LOWGEAR_PLAN names."""

import csv
import os
from pathlib import Path


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
    with open(path / "plans.csv", encoding="utf-8", newline="") as file:
        plans = [(float(row["time_s"]), int(row["plan"])) for row in csv.DictReader(file)]
    if not plans:
        raise ValueError(f"{path / 'plans.csv'}: lists no plan")
    allowed_s = min(plans)[0] * (1 + slowdown_pct / 100)
    number = max(plan for plan in plans if plan[0] <= allowed_s)[1]
    return path / "plans" / f"{number:05d}.json"
