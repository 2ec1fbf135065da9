#!/usr/bin/env python3
"""Prints a stage profile whose head is heavier: a constructed case, not a measurement.

What the last stage takes beyond the mean of the stages in between counts FACTOR times, as with a larger vocabulary.

    bench/heavier_head.py profile.csv 4 > heavier.csv
"""

import collections
import csv
import sys


def heavier(rows, factor):
    last = max(int(row["stage"]) for row in rows)
    between = collections.defaultdict(list)
    for row in rows:
        if 0 < int(row["stage"]) < last:
            between[row["instruction"], row["frequency"]].append((float(row["time"]), float(row["energy"])))
    for row in rows:
        cost = [float(row["time"]), float(row["energy"])]
        others = between.get((row["instruction"], row["frequency"]))
        if int(row["stage"]) == last and others:
            means = [sum(values) / len(others) for values in zip(*others)]
            cost = [value + (factor - 1) * (value - mean) for value, mean in zip(cost, means)]
        yield (row["stage"], row["instruction"], row["frequency"], *cost)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    print("stage,instruction,frequency,time,energy")
    for line in heavier(table, float(sys.argv[2])):
        print(*line, sep=",")
