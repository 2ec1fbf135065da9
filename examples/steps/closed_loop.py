#!/usr/bin/env python3
"""Trains on documents of very different lengths, on four simulated GPUs: at full clocks, and with clocks for each step.

    examples/steps/closed_loop.py [--clocks-per unit|replica] [--unit-scale N] [BUILD_FOLDER] [OUTPUT_FOLDER]

Profiles five clocks while training, fits times by length, and trains the same steps twice, on samples in another order
than those of the fit. The training is real and runs on the CPU; the GPUs are simulated. Takes some three minutes, on
a busy machine longer, and needs no root. Ends with 1 if the losses differ, no energy was saved,
or the machine was so busy that the real computation took longer than the simulated kernels.
"""

import argparse
import array
import json
import math
import random
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from simulated_machine import Machine, end_with, fresh_folder  # noqa: E402: the examples are no package

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLOCKS_MHZ = [1410, 1290, 1155, 1020, 885]
SETTLE, COUNTED = 1, 5
TOKENS, DOCUMENT_END = 100_000, 0
UNITS = {"layer_forward_s": 0.12, "embedding_forward_s": 0.003, "head_forward_s": 0.01}  # of job.yaml
LONGEST_SCALE = 4
SETTLING_STEPS = 2


def say(text):
    print(f"[steps] {text}", flush=True)


def write_corpus(path):
    """Documents of log-normal lengths, half of them below 30 tokens and 4 % above 500; the same in each run."""
    chance = random.Random(1)
    tokens = array.array("H")
    while len(tokens) < TOKENS:
        token = chance.randrange(1, 256)
        for _ in range(max(1, round(chance.lognormvariate(math.log(30), 1.6)))):
            token = 1 + (token * 5 + chance.choice((3, 3, 3, 7))) % 255
            tokens.append(token)
        tokens.append(DOCUMENT_END)
    header = array.array("i", [20240520, 1, len(tokens)] + [0] * 253)
    path.write_bytes(header.tobytes() + tokens.tobytes())


class Training(Machine):
    """Runs the job on four GPUs, whose units take `scale` times as long."""

    def __init__(self, build, folder, out, scale):
        super().__init__(build, folder, out / "log.txt", 4)
        self.out = out
        self.scale = scale

    def train(self, name, *words):
        """Runs the job and returns its steps."""
        metrics = self.out / f"{name}.jsonl"
        units = [word for name, time_s in UNITS.items() for word in ("--set", f"simulated_gpu.{name}={time_s * self.scale}")]
        self.run("train", self.out / "job.yaml", "--metrics", metrics, *units, *words)
        return [json.loads(line) for line in metrics.read_text().splitlines()]

    def profile(self):
        """On a busy machine the real computation may outlast the simulated kernels: then with longer ones."""
        sweep = json.dumps({"clocks_mhz": CLOCKS_MHZ, "settle_iterations": SETTLE, "iterations": COUNTED})
        while True:
            recording = self.out / f"recording-{self.scale}"
            self.train("profiling", "--steps", len(CLOCKS_MHZ) * (SETTLE + COUNTED), "--record", recording,
                       "--set", f"energy.profile={sweep}")
            try:
                return json.loads(self.run(
                    "profile", recording, "--clocks", "few", "--supported-clocks", f"{CLOCKS_MHZ[0]}-{CLOCKS_MHZ[-1]}/15",
                    "--skip-iterations", 0, "--out", self.out / "profile.csv", "--json"))
            except SystemExit as failure:
                if "marked invalid" not in str(failure) or self.scale >= LONGEST_SCALE:
                    raise
            self.scale *= 2
            say(f"this machine is busy: units {self.scale} times as long")


def percent(values):
    return f"{100 * mean(values):+z.2f} % (+-{100 * stdev(values) / math.sqrt(len(values)):.2f})"


def compare(full, own):
    """Prints the figures of steps that both runs have; returns problems."""
    pairs = list(zip(full, own, strict=True))[SETTLING_STEPS:]
    time = [b["time_s"] / a["time_s"] - 1 for a, b in pairs]
    planned = sum("full_clocks" not in step["step_plan"] for step in own)
    print(f"\n{'simulated, sums of steps':32}{'time':>12}{'energy':>12}")
    for name, index in (("full clocks", 0), ("clocks of each step's own", 1)):
        print(f"{name:32}{sum(pair[index]['time_s'] for pair in pairs):10.2f} s"
              f"{sum(pair[index]['energy_j'] for pair in pairs):10.0f} J")
    times = [a["time_s"] for a, _ in pairs]
    saved = sum(b["energy_j"] for _, b in pairs) / sum(a["energy_j"] for a, _ in pairs) - 1
    slower = sum(b["time_s"] for _, b in pairs) / sum(times) - 1
    print(f"\nenergy {saved:+z.1%}, time {slower:+z.2%}; mean over steps {percent(time)} (real training, simulated GPUs)")
    print(f"steps at full clocks took {min(times):.2f} to {max(times):.2f} s; {planned} of {len(own)} steps had plans")
    error = [b["step_plan"]["predicted_s"] / a["time_s"] - 1 for a, b in pairs if b["step_plan"]["predicted_s"] > 0]
    print(f"predicted time of a step's units against its time at full clocks: {percent(error)}")
    same = [step["loss"] for step in full] == [step["loss"] for step in own]
    print(f"losses: {'the same, bit by bit' if same else 'differ'}")
    problems = [] if same else ["the losses differ: clocks must not change what is computed"]
    if saved >= 0:
        problems.append("no energy was saved")
    problems += ["the real computation took longer than the simulated kernels: this machine is too busy"
                 for steps in (full, own) if steps[-1].get("invalid")]
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build" / "release", help="folder of the build")
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "out" / "steps", help="folder to write")
    parser.add_argument("--clocks-per", choices=("unit", "replica"), default="unit")
    parser.add_argument("--unit-scale", type=int, default=1, help="longer units on the simulated GPUs, for busy machines")
    arguments = parser.parse_args()
    out = fresh_folder(arguments.out)
    shutil.copy(HERE / "job.yaml", out)
    write_corpus(out / "corpus.bin")
    with tempfile.TemporaryDirectory(prefix="lg-") as folder, \
            Training(arguments.build.resolve(), Path(folder), out, arguments.unit_scale) as machine:
        say(f"profiling while training: {len(CLOCKS_MHZ)} clocks, {SETTLE + COUNTED} steps each")
        work = machine.profile()["work"]
        say(f"times by length fitted: off by {work['fit_error']:.2%}")
        say("training at full clocks")
        full = machine.train("full", "--set", "seed=2")
        say(f"training with clocks for each step, one per {arguments.clocks_per}")
        plan = json.dumps({"profile": str(out / "profile.csv"), "clocks_per": arguments.clocks_per})
        own = machine.train("own", "--set", "seed=2", "--set", f"energy.steps={plan}")
    problems = compare(full, own)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    end_with(main)
