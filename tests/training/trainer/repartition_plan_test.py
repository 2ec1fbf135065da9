"""A job on two simulated GPUs with a real agent that freezes blocks and follows a profile: partition and clocks change at
one step, and what it trains is the same as without."""

import csv
import json
import unittest
from collections import Counter, defaultdict

from agent_training import AgentTraining

RANKS = 2
STEPS = 14
FROZEN_FROM = 6
CLOCKS_MHZ = [1410, 1200, 1005]

CONFIG = f"""
model: {{vocabulary: 256, hidden: 32, layers: 6, heads: 2}}
data: {{synthetic_tokens: 20000, sequence_length: 16}}
parallel: {{pp: {RANKS}}}
microbatches: 4
steps: {STEPS}
optimizer: {{learning_rate: 1e-2}}
simulated_gpu: {{layer_forward_s: 0.01}}
adapt:
  freeze: {{schedule: [{{step: {FROZEN_FROM}, blocks: 3}}]}}
"""


class RepartitionPlanTest(AgentTraining):
    config = CONFIG
    gpus = f"{RANKS}xA100"

    def write_profile(self):
        """Of two equal stages of three layers: lower clocks take longer, and less energy."""
        with open(self.folder / "profile.csv", "w", encoding="utf-8") as file:
            file.write("stage,instruction,frequency,time,energy\n")
            for stage in range(RANKS):
                for kind, time_s in (("forward", 0.03), ("backward", 0.06)):
                    for clock_mhz in CLOCKS_MHZ:
                        slower = CLOCKS_MHZ[0] / clock_mhz
                        energy_j = time_s * slower * (90 + 250 / slower ** 3)
                        file.write(f"{stage},{kind},{clock_mhz},{time_s * slower},{energy_j}\n")

    def lines(self, name):
        return [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]

    def units(self, folder):
        """Number of units by iteration and rank, and the clocks that the agent was asked for by iteration."""
        counts = defaultdict(Counter)
        clocks = defaultdict(set)
        tables = sorted(folder.glob("**/units.csv"))
        self.assertEqual(len(tables), RANKS)
        for rank, table in enumerate(tables):
            with open(table, encoding="utf-8") as file:
                for unit in csv.DictReader(file):
                    counts[int(unit["iteration"])][rank] += 1
                    clocks[int(unit["iteration"])].add(int(unit["frequency"]))
        return counts, clocks

    def test_partition_and_clocks_change_together(self):
        self.write_profile()
        job = str(self.folder / "job.yaml")
        self.run_lowgear("train", job, "--metrics", str(self.folder / "plain.jsonl"))
        repartition = f"{{profile: {self.folder / 'profile.csv'}, blocking_power: 80}}"
        out = self.run_lowgear("train", job, "--metrics", str(self.folder / "moved.jsonl"), "--record",
                               str(self.folder / "rec"), "--set", f"adapt.repartition={repartition}")
        plain, moved = self.lines("plain"), self.lines("moved")
        self.assertEqual([line["loss"] for line in moved], [line["loss"] for line in plain])
        self.assertEqual([line["step"] for line in moved], list(range(STEPS)))
        before, after = moved[FROZEN_FROM - 1]["partition"], moved[FROZEN_FROM]["partition"]
        self.assertEqual(before, "custom:0,3,6")
        self.assertGreater(int(after.split(",")[1]), 3)
        self.assertIn(f"before step {FROZEN_FROM + 1}: partition {after}", out)
        self.assertEqual([line["step"] for line in moved if "moved" in line], [FROZEN_FROM])
        self.assertGreater(moved[FROZEN_FROM]["time_s"], moved[FROZEN_FROM]["moved"]["time_s"])

        counts, clocks = self.units(self.folder / "rec")
        for step in range(STEPS):
            self.assertEqual(counts[step], Counter({rank: 8 for rank in range(RANKS)}), step)
            self.assertLessEqual(clocks[step], {0, *CLOCKS_MHZ}, step)
        self.assertTrue(clocks[STEPS - 1] - {0}, "the agent follows no plan")


if __name__ == "__main__":
    unittest.main()
