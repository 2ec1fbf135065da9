#!/usr/bin/env python3
"""How much the power of three jobs swings, without and with staggering, on simulated GPUs.

    cmake --build build/release --target lowgear liblowgear lowgear_nvml simulated_energy
    bench/stagger_study.py [BUILD_FOLDER] [--seconds 90] [--port 0] [--hold SECONDS]

Each job is a process with one simulated A100, the client library and iterations of its own time: kernels for two thirds of
it, then a wait, as that of an optimizer's step. The times differ by 0.4 % from job to job, so that phases drift. A real
`lowgear serve` profiles and plans the jobs, and real `lowgear agent` sets clocks. After that the power of all GPUs
together is read for SECONDS as it is, and for SECONDS with a budget that staggers the jobs and is wide enough to bind no
plan. `simulated_energy` reads what the GPUs really use. Prints for both the swing of means over SPAN_S, highest less
lowest without the outermost 2 % at either end, their standard deviation, and the mean time between iterations' begins.
--hold: keeps the jobs for so long after that, to look at the dashboard.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "python")]

JOBS = {"a": 1.0, "b": 0.996, "c": 0.992}  # by name: length of the iterations against those of the longest
MICROBATCHES = 4
UNIT_S = {"forward": 0.05, "backward": 0.1}
WAIT_S = 0.3
BEYOND_BASELINE_PCT = 8  # what an iteration may take longer: the guard's
STAGGER_PCT = 90
SPAN_S = 0.05
PERIOD_S = 0.01
OUTERMOST = 0.02


def train(name):
    """A rank: runs until it is ended."""
    import lowgear

    simulation = ctypes.CDLL(os.environ["LOWGEAR_NVML"])
    simulation.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
    index = list(JOBS).index(name)
    simulation.lowgear_simgpu_attach(index)
    client = lowgear.Client()
    time.sleep(2)
    problem = client.status().server_problem
    if problem:
        sys.exit(problem)
    client.expect([(kind, 0, microbatch) for kind in UNIT_S for microbatch in range(MICROBATCHES)])
    with open(os.environ["STUDY_BEGINS"], "a", encoding="utf-8") as begins:
        while True:
            client.stagger()
            begins.write(f"{time.monotonic():.6f}\n")
            begins.flush()
            with client.iteration():
                for kind, unit_s in UNIT_S.items():
                    for microbatch in range(MICROBATCHES):
                        with client.unit(kind, 0, microbatch):
                            work_s = unit_s * JOBS[name]
                            simulation.lowgear_simgpu_run_kernel(index, 0.75 * work_s, 0.25 * work_s, 0.85, 0.5, None)
                time.sleep(WAIT_S * JOBS[name])


def job_spec(name):
    return json.dumps({
        "run": f"study-{name}", "name": name, "framework": "study", "model": f"made-up {name}", "partition": "uniform",
        "parallel": {"pp": 1, "dp": 1, "tp": 1, "chunks": 1}, "schedule": "gpipe", "microbatches": MICROBATCHES,
        "microbatch_size": 1, "slowdown_pct": 0, "guard_pct": BEYOND_BASELINE_PCT,
        "profile": {"clocks": 4, "iterations": 1, "settle_iterations": 1, "min_mhz": 900, "max_mhz": None}})


class Study:
    def __init__(self, build, machine, server, folder):
        self.build, self.machine, self.server, self.folder = build, machine, server, folder
        self.ranks = [self.start(name, gpu) for gpu, name in enumerate(JOBS)]

    def start(self, name, gpu):
        environment = {
            **os.environ, "LOWGEAR_LIBRARY": str(self.build / "lib" / "liblowgear.so.1"), "RANK": "0", "WORLD_SIZE": "1",
            "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": str(gpu), "LOWGEAR_SERVER": f"unix:{self.server.socket}",
            "LOWGEAR_JOB_SPEC": job_spec(name), "STUDY_BEGINS": str(self.begins(name))}
        with open(self.folder / f"{name}.txt", "w", encoding="utf-8") as log:
            return subprocess.Popen([sys.executable, __file__, "--rank", name], env=environment, stdout=log, stderr=log)

    def begins(self, name):
        return self.folder / f"begins-{name}"

    def wait_until_planned(self, patience_s=300):
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            for name, rank in zip(JOBS, self.ranks):
                if rank.poll() is not None:
                    raise SystemExit(f"job {name} has ended: {(self.folder / f'{name}.txt').read_text()}")
            jobs = self.server.get("/v1/jobs")["jobs"]
            if len(jobs) == len(JOBS) and all(job["state"] == "running" for job in jobs):
                return
            time.sleep(0.5)
        raise SystemExit(f"not planned within {patience_s} s: {self.server.get('/v1/jobs')}")

    def measure(self, seconds):
        command = [self.build / "bin" / "simulated_energy", str(seconds), str(PERIOD_S), self.folder / "machine"]
        begin_s = time.monotonic()
        text = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
        samples = [tuple(map(float, line.split()[1:])) for line in text.splitlines()]
        return power_of(samples) | {"iteration_s": [self.mean_iteration_s(name, begin_s) for name in JOBS]}

    def mean_iteration_s(self, name, begin_s):
        begins = [float(line) for line in self.begins(name).read_text().split()]
        begins = [at_s for at_s in begins if at_s >= begin_s]
        return (begins[-1] - begins[0]) / (len(begins) - 1)


def power_of(samples):
    """Of energies so far, (time, joules)."""
    means_w, first = [], samples[0]
    for sample in samples:
        if sample[0] - first[0] < SPAN_S:
            continue
        means_w.append((sample[1] - first[1]) / (sample[0] - first[0]))
        first = sample
    means_w.sort()
    cut = int(OUTERMOST * len(means_w))
    return {"least_w": means_w[cut], "peak_w": means_w[-1 - cut], "swing_w": means_w[-1 - cut] - means_w[cut],
            "deviation_w": statistics.pstdev(means_w), "mean_w": statistics.fmean(means_w)}


def show(what, measured):
    times = ", ".join(f"{time_s:.4f}" for time_s in measured["iteration_s"])
    print(f"{what}: {measured['least_w']:.0f} to {measured['peak_w']:.0f} W, a swing of {measured['swing_w']:.0f} W; "
          f"standard deviation {measured['deviation_w']:.0f} W, mean {measured['mean_w']:.0f} W; iterations of {times} s",
          flush=True)


def run(study, server, arguments):
    study.wait_until_planned()
    budget = {"watts": 1e6, "stagger_pct": STAGGER_PCT}
    server.request("PUT", "/v1/budgets/all", budget)
    time.sleep(10)
    before = study.measure(arguments.seconds)
    show("as they are", before)
    server.request("PUT", "/v1/budgets/all", {**budget, "stagger_apply": True})
    begin_s = time.monotonic()
    while time.monotonic() - begin_s < 120:  # until they have come to their phases
        time.sleep(2)
        jobs = server.get("/v1/budgets")["budgets"][0]["stagger"]["jobs"]
        if all(job.get("error_s", 1) < 0.03 for job in jobs):
            break
    print(f"in phase after {time.monotonic() - begin_s:.0f} s: {jobs}", flush=True)
    after = study.measure(arguments.seconds)
    show("staggered", after)
    stagger = server.get("/v1/budgets")["budgets"][0]["stagger"]
    print(f"planned: a swing of {stagger['together']['swing_w']:.0f} W together, {stagger['staggered']['swing_w']:.0f} W "
          f"staggered; {stagger['jobs']}")
    for name, free_s, kept_s in zip(JOBS, before["iteration_s"], after["iteration_s"]):
        print(f"{name}: {100 * (kept_s / free_s - 1):+.2f} % time")
    print(f"swing {100 * (after['swing_w'] / before['swing_w'] - 1):+.0f} %, standard deviation "
          f"{100 * (after['deviation_w'] / before['deviation_w'] - 1):+.0f} %")
    time.sleep(arguments.hold)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--hold", type=float, default=0)
    parser.add_argument("--rank", choices=JOBS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return train(arguments.rank)
    from server_process import Server
    from simulated_machine import Machine, end_all

    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory(prefix="lg-") as name, \
            Machine(build, Path(name), Path(name) / "log.txt", len(JOBS)) as machine:
        folder = Path(name)
        server = Server(machine.lowgear, folder, arguments.port, folder / "server.txt")
        print(server.url, flush=True)
        study = Study(build, machine, server, folder)
        try:
            run(study, server, arguments)
        finally:
            end_all(study.ranks)
            server.end()
    return None


if __name__ == "__main__":
    main()
