"""Jobs that follow a plan on simulated GPUs, while their units run elsewhere: the plan, and what such a job finds set."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples"))
from simulated_machine import Machine  # noqa: E402,F401: the examples are no package

SLOWDOWN_PCT = 5  # leaves every stage clocks to choose from, so that the plan changes them often
HIGHEST_MHZ, LOWEST_MHZ = 1980, 1005  # of simulated H100s and H200s


def make_plan(machine, folder, unit_s, microbatches, ahead_ms=0):
    """A folder of plans for a pipeline whose stages take `unit_s` (forward, backward; one pair a stage) at the highest
    clock. The profile is made up: three quarters of a unit follow the clock. The agent asks for each clock `ahead_ms`
    before its unit."""
    rows = ["stage,instruction,frequency,time,energy"]
    for stage, times_s in enumerate(unit_s):
        for instruction, time_s in zip(("forward", "backward"), times_s):
            for mhz in range(LOWEST_MHZ, HIGHEST_MHZ + 1, 15):
                seconds = 0.75 * time_s * HIGHEST_MHZ / mhz + 0.25 * time_s
                energy_j = seconds * (150 + 520 * (mhz / HIGHEST_MHZ) ** 2.4)
                rows.append(f"{stage},{instruction},{mhz},{seconds:.6f},{energy_j:.4f}")
    profile = folder / "profile.csv"
    profile.write_text("\n".join(rows) + "\n")
    machine.run("plan", "--profile", profile, "--stages", len(unit_s), "--microbatches", microbatches, "--schedule", "1f1b",
                "--blocking-power", 116, "--plans", 4, "--out", folder / "plan", "--switch-latency", ahead_ms)
    return folder / "plan"


def environment_of(library, recording, plan):
    """Variables as `lowgear run --plan --record` sets them, next to those of this process that point to the machine.
    `plan` may be None, where no agent is used."""
    kept = {name: value for name, value in os.environ.items() if plan or not name.startswith("LOWGEAR_")}
    site = ROOT / "python" / "lowgear" / "site"
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), kept.get("PYTHONPATH")]))
    kept.update(LOWGEAR_LIBRARY=str(library), LOWGEAR_RECORDING=str(recording))
    if plan:
        return {**kept, "LOWGEAR_PLAN": str(plan), "LOWGEAR_SLOWDOWN": str(SLOWDOWN_PCT)}
    return {**kept, "LOWGEAR_AGENT_SOCKET": ""}
