"""A clock sweep that is ended in the middle and continues from its checkpoint, on a simulated GPU with a real agent."""

import csv
import json
import signal
import unittest
from collections import Counter

from agent_training import AgentTraining

CLOCKS_MHZ = [1410, 1200, 1005, 885]
SETTLE, COUNTED = 1, 6
STEPS = len(CLOCKS_MHZ) * (SETTLE + COUNTED)
MICROBATCHES = 2

CONFIG = f"""
model: {{vocabulary: 256, hidden: 32, layers: 1, heads: 2}}
data: {{synthetic_tokens: 20000, sequence_length: 16}}
microbatches: {MICROBATCHES}
steps: {STEPS}
checkpoint: {{folder: checkpoints, every: 1}}
metrics: metrics.jsonl
energy:
  recording: rec
  profile: {{clocks_mhz: {CLOCKS_MHZ}, settle_iterations: {SETTLE}, iterations: {COUNTED}}}
simulated_gpu: {{layer_forward_s: 0.03}}
"""


class ProfileResumeTest(AgentTraining):
    config = CONFIG

    def steps(self):
        file = self.folder / "metrics.jsonl"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def train_until(self, steps):
        """Ends training after a step once that many are done."""
        job = self.start("train", str(self.folder / "job.yaml"))
        self.wait_until(lambda: self.steps() >= steps or job.poll() is not None, "it trains")
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=self.patience_s)
        self.assertIn("stopping after this step", err)

    def units(self, part):
        with open(self.folder / "rec" / part / "rank-00000" / "units.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_continues_with_the_clock_at_which_it_ended(self):
        within_second_clock = SETTLE + COUNTED + SETTLE + 2
        self.train_until(within_second_clock)
        ended_after = self.steps()
        self.assertLess(ended_after, STEPS)
        self.run_lowgear("train", str(self.folder / "job.yaml"))
        self.assertEqual(self.steps(), STEPS)

        before, later = self.units(""), self.units("part-00001")
        self.assertEqual([int(unit["iteration"]) for unit in before + later],
                         [step for step in range(STEPS) for _ in range(2 * MICROBATCHES)])
        length = SETTLE + COUNTED
        counted = Counter()
        for part, first in (before, 0), (later, ended_after):
            for unit in part:
                step = int(unit["iteration"])
                begins = max(step // length * length, first)
                self.assertEqual(int(unit["settling"]), int(step - begins < SETTLE), unit)
                if unit["settling"] == "0":
                    # 0 where the agent has not answered yet: the profiler leaves such units out.
                    self.assertIn(int(unit["frequency"]), (0, CLOCKS_MHZ[step // length]), unit)
                    counted[int(unit["frequency"])] += 1

        profile = self.folder / "profile.csv"
        summary = json.loads(self.run_lowgear("profile", str(self.folder / "rec"), "--accept-invalid", "--skip-iterations", "0",
                                              "--blocking-power", "60", "--out", str(profile), "--json"))
        self.assertEqual({cell["frequency"] for cell in summary["cells"]}, set(CLOCKS_MHZ))
        for clock_mhz in CLOCKS_MHZ:
            units = sum(cell["units"] for cell in summary["cells"] if cell["frequency"] == clock_mhz)
            self.assertEqual(units, counted[clock_mhz])

    def test_says_at_once_that_another_process_holds_the_gpu(self):
        alone = [word for setting in ("energy=", "checkpoint=") for word in ("--set", setting)]
        first = self.start("train", str(self.folder / "job.yaml"), *alone, "--set", "steps=10000")
        self.addCleanup(self.end, first)
        self.wait_until(lambda: self.steps() > 0 or first.poll() is not None, "it trains")
        second = self.start("train", str(self.folder / "job.yaml"), *alone, "--set", "metrics=", "--set", "steps=1")
        _, err = second.communicate(timeout=self.patience_s)
        self.assertEqual(second.returncode, 0, err)
        self.assertRegex(err, r"rank 0: no plan is followed on GPU-\S+: process \d+ of user .* holds this GPU")


if __name__ == "__main__":
    unittest.main()
