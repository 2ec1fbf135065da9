#!/usr/bin/env python3
"""Models times of a recorded model with experts: a trace for `lowgear plan --lengths REC --expert-ranks N --recorded`.

The loads are those that the routers chose (`lowgear train --record`). Times are modelled: a forward takes a constant
part and a part for each token of the fullest rank, which is SHARE of it where all ranks have the same tokens; a
backward takes twice as long."""

import argparse
import collections
import csv
import pathlib

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("recording", type=pathlib.Path)
parser.add_argument("--expert-ranks", type=int, default=4)
parser.add_argument("--stages", type=int, default=4)
parser.add_argument("--share", type=float, default=0.4, help="of experts in a forward at even loads")
parser.add_argument("--forward-s", type=float, default=0.05, help="time of a forward at even loads")
parser.add_argument("--out", type=pathlib.Path, required=True)
arguments = parser.parse_args()

rows = []
for file in sorted(arguments.recording.glob("expert_loads-*.csv")):
    with file.open() as text:
        rows += list(csv.DictReader(text))
layers = max(int(row["layer"]) for row in rows) + 1
states_stages = max(int(row.get("stage", 0)) for row in rows) + 1 == arguments.stages

fullest = collections.Counter()  # by step, replica, stage, microbatch
even = collections.Counter()
for row in rows:
    tokens = [int(count) for count in row["expert_tokens"].split()]
    each = len(tokens) // arguments.expert_ranks
    ranks = [sum(tokens[first : first + each]) for first in range(0, len(tokens), each)]
    stage = int(row["stage"]) if states_stages and "stage" in row else int(row["layer"]) * arguments.stages // layers
    unit = (int(row["step"]), int(row["replica"]), stage, int(row["microbatch"]))
    fullest[unit] += max(ranks)
    even[unit] += sum(ranks) / len(ranks)

with arguments.out.open("w") as trace:
    trace.write("step,dp_rank,stage,op,microbatch,duration_us\n")
    waits = times = 0.0
    for unit in sorted(fullest):
        step, replica, stage, microbatch = unit
        imbalance = fullest[unit] / even[unit]
        time_us = 1e6 * arguments.forward_s * (1 - arguments.share + arguments.share * imbalance)
        waits += time_us - 1e6 * arguments.forward_s
        times += time_us
        for op, factor in ("forward-compute", 1), ("backward-compute", 2):
            trace.write(f"{step},{replica},{stage},{op},{microbatch},{factor * time_us}\n")

ratios = sorted(fullest[unit] / even[unit] for unit in fullest)
print(f"fullest rank / mean: median {ratios[len(ratios) // 2]:.3f}, 95th percentile {ratios[len(ratios) * 95 // 100]:.3f}")
print(f"a mean rank waits {100 * waits / times:.1f} % of the time within layers")
