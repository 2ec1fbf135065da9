#!/usr/bin/env python3
"""Fits the tables in src/estimating/estimator/peer/examples/ to the sampling files of estimate-train-time.

    bench/fit_published_examples.py LOWGEAR OPERATORS > src/estimating/estimator/peer/examples/perlmutter_fits.csv

LOWGEAR is the program; OPERATORS a folder with `operator` and `nccl` and `../configs/llemma_7b_4_2_2_{P,V}.yml` next to
it, as that project has them. Of each operator and collective a row of the table has the time at the shape of the
example, as the tool's tuned regressor predicts it from all samples (`--peer-formula`), and exponents: by how much the
logarithm of the time rises with that of each size, by least squares over the samples within a factor of four.
"""

import csv
import json
import math
import pathlib
import re
import subprocess
import sys

SIZES = ("mp", "b", "h", "l", "dim", "at")
EXAMPLE = {"mp": 2, "b": 4, "h": 32, "l": 4096, "dim": 4096}
WINDOW = 4.0


def solved(matrix, right):
    """Solves a small system of linear equations by elimination with pivots."""
    size = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(size):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [value - factor * above for value, above in zip(rows[k], rows[i])]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def exponents(rows, names, reference, column):
    """The time at the reference in us, and the exponent of each size; 0 of those that the samples do not vary."""
    kept = [row for row in rows
            if all(1 / WINDOW <= float(row[name]) / reference[name] <= WINDOW for name in names)
            and float(row[column]) > 0]
    powers = dict.fromkeys(names, 0.0)
    if not kept:
        return None, powers
    varied = [name for name in names if len({float(row[name]) for row in kept}) > 1]
    points = [[1.0, *(math.log(float(row[name]) / reference[name]) for name in varied)] for row in kept]
    times = [math.log(float(row[column])) for row in kept]
    normal = [[sum(p[i] * p[k] for p in points) for k in range(len(varied) + 1)] for i in range(len(varied) + 1)]
    found = solved(normal, [sum(p[i] * t for p, t in zip(points, times)) for i in range(len(varied) + 1)])
    return math.exp(found[0]), powers | dict(zip(varied, found[1:]))


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def main():
    lowgear, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    suffix = "P" if any((folder / "nccl").glob("*A100*")) else "V"
    job = folder.parent / "configs" / f"llemma_7b_4_2_2_{suffix}.yml"
    printed = subprocess.run([lowgear, "estimate", "--peer-formula", "--job", job, "--operators", folder, "--json"],
                             check=True, capture_output=True, text=True).stdout
    predicted = {p["name"]: 1e6 * p["time_s"] for p in json.loads(printed)["predictions"]}
    write = csv.writer(sys.stdout, lineterminator="\n")
    write.writerow(["function", "pass", "nodes", "GPUsPerNode", "at", "time(us)", *SIZES[:-1], "at_exponent"])

    def put(function, which, nodes, per_node, at, time_us, powers):
        write.writerow([function, which, nodes, per_node, at, f"{time_us:.4g}",
                        *(f"{powers.get(name, 0):.3f}" for name in SIZES)])

    for path in sorted((folder / "operator").glob("*_fp16.csv")):
        function = re.fullmatch(r"[^_]+_(.+)_fp16\.csv", path.name)[1]
        rows = read(path)
        for which, name, column in (("fwd", f"{function} forward", "F_dur(us)"),
                                    ("bwd", f"{function} backward", "B_dur(us)")):
            if name not in predicted:
                continue
            names = [size for size in EXAMPLE if size in rows[0]]
            put(function, which, 0, 0, 0, predicted[name], exponents(rows, names, EXAMPLE, column)[1])
        stage = next((name for name in predicted if name.startswith(function + " of")), None)
        if stage:
            reference = EXAMPLE | {"encoders": int(stage.split()[2])}
            powers = exponents(rows, ["mp", "dim", "encoders"], reference, "dur(us)")[1]
            powers["at"] = powers.pop("encoders", 0)
            put(function, "dur", 0, 0, reference["encoders"], predicted[stage], powers)
    for path in sorted((folder / "nccl").glob("*_fp16_*.csv")):
        function, nodes, per_node = re.fullmatch(r"[^_]+_(.+)_fp16_(\d+)_(\d+)\.csv", path.name).groups()
        of = [name for name in predicted if name.startswith(function + " of")]
        if not of:
            continue
        at = int(of[0].split()[2])
        fitted_us, powers = exponents(read(path), ["shape"], {"shape": at}, "dur(us)")
        time_us = predicted.get(f"{function} of {at} elements, {nodes} x {per_node} GPUs", fitted_us)
        if time_us and powers["shape"] > 0:  # a time that falls with the message was not measured
            put(function, "dur", nodes, per_node, at, time_us, {"at": powers["shape"]})


if __name__ == "__main__":
    main()
