#!/usr/bin/env python3
"""How long before a unit's first kernel the agent asks the driver for the unit's clock, when a job follows a plan.

    bench/gpu/attach/clock_lead.py [--library liblowgear.so] [--build BUILD] [--job simulated|torch] [--iterations 40]
                                   [--latency-ms 25] [--keep FOLDER]

`simulated` runs the units as kernels of two simulated GPUs; `torch` runs ../baseline_pipelining.py on two real ones, with
marks on its streams. In both cases the clocks are those of simulated GPUs: the agent's calls are noted by a library
between it and the simulation (compiled with g++), no setting of a real GPU changes. BUILD is a build folder with
bin/lowgear and simgpu/libnvidia-ml.so.1.

The reach: 99 % of units begin with the plan's clock in effect, had every change come one switch latency after its call:
their clock was asked for by the latency before they began, and the next one's was not. Prints also each unit's lead: its
recorded begin minus the time of the call that asked for its clock, where that clock was still asked for as the unit began;
else the time until it was asked for, as a negative number. A unit with the clock of the one before has the lead of that
call. A unit that is shorter than the latency begins after the next one's clock was asked for: its lead is negative,
although its own is in effect.

--keep: the calls, the recording and the plan are copied to this folder, to look at single units.
"""

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from followed_plan import ROOT, Machine, environment_of, make_plan  # noqa: E402: scripts are no package
from step_cost import JOB, MICROBATCHES, UNIT_S, run_ranks  # noqa: E402

RANKS = 2
REACH_SHARE = 0.99
SIMULATED_JOB = ROOT / "python" / "tests" / "job"
SIMULATED_MICROBATCHES = 4
SIMULATED_UNIT_S = (0.05, 0.1)

NOTER = """
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" int nvmlDeviceGetIndex(void* device, unsigned* index);

/// Ends the agent where the loader has found another NVML than the simulation, as that of the machine's driver.
__attribute__((constructor)) static void require_simulation() {
  Dl_info found{};
  char file[PATH_MAX];
  char simulation[PATH_MAX];
  if (dladdr(reinterpret_cast<void*>(&nvmlDeviceGetIndex), &found) != 0 && realpath(found.dli_fname, file) != nullptr &&
      realpath(SIMULATION, simulation) != nullptr && std::strcmp(file, simulation) == 0)
    return;
  std::fprintf(stderr, "%s was loaded instead of the simulation\\n", found.dli_fname);
  _exit(1);
}

/// Notes when a GPU's clock is asked for: nanoseconds, GPU, MHz.
extern "C" int nvmlDeviceSetGpuLockedClocks(void* device, unsigned low_mhz, unsigned high_mhz) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  static void* const simulation = dlopen(SIMULATION, RTLD_NOW);
  static auto* const set = reinterpret_cast<int (*)(void*, unsigned, unsigned)>(dlsym(simulation, __func__));
  static FILE* const log = std::fopen(LOG, "w");
  unsigned index = 0;
  nvmlDeviceGetIndex(device, &index);
  std::fprintf(log, "%lld %u %u\\n", now.tv_sec * 1000000000LL + now.tv_nsec, index, high_mhz);
  std::fflush(log);
  return set(device, low_mhz, high_mhz);
}
"""


def noting_library(folder, simulation, log):
    """A libnvidia-ml.so.1 that passes everything on to the simulation. Its DT_RPATH comes before LD_LIBRARY_PATH, where
    the driver's own may be."""
    source, library = folder / "noter.cpp", folder / "noter" / "libnvidia-ml.so.1"
    library.parent.mkdir()
    source.write_text(NOTER)
    subprocess.run(["g++", "-shared", "-fPIC", "-O1", f'-DSIMULATION="{simulation}"', f'-DLOG="{log}"', "-o", library,
                    source, "-Wl,--no-as-needed", simulation, f"-Wl,-rpath,{simulation.parent}",
                    "-Wl,--disable-new-dtags", "-ldl"], check=True)
    return library


def requests_of(log):
    """Of each GPU, (time in ns, MHz) of every call, in order."""
    requests = {}
    for line in log.read_text().splitlines():
        time_ns, gpu, mhz = map(int, line.split())
        requests.setdefault(gpu, []).append((time_ns, mhz))
    return requests


def planned_clocks(plan_file, rank):
    """MHz by (kind, microbatch) of a rank that has one stage."""
    ops = json.loads(plan_file.read_text())["stages"][rank]["ops"]
    return {(op["op"], op["microbatch"]): op["mhz"] for op in ops}


def units_of(recording, rank):
    """(begin in ns, kind, microbatch) of each unit that ran after a plan was followed, in order."""
    folder = recording / f"rank-{rank:05d}"
    start_s = json.loads((folder / "recording.json").read_text())["start_monotonic_s"]
    with open(folder / "units.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["iteration"]) >= 2]
    return [((start_s + float(row["start_s"])) * 1e9, row["instruction"], int(row["microbatch"])) for row in rows]


def at_other_clocks(units, clocks, requests, latency_s):
    """(kind, microbatch) of each unit whose clock was not the last one that was asked for the latency or longer before
    it began."""
    times_ns = [time_ns for time_ns, _ in requests]
    found = []
    for begin_ns, kind, microbatch in units:
        at = bisect_right(times_ns, begin_ns - 1e9 * latency_s)
        if at == 0 or requests[at - 1][1] != clocks[kind, microbatch]:
            found.append((kind, microbatch))
    return found


def leads_s(units, clocks, requests):
    """(lead, whether the clock differs from that of the unit before) of each unit."""
    times_ns = [time_ns for time_ns, _ in requests]
    found, before = [], None
    for begin_ns, kind, microbatch in units:
        mhz = clocks[kind, microbatch]
        at = bisect_right(times_ns, begin_ns)
        asked_ns = times_ns[at - 1] if at and requests[at - 1][1] == mhz else None
        if asked_ns is None:
            asked_ns = next((time_ns for time_ns, asked_mhz in requests[at:] if asked_mhz == mhz), float("inf"))
        found.append(((begin_ns - asked_ns) / 1e9, before is not None and mhz != before))
        before = mhz
    return found


def run_job(arguments, machine, recording, plan):
    environment = environment_of(arguments.library, recording, plan)
    if arguments.job == "torch":
        run_ranks([sys.executable, str(JOB), "--steps", str(arguments.iterations)], RANKS, environment)
        return
    environment["PYTHONPATH"] += os.pathsep + str(SIMULATED_JOB)
    environment["JOB_SIMULATION"] = os.environ["LOWGEAR_NVML"]
    words = [sys.executable, str(SIMULATED_JOB / "train.py"), str(RANKS), str(arguments.iterations)]
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)


def report(leads, latency_s):
    changed = [lead for lead, changes in leads if changes]
    print(f"{len(leads)} units, {len(changed)} with another clock than the one before; "
          f"{sum(lead >= 0 for lead, _ in leads) / len(leads):.1%} asked for before they began and still when they did, "
          f"{sum(lead >= latency_s for lead, _ in leads) / len(leads):.1%} by {1e3 * latency_s:g} ms")
    if changed:
        late = sorted(-1e6 * lead for lead in changed)
        print(f"of units with another clock, from begin to the call: median {statistics.median(late):.0f} us, p99 "
              f"{late[int(0.99 * (len(late) - 1))]:.0f} us, earliest {late[0]:.0f} us, latest {late[-1]:.0f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/liblowgear.so")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--job", choices=["simulated", "torch"], default="simulated")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--latency-ms", type=float, default=25)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    arguments.library, build = arguments.library.resolve(), arguments.build.resolve()
    torch = arguments.job == "torch"
    with tempfile.TemporaryDirectory(prefix="lg-") as name:
        folder = Path(name)
        noter = noting_library(folder, build / "simgpu" / "libnvidia-ml.so.1", folder / "requests")
        with Machine(build, folder, folder / "log", RANKS, "H200", agent_nvml=noter) as machine:
            stage = UNIT_S if torch else SIMULATED_UNIT_S
            plan = make_plan(machine, folder, [stage, [1.35 * time_s for time_s in stage]],
                             MICROBATCHES if torch else SIMULATED_MICROBATCHES, arguments.latency_ms)
            sys.path.insert(0, str(ROOT / "python"))
            from lowgear.adapters.plans import plan_file

            run_job(arguments, machine, folder / "recording", plan)
            os.environ["LOWGEAR_SLOWDOWN"] = environment_of(arguments.library, folder, plan)["LOWGEAR_SLOWDOWN"]
            followed = plan_file(str(plan))
            if arguments.keep:
                for kept in (folder / "requests", folder / "recording", Path(followed)):
                    (shutil.copytree if kept.is_dir() else shutil.copy)(kept, arguments.keep / kept.name)
            requests = requests_of(folder / "requests")
            latency_s = arguments.latency_ms / 1e3
            ranks = [(units_of(folder / "recording", rank), planned_clocks(followed, rank), requests.get(rank, []))
                     for rank in range(RANKS)]
            leads = [lead for rank in ranks for lead in leads_s(*rank)]
            others = Counter(f"{kind} {microbatch} of rank {rank}" for rank, about in enumerate(ranks)
                             for kind, microbatch in at_other_clocks(*about, latency_s))
    report(leads, latency_s)
    in_effect = 1 - others.total() / len(leads)
    print(f"{in_effect:.1%} of units began with the plan's clock in effect, if changes come after {1e3 * latency_s:g} ms "
          f"(reach: {REACH_SHARE:.0%}); of the others most are: "
          + ", ".join(f"{count} {unit}" for unit, count in others.most_common(6)))
    sys.exit(0 if in_effect >= REACH_SHARE else 1)


if __name__ == "__main__":
    main()
