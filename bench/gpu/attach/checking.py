"""What the checks of attached jobs share: running a job with and without Lowgear, and reading what it recorded."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SITE = ROOT / "python" / "lowgear" / "site"


class Failed(Exception):
    """A check found something."""


def require(condition, text):
    if not condition:
        raise Failed(text)


def require_attached(said):
    require("lowgear: attached" in said, f"it did not attach: {said[-3000:]}")
    refused = [line for line in said.splitlines() if "measuring only" in line or "not measured" in line]
    require(not refused, f"refused: {refused}")


class Jobs:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder

    def environment(self, recording, **more):
        """Of a job; `recording` is None where Lowgear is not asked for. `more` is set at the end."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_")}
        kept.update(OMP_NUM_THREADS="1", LOWGEAR_AGENT_SOCKET="", LOWGEAR_LIBRARY=str(self.arguments.library))
        if recording and not self.arguments.command:
            kept["LOWGEAR_RECORDING"] = str(recording)
            kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SITE), kept.get("PYTHONPATH")]))
        return {**kept, **more}

    def torchrun(self, script):
        """Words that start a job's ranks."""
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", self.arguments.ranks,
                HERE / "jobs" / script]

    def run(self, name, words, recording=None, options=(), **more):
        """Files that the ranks of a job wrote, in the order of ranks, and what it said. `options` of `lowgear run`, which
        only --command knows; `more` of its environment."""
        out = self.folder / f"{name}-{'with' if recording else 'without'}"
        out.mkdir()
        words = [*map(str, words), str(out)]
        if recording and self.arguments.command:
            words = [self.arguments.command, "run", *map(str, options), "--record", str(recording), "--", *words]
        result = subprocess.run(words, capture_output=True, text=True, check=False,
                                env=self.environment(recording, **more), timeout=600)
        require(result.returncode == 0, f"ended with {result.returncode}: {result.stderr[-3000:]}")
        return [json.loads(path.read_text()) for path in sorted(out.glob("rank-*.json"))], result.stderr

    def both(self, name, words):
        """A job without and with Lowgear: what its ranks wrote, and the folder of the recording."""
        plain, _ = self.run(name, words)
        recording = self.folder / f"{name}-recording"
        attached, said = self.run(name, words, recording)
        require_attached(said)
        require([rank["losses"] for rank in plain] == [rank["losses"] for rank in attached], "the losses differ")
        require(any(rank["losses"] for rank in plain), "there are no losses")
        return attached, recording


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
