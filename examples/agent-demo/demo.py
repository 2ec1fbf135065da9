#!/usr/bin/env python3
"""Two simulated H100s follow a plan, lose their training processes, and are restored.

    examples/agent-demo/demo.py [BUILD_FOLDER] [PLOT.html]

Plans a pipeline of two stages, starts an agent, and a training process for each stage that runs its units on a simulated
GPU; samples both SM clocks by NVML; ends the processes by SIGKILL; and draws what happened. Takes about 15 seconds,
touches no real GPU, and needs no root. Ends with 0 only if the clocks followed the plan and came back.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from modelled_profile import write_profile  # noqa: E402: the examples are no package

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MICROBATCHES = 6
RUN_S = 7
AFTER_S = 3
SAMPLE_S = 0.004
SETTLED_S = 0.045  # a clock change takes some 20 ms on the simulated GPU; then it has to be right


def write_config(path, folder):
    path.write_text(
        f'journal: "{folder}/journal"\nsockets: {{lease_socket: "{folder}/lease.sock", http_socket: "{folder}/agent.sock"}}\n'
        "gpu: [{id: all}]\nallow: [{everybody: true}]\n"
    )
    path.chmod(0o600)


class Nvml:
    """SM clocks as any NVML program reads them."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.nvmlInit_v2()
        self.devices = []
        for index in range(2):
            device = ctypes.c_void_p()
            self.library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
            self.devices.append(device)

    def clock_mhz(self, index):
        clock = ctypes.c_uint()
        self.library.nvmlDeviceGetClockInfo(self.devices[index], 1, ctypes.byref(clock))
        return clock.value


def sample(nvml, seconds, samples):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = time.monotonic()
        samples.append((now, nvml.clock_mhz(0), nvml.clock_mhz(1)))
        time.sleep(SAMPLE_S)


def units_of(path):
    """(time, clock of the plan) of every unit that began."""
    lines = path.read_text().splitlines()
    return [(float(line.split()[0]), int(line.split()[1])) for line in lines if len(line.split()) == 2]


def share_that_followed(samples, units, gpu, until):
    """Share of the samples with the unit's clock, of those in which a unit has been running long enough."""
    right = total = at = 0
    for sample_time, *clocks in samples:
        if sample_time > until:
            break
        while at + 1 < len(units) and units[at + 1][0] <= sample_time:
            at += 1
        if units and units[at][0] + SETTLED_S <= sample_time:
            total += 1
            right += clocks[gpu] == units[at][1]
    return right / total if total else 0


def polyline(points, x, y):
    return " ".join(f"{x(when):.1f},{y(mhz):.1f}" for when, mhz in points)


def steps(points):
    result = []
    for when, mhz in points:
        if result:
            result.append((when, result[-1][1]))
        result.append((when, mhz))
    return result


def draw(path, samples, units, killed_at, shares):
    """A page with one panel per GPU: the clock of the plan, and the clock that NVML shows."""
    begin, end = killed_at - 3.2, samples[-1][0]
    width, height, left = 1100, 210, 70

    def x(when):
        return left + (when - begin) / (end - begin) * (width - left - 20)

    def y(mhz):
        return height - 30 - (mhz - 300) / 1750 * (height - 50)

    panels = []
    for gpu in range(2):
        planned = [(when, mhz) for when, mhz in units[gpu] if begin <= when <= killed_at] + [(killed_at, units[gpu][-1][1])]
        shown = [(row[0], row[1 + gpu]) for row in samples if row[0] >= begin]
        grid = "".join(
            f'<line x1="{left}" x2="{width - 20}" y1="{y(mhz):.0f}" y2="{y(mhz):.0f}" class="grid"/>'
            f'<text x="{left - 8}" y="{y(mhz) + 4:.0f}" text-anchor="end">{mhz}</text>'
            for mhz in (345, 1005, 1500, 1980)
        )
        seconds = "".join(
            f'<text x="{x(killed_at + s):.0f}" y="{height - 8}" text-anchor="middle">{s:+d} s</text>'
            for s in (-3, -2, -1, 1, 2)
        )
        panels.append(
            f"<h2>GPU {gpu}, stage {gpu}: {100 * shares[gpu]:.0f} % of the settled samples are at the clock of the plan</h2>"
            f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="SM clock of GPU {gpu} over time">{grid}{seconds}'
            f'<line x1="{x(killed_at):.0f}" x2="{x(killed_at):.0f}" y1="8" y2="{height - 24}" class="kill"/>'
            f'<text x="{x(killed_at) + 6:.0f}" y="20" class="killed">kill -9</text>'
            f'<polyline points="{polyline(steps(planned), x, y)}" class="plan"/>'
            f'<polyline points="{polyline(steps(shown), x, y)}" class="clock"/></svg>'
        )
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Clocks that follow a plan (simulated)</title><style>"
        "body{font:15px/1.5 Inter,system-ui,sans-serif;max-width:1140px;margin:24px auto;padding:0 16px;color:#1c2430}"
        "h1{font-size:22px;margin:0}h2{font-size:15px;margin:20px 0 4px;font-weight:600}p{margin:4px 0 0;color:#51606f}"
        "svg{width:100%;display:block}text{font-size:12px;fill:#51606f}.grid{stroke:#e3e8ee}"
        ".kill{stroke:#c0392b;stroke-dasharray:4 3}text.killed{fill:#c0392b}"
        ".plan{fill:none;stroke:#f0a020;stroke-width:5;stroke-opacity:.45}.clock{fill:none;stroke:#1f5fbf;stroke-width:1.6}"
        "b.plan{color:#b97500}b.clock{color:#1f5fbf}</style>"
        "<h1>SM clocks of two simulated H100s</h1><p>In MHz. <b class=plan>Wide: the plan</b>, unit by unit, as the "
        "training processes begin them. <b class=clock>Thin: the clock</b> that NVML shows. At 0 s both processes are "
        "ended by SIGKILL; the agent gives the clocks back to the driver, which lets the idle GPUs fall to 345 MHz after a while. <b>Simulated</b>: no real GPU "
        "took part.</p>" + "".join(panels) + "</html>\n"
    )


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release").resolve()
    plot = Path(sys.argv[2] if len(sys.argv) > 2 else "clocks.html").resolve()
    lowgear, nvml_library = build / "bin" / "lowgear", build / "simgpu" / "libnvidia-ml.so.1"
    for needed in (lowgear, nvml_library, build / "lib" / "liblowgear.so"):
        if not needed.exists():
            sys.exit(f"{needed} is not there; build it first: ./dev build")

    processes = []
    with tempfile.TemporaryDirectory(prefix="lg-") as name:
        folder = Path(name)
        os.environ.update(
            LOWGEAR_SIMGPU=str(folder / "machine"), LOWGEAR_NVML=str(nvml_library),
            LOWGEAR_LIBRARY=str(build / "lib" / "liblowgear.so"), LOWGEAR_AGENT_SOCKET=str(folder / "lease.sock"),
            PYTHONPATH=str(ROOT / "python"), PYTHONDONTWRITEBYTECODE="1",
        )

        def run(*words):
            result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(result.stderr)
            return result.stdout

        try:
            print("planning a pipeline of two stages, and making two simulated H100s")
            write_profile(folder / "profile.csv")
            run(lowgear, "plan", "--profile", folder / "profile.csv", "--stages", 2, "--microbatches", MICROBATCHES,
                "--schedule", "1f1b", "--blocking-power", 116, "--plans", 4, "--out", folder / "plan")
            run(lowgear, "simgpu", "create", "--gpus", "2xH100", "--any-user")
            write_config(folder / "agent.yaml", folder)
            processes.append(subprocess.Popen([lowgear, "agent", "--config", folder / "agent.yaml"]))
            while not (folder / "agent.sock").exists() and processes[0].poll() is None:
                time.sleep(0.01)

            print(f"training for {RUN_S} s")
            ends = socket.socketpair()
            for rank, end in enumerate(ends):
                end.set_inheritable(True)
                processes.append(subprocess.Popen(
                    [sys.executable, HERE / "trainer.py", folder / "plan" / "plans" / "00001.json", str(rank),
                     str(end.fileno()), folder / f"units{rank}"], pass_fds=[end.fileno()]))
            for end in ends:
                end.close()
            nvml, samples = Nvml(str(nvml_library)), []
            sample(nvml, RUN_S, samples)

            print("ending both training processes by SIGKILL")
            killed_at = time.monotonic()
            for process in processes[1:]:
                process.send_signal(signal.SIGKILL)
            sample(nvml, AFTER_S, samples)
            machine = json.loads(run(lowgear, "simgpu", "show", "--json"))["gpus"]
            units = [units_of(folder / f"units{rank}") for rank in range(2)]
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
                process.wait(20)

    shares = [share_that_followed(samples, units[gpu], gpu, killed_at) for gpu in range(2)]
    draw(plot, samples, units, killed_at, shares)
    back = all(gpu["locked_sm_clocks_mhz"] is None for gpu in machine)
    for gpu in range(2):
        print(f"GPU {gpu}: {len(units[gpu])} units, {machine[gpu]['writes']} clock writes, "
              f"{100 * shares[gpu]:.1f} % of settled samples at the clock of the plan (simulated)")
    print("after the kill: " + ("both GPUs are back at the driver's own clocks" if back else "A GPU IS STILL LOCKED"))
    print(f"plot: {plot}")
    return 0 if back and min(shares) > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
