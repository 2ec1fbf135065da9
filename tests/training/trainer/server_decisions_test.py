"""Decisions of a real training on simulated GPUs with a real server: it keeps them through its end, and training never
waits for it."""

import re
import signal
import unittest

from json_lines import lines_of
from served_training import ServedTraining

RANKS = 2
LAYERS = 4

CONFIG = f"""
model: {{vocabulary: 256, hidden: 32, layers: {LAYERS}, heads: 2}}
data: {{sequence_length: 16, token_type: uint16}}
parallel: {{pp: {RANKS}}}
microbatches: 2
optimizer: {{learning_rate: 1e-2}}
simulated_gpu: {{layer_forward_s: 0.002}}
adapt:
  trial: {{block_s: 0.001, max_iterations: 40}}
"""


class ServerDecisionsTest(ServedTraining):
    config = CONFIG
    gpus = f"{RANKS}xA100"

    def setUp(self):
        super().setUp()
        text = b"".join((97 + i * i % 20).to_bytes(2, "little") for i in range(4000))
        self.tokens = self.folder / "tokens.bin"
        self.tokens.write_bytes(text)

    def words(self, *more):
        # Freezes as soon as it may, and whatever that does to the loss; two blocks are a whole stage.
        controller = (f"{{held_out: {self.tokens}, window_steps: 2, cap: 0.5, dwell_windows: 1, steady_windows: 1, "
                      "steady_drift: 1000, loss_margin_pct: 100}")
        return ["train", str(self.folder / "job.yaml"), "--adapt", "freezing", "--server", f"unix:{self.socket}",
                "--metrics", str(self.folder / "metrics.jsonl"), "--set", f"data.tokens={self.tokens}",
                "--set", f"adapt.freeze.controller={controller}", *more]

    def metrics(self):
        return lines_of(self.folder / "metrics.jsonl")

    def decided(self):
        """(first step, change, reason) of all decisions, as the metrics have them."""
        return [(line["step"], decision["change"].replace(" ", "_"), decision["reason"]) for line in self.metrics()
                for decision in line.get("decisions", [])]

    def kept(self):
        """The same, as the server has them. Kernels as short as these may also be reported as invalid."""
        jobs = self.get("/v1/jobs")["jobs"]
        decisions = self.get(f"/v1/jobs/{jobs[0]['job']}/decisions")["decisions"] if jobs else []
        return [(each["from_iteration"], each["change"], each["reason"]) for each in decisions
                if each.get("technique") == "freezing"]

    def expect_same_energies(self, iterations):
        """The server's page and the report of the job show one number of an iteration."""
        self.assertGreater(sum("energy_j" in line for line in self.metrics()), 100)
        for iteration, line in zip(iterations, self.metrics(), strict=True):
            self.assertEqual(iteration["iteration"], line["step"])
            if "energy_uncertainty_j" in line:  # the server takes no energy whose error is not known
                self.assertAlmostEqual(iteration["energy_j"], line["energy_j"], delta=1e-9 * line["energy_j"])
            else:
                self.assertIsNone(iteration["energy_j"])

    def test_the_server_keeps_what_the_job_decides_also_after_it_was_killed(self):
        server = self.start_server()
        self.run_lowgear(*self.words("--steps", "120"))
        decided = self.decided()
        self.assertIn("try", [change for _, change, _ in decided])
        self.assertEqual(self.kept(), decided)

        [job] = self.get("/v1/jobs")["jobs"]
        self.assertEqual(job["work"], {"layers": LAYERS, "frozen_layers": self.metrics()[-1].get("frozen_blocks", 0),
                                       "precision": "fp32"})
        all_decisions = self.get(f"/v1/jobs/{job['job']}/decisions")["decisions"]
        technique = next(each for each in all_decisions if each.get("technique") == "freezing")
        self.assertEqual((technique["kind"], technique["rank"]), ("technique", 0))
        self.assertRegex(technique["configuration"], f"^[0-2] of {LAYERS} blocks frozen$")
        refusals = [each["reason"] for each in all_decisions if each["kind"] == "refusal"]
        self.assertEqual(len(refusals), RANKS)
        self.assertIn("the technique freezing changes the work", refusals[0])
        iterations = self.get(f"/v1/jobs/{job['job']}/iterations")["iterations"]
        self.assertEqual(len(iterations), 120, "it is measured")
        self.assertEqual({each["plan_version"] for each in iterations}, {0}, "and follows no plan")
        self.expect_same_energies(iterations)

        server.send_signal(signal.SIGKILL)
        server.communicate()
        self.start_server()
        self.assertEqual(self.kept(), decided)

    def test_a_server_that_comes_later_gets_everything(self):
        job = self.start(*self.words("--steps", "1000000"))
        self.wait_until(lambda: len(self.decided()) > 1 or job.poll() is not None, "something is decided")
        before = self.decided()
        self.start_server()
        self.wait_until(lambda: len(self.kept()) >= len(before) or job.poll() is not None, "the server has it")
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=self.patience_s)
        self.assertEqual(self.kept(), self.decided(), err)
        self.assertNotIn("have not reached the server", err)

    def test_training_ends_as_without_a_server_that_is_away_and_says_so(self):
        job = self.start(*self.words("--steps", "60"))
        _, err = job.communicate(timeout=self.patience_s)
        self.assertEqual(job.returncode, 0, err)
        count = len(self.decided())
        self.assertGreater(count, 0)
        unsent = re.search(r"(\d+) decisions? ha(?:s|ve) not reached the server: .*server.sock", err)
        self.assertIsNotNone(unsent, err)
        self.assertGreaterEqual(int(unsent[1]), count, "and perhaps that its figures are invalid")
        self.assertEqual(len(self.metrics()), 60)


if __name__ == "__main__":
    unittest.main()
