"""What the quickstart says of its two runs, quiet and under load."""

import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "closed-loop"))
import verdict  # noqa: E402: the examples are no package


def run(time_s, energy_j, noise=0.002, steps=10, seed=1, **more):
    """Steps of a run; the first two are settling and mean nothing."""
    source = random.Random(seed)
    result = [{"time_s": 9 * time_s, "energy_j": 9 * energy_j, "loss": 5.0} for _ in range(2)]
    for step in range(2, steps):
        late = abs(source.gauss(0, noise))
        result.append({"time_s": time_s * (1 + late), "energy_j": energy_j * (1 + late), "loss": 5.0 - step})
    for step in result:
        step.update(more)
    return result


class Verdict(unittest.TestCase):
    def test_a_quiet_machine_is_sure_and_has_no_problem(self):
        found = verdict.judge(run(2.0, 2000), run(2.01, 1720), 0.01)
        self.assertEqual(found.problems, [])
        self.assertEqual(found.busy, [])
        self.assertAlmostEqual(found.energy.value, 0.86, delta=0.005)
        self.assertAlmostEqual(found.time.value, 1.005, delta=0.005)
        self.assertLess(found.time.error, 0.005)
        self.assertIn("+-", found.energy.percent())
        self.assertTrue(verdict.confidence(found).startswith("sure"))

    def test_single_steps_that_stand_out_are_left_out(self):
        by_plan = run(2.0, 1720)
        by_plan[5]["time_s"] *= 2
        by_plan[5]["energy_j"] *= 2
        found = verdict.judge(run(2.0, 2000), by_plan, 0)
        self.assertAlmostEqual(found.energy.value, 0.86, delta=0.005)
        self.assertEqual(found.problems, [])
        self.assertEqual(found.busy, ["1 of 8 steps by the plan stood out and were left out"])

    def test_load_is_said_and_is_no_failure(self):
        for seed in range(50):
            found = verdict.judge(run(2.1, 2050, 0.08, seed=seed), run(2.2, 1800, 0.08, seed=100 + seed, invalid=True), 0.1)
            self.assertEqual(found.problems, [], f"seed {seed}")
            self.assertTrue(found.busy)
            self.assertTrue(verdict.confidence(found).startswith("not sure"))

    def test_a_plan_that_is_slower_is_a_problem_where_load_does_not_explain_it(self):
        quiet = verdict.judge(run(2.0, 2000), run(2.1, 1720), 0)
        self.assertEqual(len(quiet.problems), 1)
        self.assertIn("the plan took +5", quiet.problems[0])
        busy = verdict.judge(run(2.0, 2000, invalid=True), run(2.1, 1720), 0)
        self.assertEqual(busy.problems, [])
        self.assertIn("busy", busy.remarks[0])

    def test_real_failures_fail_under_load_too(self):
        baseline, by_plan = run(2.1, 2050, 0.08, invalid=True), run(2.2, 1800, 0.08, seed=2, invalid=True)
        self.assertIn("was not followed", verdict.judge(baseline, by_plan, 0.6).problems[0])
        by_plan[7]["loss"] += 1e-7
        self.assertIn("losses differ", verdict.judge(baseline, by_plan, 0).problems[0])
        wasteful = run(2.1, 2600, 0.02, seed=3, invalid=True)
        self.assertIn("no energy was saved", verdict.judge(baseline, wasteful, 0).problems)

    def test_only_the_whole_run_is_outlasted(self):
        steps = run(2.0, 2000)
        steps[1]["invalid"] = True
        self.assertFalse(verdict.is_outlasted(steps))
        steps[-1]["invalid"] = True
        self.assertTrue(verdict.is_outlasted(steps))


if __name__ == "__main__":
    unittest.main()
