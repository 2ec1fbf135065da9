"""Power features of the vendor as the real agent sets, guards, shows and restores them, on simulated GPUs."""

import json
import signal
import subprocess
import sys
import unittest

from agent_test_base import PATIENCE_S, AgentTest, wait_until

# A process that asks the agent over HTTP, says its status, and lives until its standard input ends: its lease, too.
HOLDER = """
import http.client, json, socket, sys
connection = http.client.HTTPConnection("agent")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
for request in sys.argv[2:]:
    path, body = request.split(" ", 1)
    connection.request("POST", path, body)
    answer = connection.getresponse()
    answer.read()
    print(answer.status, flush=True)
sys.stdin.read()
"""

# Requests max_p and max_q, which conflict, as any program of the machine's administrator may.
FOREIGN = """
import ctypes, os, sys
nvml = ctypes.CDLL(os.environ["LOWGEAR_NVML"])
gpu = ctypes.c_void_p()
update = (ctypes.c_uint * 9)(2, 0b11)
sys.exit(nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))
         or nvml.nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(gpu, update))
"""

LLM_TRAINING = 1 << 7
MAX_Q = 1 << 1


class PowerTest(AgentTest):
    gpus = "H100+power,H100"
    allow = "everybody: true, power: true, workload_power_profiles: true, power_smoothing: true"

    def path(self, what, gpu=0):
        return f"/v1/gpus/{self.machine()[gpu]['uuid']}/{what}"

    def hold(self, *requests):
        """Starts a process that makes these requests and keeps its lease."""
        words = [f"{self.path(what)} {json.dumps(body)}" for what, body in requests]
        holder = self.start([sys.executable, "-c", HOLDER, str(self.folder / "agent.sock"), *words],
                            stdin=subprocess.PIPE)
        for _ in requests:
            self.assertEqual(holder.stdout.readline().strip(), "200")
        return holder

    def changed(self):
        return (self.machine()[0]["requested_power_profiles"], self.machine()[0]["power_smoothing"],
                self.machine()[0]["power_smoothing_preset"])

    def expect_original(self):
        wait_until(lambda: self.changed() == (0, False, 0), "the power features are as they were")
        self.assertEqual(self.machine()[0]["power_limit_w"], 700)


class Sets(PowerTest):
    def test_shows_and_restores_with_clocks_and_limit_in_one_lease(self):
        self.start_agent()
        holder = self.hold(("workload_power_profiles", {"profiles": ["llm_training", "max_q"]}),
                           ("power_smoothing", {"enabled": True, "preset": 2}),
                           ("power_limit", {"power_limit_w": 400}), ("clocks", {"min_mhz": 1200, "max_mhz": 1200}))
        self.assertEqual(self.changed(), (LLM_TRAINING | MAX_Q, True, 2))
        self.assertEqual(self.locked(), [1200, 1200])
        self.assertEqual(len(self.http("GET", "/v1/leases")[1]["leases"]), 1)
        shown = lambda: self.http("GET", "/v1/gpus")[1]["gpus"][0]
        wait_until(lambda: shown()["workload_power_profiles"]["enforced"] == ["max_q", "llm_training"], "it shows them")
        self.assertEqual(shown()["power_smoothing"]["active_preset"], 2)
        self.assertEqual(shown()["power_smoothing"]["ramp_up_w_per_s"], 300)
        self.assertIsNone(self.http("GET", "/v1/gpus")[1]["gpus"][1]["workload_power_profiles"])
        self.assertIn('profile="llm_training",state="enforced"} 1', self.http("GET", "/metrics")[1])
        holder.stdin.close()
        holder.wait(PATIENCE_S)
        self.expect_default()
        self.expect_original()

    def test_other_than_the_driver_knows(self):
        self.start_agent()
        status, answer = self.http("POST", self.path("workload_power_profiles"), {"profiles": ["max_p", "max_q"]})
        self.assertEqual(status, 400, answer)
        self.assertIn("max_p conflicts with max_q", answer["error"]["message"])
        status, answer = self.http("POST", self.path("workload_power_profiles"), {"profiles": ["hpc"]})
        self.assertIn("it has no hpc", answer["error"]["message"])
        self.assertEqual(self.http("POST", self.path("power_smoothing"), {"enabled": True, "preset": 4})[0], 400)
        self.assertEqual(self.changed(), (0, False, 0))

    def test_not_on_a_gpu_without_them(self):
        self.start_agent()
        for what, body in (("workload_power_profiles", {"profiles": ["max_q"]}), ("power_smoothing", {"enabled": True})):
            status, answer = self.http("POST", self.path(what, gpu=1), body)
            self.assertEqual((status, answer["error"]["code"]), (501, "not_supported"), answer)

    def test_not_where_the_driver_does_not_accept_the_version_of_the_structure(self):
        self.start_agent()
        self.lowgear("simgpu", "inject", "--gpu", "0", "--call", "DeviceWorkloadPowerProfileGetProfilesInfo",
                     "--return-code", "25")
        status, answer = self.http("POST", self.path("workload_power_profiles"), {"profiles": ["max_q"]})
        self.assertEqual((status, answer["error"]["code"]), (501, "not_supported"), answer)
        self.assertIn("does not accept Lowgear's version", answer["error"]["message"])
        self.assertEqual(self.changed(), (0, False, 0))


class Refuses(PowerTest):
    allow = "everybody: true, power: true"

    def test_without_the_right(self):
        self.start_agent()
        for what, body, right in (("workload_power_profiles", {"profiles": ["max_q"]}, "workload_power_profiles"),
                                  ("power_smoothing", {"enabled": True}, "power_smoothing")):
            status, answer = self.http("POST", self.path(what), body)
            self.assertEqual(status, 403, answer)
            self.assertIn(f"{right}: true", answer["error"]["message"])
        self.assertEqual(self.http("DELETE", self.path("workload_power_profiles"))[0], 403)
        self.assertEqual(self.machine()[0]["writes"], 0)


class Restores(PowerTest):
    def change(self):
        holder = self.hold(("workload_power_profiles", {"profiles": ["llm_training"]}),
                           ("power_smoothing", {"enabled": True, "preset": 1}))
        self.assertEqual(self.changed(), (LLM_TRAINING, True, 1))
        return holder

    def test_when_the_process_is_killed(self):
        self.start_agent()
        self.kill(self.change())
        self.expect_original()

    def test_what_another_program_has_requested_even_if_it_conflicts(self):
        subprocess.run([sys.executable, "-c", FOREIGN], check=True, timeout=PATIENCE_S)
        self.assertEqual(self.changed(), (0b11, False, 0))
        agent = self.start_agent()
        holder = self.change()
        self.kill(agent)
        self.kill(holder)
        self.assertEqual(self.changed(), (LLM_TRAINING, True, 1))
        self.start_agent()
        self.assertEqual(self.changed(), (0b11, False, 0))

    def test_when_the_agent_ends(self):
        agent = self.start_agent()
        self.change()
        self.kill(agent, signal.SIGTERM)
        self.assertEqual(self.changed(), (0, False, 0))

    def test_at_the_next_start_after_the_agent_was_killed(self):
        agent = self.start_agent()
        holder = self.change()
        self.kill(agent)
        self.kill(holder)
        self.assertEqual(self.changed(), (LLM_TRAINING, True, 1), "no process could restore it")
        preview = self.lowgear("agent", "restore", "--dry-run", "--config", str(self.config)).stdout
        self.assertIn("workload power profiles to none, power smoothing to off", preview)
        self.start_agent()
        self.assertEqual(self.changed(), (0, False, 0))


if __name__ == "__main__":
    unittest.main()
