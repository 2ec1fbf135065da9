#!/usr/bin/env python3
"""What the server does about a straggler: `examples/demo` with a GPU that becomes 1.2 times slower and recovers.

    bench/straggler_study.py [BUILD_FOLDER]

Training is real and runs on the CPU, its GPUs are simulated; once as one pipeline of four stages, once as two replicas
of two. Prints for each layout how many iterations passed from the slowdown until a plan for it was in force, and from
its end until the plan from before was, what iterations took meanwhile, and whether the guard had to act. Takes seven
minutes; nothing else should run.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYOUTS = {"pp=4": (), "pp=2 x dp=2": ("parallel.pp=2", "parallel.dp=2")}
ITERATIONS = 34


def run(build, out, settings):
    words = [word for setting in settings for word in ("--set", setting)]
    subprocess.run([sys.executable, str(ROOT / "examples" / "demo" / "demo.py"), "--straggler", "--iterations",
                    str(ITERATIONS), "--port", "0", "--out", str(out), *words, str(build)], check=True,
                   stdout=subprocess.DEVNULL)
    return json.loads((out / "demo.json").read_text())


def means(iterations):
    return (statistics.mean(i["time_s"] for i in iterations), statistics.mean(i["energy_j"] for i in iterations))


def row(name, iterations):
    time_s, energy_j = means(iterations)
    print(f"| {name} | {len(iterations)} | {time_s:.3f} s | {energy_j:.1f} J |")


def show(layout, result):
    slow, fast = result["marks"]["slow"], result["marks"]["fast"]
    by_plan = [i for i in result["iterations"] if i["planned_time_s"] is not None]
    first = by_plan[0]["plan_version"]
    before = [i for i in by_plan if i["iteration"] < slow]
    # The iteration in which the GPU was slowed is partly fast, and the one in which it recovered partly slow.
    unplanned = [i for i in by_plan if i["iteration"] > slow and i["plan_version"] == first and i["iteration"] < fast]
    planned = [i for i in by_plan if i["plan_version"] != first and slow < i["iteration"] < fast]
    after = [i for i in by_plan if i["iteration"] > fast and i["plan_version"] == by_plan[-1]["plan_version"]]
    baseline = result["job"]["baseline"]
    guard = [d for d in result["decisions"] if d["kind"] == "guard"]
    print(f"\n{layout}, simulated; baseline (full clocks) {baseline['time_s']:.3f} s, {baseline['energy_j']:.1f} J\n")
    print("| | iterations | time | energy |\n|---|---|---|---|")
    row("by the plan, before", before)
    row("1.2x straggler, same plan", unplanned)
    row("1.2x straggler, its plan", planned)
    row("by the plan, after", after)
    print(f"\nits plan from iteration {planned[0]['iteration'] - slow} after the slowdown on; the first plan's clocks again "
          f"from iteration {after[0]['iteration'] - fast} after its end on; decisions of the guard: {len(guard)}; "
          f"iterations by plan without a straggler {means(before + after)[0] / baseline['time_s'] - 1:+.2%} against the "
          "baseline")


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release").resolve()
    with tempfile.TemporaryDirectory(prefix="lowgear-straggler-") as folder:
        for number, (layout, settings) in enumerate(LAYOUTS.items()):
            show(layout, run(build, Path(folder) / str(number), settings))


if __name__ == "__main__":
    main()
