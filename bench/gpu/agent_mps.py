#!/usr/bin/env python3
"""The agent with NVIDIA's own MPS daemon on GPU 0: shares, a refusal, a daemon that is killed, the agent's end.

    agent_mps.py LOWGEAR FOLDER        LOWGEAR: the program; FOLDER: a new one, that root alone can write to; as root

The jobs multiply matrices in bf16 with PyTorch and print how many SMs they see and their rate. Changes no setting of the
GPU: the agent may set none, and MPS needs none.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

JOB = """
import sys, time, torch
a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
for _ in range(5): a @ b
torch.cuda.synchronize()
began_s, count = time.perf_counter(), 0
while time.perf_counter() - began_s < float(sys.argv[1]):
    for _ in range(20): a @ b
    torch.cuda.synchronize()
    count += 20
rate = 2 * 8192**3 * count / (time.perf_counter() - began_s) / 1e12
print(f"{torch.cuda.get_device_properties(0).multi_processor_count} SMs, {rate:.0f} TFLOP/s")
"""
SETTINGS = """journal = "{folder}/journal"
[sockets]
lease_socket = "{folder}/lease.sock"
http_socket = "{folder}/agent.sock"
[mps]
gpus = ["{uuid}"]
group = "root"
folder = "{folder}/mps"
program = "{program}"
"""


def daemons():
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if "mps" in pathlib.Path(words.split(" ")[0]).name:
            found[int(path.parent.name)] = words
    return found


class Trial:
    def __init__(self, lowgear, folder, job):
        self.lowgear, self.folder, self.job = lowgear, folder, job
        self.config = folder / "agent.toml"
        program = shutil.which("nvidia-cuda-mps-control") or sys.exit("nvidia-cuda-mps-control is not in PATH")
        query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader", "--id=0"]
        uuid = subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()
        self.config.write_text(SETTINGS.format(folder=folder, uuid=uuid, program=program))
        self.agent = subprocess.Popen([lowgear, "agent", "--config", self.config])

    def state(self):
        done = subprocess.run([self.lowgear, "agent", "status", "--config", self.config, "--json"], capture_output=True,
                              text=True)
        return json.loads(done.stdout)["mps"] if done.returncode == 0 else None

    def wait_until_it_runs(self, after_s):
        while time.monotonic() - after_s < 20:
            state = self.state()
            if state and state["daemons"][0]["state"] == "running":
                print(f"runs after {time.monotonic() - after_s:.2f} s: {json.dumps(state)}", flush=True)
                return
            time.sleep(0.05)
        sys.exit(f"the daemon does not run: {self.state()}")

    def start(self, share, seconds):
        """A job with a share of the GPU, or, without one, by itself."""
        words = [self.lowgear, "run", "--agent", str(self.folder / "agent.sock"), "--share", f"0:{share}%", "--"] if share else []
        return subprocess.Popen([*words, sys.executable, "-c", self.job, str(seconds)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def show(self, name, job):
        words = job.communicate()[0].strip()
        print(f"{name}: {words[-300:]} (exit code {job.returncode})", flush=True)

    def run(self, seconds):
        self.wait_until_it_runs(time.monotonic())
        self.show("alone, without MPS", self.start(None, seconds))
        pair = [self.start(50, 3 * seconds) for _ in range(2)]
        time.sleep(seconds + 2)
        self.show("10 % more", self.start(10, seconds))
        print(f"processes: {daemons()}")
        for job in pair:
            self.show("50 % each", job)
        self.show("25 %", self.start(25, seconds))
        killed_s = time.monotonic()
        os.kill(self.state()["daemons"][0]["pid"], signal.SIGKILL)
        time.sleep(0.3)
        self.show("after a SIGKILL of the daemon", self.start(50, seconds))
        self.wait_until_it_runs(killed_s)
        self.show("with the next daemon", self.start(50, seconds))
        late = self.start(50, 60)
        time.sleep(seconds + 3)
        ended_s = time.monotonic()
        self.agent.terminate()
        print(f"the agent ended with {self.agent.wait()} after {time.monotonic() - ended_s:.1f} s")
        self.show("a job that was still running", late)
        print(f"left: processes {daemons() or 'none'}, files {os.listdir(self.folder / 'mps') or 'none'}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2]).resolve()
    folder.mkdir(mode=0o755)
    trial = Trial(sys.argv[1], folder, JOB)
    try:
        trial.run(2)
    finally:
        if trial.agent.poll() is None:
            trial.agent.terminate()
            trial.agent.wait()


if __name__ == "__main__":
    main()
