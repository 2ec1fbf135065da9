#!/usr/bin/env python3
"""A training job in bf16, in fp8, and in fp8 with bf16's weight gradients: tokens/s, J/token, losses after equal tokens.

    fp8_train.py BIN --work FOLDER --out FILE.tar.gz [--seconds S] [--first-seed N] [--seeds N] [--text FOLDER]
                 [--pretraining STEPS] [--arms bf16,fp8] [--set PATH=VALUE]...

The job is that of pipeline.yaml on one GPU: Llama of 1.36 billion parameters, on synthetic text, or on the tokens of
FOLDER/train.bin with those of FOLDER/held-out.bin held out (`lowgear data tokenize` writes such files). With
--pretraining the model is first trained in bf16, and all runs continue from its weights: losses of runs from random
weights differ by chance by more than types do. A block has one seed and runs all arms once, every second block in
reverse order; another one begins only if it will end within S seconds of the start. BIN holds lowgear-trainer and
synthetic_text. FILE is written anew after every run: the metrics of all runs, which `lowgear report` compares, with
intervals, by the command that is printed at the end.
"""

import argparse
import math
import pathlib

import finetune

SETTINGS = ["parallel.pp=1", "microbatches=8", "data.synthetic_tokens=", "optimizer.warmup_steps=5"]
ARMS = {"bf16": ["type=bf16"], "fp8": ["type=fp8"], "fp8-bf16-wgrad": ["type=fp8", "fp8.weight_gradients=bf16"]}


class Experiment(finetune.Experiment):
    job = finetune.JOB.with_name("pipeline.yaml")

    def __init__(self, asked):
        super().__init__(asked)
        self.summaries = {}  # by arm and seed
        self.settings = list(SETTINGS)
        self.text = asked.text.resolve() if asked.text else "text"

    def arms(self):
        return {arm: ARMS[arm] for arm in self.asked.arms.split(",")}

    def pretrain(self):
        self.train("pretraining", self.text, [*self.settings, f"steps={self.asked.pretraining}", "seed=1000", "type=bf16",
                                              f"export={self.work / 'weights'}"])
        self.settings.append(f"model.weights={self.work / 'weights'}")

    def block(self, seed):
        arms = list(self.arms().items())
        for arm, settings in arms if seed % 2 == 1 else reversed(arms):
            self.summaries[arm, seed] = self.train(f"{arm}-{seed}", self.text,
                                                   [*self.settings, f"steps={self.asked.steps}", f"seed={seed}", *settings])

    def run(self):
        """All blocks that there is time for; returns their seeds."""
        if not self.asked.text:
            self.make_text("text", 1)
        if self.asked.pretraining:
            self.pretrain()
        done = []
        longest_s = 0.0
        for seed in range(self.asked.first_seed, self.asked.first_seed + self.asked.seeds):
            began_s = self.elapsed_s()
            if longest_s > 0 and began_s + longest_s > self.asked.seconds:
                break
            self.block(seed)
            done.append(seed)
            longest_s = max(longest_s, self.elapsed_s() - began_s)
        return done

    def table(self, seeds):
        """Differences of each seed's runs from the first arm; the steps that count are all but the first two."""
        for name in ("tokens_per_s", "step_energy_j", "last_loss", "held_out_loss"):
            print(f"{name}:")
            for seed in seeds:
                base = self.summaries[next(iter(self.arms())), seed].get(name) or math.nan
                figures = {arm: self.summaries[arm, seed].get(name) or math.nan for arm in self.arms()}
                print("  " + ", ".join(f"{arm} {x:.6g} ({100 * (x / base - 1):+.2f} %)" for arm, x in figures.items()))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for the text and metrics")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--text", type=pathlib.Path, help="folder with train.bin and held-out.bin")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--pretraining", type=int, default=0, metavar="STEPS")
    parser.add_argument("--tokens", type=int, default=6_000_000, help="of the text")
    parser.add_argument("--arms", default=",".join(ARMS), help="some of them, with commas between")
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs")
    return parser.parse_args()


def main():
    experiment = Experiment(arguments())
    seeds = experiment.run()
    experiment.table(seeds)
    named = [f"--arm {arm}=" + ",".join(f"runs/{arm}-{seed}.jsonl" for seed in seeds) for arm in experiment.arms()]
    print(f"{len(seeds)} blocks in {experiment.elapsed_s():.0f} s; to compare them:")
    print(f"  tar -xzf {experiment.asked.out.name} && lowgear report {' '.join(named)} "
          f"--baseline {next(iter(experiment.arms()))} --paired --loss-margin 0.5")


if __name__ == "__main__":
    main()
