"""`lowgear doctor` on simulated GPUs with the real agent: it changes a clock only when it is asked to."""

import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "control" / "agent"))
from agent_test_base import AgentTest  # noqa: E402

TRIES = 4  # other work on the machine makes times differ


class MeasuresSwitchLatency(AgentTest):
    gpus = "1xH100"

    def setUp(self):
        super().setUp()
        self.set_environment("LOWGEAR_AGENT_SOCKET", str(self.folder / "lease.sock"))

    def set_environment(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name) if before is None else os.environ.update({name: before}))

    def writes(self):
        shown = json.loads(self.lowgear("simgpu", "show", "--state", str(self.folder / "machine"), "--json").stdout)
        return shown["gpus"][0]["writes"]

    def doctor(self, *options):
        return json.loads(self.lowgear("doctor", "--json", *options).stdout)

    def test_it_changes_no_clock_unasked(self):
        self.start_agent()
        before = self.writes()
        text = self.lowgear("doctor").stdout
        self.assertIn("switch latency not measured", text)
        self.assertIn("lowgear doctor --measure-switch-latency", text)
        self.assertTrue(text.endswith("Next: train with clocks that follow plans: lowgear train CONFIG\n"), text)
        self.assertIsNone(self.doctor()["switch_latencies"])
        self.assertEqual(self.writes(), before)

    def test_it_measures_through_the_agent_and_restores_the_clocks(self):
        self.start_agent()
        for _ in range(TRIES):
            measured = self.doctor("--measure-switch-latency")["switch_latencies"][0]
            if "latency_s" in measured:
                break
        # The simulated H100: a call of about 15 ms, then the transition.
        self.assertGreater(measured["latency_s"], 0.005, measured)
        self.assertLess(measured["latency_s"], 0.2)
        self.assertLess(measured["error_s"], 0.02)
        self.assertGreaterEqual(measured["changes"], 10)
        self.assertGreater(self.writes(), 10)
        self.expect_default()

    def test_the_text_says_what_to_do_with_it(self):
        self.start_agent()
        for _ in range(TRIES):
            text = self.lowgear("doctor", "--measure-switch-latency").stdout
            if "take effect" in text:
                break
        self.assertRegex(text, r"clock changes take effect [0-9.]+ \+-[0-9.]+ ms after the request \(\d+ changes\)")
        self.assertRegex(text, r"-> plan with it .*: lowgear plan --switch-latency [0-9.]+")

    def test_a_gpu_of_another_program_is_left_alone(self):
        self.start_agent()
        self.assertEqual(self.start_client([1200])[1], "ok")
        self.assertIn("problem", self.doctor("--measure-switch-latency")["switch_latencies"][0])

    def test_an_agent_that_writes_nothing_cannot_tell(self):
        self.start_agent("--no-writes")
        before = self.writes()
        self.assertIn("--no-writes", self.doctor("--measure-switch-latency")["switch_latencies"][0]["problem"])
        self.assertEqual(self.writes(), before)

    def test_without_an_agent_nothing_is_changed(self):
        text = self.lowgear("doctor", "--measure-switch-latency").stdout
        self.assertIn("no agent responds", text)
        self.assertTrue(text.endswith("Next: measure the energy of a command: lowgear monitor -- COMMAND\n"), text)
        self.assertEqual(self.writes(), 0)


if __name__ == "__main__":
    unittest.main()
