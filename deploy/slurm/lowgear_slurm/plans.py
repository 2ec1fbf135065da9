"""What a plan says that it saves."""

import csv
import json
from pathlib import Path


def planned_saving_pct(plan, slowdown_pct):
    """By how many per cent of the energy at full clocks less an iteration uses by the plan that the job's ranks choose from
    this output folder of `lowgear plan`: the slowest that takes at most `slowdown_pct` (None: 0) longer than the fastest.
    *Planned*, not measured. None where the folder does not say, as a single plan does not."""
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
