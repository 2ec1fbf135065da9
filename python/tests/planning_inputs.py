"""Profiles, jobs and helpers that the tests of planning in Python share."""

import csv
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import lowgear
from lowgear import planning

SOURCE = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("LOWGEAR_BINARY") or SOURCE.parent / "build" / "release" / "bin" / "lowgear")
POWER_W = 80

# Two stages at three clocks, as in docs/formats.md.
ROWS = [
    {"stage": stage, "instruction": instruction, "frequency": mhz, "time": time_s * factor, "energy": energy_j * factor}
    for stage in (0, 1)
    for instruction, factor in (("forward", 1), ("backward", 2))
    for mhz, time_s, energy_j in ((1410, 0.05, 18.0), (1200, 0.056, 16.0), (990, 0.066, 15.0))
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
JOB = {
    "model": "llama-2-7b",
    "gpu": "a100-80gb-sxm",
    "cluster": {"gpus": 8},
    "parallel": {"tp": 2, "pp": 2},
    "batch": {"global": 16, "sequence": 4096},
}


def require_the_library():
    try:
        planning.call.load()
    except lowgear.LowgearError as error:
        raise unittest.SkipTest(f"SKIPPED: {error}") from None
    if not BINARY.is_file():
        raise unittest.SkipTest(f"SKIPPED: {BINARY} is not there; set LOWGEAR_BINARY to the path of lowgear")


def plan(profile=None, **options):
    settings = {"blocking_power_w": POWER_W, "microbatches": 2, "plans": 3, **options}
    return lowgear.plan(ROWS if profile is None else profile, **settings)


def command(*words, folder):
    done = subprocess.run([str(BINARY), *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def profile_file(self):
        path = self.folder / "profile.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(ROWS)
        return path
