#!/usr/bin/env python3
"""Two under-filled training jobs on one GPU: one after the other, time-sliced, and by MPS; in turns, by the energy counter.

    shared_gpu.py --out FOLDER [--rounds N] [--work-s S] [--lowgear BIN]      measures; PyTorch and one GPU
    shared_gpu.py --from FOLDER --lowgear BIN                                  adds what `lowgear pack` predicts

Each job trains a small transformer, with CUDA graphs, and waits for its data after each step (a random time), so that a
kernel runs for some 35 % of the time. A window ends when all of its jobs have run their steps; energy is that of NVML's
counter of the GPU from its begin to its end. All processes live from begin to end of the measurement and wait outside of
their windows, so that the GPU is as awake in one window as in the other; which client of which kind a process is holds
for its lifetime. A round runs every window once, every second one in reverse order.

MPS: its real daemon, with directories of its own, ended before the script ends. Where it is not there or does not start,
the script says so and measures time slicing alone. No setting of the GPU is changed.

FOLDER gets result.json and jobs.csv, a table for `lowgear pack`.
"""

import argparse
import csv
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CONTROL = "nvidia-cuda-mps-control"
JOBS = {"tune": {"width": 768, "layers": 6, "tokens": 2048, "seed": 1},
        "probe": {"width": 512, "layers": 8, "tokens": 2048, "seed": 2}}
KINDS = {"plain": {}, "mps": {}, "mps50": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}}
BUSY = 0.35
SM_UTIL, GPM_METRICS = 2, 512  # nvmlGpmMetricId_t; more than any release has
TURN = {"tune alone": ("plain", ["tune"]), "probe alone": ("plain", ["probe"]),
        "time-sliced": ("plain", ["tune", "probe"]), "mps": ("mps", ["tune", "probe"]),
        "mps 50 % each": ("mps50", ["tune", "probe"])}


# A job: a process that runs steps when it is asked to.

def make_step(job):
    """One training step as a CUDA graph, and its time in s."""
    import torch

    torch.manual_seed(job["seed"])
    layer = torch.nn.TransformerEncoderLayer(job["width"], job["width"] // 64, 4 * job["width"], 0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, job["layers"], enable_nested_tensor=False).cuda().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(job["tokens"] // 256, 256, job["width"], device="cuda", dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad(set_to_none=False)
        (model(batch) - batch).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay():
        graph.replay()
        torch.cuda.synchronize()

    for _ in range(30):
        replay()
    began_s = time.perf_counter()
    for _ in range(100):
        replay()
    return replay, (time.perf_counter() - began_s) / 100, torch.cuda.max_memory_reserved()


def work(job):
    """Says its step time; then, for each line `STEPS PAUSE_S`, runs so many steps and says how long they took."""
    step, step_s, reserved = make_step(job)
    print(json.dumps({"step_s": step_s, "reserved": reserved, "pid": os.getpid()}), flush=True)
    chance = random.Random(job["seed"])
    for line in sys.stdin:
        steps, pause_s = line.split()
        began_s = time.perf_counter()
        for _ in range(int(steps)):
            step()
            # Two jobs with pauses of one length would keep step and never meet.
            time.sleep(float(pause_s) * chance.uniform(0.5, 1.5))
        print(json.dumps({"time_s": time.perf_counter() - began_s}), flush=True)


class Worker:
    def __init__(self, name, kind, environment):
        self.process = subprocess.Popen([sys.executable, __file__, "--work", name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**environment, **KINDS[kind]})
        self.facts = {}

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a job ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, steps, pause_s):
        self.process.stdin.write(f"{steps} {pause_s}\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# The GPU.

class GpmMetric(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint), ("result", ctypes.c_int), ("value", ctypes.c_double), ("names", ctypes.c_void_p * 3)]


class GpmMetrics(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("count", ctypes.c_uint), ("first", ctypes.c_void_p),
                ("second", ctypes.c_void_p), ("metrics", GpmMetric * GPM_METRICS)]


class Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Gpu:
    """Reads GPU 0 by NVML, and sets nothing."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.handle))
        self.samples = []
        for _ in range(2):
            sample = ctypes.c_void_p()
            if self.nvml.nvmlGpmSampleAlloc(ctypes.byref(sample)) == 0:
                self.samples.append(sample)

    def call(self, name, *arguments):
        result = getattr(self.nvml, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} returned {result}")

    def text(self, name):
        buffer = ctypes.create_string_buffer(96)
        self.call(name, self.handle, buffer, 96)
        return buffer.value.decode()

    def energy_j(self):
        millijoules = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(millijoules))
        return millijoules.value * 1e-3

    def busy_pct(self):
        utilisation = Utilisation()
        self.call("nvmlDeviceGetUtilizationRates", self.handle, ctypes.byref(utilisation))
        return utilisation.gpu

    def mode(self):
        mode = ctypes.c_uint()
        self.call("nvmlDeviceGetComputeMode", self.handle, ctypes.byref(mode))
        return mode.value

    def sample(self, place):
        """Whether counters of the SMs could be read."""
        return len(self.samples) == 2 and self.nvml.nvmlGpmSampleGet(self.handle, self.samples[place]) == 0

    def sm_active_pct(self):
        """Between the two samples; None where the GPU does not say."""
        asked = GpmMetrics(version=1, count=1, first=self.samples[0], second=self.samples[1])
        asked.metrics[0].id = SM_UTIL
        good = self.nvml.nvmlGpmMetricsGet(ctypes.byref(asked)) == 0 and asked.metrics[0].result == 0
        return asked.metrics[0].value if good else None


class Window:
    """Energy, time and activity of the GPU from its begin to `end`."""

    def __init__(self, gpu):
        self.gpu, self.busy, self.over = gpu, [], threading.Event()
        self.sampled = gpu.sample(0)
        self.begin_j, self.begin_s = gpu.energy_j(), time.perf_counter()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while not self.over.wait(0.1):
            self.busy.append(self.gpu.busy_pct())

    def end(self):
        end_s, end_j = time.perf_counter(), self.gpu.energy_j()
        self.over.set()
        self.reader.join()
        sampled = self.sampled and self.gpu.sample(1)
        time_s = end_s - self.begin_s
        return {"time_s": time_s, "energy_j": end_j - self.begin_j, "power_w": (end_j - self.begin_j) / time_s,
                "busy_pct": statistics.fmean(self.busy[3:] or [0]),  # it lags by some 0.2 s
                "sm_active_pct": self.gpu.sm_active_pct() if sampled else None}


# The daemon.

def processes_of_mps():
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if "nvidia-cuda-mps" in words.split(" ")[0]:
            found.append(f"{path.parent.name} {words}")
    return found


class Mps:
    """The real daemon of one GPU, in the foreground, with directories of its own."""

    def __init__(self, uuid):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mps-"))
        for name in ("pipe", "log"):
            (self.folder / name).mkdir(mode=0o750)
        self.environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid,
                            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
                            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log")}
        self.output = open(self.folder / "output", "w+", encoding="utf-8")
        self.process = subprocess.Popen([CONTROL, "-f"], env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True)

    def ask(self, command, timeout_s=20):
        try:
            done = subprocess.run([CONTROL], env=self.environment, input=command + "\n", capture_output=True, text=True,
                                  timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None, "no answer"
        return done.returncode, (done.stdout + done.stderr).strip()

    def starts(self):
        end_s = time.monotonic() + 10
        while time.monotonic() < end_s and self.process.poll() is None:
            code, answer = self.ask("get_server_list")
            if code == 0 and "annot find" not in answer:
                return True
            time.sleep(0.2)
        self.output.seek(0)
        print(f"MPS: the daemon did not start (exit code {self.process.poll()}): {self.output.read().strip()} "
              + (self.log("control.log") or ""), flush=True)
        return False

    def log(self, name):
        path = self.folder / "log" / name
        return path.read_text(errors="replace")[-2000:] if path.exists() else None

    def end(self):
        print("MPS: quit:", self.ask("quit -t 5", 30), flush=True)
        try:
            code = self.process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            code = self.process.wait()
        print(f"MPS: the daemon ended with {code}; processes of it that are left: {processes_of_mps() or 'none'}", flush=True)
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def print_facts(mps):
    """What the agent relies on: modes of the pipes, whose server it is, and what an absent daemon says."""
    listed = subprocess.run(["ls", "-lnA", str(mps.folder / "pipe"), str(mps.folder / "log")], capture_output=True, text=True)
    print("MPS: files:\n" + listed.stdout, flush=True)
    code, servers = mps.ask("get_server_list")
    print("MPS: get_server_list:", code, servers)
    for server in servers.split():
        print("MPS: get_client_list:", mps.ask(f"get_client_list {server}"))
    print("MPS: control.log:\n" + (mps.log("control.log") or "none"))
    elsewhere = dict(mps.environment, CUDA_MPS_PIPE_DIRECTORY="/nonexistent")
    absent = subprocess.run([CONTROL], env=elsewhere, input="get_server_list\n", capture_output=True, text=True, timeout=20)
    print("MPS: asked where no daemon is:", absent.returncode, (absent.stdout + absent.stderr).strip(), flush=True)


def start_mps(gpu):
    if shutil.which(CONTROL) is None:
        print(f"MPS: {CONTROL} is not in PATH: time slicing alone is measured", flush=True)
        return None
    mps = Mps(gpu.text("nvmlDeviceGetUUID"))
    if mps.starts():
        return mps
    mps.end()
    return None


# The measurement.

class Measurement:
    def __init__(self, asked):
        self.asked, self.gpu = asked, Gpu()
        print(f"{self.gpu.text('nvmlDeviceGetName')}, compute mode {self.gpu.mode()}", flush=True)
        self.mps = start_mps(self.gpu)
        self.workers = {}

    def start_workers(self):
        kinds = list(KINDS) if self.mps else ["plain"]
        self.workers = {(name, kind): Worker(name, kind, dict(os.environ) if kind == "plain" else self.mps.environment)
                        for kind in kinds for name in JOBS}
        for (name, kind), worker in self.workers.items():
            worker.facts = worker.read()
            print(f"{name} as {kind}: {json.dumps(worker.facts)}", flush=True)

    def steps(self, name):
        """Steps that take work_s alone, and the mean pause after each. The step time is measured while the other jobs
        start: it is measured again alone."""
        worker = self.workers[name, "plain"]
        worker.ask(200, 0)
        step_s = worker.read()["time_s"] / 200
        pause_s = step_s * (1 / BUSY - 1)
        return int(self.asked.work_s / (step_s + pause_s)), pause_s

    def window(self, what):
        kind, names = TURN[what]
        time.sleep(0.5)
        window = Window(self.gpu)
        for name in names:
            self.workers[name, kind].ask(*self.plan[name])
        times_s = {name: self.workers[name, kind].read()["time_s"] for name in names}
        row = {"window": what, "times_s": times_s, **window.end()}
        print(json.dumps(row), flush=True)
        return row

    def run(self):
        self.start_workers()
        if self.mps:
            print_facts(self.mps)
        self.plan = {name: self.steps(name) for name in JOBS}
        turns = [what for what, (kind, _) in TURN.items() if kind == "plain" or self.mps]
        rows = []
        for number in range(self.asked.rounds):
            for what in turns if number % 2 == 0 else reversed(turns):
                rows.append({"round": number, **self.window(what)})
        return {"gpu": self.gpu.text("nvmlDeviceGetName"), "compute_mode": self.gpu.mode(), "mps": self.mps is not None,
                "memory_gib": {name: self.workers[name, "plain"].facts["reserved"] / 2**30 + 0.6 for name in JOBS},
                "rows": rows}

    def end(self):
        for worker in self.workers.values():
            worker.end()
        if self.mps:
            self.mps.end()


def mean_and_spread(values):
    return f"{statistics.fmean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def arms(result):
    """By arm: energy (J) and time (s) of both jobs' work, and the slowdown of each job, a value a round."""
    rounds = {}
    for row in result["rows"]:
        rounds.setdefault(row["round"], {})[row["window"]] = row
    found = {}
    for windows in rounds.values():
        alone = {name: windows[f"{name} alone"] for name in JOBS}
        found.setdefault("one after the other", []).append(
            {"energy_j": sum(row["energy_j"] for row in alone.values()),
             "time_s": sum(row["time_s"] for row in alone.values()), "slowdown_pct": {}})
        for what, row in windows.items():
            if len(row["times_s"]) < 2:
                continue
            slowdown = {name: 100 * (time_s / alone[name]["times_s"][name] - 1) for name, time_s in row["times_s"].items()}
            found.setdefault(what, []).append({**row, "slowdown_pct": slowdown})
    return found


def print_table(result):
    found = arms(result)
    base = [2 * 3.6e6 / row["energy_j"] for row in found["one after the other"]]
    print(f"\n{result['gpu']}: two jobs, {len(base)} rounds, mean (least to most)")
    for what, rows in found.items():
        per_kwh = [2 * 3.6e6 / row["energy_j"] for row in rows]
        line = f"{what:20} {mean_and_spread(per_kwh)} jobs/kWh"
        line += f", {mean_and_spread([100 * (now / before - 1) for now, before in zip(per_kwh, base)])} % more"
        line += f"; {statistics.fmean(row['time_s'] for row in rows):.2f} s for both"
        for name in rows[0]["slowdown_pct"]:
            line += f"; {name} {mean_and_spread([row['slowdown_pct'][name] for row in rows])} % slower"
        print(line)


def job_table(result):
    """The jobs as `lowgear pack` reads them: means of their windows alone."""
    rows = []
    for name in JOBS:
        alone = [row for row in result["rows"] if row["window"] == f"{name} alone"]
        active = [row["sm_active_pct"] for row in alone]
        rows.append({"job": name, "memory_gib": f"{result['memory_gib'][name]:.2f}", "gpus": 1,
                     "busy_pct": f"{statistics.fmean(row['busy_pct'] for row in alone):.2f}",
                     "power_w": f"{statistics.fmean(row['power_w'] for row in alone):.1f}",
                     "sm_active_pct": "" if None in active else f"{statistics.fmean(active):.2f}"})
    return rows


def predict(asked, folder):
    for by in ("time-slicing", "mps"):
        command = [asked.lowgear, "pack", str(folder / "jobs.csv"), "--gpu", "h200-sxm", "--by", by, "--freed", "used",
                   "--max-slowdown", "100"]
        done = subprocess.run(command, capture_output=True, text=True)
        print(f"\npredicted: {' '.join(command)}\n{done.stdout}{done.stderr}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--from", type=pathlib.Path, dest="folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work-s", type=float, default=7, help="time of a job's steps alone, in s")
    parser.add_argument("--lowgear", help="the program whose prediction is shown")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        return work(JOBS[asked.work])
    folder = asked.folder or asked.out
    if folder is None:
        parser.error("--out or --from is missing")
    if asked.folder is None:
        folder.mkdir(parents=True, exist_ok=True)
        measurement = Measurement(asked)
        try:
            result = measurement.run()
        finally:
            measurement.end()
        (folder / "result.json").write_text(json.dumps(result, indent=1))
        with open(folder / "jobs.csv", "w", newline="", encoding="utf-8") as file:
            rows = job_table(result)
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    print_table(json.loads((folder / "result.json").read_text()))
    print((folder / "jobs.csv").read_text())
    if asked.lowgear:
        predict(asked, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
