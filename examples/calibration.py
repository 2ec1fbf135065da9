"""Length of simulated units for this machine: on a busy machine, short units would measure its other work."""

from statistics import median

STEPS = 5
SETTLING_STEPS = 2  # clocks and memory
LARGEST_SPREAD = 0.03  # of the steps of one run, relative: beyond it the machine is busy
LARGEST_STRETCH = 4
DEVIATION_OF_MEDIAN_DEVIATION = 1.4826  # of normal errors

UNITS = {"layer_forward_s": 0.03, "embedding_forward_s": 0.003, "head_forward_s": 0.018}  # of closed-loop/job.yaml


def scaled(unit_scale):
    """Settings of `lowgear train` that make the units of the job longer."""
    return [word for name, time_s in UNITS.items() if unit_scale != 1
            for word in ("--set", f"simulated_gpu.{name}={time_s * unit_scale}")]


def deviation(values):
    """Standard deviation, estimated robustly against single outliers."""
    middle = median(values)
    return DEVIATION_OF_MEDIAN_DEVIATION * median(abs(value - middle) for value in values)


def spread(steps):
    """Of the steps' times after the settling ones, relative."""
    times = [step["time_s"] for step in steps[SETTLING_STEPS:]]
    return deviation(times) / median(times)


def is_outlasted(steps):
    """Whether the real computation took longer than the simulated kernels, over the run as a whole."""
    return bool(steps[-1].get("invalid"))


def calibrate(train, unit_scale, say):
    """A scale of the units, `unit_scale` at least, at which the simulated GPUs and not this machine's load decide how
    long they take. `train(unit_scale)` runs the job for STEPS steps and returns them."""
    longest = unit_scale * LARGEST_STRETCH
    say(f"trying out {STEPS} steps, to see how busy this machine is: some seconds, longer where it is")
    while True:
        steps = train(unit_scale)
        if not is_outlasted(steps) and spread(steps) <= LARGEST_SPREAD:
            return unit_scale
        if unit_scale * 2 > longest:
            say("this machine stays too busy for the simulated GPUs; the figures will be less sure")
            return unit_scale
        unit_scale *= 2
        say(f"this machine is busy: trying out units {unit_scale:g} times as long, which its other work disturbs less")
