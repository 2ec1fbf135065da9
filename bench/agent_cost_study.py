#!/usr/bin/env python3
"""What `lowgear agent` takes of a machine while it looks after eight GPUs 20 times a second and no process has a lease.

    bench/agent_cost_study.py [--runs N] [--seconds S] [BUILD_FOLDER]

The GPUs are simulated; reading them is part of what is counted. Prints the share of a core (user and system time of the
process over elapsed time) and the resident memory, shared libraries included, of every run.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
from simulated_machine import Machine  # noqa: E402

GPUS = 8
REACH_CORE_PERCENT = 1
REACH_MB = 20
START_S = 2  # left out: reading the configuration and the journal


def cpu_time_s(pid):
    """User and system time: the 14th and 15th field of proc(5)'s stat, after the name in parentheses."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit("the agent has ended")


def measure(build, seconds):
    """(percent of a core, MB) of one agent."""
    with tempfile.TemporaryDirectory(prefix="lowgear-agent-cost.") as folder:
        with Machine(build, Path(folder), Path(folder) / "log", GPUS) as machine:
            pid = machine.agent.pid
            time.sleep(START_S)
            begun_s, used_s = time.monotonic(), cpu_time_s(pid)
            time.sleep(seconds)
            percent = 100 * (cpu_time_s(pid) - used_s) / (time.monotonic() - begun_s)
            return percent, resident_mb(pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    print(f"{GPUS} simulated GPUs at 20 Hz, {options.seconds:g} s, load {os.getloadavg()[0]:.1f}")
    runs = [measure(options.build.resolve(), options.seconds) for _ in range(options.runs)]
    for percent, megabytes in runs:
        print(f"{percent:.2f} % of a core, {megabytes:.1f} MB")
    reached = all(percent <= REACH_CORE_PERCENT and megabytes <= REACH_MB for percent, megabytes in runs)
    print(f"reach: {REACH_CORE_PERCENT} % of a core, {REACH_MB} MB: {'reached' if reached else 'not reached'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
