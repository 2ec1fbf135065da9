"""Limits and modes of simulated GPUs as the real agent tells them, whoever has changed them."""

import subprocess
import sys
import unittest

from agent_test_base import PATIENCE_S, AgentTest, wait_until

# Writes to GPU 0 as any program of the machine's administrator may.
FOREIGN = """
import ctypes, os, sys
nvml = ctypes.CDLL(os.environ["LOWGEAR_NVML"])
gpu = ctypes.c_void_p()
sys.exit(nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(gpu))
         or nvml.nvmlDeviceSetPowerManagementLimit(gpu, 450000) or nvml.nvmlDeviceSetPersistenceMode(gpu, 0))
"""


class TellsSettings(AgentTest):
    allow = "everybody: true, power: true, persistence: true"

    def expect(self, path, values):
        wait_until(lambda: self.http("GET", path)[1] == values, f"{path} answers {values}")

    def test_as_they_are_at_the_start(self):
        self.start_agent()
        self.expect("/gpu/get_persistence_mode", {"0": {"enabled": True}, "1": {"enabled": True}})
        self.expect("/gpu/get_power_limit", {"0": {"power_limit_mw": 700000}, "1": {"power_limit_mw": 700000}})

    def test_as_another_process_has_set_them(self):
        self.start_agent()
        subprocess.run([sys.executable, "-c", FOREIGN], check=True, timeout=PATIENCE_S)
        self.expect("/gpu/get_persistence_mode", {"0": {"enabled": False}, "1": {"enabled": True}})
        self.expect("/gpu/get_power_limit", {"0": {"power_limit_mw": 450000}, "1": {"power_limit_mw": 700000}})

    def test_as_a_client_has_set_them(self):
        self.start_agent()
        for call in ("set_power_limit?gpu_ids=1&block=true&power_limit_mw=500000",
                     "set_persistence_mode?gpu_ids=1&block=true&enabled=false"):
            self.assertEqual(self.http("POST", "/gpu/" + call)[0], 200)
        self.expect("/gpu/get_persistence_mode", {"0": {"enabled": True}, "1": {"enabled": False}})
        self.expect("/gpu/get_power_limit", {"0": {"power_limit_mw": 700000}, "1": {"power_limit_mw": 500000}})

    def test_its_log_for_debugging_has_requests_and_writes(self):
        agent = self.start_agent("--log-level", "debug")
        call = "set_power_limit?gpu_ids=1&block=true&power_limit_mw=500000"
        self.assertEqual(self.http("POST", "/gpu/" + call)[0], 200)
        agent.terminate()
        log = agent.communicate(timeout=PATIENCE_S)[1]
        self.assertIn("lowgear: debug: POST /gpu/set_power_limit from unix: 200", log)
        self.assertRegex(log, "lowgear: debug: GPU [^ ]*: .*500")
        self.assertNotIn("power_limit_mw", log)


if __name__ == "__main__":
    unittest.main()
