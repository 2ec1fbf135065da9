"""The planned saving of a plan."""

import csv
import json
from pathlib import Path


def planned_saving_pct(plan, slowdown_pct):
    """Planned energy saving of an iteration, in per cent of the energy at full clocks, by the plan that the job's ranks
    choose from this output folder of `lowgear plan`: the slowest plan that takes at most `slowdown_pct` (None: 0) longer
    than the fastest.
    *Planned*, not measured. None if the folder does not state it; a single plan does not."""
    if not plan:
        return None
    try:
        run = json.loads((Path(plan) / "run.json").read_text(encoding="utf-8"))
        [full_j] = [policy["energy_j"] for policy in run["policies"] if policy["policy"] == "max"]
        with open(Path(plan) / "plans.csv", encoding="utf-8", newline="") as file:
            plans = [(float(row["time_s"]), float(row["energy_j"])) for row in csv.DictReader(file)]
        allowed_s = min(plans)[0] * (1 + float(slowdown_pct or 0) / 100)
        _, energy_j = max(each for each in plans if each[0] <= allowed_s)
        return 100 * (1 - energy_j / full_j)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None
