#!/usr/bin/env python3
"""The search of the operating point against Zeus' power limit optimizer (unmodified) on the same simulated GPU.

    bench/search_study.py [--slowdown 2] [--step 0.25] [--block-steps 10] [--zeus ../shared/peers/zeus] [BUILD_FOLDER]

One loop of equal steps on an H100, four times: at full speed; under Zeus' GlobalPowerLimitOptimizer with its
MaxSlowdownConstraint, whose defaults are 10 steps to warm up and 40 to profile for each of 21 limits; under Lowgear's search
over its default clocks and over its default power limits, by one call of the client. Prints for each how many steps it took
until it had decided, what it chose, and time and exact energy of the steps afterwards. All of it is simulated.

A block has --block-steps steps, as blocks of 30 s have where a step takes 3 s. Without Zeus, or what it imports, its row is
left out, and the exit status is 77.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77
ROWS = ("full", "zeus", "clock", "power-limit")
STEPS_AFTER = 60
MOST_STEPS = 3000
#: Of a step at the highest clock: matrix products at nine tenths of the H100's compute power, a fifth of the time memory.
COMPUTE_SHARE, COMPUTE_LOAD, MEMORY_LOAD = 0.8, 0.9, 0.6

#: As much of PyTorch as Zeus asks: kernels of this loop are over when they return.
TORCH = """import types
cuda = types.SimpleNamespace(is_available=lambda: True, synchronize=lambda device=None: None, set_device=lambda device: None)
distributed = types.SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
"""


class Device:
    """GPU 0 of the simulated machine."""

    def __init__(self, step_s):
        self._library = ctypes.CDLL(os.environ["LOWGEAR_NVML"])
        self._library.lowgear_simgpu_run_kernel.argtypes = [ctypes.c_int] + [ctypes.c_double] * 4 + [ctypes.c_void_p]
        self._library.lowgear_simgpu_attach(0)
        self._step_s = step_s

    def step(self):
        self._library.lowgear_simgpu_run_kernel(0, COMPUTE_SHARE * self._step_s, (1 - COMPUTE_SHARE) * self._step_s,
                                                COMPUTE_LOAD, MEMORY_LOAD, None)

    def energy_j(self):
        energy = ctypes.c_double()
        self._library.lowgear_simgpu_true_energy_j(0, ctypes.byref(energy))
        return energy.value


class FullSpeed:
    chosen = "full speed"

    def begin(self):
        pass

    def end(self):
        pass

    def is_over(self):
        return True


class Zeus:
    """What a user of Zeus writes."""

    def __init__(self, slowdown_pct):
        from zeus.monitor import ZeusMonitor
        from zeus.optimizer.power_limit import Done, GlobalPowerLimitOptimizer, MaxSlowdownConstraint

        self._done = Done
        monitor = ZeusMonitor(gpu_indices=[0], cpu_indices=[])
        self._optimizer = GlobalPowerLimitOptimizer(monitor, MaxSlowdownConstraint(1 + slowdown_pct / 100))

    def begin(self):
        self._optimizer.on_step_begin()

    def end(self):
        pass

    def is_over(self):
        return isinstance(self._optimizer.state, self._done)

    @property
    def chosen(self):
        return f"{self._optimizer.state.optimal_power_limit // 1000} W"


class Lowgear:
    def __init__(self, slowdown_pct, points, block_s):
        import lowgear

        self._client = lowgear.Client(rank=0, world_size=1)
        self._client.search_operating_point(slowdown_pct, points=points, block_s=block_s, max_iterations=300)

    def begin(self):
        self._client.iteration_begin()

    def end(self):
        self._client.iteration_end()

    def is_over(self):
        return self._client.operating_point().state in ("found", "none", "cut_off")

    @property
    def chosen(self):
        found = self._client.operating_point()
        unit = "MHz" if found.points == "clock" else "W"
        return f"{found.value:g} {unit}: {found.reason}" if found.value else f"{found.state}: {found.reason}"


def run(role, arguments):
    """The loop of one row."""
    device = Device(arguments.step)
    for _ in range(8):
        device.step()  # wakes the GPU up
    if role == "full":
        policy = FullSpeed()
    elif role == "zeus":
        policy = Zeus(arguments.slowdown)
    else:
        policy = Lowgear(arguments.slowdown, role, arguments.block_steps * arguments.step)
    steps = 0
    while not policy.is_over() and steps < MOST_STEPS:
        policy.begin()
        device.step()
        policy.end()
        steps += 1
    time.sleep(0.5)  # the last setting takes effect
    energy_j, begin_s = device.energy_j(), time.monotonic()
    for _ in range(STEPS_AFTER):
        policy.begin()
        device.step()
        policy.end()
    after = {"energy_j": (device.energy_j() - energy_j) / STEPS_AFTER, "time_s": (time.monotonic() - begin_s) / STEPS_AFTER}
    print(json.dumps({"steps": steps, "chosen": policy.chosen, **after}), flush=True)


def wait_for_socket(path, agent):
    end = time.monotonic() + 60
    while not path.exists():
        if agent.poll() is not None or time.monotonic() > end:
            raise SystemExit("the agent does not start")
        time.sleep(0.05)


def row(role, arguments, folder, environment):
    """A machine, an agent and the loop, each in processes of their own."""
    folder = Path(folder)
    environment = {**environment, "LOWGEAR_SIMGPU": str(folder / "machine"), "LOWGEAR_AGENT_SOCKET": str(folder / "lease.sock")}
    lowgear = arguments.build / "bin" / "lowgear"
    subprocess.run([lowgear, "simgpu", "create", "--gpus", "1xH100", "--any-user"], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    config = folder / "agent.toml"
    config.write_text(f'journal = "{folder}/journal"\n[sockets]\nlease_socket = "{folder}/lease.sock"\n'
                      f'http_socket = "{folder}/agent.sock"\n[[gpu]]\nid = "all"\n[[allow]]\neverybody = true\n'
                      'power = true\npersistence = true\n')
    config.chmod(0o600)
    with open(folder / "agent.log", "w", encoding="utf-8") as log:
        agent = subprocess.Popen([lowgear, "agent", "--config", config], env=environment, stderr=log)
    try:
        wait_for_socket(folder / "agent.sock", agent)
        command = [sys.executable, __file__, "--role", role, "--slowdown", str(arguments.slowdown), "--step",
                   str(arguments.step), "--block-steps", str(arguments.block_steps)]
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        return json.loads(result.stdout)
    finally:
        agent.terminate()
        agent.wait(60)


def zeus_environment(arguments, environment, folder):
    """For a process with the real Zeus; None where it cannot run. What it imports and does not use here is stood in for."""
    stand_ins = Path(folder) / "stand_ins"
    stand_ins.mkdir()
    (stand_ins / "pynvml.py").symlink_to(ROOT / "tests" / "stand_ins" / "pynvml.py")
    (stand_ins / "torch.py").write_text(TORCH)
    (stand_ins / "sklearn").symlink_to(ROOT / "tests" / "control" / "agent" / "zeus_stand_ins" / "sklearn")
    (stand_ins / "pandas.py").write_text("class DataFrame:\n    pass\n")
    (Path(folder) / "libnvidia-ml.so.1").symlink_to(environment["LOWGEAR_NVML"])
    paths = [str(arguments.zeus), environment.get("PYTHONPATH", ""), str(stand_ins)]
    changed = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "LD_LIBRARY_PATH": str(folder)}
    changed.pop("ZEUSD_SOCK_PATH", None)
    tried = subprocess.run([sys.executable, "-c", "import zeus.optimizer.power_limit, zeus.monitor"], env=changed,
                           stderr=subprocess.PIPE, text=True)
    if tried.returncode == 0:
        return changed
    print(f"SKIPPED: Zeus cannot run here, so nothing is compared with it: {tried.stderr.strip().splitlines()[-1]}")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--slowdown", type=float, default=2, help="allowed, in per cent")
    parser.add_argument("--step", type=float, default=0.25, help="time of a step at the highest clock, in s")
    parser.add_argument("--block-steps", type=float, default=10)
    parser.add_argument("--rows", default=",".join(ROWS), help="which to run, of %(default)s")
    parser.add_argument("--zeus", type=Path, default=ROOT.parent / "shared" / "peers" / "zeus")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        return run(arguments.role, arguments)
    arguments.build = arguments.build.resolve()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])),
                   "LOWGEAR_NVML": str(arguments.build / "simgpu" / "libnvidia-ml.so.1"),
                   "LOWGEAR_LIBRARY": str(arguments.build / "lib" / "liblowgear.so.1")}
    print(f"simulated H100, steps of {arguments.step:g} s, {arguments.slowdown:g} % slowdown allowed")
    full, skipped = None, False
    for role in arguments.rows.split(","):
        with tempfile.TemporaryDirectory(prefix="lg-") as folder:
            variables = zeus_environment(arguments, environment, folder) if role == "zeus" else environment
            if variables is None:
                skipped = True
                continue
            found = row(role, arguments, folder, variables)
        full = full or found
        print(f"{role:12} {found['steps']:5} steps until decided; afterwards {found['energy_j']:.2f} J "
              f"({100 * (found['energy_j'] / full['energy_j'] - 1):+.2f} %) and {found['time_s']:.4f} s "
              f"({100 * (found['time_s'] / full['time_s'] - 1):+.2f} %) a step; {found['chosen']}", flush=True)
    return SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
