"""Compares the steps of two runs: energy and time of a plan against the highest clocks, with their uncertainty.

A machine that has other work to do makes single steps longer, all of them a little, and simulated kernels late. So
figures are medians, with the standard errors that the spread of the steps gives them, and single steps that stand out
are left out. What load explains is said and is no failure; what it does not explain is one.
"""

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from calibration import LARGEST_SPREAD, SETTLING_STEPS, deviation, is_outlasted, spread  # noqa: E402: no package

MAX_SLOWDOWN = 1.03
LARGEST_SHARE_AT_OTHER_CLOCKS = 0.25  # of the units: an agent that gets no time asks late
MEDIAN_ERROR = 1.2533  # standard error of a median over that of a mean


@dataclass
class Figure:
    """A median of steps, with its standard error."""
    value: float
    error: float


@dataclass
class Ratio:
    value: float
    error: float

    def percent(self):
        return f"{self.value - 1:+z.1%} (+-{100 * self.error:.1f})"


@dataclass
class Verdict:
    energy: Ratio
    time: Ratio
    spread: float  # of the steps' times, the larger of both runs
    busy: list = field(default_factory=list)  # what says that the machine had other work to do
    remarks: list = field(default_factory=list)
    problems: list = field(default_factory=list)


def undisturbed(steps):
    """The counted steps without those whose time stands out."""
    counted = steps[SETTLING_STEPS:]
    times = [step["time_s"] for step in counted]
    middle, allowed = median(times), max(LARGEST_SPREAD * median(times), 3 * deviation(times))
    return [step for step in counted if abs(step["time_s"] - middle) <= allowed]


def figure(steps, what):
    values = [step[what] for step in undisturbed(steps)]
    return Figure(median(values), MEDIAN_ERROR * deviation(values) / math.sqrt(len(values)))


def ratio(above, below):
    value = above.value / below.value
    return Ratio(value, value * math.hypot(above.error / above.value, below.error / below.value))


def signs_of_load(name, steps):
    signs = []
    if spread(steps) > LARGEST_SPREAD:
        signs.append(f"steps {name} spread by {spread(steps):.1%}")
    left_out = len(steps) - SETTLING_STEPS - len(undisturbed(steps))
    if left_out:
        signs.append(f"{left_out} of {len(steps) - SETTLING_STEPS} steps {name} stood out and were left out")
    if is_outlasted(steps):
        signs.append(f"{name}, the real computation took longer than the simulated kernels")
    return signs


def judge(baseline, by_plan, share_at_other_clocks):
    """`baseline`, `by_plan`: steps of the two runs. `share_at_other_clocks`: of the units of the run by the plan."""
    verdict = Verdict(energy=ratio(figure(by_plan, "energy_j"), figure(baseline, "energy_j")),
                      time=ratio(figure(by_plan, "time_s"), figure(baseline, "time_s")),
                      spread=max(spread(baseline), spread(by_plan)))
    verdict.busy = signs_of_load("at the highest clocks", baseline) + signs_of_load("by the plan", by_plan)
    if [step["loss"] for step in baseline] != [step["loss"] for step in by_plan]:
        verdict.problems.append("the losses differ: clocks must not change what is computed")
    if share_at_other_clocks > LARGEST_SHARE_AT_OTHER_CLOCKS:
        verdict.problems.append(f"the plan was not followed: {share_at_other_clocks:.0%} of the units ran at other clocks")
    if verdict.energy.value - 2 * verdict.energy.error >= 1:
        verdict.problems.append("no energy was saved")
    if verdict.time.value > MAX_SLOWDOWN + 2 * verdict.time.error:
        slower = f"the plan took {verdict.time.percent()} of time"
        if verdict.busy:
            verdict.remarks.append(f"{slower}; on a machine this busy that says little of the plan")
        else:
            verdict.problems.append(slower)
    return verdict


def confidence(verdict):
    """The uncertainty of the figures in words."""
    if verdict.busy:
        return "not sure: this machine had other work to do (" + "; ".join(verdict.busy) + ")"
    return f"sure: the steps of a run differ by {verdict.spread:.1%} (standard deviation)"
