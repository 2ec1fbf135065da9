"""A job that tells the lengths of its documents under `lowgear run --steps`, with the real program, library and agent, on
simulated GPUs: its iterations run at clocks of their own, or at full clocks where lengths are of no use."""

import csv
import json
import os
import re
import sys
import unittest

from test_attached_job import BINARY, HERE, WithSimulatedGpus

JOB = HERE / "job_torch" / "documents.py"
CLOCKS_MHZ = (1980, 1590, 1185)
MOST_TOKENS, PER_TOKEN_S = 1500, {"forward": 40e-6, "backward": 80e-6}


@unittest.skipUnless(BINARY and os.environ.get("LOWGEAR_NVML", "").endswith(".so.1"),
                     "SKIPPED: needs `lowgear` and simulated GPUs (LOWGEAR_BINARY, LOWGEAR_NVML)")
class Lengths(WithSimulatedGpus):
    def setUp(self):
        super().setUp()
        self.environment["PYTHONPATH"] = str(HERE / "job_torch")
        self.write_profile()

    def write_profile(self):
        """What `lowgear profile` would write of a recording of the job."""
        self.profile = self.folder / "profile.csv"
        rows = ["stage,instruction,frequency,time,energy,blocking_power"]
        coefficients = []
        for stage in (0, 1):
            for kind, per_token_s in PER_TOKEN_S.items():
                linear_s = per_token_s / (1 + stage)
                for clock_mhz in CLOCKS_MHZ:
                    part = clock_mhz / CLOCKS_MHZ[0]
                    time_s = 900 * linear_s * (0.75 / part + 0.25)
                    rows.append(f"{stage},{kind},{clock_mhz},{time_s:.9f},{time_s * (150 + 520 * part ** 2.4):.6f},116")
                coefficients.append({"stage": stage, "kind": kind, "clock_mhz": CLOCKS_MHZ[0], "constant_s": 0,
                                     "linear_s": linear_s, "attention_s": 0, "constant_error_s": 0, "linear_error_s": 0,
                                     "attention_error_s": 0})
        self.profile.write_text("\n".join(rows) + "\n")
        (self.folder / "profile.csv.work.json").write_text(json.dumps({
            "format": "lowgear.work/1", "coefficients": coefficients, "workers": [], "fit_error": 0.01,
            "most_tokens": MOST_TOKENS, "most_squared_tokens": MOST_TOKENS ** 2}))

    def run_job(self, iterations, how, *options):
        """What it says, and the clocks that each rank asked for, by iteration."""
        recordings, store = (self.folder / f"{name}-{how}-{len(options)}" for name in ("recordings", "store"))
        store.mkdir()
        run = self.run_attached(sys.executable, JOB, iterations, how, JOB_STORE=str(store), options=(
            "--steps", str(self.profile), "--record", str(recordings), *options))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("measuring only", run.stderr)
        clocks = []
        for rank in range(2):
            with open(recordings / f"rank-{rank:05d}" / "units.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            clocks.append([[int(row["frequency"]) for row in rows if int(row["iteration"]) == at]
                           for at in range(iterations)])
        self.assertTrue(all(len(units) == 6 for rank in clocks for units in rank))
        self.recordings = recordings
        return run.stderr, clocks

    def assert_full_clocks(self, clocks):
        self.assertLessEqual({clock for rank in clocks for units in rank for clock in units}, {0, CLOCKS_MHZ[0]})

    def test_iterations_run_at_clocks_for_their_lengths(self):
        for options in ((), ("--clocks-per", "replica")):
            with self.subTest(options):
                said, clocks = self.run_job(10, "told", *options)
                followed, others = re.search(r"step clocks were followed in (\d+) of 10 iterations; of the others (.*)",
                                             said).groups()
                self.assertIn("1 began before their lengths were told", others)
                self.assertGreater(int(followed), 0)
                self.assertEqual(int(followed) + sum(map(int, re.findall(r"\d+", others))), 10, said)
                # Iteration 0 was not told.
                self.assertEqual(said.count("iteration 0 runs at full clocks: its lengths were not told"), 1, said)
                second = clocks[1]
                self.assertEqual(set(second[0]) - {0, CLOCKS_MHZ[0]}, set())
                lower = [units for units in second if min(units) < CLOCKS_MHZ[0] and min(units) > 0]
                if not options:
                    self.assertGreater(len(lower), 0, "the second stage has time")
                else:
                    self.assertEqual(lower, [], "the longest replica has none, and here is only one")
                with open(self.recordings / "lengths.csv", newline="") as file:
                    rows = list(csv.DictReader(file))
                told = {int(row["step"]) for row in rows}
                self.assertLessEqual(set(range(1, 9)), told, "what lowgear profile needs")
                self.assertEqual(len(rows), 3 * len(told))

    def test_lengths_that_are_of_no_use_mean_full_clocks(self):
        reasons = {
            "untold": "its lengths were not told",
            "changed": "the lengths of replica 0 were changed after they were told",
            "beyond": r"microbatch 1 of replica 0 has \d+ tokens, and the fit saw at most 1500",
            "broken": "replica 0 told lengths of 0 microbatches, and the schedule has 3",
        }
        for how, reason in reasons.items():
            with self.subTest(how):
                said, clocks = self.run_job(5, how)
                self.assert_full_clocks(clocks)
                self.assertRegex(said, rf"lowgear: iteration \d runs at full clocks: {reason}")
                self.assertRegex(said, "step clocks were followed in 0 of 5 iterations; of the others ")
                if how == "broken":
                    self.assertIn("tell_lengths: expected the lengths of documents for each microbatch", said)

    def test_what_is_missing_is_said_before_the_command_starts(self):
        (self.folder / "profile.csv.work.json").unlink()
        run = self.run_attached("touch", self.folder / "started", options=("--steps", str(self.profile)))
        self.assertEqual(run.returncode, 2)
        self.assertIn("profile.csv.work.json", run.stderr)
        self.assertFalse((self.folder / "started").exists())


if __name__ == "__main__":
    unittest.main()
