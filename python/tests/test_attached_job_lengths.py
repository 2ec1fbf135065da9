"""A job that tells the lengths of its documents under `lowgear run --steps`, with the real program, library and agent, on
simulated GPUs: its iterations run at clocks of their own, or at full clocks where lengths are of no use."""

import csv
import json
import os
import re
import sys
import unittest

import lowgear
from test_attached_job import BINARY, HERE, SITE, WithSimulatedGpus
from test_client import plan_text

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
        """As `lowgear profile` would write it of a recording of the job."""
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
        """Returns its messages, and the clocks that each rank asked for, by iteration."""
        recordings, store = (self.folder / f"{name}-{how}-{len(options)}-{iterations}" for name in ("recordings", "store"))
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
                iterations, followed = 5, 0
                while followed == 0 or not (options or lower):  # a busy machine plans few in time
                    iterations *= 2
                    said, clocks = self.run_job(iterations, "told", *options)
                    followed, others = re.search(
                        rf"step clocks were followed in (\d+) of {iterations} iterations; of the others (.*)", said).groups()
                    followed = int(followed)
                    lower = [units for units in clocks[1] if min(units) < CLOCKS_MHZ[0] and min(units) > 0]
                self.assertIn("1 began before their lengths were told", others)
                self.assertEqual(followed + sum(map(int, re.findall(r"\d+", others))), iterations, said)
                # Iteration 0 was not told.
                self.assertEqual(said.count("iteration 0 runs at full clocks: its lengths were not told"), 1, said)
                self.assertEqual(set(clocks[1][0]) - {0, CLOCKS_MHZ[0]}, set())
                if options:
                    self.assertEqual(lower, [], "the longest replica has no time, and here is only one")
                with open(self.recordings / "lengths.csv", newline="") as file:
                    rows = list(csv.DictReader(file))
                told = {int(row["step"]) for row in rows}
                self.assertLessEqual(set(range(1, iterations - 1)), told, "what lowgear profile needs")
                self.assertRegex(said, r"the lengths of \d+ of \d+ iterations were not recorded, .*; iteration 0: its lengths")
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

    def test_clocks_come_from_a_plan_or_from_lengths(self):
        plan, orders = self.folder / "plan.json", "0F0,0B0\n1F0,1B0\n"
        plan.write_text(plan_text([CLOCKS_MHZ[0]]))
        with lowgear.Client(agent_socket="", rank=0, world_size=1) as client:
            with self.assertRaises(lowgear.AgentUnavailable):
                client.load_plan(plan, plan_rank=0)
            with self.assertRaisesRegex(ValueError, "a plan is loaded"):
                client.expect_lengths(orders, profile=self.profile)
            client.expect_lengths(orders)
        with lowgear.Client(agent_socket="", rank=0, world_size=1) as client:
            client.expect_lengths(orders, profile=self.profile)
            with self.assertRaisesRegex(ValueError, "leave out the plan, or the profile"):
                client.load_plan(plan, plan_rank=0)

    def test_two_sources_of_clocks_are_refused_in_one_line(self):
        (self.folder / "store").mkdir()
        self.environment.update(
            PYTHONPATH=os.pathsep.join(map(str, (SITE, HERE / "job_torch", HERE.parent))), JOB_STORE=str(self.folder / "store"),
            LOWGEAR_STEPS=str(self.profile), LOWGEAR_PLAN=str(self.folder / "plan"))
        run = self.run_plainly(sys.executable, JOB, 2, "untold")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("LOWGEAR_STEPS and LOWGEAR_PLAN: clocks come from one of them"), 1, run.stderr)

    def test_what_is_missing_is_said_before_the_command_starts(self):
        (self.folder / "profile.csv.work.json").unlink()
        run = self.run_attached("touch", self.folder / "started", options=("--steps", str(self.profile)))
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, "has no times by length, as there is no .*profile.csv.work.json; record a job that tells")
        self.assertFalse((self.folder / "started").exists())


if __name__ == "__main__":
    unittest.main()
