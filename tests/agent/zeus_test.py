#!/usr/bin/env python3
"""The real, unmodified Zeus, with the agent in the place of its daemon (ZEUSD_SOCK_PATH) and simulated GPUs.

ZEUS_FOLDER names the folder in which Zeus lies; without it, or without Zeus' dependencies, every test is skipped.
"""

import importlib.util
import json
import os
import select
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from agent_test_base import PATIENCE_S, AgentTest, wait_until  # noqa: E402

ZEUS = Path(os.environ["ZEUS_FOLDER"])
FIXTURE = os.environ["AGENT_HTTP_FIXTURE"]
SKIP_CODE = 77
#: Energy counters advance every 100 ms; no GPU here draws more than this.
MAX_STEP_J = 0.1 * 750


def why_not():
    """Why Zeus cannot run here; None when it can."""
    if not (ZEUS / "zeus" / "utils" / "zeusd.py").exists():
        return f"Zeus is not at {ZEUS}"
    if importlib.util.find_spec("httpx") is None:
        return f"{sys.executable} has no httpx: apt-get install python3-httpx"
    return None


class ZeusTest(AgentTest):
    allow = "everybody: true, power: true, memory_clocks: true, persistence: true"

    def program(self, name, socket_path=None, **environment):
        """A program with Zeus of zeus_programs.py."""
        library = self.folder / "libnvidia-ml.so.1"
        if not library.exists():
            library.symlink_to(os.environ["LOWGEAR_NVML"])
        stand_ins = self.folder / "stand_ins"
        if not stand_ins.exists():
            stand_ins.mkdir()
            (stand_ins / "pynvml.py").symlink_to(HERE.parents[0] / "stand_ins" / "pynvml.py")
            (stand_ins / "sklearn").symlink_to(HERE / "zeus_stand_ins" / "sklearn")
        variables = {"ZEUSD_SOCK_PATH": str(socket_path or self.folder / "agent.sock"), "ZEUS_FOLDER": str(ZEUS),
                     "STAND_INS": str(stand_ins), "LD_LIBRARY_PATH": str(self.folder), **environment}
        return self.start([sys.executable, str(HERE / "zeus_programs.py"), name], stdin=subprocess.PIPE,
                          env={**os.environ, **variables})

    def next_answer(self, program):
        """The next line that a program prints."""
        ready, _, _ = select.select([program.stdout], [], [], PATIENCE_S)
        line = program.stdout.readline() if ready else ""
        if not line:
            program.kill()
            self.fail(f"the program says nothing more: {program.stderr.read()}")
        return json.loads(line)

    def go_on(self, program):
        program.stdin.write("\n")
        program.stdin.flush()

    def finish(self, program):
        """The program's end, in good order."""
        program.stdin.close()
        self.assertEqual(program.wait(PATIENCE_S), 0, program.stderr.read())
        self.assertNotIn("Traceback", program.stderr.read())


class WithOurAnswers(ZeusTest):
    """Against the agent's HTTP side over made-up devices, which has CPUs, too."""

    def setUp(self):
        super().setUp()
        self.socket = self.folder / "fixture.sock"
        self.fixture = self.start([FIXTURE, str(self.socket)], stdin=subprocess.PIPE)
        self.assertEqual(self.fixture.stdout.readline(), "ready\n")

    def test_every_method_of_the_client(self):
        program = self.program("call_everything", self.socket)
        name = "NVIDIA H100 80GB HBM3"
        self.assertEqual(self.next_answer(program), {
            "gpus": [[0, name, "0000:00:06.0", True], [1, name, "0000:00:07.0", True]],
            "cpus": [[0, True], [1, False]], "can": [True, True, True], "auth_error": None})
        self.assertEqual(self.next_answer(program), {
            "energy": {"0": 123456, "1": 124456}, "power": {"0": 75000, "1": 100000}, "power_of_one": {"1": 100000},
            "limit": {"0": 650000, "1": 650000}, "constraints": {"0": [200000, 700000]},
            "persistence": {"0": True, "1": False}})
        answer = self.next_answer(program)
        self.assertEqual(answer["cpu_energy"], {"0": [1000000, 500000], "1": [2000000, None]})
        self.assertEqual(answer["cpu_power"], {"0": [None, None], "1": [None, None]})  # these counters stand still
        self.assertLess(answer["clock_differs_s"], 20)
        self.finish(program)

    def test_energy_of_cpus(self):
        program = self.program("measure_cpus", self.socket)
        self.assertEqual(self.next_answer(program), {"cpu_mj": [1000, 2000], "dram_mj": [500, None]})
        self.finish(program)

    def test_streams_of_gpus_and_cpus(self):
        program = self.program("stream_power", self.socket, DEVICES="2")
        self.assertEqual(self.next_answer(program), {"gpu_w": {"0": 75, "1": 100}, "cpu_w": {}})
        self.finish(program)


class WithTheAgent(ZeusTest):
    def setUp(self):
        super().setUp()
        self.start_agent()

    def test_limits_and_clocks_are_set_and_go_back(self):
        program = self.program("set_and_reset")
        self.assertEqual(self.next_answer(program), {"kind": "ZeusdNVIDIAGPU", "gpus": 2})
        self.assertEqual(self.next_answer(program), {"limit_mw": 400000})
        self.assertEqual(self.locked(), [900, 1200])
        self.assertEqual(self.machine()[0]["power_limit_w"], 400)
        self.go_on(program)
        self.assertEqual(self.next_answer(program), {"limit_mw": 700000})
        self.expect_default()
        self.go_on(program)
        self.assertEqual(self.next_answer(program), {"locked": True})
        self.assertEqual(self.locked(), [900, 900])
        self.finish(program)
        self.expect_default()

    def test_streams_of_the_simulated_gpus(self):
        program = self.program("stream_power", DEVICES="2")
        readings = self.next_answer(program)["gpu_w"]
        self.assertEqual(set(readings), {"0", "1"})
        for power_w in readings.values():
            self.assertGreater(power_w, 10)
        self.finish(program)

    def test_two_processes_of_one_user_set_limit_and_clocks(self):
        limiter = self.program("set_power_limit")
        self.assertEqual(self.next_answer(limiter), {"limit_mw": 400000})
        locker = self.program("lock_clocks")
        self.assertEqual(self.next_answer(locker), {"locked": True})
        self.finish(limiter)
        lease = lambda: self.http("GET", "/v1/leases")[1]["leases"][0]  # noqa: E731
        wait_until(lambda: lease()["pid"] == locker.pid, "the lease goes on with the other process")
        self.assertEqual(self.locked(), [900, 1200])
        self.finish(locker)
        self.expect_default()

    def test_the_power_monitor_sees_gpus_that_do_nothing(self):
        program = self.program("monitor_power")
        if not self.next_answer(program)["started"]:
            self.skipTest("this machine is too busy for Zeus' power monitor, whose processes have 10 s to start")
        answer = self.next_answer(program)
        self.assertEqual(answer["domains"], ["device_average", "device_instant"])
        self.assertEqual(answer["warnings"], [])
        self.assertGreaterEqual(answer["samples"], 12)
        self.assertGreater(answer["energy_j"], 0)
        self.assertAlmostEqual(answer["mean_w"], 68.4, delta=2)
        self.finish(program)

    def test_the_monitor_measures_the_energy_that_is_used(self):
        program = self.program("monitor_energy")
        answer = self.next_answer(program)
        self.assertEqual(set(answer["gpu_energy_j"]), {"0", "1"})
        self.assertGreater(answer["gpu_energy_j"]["0"], answer["inner_j"] - MAX_STEP_J)
        self.assertLess(answer["gpu_energy_j"]["0"], answer["outer_j"] + MAX_STEP_J)
        self.finish(program)


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: {reason}", file=sys.stderr)
        raise SystemExit(SKIP_CODE)
    unittest.main()
