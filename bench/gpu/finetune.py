#!/usr/bin/env python3
"""Fine-tuning with all blocks trained, with a placebo, and with frozen blocks, in turns: time, energy, held-out loss.

    finetune.py BIN --work FOLDER --out FILE.tar.gz [--seconds S] [--seeds N] [--frozen BLOCKS] [--job FILE]
                [--drop BUDGET] [--texts FOLDER FOLDER] [--set PATH=VALUE]... [--pretraining PATH=VALUE]... [--tuning PATH=VALUE]...

Trains the job's model (finetune.yaml's) on one text, and then fine-tunes it on another one: synthetic texts of different
words and transitions between them, or those of two folders, each with train.bin and held-out.bin. A block has one seed
and runs each arm once, every second block in reverse order, so that what changes slowly falls on all arms alike.
Another block begins only if it will end within S seconds of the start. BIN holds lowgear-trainer and synthetic_text.
FILE is written anew after every run: the metrics of all runs, ARM-SEED.jsonl, which `lowgear report` compares by the
command that is printed at the end.

Arms: `plain`; `placebo`, a controller of freezing that measures and may freeze nothing; `frozen`, the first blocks. With
--drop: `plain`; `placebo`, which decides and leaves nothing out; `dropped`, that share of the weight gradients left out.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time

JOB = pathlib.Path(__file__).resolve().with_name("finetune.yaml")
PRETRAINING = ["steps=600", "microbatch_size=16", "optimizer.learning_rate=3e-4", "optimizer.min_learning_rate=3e-5",
               "optimizer.warmup_steps=60"]
ONE_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29571"}
HELD_OUT_TOKENS = 400_000


class Experiment:
    job = JOB

    def __init__(self, asked):
        self.asked = asked
        self.job = getattr(asked, "job", None) or self.job
        self.start_s = time.monotonic()
        self.work = asked.work.resolve()
        self.runs = self.work / "runs"
        self.runs.mkdir(parents=True, exist_ok=True)

    def elapsed_s(self):
        return time.monotonic() - self.start_s

    def make_text(self, name, seed):
        subprocess.run([self.asked.bin / "synthetic_text", str(seed), str(self.asked.tokens), str(HELD_OUT_TOKENS),
                        self.work / name], check=True)

    def train(self, name, text, settings):
        """Runs the trainer as one rank; its summary, with the seconds of the whole process."""
        words = [f"data.tokens={self.work / text / 'train.bin'}", *settings, *self.asked.set,
                 f"evaluation.held_out={self.work / text / 'held-out.bin'}", f"metrics={self.runs / name}.jsonl"]
        command = [str(self.asked.bin / "lowgear-trainer"), "--json"]
        for word in words:
            command += ["--set", word]
        began_s = time.monotonic()
        done = subprocess.run([*command, str(self.job)], env={**os.environ, **ONE_RANK}, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}: exit code {done.returncode}: {done.stderr.strip()}")
        summary = {**json.loads(done.stdout.splitlines()[-1]), "process_s": round(time.monotonic() - began_s, 2)}
        print(f"{self.elapsed_s():6.1f} s  {name}: {json.dumps(summary)}", flush=True)
        self.pack()
        return summary

    def pack(self):
        part = self.asked.out.with_name(self.asked.out.name + ".part")
        with tarfile.open(part, "w:gz") as archive:
            archive.add(self.runs, arcname="runs")
        part.replace(self.asked.out)

    def texts(self):
        return [folder.resolve() for folder in self.asked.texts] if self.asked.texts else ["first", "second"]

    def arms(self):
        if self.asked.drop is not None:
            budget = f"adapt.freeze.weight_gradients.budget={self.asked.drop}"
            return {"plain": [], "placebo": [budget, "adapt.placebo=true"], "dropped": [budget]}
        held_out = self.work / self.texts()[1] / "held-out.bin"
        return {"plain": [],
                "placebo": [f"adapt.freeze.controller.held_out={held_out}", "adapt.freeze.controller.cap=0"],
                "frozen": [f"adapt.freeze.blocks={self.asked.frozen}"]}

    def block(self, seed):
        arms = list(self.arms().items())
        for name, settings in arms if seed % 2 == 1 else reversed(arms):
            self.train(f"{name}-{seed}", self.texts()[1],
                       [f"model.weights={self.work / 'weights'}", f"seed={seed}", *self.asked.tuning, *settings])

    def run(self):
        """All blocks that there is time for; returns their number."""
        if not self.asked.texts:
            self.make_text("first", 1)
            self.make_text("second", 2)
        self.train("pretraining", self.texts()[0], [*PRETRAINING, *self.asked.pretraining, f"export={self.work / 'weights'}"])
        longest_s = 0.0
        for seed in range(1, self.asked.seeds + 1):
            began_s = self.elapsed_s()
            if longest_s > 0 and began_s + longest_s > self.asked.seconds:
                print(f"no time for block {seed}", flush=True)
                return seed - 1
            self.block(seed)
            longest_s = max(longest_s, self.elapsed_s() - began_s)
        return self.asked.seeds


def report_command(arms, seeds):
    named = [f"--arm {arm}=" + ",".join(f"runs/{arm}-{seed}.jsonl" for seed in range(1, seeds + 1)) for arm in arms]
    return "lowgear report " + " ".join(named) + " --baseline plain --paired --loss-margin 0.5"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder for texts, weights and metrics")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--frozen", type=int, default=6, help="blocks")
    parser.add_argument("--drop", type=float, help="share of the weight gradients that is left out, instead of freezing")
    parser.add_argument("--tokens", type=int, default=6_000_000, help="of each text")
    parser.add_argument("--set", action="append", default=[], help="a setting of all runs")
    parser.add_argument("--job", type=pathlib.Path, help="the training's configuration (default: finetune.yaml)")
    parser.add_argument("--texts", type=pathlib.Path, nargs=2, metavar="FOLDER", help="of the first and second training")
    parser.add_argument("--tuning", action="append", default=[], help="a setting of the fine-tuning's runs")
    parser.add_argument("--pretraining", action="append", default=[], help="a setting of the first training")
    return parser.parse_args()


def main():
    experiment = Experiment(arguments())
    seeds = experiment.run()
    print(f"{seeds} blocks in {experiment.elapsed_s():.0f} s; to compare them:")
    print(f"  tar -xzf {experiment.asked.out.name} && {report_command(experiment.arms(), seeds)}")


if __name__ == "__main__":
    main()
