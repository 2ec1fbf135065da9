#!/usr/bin/env python3
"""The job of pipeline.yaml on one GPU in bf16 and in fp8, in turns: tokens/s, J/token, and losses after equal tokens.

    fp8_train.py BIN --work FOLDER --out FILE.tar.gz [--seconds S] [--seeds N] [--set PATH=VALUE]...

Llama of 1.36 billion parameters, from random weights, on synthetic text. A block has one seed and runs both arms once,
every second block in reverse order; another one begins only if it will end within S seconds of the start. BIN holds
lowgear-trainer and synthetic_text. FILE is written anew after every run: the metrics of all runs, which `lowgear
report` compares, with intervals, by the command that is printed at the end.
"""

import argparse
import math
import pathlib

import finetune

SETTINGS = ["parallel.pp=1", "microbatches=8", "data.synthetic_tokens=", "optimizer.warmup_steps=5"]
ARMS = {"bf16": ["type=bf16"], "fp8": ["type=fp8"]}


class Experiment(finetune.Experiment):
    job = finetune.JOB.with_name("pipeline.yaml")

    def __init__(self, asked):
        super().__init__(asked)
        self.summaries = {}  # by arm and seed

    def arms(self):
        return ARMS

    def block(self, seed):
        arms = list(ARMS.items())
        for arm, settings in arms if seed % 2 == 1 else reversed(arms):
            self.summaries[arm, seed] = self.train(f"{arm}-{seed}", "text",
                                                   [*SETTINGS, f"steps={self.asked.steps}", f"seed={seed}", *settings])

    def run(self):
        """All blocks that there is time for; returns their number."""
        self.make_text("text", 1)
        longest_s = 0.0
        for seed in range(1, self.asked.seeds + 1):
            began_s = self.elapsed_s()
            if longest_s > 0 and began_s + longest_s > self.asked.seconds:
                return seed - 1
            self.block(seed)
            longest_s = max(longest_s, self.elapsed_s() - began_s)
        return self.asked.seeds

    def table(self, seeds):
        """Differences of each seed's two runs; the steps that count are all but the first two."""
        for name in ("tokens_per_s", "step_energy_j", "last_loss", "held_out_loss"):
            pairs = [(self.summaries["bf16", seed].get(name) or math.nan, self.summaries["fp8", seed].get(name) or math.nan)
                     for seed in range(1, seeds + 1)]
            print(f"{name:15}" + "; ".join(f"bf16 {a:.6g}, fp8 {b:.6g}: {100 * (b / a - 1):+.2f} %" for a, b in pairs))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for the text and metrics")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=6_000_000, help="of the text")
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs")
    return parser.parse_args()


def main():
    experiment = Experiment(arguments())
    seeds = experiment.run()
    experiment.table(seeds)
    named = [f"--arm {arm}=" + ",".join(f"runs/{arm}-{seed}.jsonl" for seed in range(1, seeds + 1)) for arm in ARMS]
    print(f"{seeds} blocks in {experiment.elapsed_s():.0f} s; to compare them:")
    print(f"  tar -xzf {experiment.asked.out.name} && lowgear report {' '.join(named)} --baseline bf16 --paired "
          "--loss-margin 0.5")


if __name__ == "__main__":
    main()
