"""Clocks for each step's own lengths, from a training that records lengths to one that follows its plans, on simulated
GPUs with a real agent and a server that watches."""

import array
import csv
import json
import random
import unittest

from served_training import ServedTraining

CLOCKS_MHZ = [1410, 1200, 1005]
SETTLE, COUNTED = 1, 5
STEPS = len(CLOCKS_MHZ) * (SETTLE + COUNTED)
REPLICAS, MICROBATCHES, TOKENS = 2, 3, 128

CONFIG = f"""
model: {{vocabulary: 64, hidden: 16, layers: 2, heads: 2}}
data: {{tokens: corpus.bin, sequence_length: {TOKENS}, document_end: 0}}
parallel: {{pp: 2, dp: {REPLICAS}}}
microbatches: {MICROBATCHES}
steps: {STEPS}
metrics: metrics.jsonl
simulated_gpu: {{layer_forward_s: 0.03, attention_share: 0.7}}
"""


class StepClocksTest(ServedTraining):
    config = CONFIG
    gpus = "4xA100"

    def setUp(self):
        super().setUp()
        chance = random.Random(1)
        tokens = array.array("H")
        while len(tokens) < 20_000:
            tokens.extend(chance.randrange(1, 64) for _ in range(round(chance.lognormvariate(3, 1.6))))
            tokens.append(0)
        header = array.array("i", [20240520, 1, len(tokens)] + [0] * 253)
        (self.folder / "corpus.bin").write_bytes(header.tobytes() + tokens.tobytes())

    def train(self, *settings):
        """Returns the steps and what was written to standard error."""
        words = [word for setting in settings for word in ("--set", setting)]
        process = self.start("train", str(self.folder / "job.yaml"), *words)
        _, err = process.communicate(timeout=self.patience_s)
        self.assertEqual(process.returncode, 0, err)
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()], err

    def profile(self):
        sweep = json.dumps({"clocks_mhz": CLOCKS_MHZ, "settle_iterations": SETTLE, "iterations": COUNTED})
        _, err = self.train("energy.recording=rec", f"energy.profile={sweep}")
        self.assertIn("lowgear: info: the clocks of energy.profile were followed in ", err)
        return json.loads(self.run_lowgear(
            "profile", str(self.folder / "rec"), "--accept-invalid", "--blocking-power", "60", "--skip-iterations", "0",
            "--out", str(self.folder / "profile.csv"), "--json"))

    def rows(self, file):
        with open(self.folder / file, encoding="utf-8") as table:
            return list(csv.DictReader(table))

    def expect_watched(self, steps):
        """The server has seen these steps, with what was predicted of them."""
        job, = self.get("/v1/jobs")["jobs"]
        self.assertEqual((job["policy"], job["state"], job["plan_version"]), ("steps", "finished", 0))
        self.assertEqual(self.reasons("observe"), ["the job plans its own steps"])
        # On a busy machine figures may be called invalid, but no rank has missed a plan of the server.
        self.assertLessEqual({problem["kind"] for problem in job["problems"]}, {"figures_invalid", "energy_left_out"})
        iterations = self.get(f"/v1/jobs/{job['job']}/iterations")["iterations"]
        for step, iteration in zip(steps, iterations, strict=True):
            plan = step["step_plan"]
            self.assertLess(iteration["units_time_s"], iteration["time_s"])
            self.assertTrue(iteration["full_clocks"] or "full_clocks" not in plan, (step, iteration))
            if plan["predicted_s"] > 0:
                self.assertAlmostEqual(iteration["predicted_time_s"] / plan["predicted_s"], 1, places=5)
        if "figures_invalid" in {problem["kind"] for problem in job["problems"]}:
            self.assertIsNone(job["prediction"], "it is compared with times that mean nothing")
            return
        predicted = sum(iteration["predicted_time_s"] is not None for iteration in iterations)
        self.assertEqual(job["prediction"]["iterations"] + job["prediction"]["stalled_iterations"], predicted)

    def test_steps_run_at_clocks_of_their_own(self):
        work = self.profile()["work"]
        lengths = self.rows("rec/lengths.csv")
        self.assertEqual([(int(row["step"]), int(row["replica"]), int(row["microbatch"])) for row in lengths],
                         [(s, r, m) for s in range(STEPS) for r in range(REPLICAS) for m in range(MICROBATCHES)])
        self.assertEqual({row["tokens"] for row in lengths}, {str(TOKENS)})
        self.assertGreater(len({row["squared_tokens"] for row in lengths}), STEPS)
        self.assertEqual({(row["stage"], row["kind"]) for row in work["coefficients"]},
                         {(stage, kind) for stage in (0, 1) for kind in ("forward", "backward")})
        self.assertEqual(work["most_squared_tokens"], max(int(row["squared_tokens"]) for row in lengths))

        full, _ = self.train("steps=6")
        self.start_server()
        own, err = self.train("steps=6", "energy.recording=own", "energy.steps={profile: profile.csv}",
                              f"server.address=unix:{self.socket}")
        self.expect_watched(own)
        self.assertEqual([step["loss"] for step in own], [step["loss"] for step in full])
        planned = [step["step_plan"] for step in own if "full_clocks" not in step["step_plan"]]
        self.assertGreater(len(planned), 0, "the first step waits for its plan")
        self.assertTrue(all(plan["predicted_s"] > 0 for plan in planned))
        self.assertIn(f"plans were followed in {len(planned)} of 6 iterations", err)
        asked = {int(row["frequency"]) for rank in range(4) for row in self.rows(f"own/rank-{rank:05}/units.csv")}
        self.assertLess(min(asked - {0}), CLOCKS_MHZ[0])

        # What no fit has seen runs at full clocks, which is said; and so are plans that fit no job.
        file = self.folder / "profile.csv.work.json"
        fitted = json.loads(file.read_text())
        file.write_text(json.dumps({**fitted, "most_squared_tokens": TOKENS}))
        beyond, err = self.train("steps=6", "energy.recording=beyond", "energy.steps={profile: profile.csv}")
        self.assertEqual([step["loss"] for step in beyond], [step["loss"] for step in full])
        self.assertRegex(err, r"step 1 runs at full clocks: microbatch \d of replica \d has \d+ squared tokens, and")
        self.assertNotIn("plans were followed in", err)
        self.assertIn("the fit saw at most", beyond[0]["step_plan"]["full_clocks"])
        asked = {int(row["frequency"]) for rank in range(4) for row in self.rows(f"beyond/rank-{rank:05}/units.csv")}
        self.assertEqual(asked - {0, CLOCKS_MHZ[0]}, set())

        file.unlink()
        process = self.start("train", str(self.folder / "job.yaml"), "--set", "energy.steps={profile: profile.csv}")
        _, err = process.communicate(timeout=self.patience_s)
        self.assertEqual(process.returncode, 2)
        self.assertIn("profile.csv.work.json", err)


if __name__ == "__main__":
    unittest.main()
