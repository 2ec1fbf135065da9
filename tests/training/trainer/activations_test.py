"""What the activations of a microbatch take, from a training that measures it to a plan, on simulated GPUs with a real
agent."""

import csv
import json
import unittest

from agent_training import AgentTraining

CLOCKS_MHZ = [1410, 1200, 1005, 885]
LAYERS, HIDDEN, TOKENS, MICROBATCHES = 4, 32, 16, 2
BETWEEN_LAYERS = TOKENS * HIDDEN * 4  # bytes, fp32

CONFIG = f"""
model: {{vocabulary: 256, hidden: {HIDDEN}, layers: {LAYERS}, heads: 2}}
data: {{synthetic_tokens: 20000, sequence_length: {TOKENS}}}
parallel: {{pp: 2}}
microbatches: {MICROBATCHES}
recompute: true
steps: {len(CLOCKS_MHZ) * 6}
metrics: metrics.jsonl
energy:
  recording: rec
  profile: {{clocks_mhz: {CLOCKS_MHZ}, settle_iterations: 1, iterations: 5}}
simulated_gpu: {{layer_forward_s: 0.015}}
"""


class ActivationsTest(AgentTraining):
    config = CONFIG
    gpus = "2xA100"

    def setUp(self):
        super().setUp()
        self.profile = str(self.folder / "profile.csv")
        self.trained = self.run_lowgear("train", str(self.folder / "job.yaml"))

    def profile_words(self):
        return ["profile", str(self.folder / "rec"), "--accept-invalid", "--blocking-power", "60", "--out", self.profile]

    def refused(self, *words):
        process = self.start(*words)
        _, err = process.communicate(timeout=self.patience_s)
        self.assertEqual(process.returncode, 2, err)
        return err

    def plan(self, limit):
        return ["plan", "--profile", self.profile, "--microbatches", "6", "--policy", "envpipe", "--schedule", "1f1b",
                "--memory-limit", limit, "--blocking-power", "60", "--out", str(self.folder / "out")]

    def test_what_was_measured_bounds_a_plan(self):
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        measured = {line["step"]: line["activation_bytes"] for line in lines if "activation_bytes" in line}
        self.assertEqual(list(measured), [1])
        first, last = measured[1]
        # Layers are computed again: what enters each of two and what leaves them.
        self.assertEqual(first, 3 * BETWEEN_LAYERS)
        self.assertGreater(last, first)

        self.assertEqual((self.folder / "rec/rank-00001/activations.csv").read_text(),
                         f"iteration,stage,activation_bytes\n1,1,{last}\n")
        summary = json.loads(self.run_lowgear(*self.profile_words(), "--json"))
        self.assertEqual(summary["activation_bytes"], [first, last])
        with open(self.profile, encoding="utf-8") as file:
            column = {(int(row["stage"]), float(row["activation_bytes"])) for row in csv.DictReader(file)}
        self.assertEqual(column, {(0, first), (1, last)})

        self.run_lowgear(*self.plan(f"{2 * first}B,{last}B"))
        self.assertIn("rank 0 holds 2 activations under 1F1B", self.refused(*self.plan(f"{2 * first - 1}B,{last}B")))

        file = self.folder / "rec/rank-00000/activations.csv"
        file.write_text("iteration,stage,activation_bytes\n1,0,none\n")
        self.assertIn("rank-00000/activations.csv:2:5: ", self.refused(*self.profile_words()))


if __name__ == "__main__":
    unittest.main()
