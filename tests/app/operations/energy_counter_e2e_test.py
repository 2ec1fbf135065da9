"""`lowgear monitor`, a window of the client and the agent on simulated GPUs whose energy counter stands still, jumps,
falls or contradicts the power readings: no energy is wrong without a word."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agent"))
from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until  # noqa: E402

DOUBLE, REAL = os.environ["LOWGEAR_COUNTER_DOUBLE"], os.environ["LOWGEAR_NVML"]
# What the counter does, by how much, whether from the start, and what is said of it.
VARIANTS = {
    "frozen": ("freeze", 1, False, "shows no energy for"),
    "frozen from the start": ("freeze", 1, True, "shows no energy for"),
    "jump": ("jump", 1, False, "W are possible"),
    "fall": ("fall", 1, False, "shows -"),
    "57 %": ("scale", 0.57, True, "the power readings make"),
    "180 %": ("scale", 1.8, True, "W are possible|the power readings make"),
    "missing": ("none", 1, True, "ot Supported"),
}
# Load, a change of the counter, load, and nothing; the true energy before and after it.
SCRIPT = """
true_energy() { LOWGEAR_NVML=$REAL "$LOWGEAR" simgpu show --json; }
load() { LOWGEAR_NVML=$REAL "$LOWGEAR" simgpu run --gpu 0 --time $1 > /dev/null; }
true_energy > "$FOLDER/before"
load 1.5
touch "$COUNTER_DOUBLE_WHILE"
load 1.5
sleep 1
true_energy > "$FOLDER/after"
"""


def true_energy_j(folder, name):
    return json.loads((folder / name).read_text())["gpus"][0]["true_energy_j"]


class EnergyCounter(AgentTest):
    gpus = "1xA100"

    def environment(self, folder, mode, by):
        return {**os.environ, "LOWGEAR": LOWGEAR, "REAL": REAL, "FOLDER": str(folder), "LOWGEAR_NVML": DOUBLE,
                "LOWGEAR_SIMGPU": str(folder / "machine"), "COUNTER_DOUBLE": mode, "COUNTER_DOUBLE_BY": str(by),
                "COUNTER_DOUBLE_WHILE": str(folder / "spoilt")}

    def monitor(self, name):
        mode, by, from_start, _ = VARIANTS[name]
        folder = self.folder / mode / str(by) / str(from_start)
        folder.mkdir(parents=True)
        environment = self.environment(folder, mode, by)
        subprocess.run([LOWGEAR, "simgpu", "create", "--gpus", self.gpus], env=environment, check=True,
                       capture_output=True, timeout=PATIENCE_S)
        if from_start:
            (folder / "spoilt").touch()
        command = [LOWGEAR, "monitor", "--out", str(folder / "out"), "--", "sh", "-ec", SCRIPT]
        return folder, self.start(command, env=environment)

    def test_monitor_gives_way_to_power_readings(self):
        started = {name: self.monitor(name) for name in VARIANTS}
        for name, (folder, process) in started.items():
            with self.subTest(name):
                text = process.communicate(timeout=PATIENCE_S)
                self.assertEqual(process.returncode, 0, text)
                gpu = json.loads((folder / "out").read_text())["gpus"][0]
                truth_j = true_energy_j(folder, "after") - true_energy_j(folder, "before")
                # The window is some milliseconds longer than what the truth is of.
                self.assertLess(abs(gpu["energy_j"] - truth_j), gpu["energy_uncertainty_j"] + 0.1 * truth_j, gpu)
                self.assertRegex(gpu["problem"], VARIANTS[name][3])
                self.assertIn(gpu["problem"], text[1])
                self.assertLess(gpu["peak_power_w"], 800)
                # Few readings, on a machine with other work, allow a counter more before they contradict it.
                if VARIANTS[name][0] != "scale":
                    self.assertEqual(gpu["energy_source"], "integrated power", gpu)

    def test_a_window_of_the_client_gives_way_to_power_readings(self):
        environment = self.environment(self.folder, "freeze", 1)
        program = ("import os, subprocess, lowgear\n"
                   f"script = '''{SCRIPT}'''\n"
                   "with lowgear.Client(agent_socket='', local_rank=0) as client:\n"
                   "    with client.window('w') as window:\n"
                   "        subprocess.run(['sh', '-ec', script], check=True)\n"
                   "    measured = window.measurement\n"
                   "    print(measured.energy_source, measured.energy_j, measured.energy_uncertainty_j)\n"
                   "    print(measured.problem)\n"
                   "    print(client.status().problem)\n")
        ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True,
                             timeout=PATIENCE_S)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        measured, problem, status = ran.stdout.splitlines()
        self.assertTrue(measured.startswith("integrated power "), ran.stdout)
        energy_j, error_j = (float(word) for word in measured.split()[2:])
        truth_j = true_energy_j(self.folder, "after") - true_energy_j(self.folder, "before")
        self.assertLess(abs(energy_j - truth_j), error_j + 0.1 * truth_j)
        self.assertIn("shows no energy for", problem)
        self.assertIn("energies are those of the power readings", status)

    def test_the_agent_publishes_no_counter_that_stands_still(self):
        os.environ.update(self.environment(self.folder, "freeze", 1))
        self.addCleanup(os.environ.update, {"LOWGEAR_NVML": REAL})
        agent = self.start_agent()
        wait_until(lambda: self.http("GET", "/v1/gpus")[1]["gpus"][0]["reading"]["energy_j"], "there is an energy")
        self.assertTrue(self.discovered())
        self.assertEqual(self.http("GET", "/healthz")[1]["status"], "ok")
        spoilt = self.folder / "spoilt"
        spoilt.touch()
        wait_until(lambda: not self.discovered(), "the counter is seen to stand still")
        gpu = self.http("GET", "/v1/gpus")[1]["gpus"][0]
        self.assertTrue(gpu["healthy"])
        self.assertIn("shows no energy for", gpu["energy_problem"])
        self.assertIsNone(gpu["reading"]["energy_j"])
        status, answer = self.http("GET", "/gpu/get_cumulative_energy")
        self.assertEqual(status, 400)
        self.assertIn("shows no energy for", json.dumps(answer))
        health = self.http("GET", "/healthz")[1]
        self.assertEqual((health["status"], health["healthy_gpus"]), ("degraded", 1))
        metrics = self.http("GET", "/metrics")[1]
        self.assertNotIn("lowgear_gpu_energy_joules_total{", metrics)
        self.assertRegex(metrics, r'lowgear_gpu_energy_set_aside_total\{.*reason="stands_still"\} 1\n')
        self.assertIn("shows no energy for", self.lowgear("doctor").stdout)
        self.assertIn(f"energy of {gpu['uuid']}: the energy counter shows no energy for",
                      self.lowgear("agent", "status", "--config", str(self.config)).stdout)
        spoilt.unlink()
        wait_until(self.discovered, "the counter moves again")
        self.assertGreater(self.http("GET", "/gpu/get_cumulative_energy")[1]["0"]["energy_mj"], 0)
        agent.terminate()
        log = agent.communicate(timeout=PATIENCE_S)[1]
        self.assertIn("its energy is not available until the counter can be right", log)

    def discovered(self):
        return self.http("GET", "/discover")[1]["gpus"][0]["cumulative_energy_available"]


if __name__ == "__main__":
    unittest.main()
