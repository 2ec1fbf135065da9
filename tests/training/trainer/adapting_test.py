"""Training that searches its operating point, on two simulated GPUs with a real agent: what it chooses depends on how busy
the machine is, but never what it trains, nor that all ranks are at one point."""

import csv
import json
import os
import signal
import unittest
from collections import defaultdict
from pathlib import Path

from agent_training import AgentTraining
from json_lines import lines_of, losses_of

RANKS = 2
POINTS = ["1410 MHz", "1200 MHz", "1005 MHz"]
STEPS = 60

CONFIG = f"""
model: {{vocabulary: 256, hidden: 32, layers: 2, heads: 2}}
data: {{synthetic_tokens: 20000, sequence_length: 16}}
parallel: {{pp: {RANKS}}}
microbatches: 2
steps: {STEPS}
optimizer: {{learning_rate: 1e-2}}
simulated_gpu: {{layer_forward_s: 0.01}}
adapt:
  slowdown: {{allowed_pct: 100, clocks_mhz: [1410, 1200, 1005]}}
  trial: {{block_s: 0.001, max_iterations: 40}}
"""


class AdaptingTest(AgentTraining):
    config = CONFIG
    gpus = f"{RANKS}xA100"
    allow = "everybody: true, power: true"

    def words(self, name, *more):
        return ["train", str(self.folder / "job.yaml"), "--metrics", str(self.folder / f"{name}.jsonl"), "--set",
                f"adapt.log={self.folder / name}-adapt.jsonl", *more]

    def lines(self, name):
        return lines_of(self.folder / f"{name}.jsonl")

    def losses(self, name):
        return losses_of(self.folder / f"{name}.jsonl")

    def clocks_of_iterations(self, recording):
        """The clocks in MHz at which each iteration's units ran, of all ranks; 0: the agent has not responded yet."""
        clocks = defaultdict(set)
        tables = list(recording.glob("**/units.csv"))
        self.assertEqual(len(tables), RANKS)
        for table in tables:
            with open(table, encoding="utf-8") as file:
                for unit in csv.DictReader(file):
                    clocks[int(unit["iteration"])].add(int(unit["frequency"]))
        return clocks

    def test_all_ranks_are_at_one_point_and_train_the_same_as_without(self):
        self.run_lowgear(*self.words("plain"))
        out = self.run_lowgear(*self.words("searching", "--adapt", "slowdown", "--record", str(self.folder / "rec")))
        self.assertEqual(self.losses("searching"), self.losses("plain"))
        self.assertNotIn("operating_point", self.lines("plain")[0])
        self.assertIn("after step 1: slowdown: try: 3 operating points", out)

        points = [line["operating_point"] for line in self.lines("searching")]
        self.assertEqual(set(points), set(POINTS))
        clocks = self.clocks_of_iterations(self.folder / "rec")
        for step in range(1, STEPS):
            if points[step] == points[step - 1]:  # else the clocks are changing
                self.assertLessEqual(clocks[step], {0, int(points[step].split()[0])}, step)

        decisions = [(line["step"], decision) for line in self.lines("searching")
                     for decision in line.get("decisions", [])]
        ended, last = next((step, decision) for step, decision in decisions
                           if decision["change"] in ("adopt", "reject"))
        self.assertEqual(set(points[ended:]), {POINTS[last["point"]]}, decisions)
        self.assertEqual(json.loads((self.folder / "searching-adapt.jsonl").read_text().splitlines()[0])["format"],
                         "lowgear.techniques/1")

    def power_limits_w(self):
        return [gpu["power_limit_w"] for gpu in json.loads(self.run_lowgear("simgpu", "show", "--json"))["gpus"]]

    def test_power_limits_are_set_on_all_ranks_and_end_with_the_job(self):
        limits = ["--set", "adapt.slowdown={allowed_pct: 100, power_limits_w: [400, 300, 200]}"]
        self.run_lowgear(*self.words("plain"))
        before = self.power_limits_w()
        job = self.start(*self.words("limited", "--adapt", "slowdown", *limits))
        self.wait_until(lambda: 200 in self.power_limits_w() or job.poll() is not None, "the last point is tried")
        _, err = job.communicate(timeout=self.patience_s)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual({line["operating_point"] for line in self.lines("limited")}, {"400 W", "300 W", "200 W"})
        self.assertEqual(self.losses("limited"), self.losses("plain"))
        self.wait_until(lambda: self.power_limits_w() == before, "the limits are as before")

    def test_power_limits_that_the_user_may_not_set_are_refused_before_the_first_step(self):
        limits = ["--set", "adapt.slowdown={allowed_pct: 100, power_limits_w: [400, 10]}"]
        process = self.start(*self.words("refused", "--adapt", "slowdown", *limits))
        _, err = process.communicate(timeout=self.patience_s)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("outside of what this agent allows", err)
        self.assertEqual(self.lines("refused"), [])

    def test_a_placebo_decides_and_changes_nothing(self):
        self.run_lowgear(*self.words("placebo", "--adapt", "slowdown", "--set", "adapt.placebo=true", "--record",
                                     str(self.folder / "rec")))
        lines = self.lines("placebo")
        self.assertTrue(any("decisions" in line for line in lines))
        self.assertFalse(any("operating_point" in line for line in lines))
        for clocks in self.clocks_of_iterations(self.folder / "rec").values():
            self.assertLessEqual(clocks, {0}, "the agent was asked for a clock")

    def test_a_job_that_is_killed_while_it_searches_continues_in_the_last_good_configuration(self):
        more = ["--adapt", "slowdown", "--set", f"checkpoint.folder={self.folder / 'checkpoints'}", "--set",
                "checkpoint.every=1"]
        self.run_lowgear(*self.words("plain"))
        job = self.start(*self.words("killed", *more))
        searched = lambda: any(line.get("operating_point") == POINTS[2] for line in self.lines("killed"))
        self.wait_until(lambda: searched() or job.poll() is not None, "it searches")
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        self.assertEqual(len(children), RANKS)
        os.kill(int(children[1]), signal.SIGKILL)
        job.communicate(timeout=self.patience_s)
        self.assertNotEqual(job.returncode, 0)
        self.run_lowgear(*self.words("killed", *more))
        self.assertEqual(self.losses("killed"), self.losses("plain"))
        headers = [line for line in self.lines("killed-adapt") if "format" in line]
        self.assertEqual(len(headers), 2)
        self.assertEqual(headers[1]["state"], {"frozen_blocks": 0, "point": 0, "search_due": True})

    def test_a_frozen_block_is_tried_when_the_search_has_ended(self):
        text = b"".join((97 + i * i % 20).to_bytes(2, "little") for i in range(4000))
        (self.folder / "held-out.bin").write_bytes(text)
        # Freezes as soon as it may, and whatever that does to the loss.
        controller = (f"{{held_out: {self.folder / 'held-out.bin'}, window_steps: 2, cap: 0.5, dwell_windows: 1, "
                      "steady_windows: 1, steady_drift: 1000, loss_margin_pct: 100}")
        self.run_lowgear(*self.words("both", "--adapt", "freezing,slowdown", "--steps", "220",
                                     "--set", "data.token_type=uint16", "--set", "data.synthetic_tokens=",
                                     "--set", f"data.tokens={self.folder / 'held-out.bin'}",
                                     "--set", f"adapt.freeze.controller={controller}"))
        lines = self.lines("both")
        decisions = [(line["step"], decision) for line in lines for decision in line.get("decisions", [])]
        kinds = [(decision["technique"], decision["change"]) for _, decision in decisions]
        self.assertIn(("freezing", "try"), kinds)
        self.assertLess(kinds.index(("slowdown", "try")), kinds.index(("freezing", "try")))
        ended = next(i for i, kind in enumerate(kinds) if kind in (("slowdown", "adopt"), ("slowdown", "reject")))
        self.assertLess(ended, kinds.index(("freezing", "try")), "two techniques at once")
        self.assertEqual({line.get("frozen_blocks", 0) for line in lines}, {0, 1})
        step, last = decisions[-1]
        if last["change"] in ("adopt", "reject"):
            self.assertEqual({line.get("frozen_blocks", 0) for line in lines[step:]}, {last["frozen_blocks"]})
        for step, decision in decisions:  # each is of the configuration from its step on
            self.assertEqual(lines[step].get("frozen_blocks", 0), lines[step]["decisions"][-1]["frozen_blocks"])
            self.assertEqual(lines[step]["operating_point"], POINTS[lines[step]["decisions"][-1]["point"]])

    def test_an_agent_that_is_not_there_is_reported_before_the_first_step(self):
        self.environment["LOWGEAR_AGENT_SOCKET"] = str(self.folder / "none.sock")
        process = self.start(*self.words("alone", "--adapt", "slowdown"))
        _, err = process.communicate(timeout=self.patience_s)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("none.sock", err)
        self.assertEqual(self.lines("alone"), [])


if __name__ == "__main__":
    unittest.main()
