"""`lowgear runs experiment` and `lowgear runs report` as they are run: on simulated GPUs, ended, continued, with wrong input."""

import json
import math
import os
import signal
import statistics
import unittest
from pathlib import Path

from program_test_base import ProgramTest

LOWGEAR = os.environ["LOWGEAR_BINARY"]
# Student's t at 0.975 with one degree of freedom.
T_OF_TWO_VALUES = 12.7062
JOB = """
model: {vocabulary: 256, hidden: 32, layers: 2, heads: 4, kv_heads: 2, intermediate: 64, max_positions: 64}
data: {synthetic_tokens: 100000, sequence_length: 32}
microbatches: 1
steps: 4
optimizer: {learning_rate: 1e-2}
checkpoint: {folder: checkpoints}
metrics: elsewhere.jsonl
"""
# The real computation takes a millisecond: other work of the machine has to hold it up for long to matter.
SIMULATED = "simulated_gpu: {layer_forward_s: 0.05, memory_share: 0.3}\n"


class ExperimentTest(ProgramTest):
    def write(self, experiment, job=JOB):
        (self.folder / "job.yaml").write_text(job)
        (self.folder / "e.yaml").write_text("train: job.yaml\n" + experiment)

    def start(self, *words):
        return self.popen([LOWGEAR, *words])

    def run_lowgear(self, *words):
        process = self.start(*words)
        out, err = process.communicate(timeout=self.patience_s)
        return process.returncode, out, err

    def experiment(self, *words):
        return self.run_lowgear("runs", "experiment", "e.yaml", "--out", "runs", *words)

    def metrics(self, turn):
        lines = (self.folder / "runs" / f"turn-{turn:04}" / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def check_figures(self, report, quantity, member, turns):
        """Compares a quantity with what the runs themselves state of the work that all have done, in whole steps: `turns` are
        those of each arm's two blocks."""
        def total(steps):
            return sum(step["tokens"] for step in steps)

        work = min(total(self.metrics(turn)) for blocks in turns.values() for block in blocks for turn in block)

        def per_token(turn):
            compared = [step for i, step in enumerate(self.metrics(turn)) if total(self.metrics(turn)[:i]) < work]
            steps = compared[2:] or compared
            return sum(step[member] for step in steps) / total(steps)

        values = {arm: [statistics.mean(map(per_token, block)) for block in blocks] for arm, blocks in turns.items()}
        baseline = values[report["baseline"]]
        for arm in report["arms"]:
            own = values[arm["name"]]
            value = arm[quantity]["value"]
            self.assertEqual(value["count"], 2)
            self.check_interval(value, statistics.mean(own), own)
            if arm["name"] == report["baseline"]:
                self.assertNotIn("difference_pct", arm[quantity])
                continue
            self.assertTrue(arm[quantity]["paired"])
            logs = [math.log(a / b) for a, b in zip(own, baseline)]
            percent = arm[quantity]["difference_pct"]
            difference = {end: math.log1p(percent[end] / 100) for end in ("mean", "low", "high")}
            self.check_interval(difference, statistics.mean(logs), logs)

    def check_interval(self, interval, mean, values):
        half = T_OF_TWO_VALUES * statistics.stdev(values) / 2 ** 0.5
        self.assertAlmostEqual(interval["mean"], mean, delta=1e-9 * abs(mean) + 1e-12)
        self.assertAlmostEqual(interval["high"] - mean, half, delta=1e-4 * half + 1e-9)
        self.assertAlmostEqual(mean - interval["low"], half, delta=1e-4 * half + 1e-9)

    def finished(self):
        """When each turn was finished."""
        return {file.parent.name: file.stat().st_mtime_ns for file in self.folder.glob("runs/turn-*/finished.json")}


class OnSimulatedGpus(ExperimentTest):
    def test_energies_are_simulated_and_compared(self):
        self.write("simulated_gpus: 1xA100\nseeds: [1, 2]\ndropped_blocks: 0\nrecording: true\n"
                   "arms:\n  - {name: full}\n  - {name: light, settings: [simulated_gpu.load=0.3]}\n"
                   "report: {price_per_kwh: 0.3}\n", JOB + SIMULATED)
        code, out, err = self.experiment("--json")
        self.assertEqual(len(self.finished()), 8, err)
        if any(self.metrics(turn)[-1].get("invalid") for turn in range(8)):
            self.assertIn("invalid", err)
            self.skipTest("THE MACHINE WAS TOO BUSY FOR SIMULATED GPUS: no energies are compared")
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        self.assertEqual(report, json.loads((self.folder / "runs" / "report.json").read_text()))
        self.assertEqual(report["basis"], "simulated")
        self.assertEqual(report["baseline"], "full")
        self.assertIn("Differences from full", (self.folder / "runs" / "report.html").read_text())
        # A B B A, then B A A B.
        self.check_figures(report, "energy_per_token_j", "energy_j",
                           {"full": [(0, 3), (5, 6)], "light": [(1, 2), (4, 7)]})
        for arm in report["arms"]:
            self.assertEqual(arm["runs"], 4)
            self.assertGreater(arm["sm_clock_mhz"], 100)
            self.assertNotIn("co2_g", arm, "no factor was given")
            self.assertAlmostEqual(arm["cost_usd"]["value"]["mean"], arm["energy_j"]["value"]["mean"] / 3.6e6 * 0.3)
        light = report["arms"][1]
        self.assertEqual(light["loss_at_equal_tokens"]["difference_pct"]["mean"], 0, "the same seeds learn the same")
        self.assertEqual(light["loss_at_equal_tokens"]["verdict"], "no difference shown")
        self.check_other_reports()

    def check_other_reports(self):
        """Of the same runs, one by one."""
        run = self.folder / "runs" / "turn-0000"
        code, out, err = self.run_lowgear("runs", "report", run / "recording", "--json", "--tokens-per-iteration", 32)
        self.assertEqual(code, 0, err)
        recorded = json.loads(out)
        self.assertEqual(recorded["basis"], "simulated")
        per_token_j = [step["energy_j"] / 32 for step in self.metrics(0)]
        value = recorded["arms"][0]["energy_per_token_j"]["value"]["mean"]
        self.assertGreater(value, min(per_token_j) / 2)
        self.assertLess(value, max(per_token_j) * 2)

        real = self.folder / "real.jsonl"
        real.write_text((run / "metrics.jsonl").read_text().replace("simulated", "measured"))
        code, _, err = self.run_lowgear("runs", "report", run, real)
        self.assertEqual(code, 2)
        self.assertIn("real.jsonl: has measured energy", err)
        self.assertEqual(err.count("\n"), 1)


class Continued(ExperimentTest):
    EXPERIMENT = "seeds: [1, 2]\narms:\n  - {name: a}\n  - {name: b, settings: [microbatches=2]}\n"

    def wait_for_turn(self, process, turn):
        self.wait_until(lambda: (self.folder / "runs" / f"turn-{turn:04}").exists() or process.poll() is not None,
                        f"turn {turn} begins")
        self.assertIsNone(process.poll(), "it ended")

    def trainers(self):
        """Processes that work in this test's folder."""
        found = []
        for cwd in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if cwd.readlink() == self.folder:
                    found.append(int(cwd.parent.name))
            except OSError:
                continue
        return found

    def test_after_a_kill_and_a_ctrl_c(self):
        self.write(self.EXPERIMENT)
        first = self.start("runs", "experiment", "e.yaml", "--out", "runs")
        self.wait_for_turn(first, 2)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        self.wait_until(lambda: not self.trainers(), "no process of the killed experiment is left")
        before = self.finished()
        self.assertGreaterEqual(set(before), {"turn-0000", "turn-0001"})
        self.assertLess(len(before), 12)

        second = self.start("runs", "experiment", "e.yaml", "--out", "runs")
        self.wait_for_turn(second, 5)
        second.send_signal(signal.SIGINT)
        _, err = second.communicate(timeout=self.patience_s)
        self.assertEqual(second.returncode, -signal.SIGINT)
        self.assertIn("continues after the finished runs", err)
        self.assertEqual(self.trainers(), [])
        middle = self.finished()
        self.assertLess(len(middle), 12)

        code, out, err = self.experiment()
        self.assertEqual(code, 0, err)
        self.assertIn("without energy", out)
        after = self.finished()
        self.assertEqual(len(after), 12)
        for times in (before, middle):
            self.assertEqual({turn: after[turn] for turn in times}, times, "finished runs are not repeated")
        for turn in range(12):
            self.assertEqual([line["step"] for line in self.metrics(turn)], list(range(4)))
        # The first block does not count; then B A A B, and A B B A.
        report = json.loads((self.folder / "runs" / "report.json").read_text())
        self.check_figures(report, "time_per_token_s", "time_s", {"a": [(5, 6), (8, 11)], "b": [(4, 7), (9, 10)]})
        self.assertFalse((self.folder / "checkpoints").exists(), "no run leaves anything for the next")
        self.assertFalse((self.folder / "elsewhere.jsonl").exists())

        code, again, err = self.experiment()
        self.assertEqual((code, again, err), (0, out, ""), "only the report is made again")
        self.assertEqual(self.finished(), after)

    def test_one_folder_belongs_to_one_experiment(self):
        self.write(self.EXPERIMENT)
        running = self.start("runs", "experiment", "e.yaml", "--out", "runs")
        self.wait_for_turn(running, 0)
        code, _, err = self.experiment()
        self.assertEqual(code, 2)
        self.assertIn("another lowgear runs experiment runs in this folder", err)
        self.assertEqual(running.wait(timeout=self.patience_s), 0)

        self.write(self.EXPERIMENT, JOB.replace("steps: 4", "steps: 3"))
        code, _, err = self.experiment()
        self.assertEqual(code, 2)
        self.assertIn("with other settings", err)

    def test_a_run_that_fails_is_named(self):
        self.run_lowgear("data", "synthetic", "--tokens", 100000, "--out", "tokens.bin")
        job = JOB.replace("synthetic_tokens: 100000", "tokens: tokens.bin")
        self.write("seeds: [1]\narms:\n  - {name: a}\n  - {name: b, settings: [model.vocabulary=16]}\n", job)
        code, out, err = self.experiment()
        self.assertEqual((code, out), (1, ""))
        self.assertIn("turn 1 (b, seed 1) ended with", err.splitlines()[-1])
        self.assertIn("continues after the finished runs", err.splitlines()[-1])
        self.assertIn("vocabulary", (self.folder / "runs" / "turn-0001" / "log.txt").read_text())
        self.assertEqual(set(self.finished()), {"turn-0000"})


class Refused(ExperimentTest):
    def refusal(self, experiment, job=JOB):
        self.write(experiment, job)
        code, out, err = self.experiment()
        self.assertEqual((code, out, err.count("\n")), (2, "", 1), err)
        self.assertFalse((self.folder / "runs").exists())
        return err

    def test_wrong_input_is_reported_where_it_stands(self):
        arms = "arms:\n  - {name: a}\n  - {name: b, settings: [%s]}\n"
        self.assertIn("e.yaml:5:5: arms[1]: setting \"stepps=4\"", self.refusal("seeds: [1]\n" + arms % "stepps=4"))
        self.assertIn("e.yaml:5:5: arms[1]:", self.refusal("seeds: [1]\n" + arms % "energy.plan=none.json"))
        self.assertIn("e.yaml:2:8", self.refusal("seeds: []\n" + arms % "steps=4"))
        self.assertIn("no section simulated_gpu",
                      self.refusal("simulated_gpus: 1xA100\nseeds: [1]\n" + arms % "steps=4"))
        self.assertIn("job.yaml:", self.refusal("seeds: [1]\n" + arms % "steps=4", JOB + "sed: 1\n"))

    def test_a_dry_run_prints_the_order_and_writes_nothing(self):
        self.write("seeds: [7, 8]\narms:\n  - {name: a}\n  - {name: b}\n")
        code, out, err = self.experiment("--dry-run", "--json")
        self.assertEqual((code, err), (0, ""))
        turns = json.loads(out)["turns"]
        self.assertEqual("".join(turn["arm"] for turn in turns), "abbabaababba")
        self.assertEqual([turn["seed"] for turn in turns[::4]], [7, 7, 8])
        self.assertEqual([turn["dropped"] for turn in turns], [True] * 4 + [False] * 8)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["e.yaml", "job.yaml"])
        self.assertIn("does not count", self.experiment("--dry-run")[1])

    def test_a_folder_with_other_things_is_not_touched(self):
        self.write("seeds: [7]\narms:\n  - {name: a}\n  - {name: b}\n")
        (self.folder / "runs").mkdir()
        (self.folder / "runs" / "thesis.txt").write_text("text")
        code, _, err = self.experiment()
        self.assertEqual(code, 2)
        self.assertIn("is not empty and holds no experiment", err)


if __name__ == "__main__":
    unittest.main()
