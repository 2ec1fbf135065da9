#!/usr/bin/env python3
"""How many iterations a job under `lowgear run --server` takes from its start until it follows a plan.

    bench/attached_loop_study.py [--runs 10] [--follow 25] [BUILD_FOLDER] [-- COMMAND...]

Each run has a server, an agent, two simulated H100s and a job of two pipeline stages that knows nothing of Lowgear
(python/tests/job), whose last stage has a third more to do. COMMAND is run instead: a job of two ranks that does not end by
itself. Its units may run on real GPUs; clocks and energies are those of the simulated ones. Prints for each run the iterations that were complete when the
job was registered, its baseline measured, its profile complete and its plan made, how many ran before the first one that
follows the plan, what of the latter the trials explain, and time and energy by the plan against the baseline, as the server
reports them.
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "tests"))
from attached_loop import AttachedLoop  # noqa: E402: the tests are no package

PATIENCE_S = 600
REACH_ITERATIONS = 60
FOREVER = 1_000_000
SWITCH_LATENCY_MS = 25  # of simulated H100s
STATES = ("baseline", "profiling", "planning", "running")
#: The server's: iterations of the baseline; time before the first trial; counted time at a clock, and iterations at most.
BASELINE_ITERATIONS, LEAD_S, MEASURED_S, MOST_AT_A_CLOCK = 5, 1.0, 1.0, 5


def trials_of(decision):
    """How many clocks a plan tries out; None for other decisions."""
    reason = decision["reason"]
    if decision["kind"] != "plan" or not reason.startswith("tries "):
        return None
    return len(reason.partition(" MHz")[0].split(","))


def expected_iterations(decisions, iteration_s):
    """Iterations before the first that follows a plan, where every message arrives within an iteration: two until the
    baseline is followed, and its own; then for every round of trials one that has begun already, the lead, and the trials
    with as many iterations at full clocks between them; and one that has begun before the plan is made."""
    at_a_clock = min(MOST_AT_A_CLOCK, math.ceil(MEASURED_S / iteration_s))
    lead = max(at_a_clock, math.ceil(LEAD_S / iteration_s))
    rounds = [count for count in map(trials_of, decisions) if count]
    return 2 + BASELINE_ITERATIONS + sum(1 + lead + (2 * count - 1) * at_a_clock for count in rounds) + 1, rounds


def follow(loop, job, iterations):
    """Iterations that were complete as each state began, and the newest summary once the plan was followed so long."""
    complete = {}
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if job.poll() is not None:
            raise SystemExit(f"the job has ended: {loop.job_log()}")
        time.sleep(0.05)
        summaries = loop.jobs()
        if not summaries:
            continue
        summary = summaries[0]
        done = (summary["iteration"] if summary["iteration"] is not None else -1) + 1
        if summary["state"] in STATES:
            for state in STATES[: STATES.index(summary["state"]) + 1]:
                complete.setdefault(state, done)
        followed = [one for one in loop.iterations(summary["job"]) if one["planned_time_s"] is not None]
        if summary["state"] == "running" and len(followed) >= iterations:
            return complete, loop.jobs()[0], followed
    raise SystemExit(f"not within {PATIENCE_S} s: {summaries}")


def run(build, iterations, command):
    with tempfile.TemporaryDirectory(prefix="lg-") as folder:
        library = build / "lib" / "liblowgear.so.1"
        nvml = build / "simgpu" / "libnvidia-ml.so.1"
        with AttachedLoop(build / "bin" / "lowgear", nvml, folder, library=library) as loop:
            late = ("--switch-latency", str(SWITCH_LATENCY_MS))
            job = loop.start_command(command, late) if command else loop.start_job(2, FOREVER, options=late)
            complete, summary, followed = follow(loop, job, iterations)
            decisions = loop.decisions(summary["job"])
    expected, rounds = expected_iterations(decisions, summary["baseline"]["time_s"])
    return {**complete, "followed": followed[0]["iteration"], "expected": expected, "rounds": rounds, "summary": summary,
            "decisions": decisions}


def show(number, found):
    summary = found["summary"]
    baseline = summary["baseline"]
    print(f"run {number}, load {os.getloadavg()[0]:.1f}: registered {found['baseline']}, baseline "
          f"{found['profiling']}, profile {found['planning']}, plan {found['running']}, followed {found['followed']} "
          f"(expected {found['expected']}; clocks tried: {', '.join(map(str, found['rounds']))}); "
          f"{baseline['time_s']:.4f} s, {baseline['energy_j']:.1f} J before, {summary['time_s']:.4f} s, "
          f"{summary['energy_j']:.1f} J by the plan (planned {summary['planned_time_s']:.4f} s, "
          f"{summary['planned_energy_j']:.1f} J): {-summary['saved_pct']:+.2f} +- {summary['saved_error_pct']:.2f} % "
          f"energy, {summary['slowdown_pct']:+.2f} % time", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--follow", type=int, default=25, help="iterations by the plan")
    parser.add_argument("--decisions", action="store_true", help="print what the server decided, too")
    words, command = sys.argv[1:], []
    if "--" in words:
        words, command = words[: words.index("--")], words[words.index("--") + 1 :]
    arguments = parser.parse_args(words)
    followed = []
    for number in range(1, arguments.runs + 1):
        found = run(arguments.build.resolve(), arguments.follow, command)
        followed.append(found["followed"])
        show(number, found)
        for decision in found["decisions"] if arguments.decisions else ():
            print(f"    {decision['kind']}: {decision['reason']}")
    print(f"iterations before the plan was followed: median {statistics.median(followed):g}, {min(followed)} to "
          f"{max(followed)} (reach: {REACH_ITERATIONS})")
    return 0 if max(followed) <= REACH_ITERATIONS else 1


if __name__ == "__main__":
    sys.exit(main())
