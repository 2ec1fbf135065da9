"""What the demo of a power budget says of its phases."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "demo"))
import cluster  # noqa: E402: the examples are no package


def verdict(full_w, fallen_w, risen_w):
    return cluster.verdict([{"budget_w": None, "measured_w": full_w}, {"budget_w": 800, "measured_w": fallen_w},
                            {"budget_w": 1100, "measured_w": risen_w}])


class ClusterVerdict(unittest.TestCase):
    def test_a_budget_that_is_kept_and_given_back_is_well(self):
        text, is_well = verdict(1000, 796, 990)
        self.assertTrue(is_well)
        self.assertIn("-0.5 % against the budget of 800 W", text)
        self.assertIn("-1.0 % against the power before it", text)

    def test_a_budget_that_is_exceeded_is_not(self):
        self.assertFalse(verdict(1000, 830, 1000)[1])

    def test_power_that_does_not_come_back_is_not(self):
        self.assertFalse(verdict(1000, 790, 800)[1])


if __name__ == "__main__":
    unittest.main()
