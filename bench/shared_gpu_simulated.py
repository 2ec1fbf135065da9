#!/usr/bin/env python3
"""Two under-filled loads on one simulated GPU: one after the other, time-sliced, and by MPS through the agent. *Simulated*.

    shared_gpu_simulated.py BUILD [--rounds N] [--time S]

BUILD is a build folder. Each load has kernels of 10 ms and pauses of one length, which differs between the loads, so that
they drift. The daemon is the stand-in of the simulated GPUs, started by `lowgear agent`; loads under it are started by
`lowgear run --share`. Windows are in turns, every second round in reverse order. A job is as many kernels as the load runs
alone in a window. Prints a table, and what `lowgear pack` predicts from the windows alone.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LOADS = {"tune": {"busy": 0.35, "sm-share": 0.4, "load": 0.25}, "probe": {"busy": 0.4, "sm-share": 0.5, "load": 0.2}}
WINDOWS = {"tune alone": ["tune"], "probe alone": ["probe"], "time-sliced": list(LOADS), "mps": list(LOADS)}


class Machine:
    def __init__(self, build, folder):
        self.lowgear, self.folder = build / "bin" / "lowgear", folder
        os.environ["LOWGEAR_SIMGPU"] = str(folder / "machine")
        os.environ["LOWGEAR_NVML"] = str(build / "simgpu" / "libnvidia-ml.so.1")
        self.run("simgpu", "create", "--gpus", "H100", "--any-user")
        uuid = json.loads(self.run("simgpu", "show", "--json"))["gpus"][0]["uuid"]
        config = folder / "agent.toml"
        config.write_text(f'journal = "{folder}/journal"\n[sockets]\nlease_socket = "{folder}/lease"\n'
                          f'http_socket = "{folder}/agent"\n[mps]\ngpus = ["{uuid}"]\ngroup = "root"\n'
                          f'folder = "{folder}/mps"\nprogram = "{build}/simgpu/lowgear-simgpu-mps-control"\n')
        config.chmod(0o600)

    def run(self, *words):
        return subprocess.run([self.lowgear, *words], check=True, capture_output=True, text=True).stdout

    def start_agent(self):
        self.agent = subprocess.Popen([self.lowgear, "agent", "--config", self.folder / "agent.toml"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end_s = time.monotonic() + 60
        status = [self.lowgear, "agent", "status", "--config", self.folder / "agent.toml"]
        while ": running, " not in subprocess.run(status, capture_output=True, text=True).stdout:
            if time.monotonic() > end_s:
                sys.exit("the agent's MPS daemon has not started")
            time.sleep(0.1)

    def end_agent(self):
        self.agent.terminate()
        self.agent.wait()

    def window(self, what, time_s):
        """What each load of the window did."""
        by_mps = what == "mps"
        if by_mps:
            self.start_agent()
        words = [self.lowgear, "run", "--agent", self.folder / "agent", "--share", "0:50%", "--"] if by_mps else []
        started = {}
        for name in WINDOWS[what]:
            options = [f"--{option}={value}" for option, value in LOADS[name].items()]
            command = [*words, self.lowgear, "simgpu", "run", "--time", str(time_s), "--json", *options]
            started[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = {}
        for name, process in started.items():
            found[name] = json.loads(process.communicate()[0])
            if process.returncode != 0:
                sys.exit(f"{name} ended with {process.returncode}")
        if by_mps:
            self.end_agent()
        return found


def print_arm(what, rounds, arm):
    """arm: (jobs, energy in J, slowdown in % by job) of each round."""
    per_kwh = [3.6e6 * jobs / energy_j for jobs, energy_j, _ in arm]
    base = [3.6e6 * 2 / sum(one[name]["true_energy_j"] for name in LOADS) for one in rounds]
    gain = [100 * (now / before - 1) for now, before in zip(per_kwh, base)]
    spread = lambda values: f"{statistics.fmean(values):.1f} ({min(values):.1f} to {max(values):.1f})"
    slower = "".join(f"; {name} {spread([one[2][name] for one in arm])} % slower" for name in arm[0][2])
    print(f"{what:20} {spread(per_kwh)} jobs/kWh, {spread(gain)} % more{slower}")


def print_table(rows):
    alone = [{name: row[f"{name} alone"][name] for name in LOADS} for row in rows]
    print_arm("one after the other", alone, [(2, sum(one[name]["true_energy_j"] for name in LOADS), {}) for one in alone])
    for what in ("time-sliced", "mps"):
        arm = []
        for one, row in zip(alone, rows):
            pace = {name: row[what][name]["kernels"] / one[name]["kernels"] for name in LOADS}
            energy_j = statistics.fmean(found["true_energy_j"] for found in row[what].values())
            arm.append((sum(pace.values()), energy_j, {name: 100 * (1 / share - 1) for name, share in pace.items()}))
        print_arm(what, alone, arm)
    return alone


def predict(machine, alone, time_s):
    table = machine.folder / "jobs.csv"
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["job", "memory_gib", "gpus", "busy_pct", "power_w", "sm_active_pct"])
        for name, load in LOADS.items():
            busy = statistics.fmean(one[name]["kernels"] for one in alone) * 0.01 / time_s
            power_w = statistics.fmean(one[name]["mean_power_w"] for one in alone)
            writer.writerow([name, 1, 1, 100 * busy, power_w, 100 * busy * load["sm-share"]])
    for by in ("time-slicing", "mps"):
        print(f"\npredicted, {by}:")
        print(machine.run("pack", table, "--gpu", "h100-sxm", "--by", by, "--freed", "used", "--max-slowdown", "100"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--time", type=float, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lg-") as folder:
        machine = Machine(asked.build, pathlib.Path(folder))
        rows = []
        for number in range(asked.rounds):
            order = list(WINDOWS) if number % 2 == 0 else list(reversed(WINDOWS))
            rows.append({what: machine.window(what, asked.time) for what in order})
        alone = print_table(rows)
        predict(machine, alone, asked.time)


if __name__ == "__main__":
    main()
