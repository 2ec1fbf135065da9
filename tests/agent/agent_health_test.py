"""The real agent beside simulated GPUs that hang, are lost or fail: it says so at once, and serves the others."""

import os
import signal
import threading
import unittest

from agent_test_base import AgentTest, wait_until

HOUR_S = 3600


class HealthTest(AgentTest):
    suspend_after_s = "30, hung_after_s: 2"
    driver_timeout_s = 1
    allow = "everybody: true, power: true, persistence: true, memory_clocks: true"

    def setUp(self):
        super().setUp()
        self.uuids = [gpu["uuid"] for gpu in self.machine()]
        self.agent = self.start_agent()

    def inject(self, *words, gpu=0):
        self.lowgear("simgpu", "inject", "--gpu", str(gpu), *words)

    def gpu(self, gpu=0):
        return self.http("GET", "/v1/gpus")[1]["gpus"][gpu]

    def expect_degraded(self, words):
        def health():
            shown = self.http("GET", "/healthz")[1]
            return shown["status"], shown["gpus"], shown["healthy_gpus"], len(shown["problems"])

        wait_until(lambda: health() == ("degraded", 2, 1, 1), lambda: f"it is degraded: {health()}")
        health = self.http("GET", "/healthz")[1]
        self.assertIn(self.uuids[0], health["problems"][0])
        self.assertIn(words, health["problems"][0])
        self.assertFalse(self.gpu()["healthy"])
        self.assertIn(words, self.gpu()["problem"])
        self.assertTrue(self.gpu(1)["healthy"])
        status = self.lowgear("agent", "status", "--config", str(self.config)).stdout
        self.assertIn(f"not healthy: {self.uuids[0]}: ", status)
        self.assertNotIn(f"not healthy: {self.uuids[1]}", status)
        metrics = self.http("GET", "/metrics")[1]
        self.assertIn(f'lowgear_gpu_healthy{{gpu="0",uuid="{self.uuids[0]}"}} 0', metrics)
        self.assertIn(f'lowgear_gpu_healthy{{gpu="1",uuid="{self.uuids[1]}"}} 1', metrics)
        self.assertNotIn(f'lowgear_gpu_power_watts{{gpu="0"', metrics)

    def expect_age_grows(self):
        wait_until(lambda: self.gpu()["reading_age_s"] > 1, "the age of its reading shows")
        metrics = self.http("GET", "/metrics")[1]
        age = next(line for line in metrics.splitlines() if line.startswith('lowgear_gpu_reading_age_seconds{gpu="0"'))
        self.assertGreater(float(age.split()[-1]), 1)
        wait_until(lambda: self.gpu(1)["reading_age_s"] < self.gpu(0)["reading_age_s"], "the other one's does not grow")


class Degraded(HealthTest):
    def test_when_a_gpu_is_lost(self):
        wait_until(lambda: self.gpu()["reading_age_s"] is not None, "it has been read")
        self.assertEqual(self.http("GET", "/healthz")[1]["status"], "ok")
        self.inject("--lost")
        self.expect_degraded("lost")
        self.expect_age_grows()
        self.lowgear("simgpu", "reset", "--gpu", "0")
        wait_until(lambda: self.http("GET", "/healthz")[1]["status"] == "ok", "it answers again")

    def test_when_the_file_of_its_gpus_is_cut_off(self):
        self.http("POST", f"/v1/gpus/{self.uuids[0]}/clocks", {"min_mhz": 1200, "max_mhz": 1200})
        os.truncate(os.environ["LOWGEAR_SIMGPU"], 0)
        wait_until(lambda: self.http("GET", "/healthz")[1]["healthy_gpus"] == 0, "it says so")
        self.assertIn("lost", self.gpu()["problem"])
        self.kill(self.agent, signal.SIGTERM)
        self.assertEqual(self.agent.returncode, 1)
        self.assertIn(self.uuids[0], self.agent.stderr.read(), "it is left changed, as far as anybody knows")

    def test_when_a_reading_hangs(self):
        wait_until(lambda: self.gpu()["reading_age_s"] is not None, "it has been read")
        self.inject("--call", "DeviceGetTemperature", "--delay", str(HOUR_S), "--count", "1")
        self.expect_degraded("the driver does not respond")
        self.expect_age_grows()

    def test_when_a_reading_fails(self):
        self.inject("--call", "DeviceGetTotalEnergyConsumption", "--return-code", "999")
        self.expect_degraded("energy counter")
        self.lowgear("simgpu", "reset", "--gpu", "0")
        wait_until(lambda: self.http("GET", "/healthz")[1]["status"] == "ok", "it answers again")

    def test_when_its_setters_fail(self):
        self.inject("--call", "DeviceSetGpuLockedClocks", "--return-code", "999")
        status, _ = self.http("POST", f"/v1/gpus/{self.uuids[0]}/clocks", {"min_mhz": 900, "max_mhz": 1200})
        self.assertEqual(status, 500)
        wait_until(lambda: self.http("GET", "/healthz")[1]["status"] == "degraded", "it is degraded")
        self.assertIn(self.uuids[0], self.http("GET", "/healthz")[1]["problems"][0])


class HoldsUpNoOther(HealthTest):
    """Every call to the driver of GPU 0 hangs for an hour; whatever is asked of GPU 1 is answered all the same."""

    driver_timeout_s = 600  # longer than anything of GPU 1 takes

    def test_else_while_a_gpu_hangs(self):
        self.inject("--call", "*", "--delay", str(HOUR_S))
        for path, body in (("clocks", {"min_mhz": 900, "max_mhz": 1200}), ("power_limit", {"power_limit_w": 300})):
            threading.Thread(target=self.http, args=("POST", f"/v1/gpus/{self.uuids[0]}/{path}", body),
                             daemon=True).start()
        wait_until(lambda: self.http("GET", "/healthz")[1]["status"] == "degraded", "what hangs has begun")
        for _ in range(20):
            for method, path, body in (("POST", "clocks", {"min_mhz": 900, "max_mhz": 1200}),
                                       ("POST", "power_limit", {"power_limit_w": 300}), ("DELETE", "clocks", None)):
                self.assertEqual(self.http(method, f"/v1/gpus/{self.uuids[1]}/{path}", body)[0], 200)
            for path in ("/healthz", "/v1/gpus", "/metrics", "/v1/leases"):
                self.assertEqual(self.http("GET", path)[0], 200)

    def test_else_while_a_getter_hangs_that_decides_who_may_what(self):
        for call in ("DeviceGetSupportedGraphicsClocks", "DeviceGetSupportedMemoryClocks",
                     "DeviceGetPowerManagementLimitConstraints"):
            self.inject("--call", call, "--delay", str(HOUR_S))
        status, answer = self.http("POST", f"/v1/gpus/{self.uuids[0]}/clocks", {"min_mhz": 1, "max_mhz": 1200})
        self.assertEqual(status, 400, answer)  # by what is known of the GPU since the start


if __name__ == "__main__":
    unittest.main()
