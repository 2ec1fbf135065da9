"""What checks of attached jobs share: jobs without and with Lowgear, and what their recordings must show."""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import List, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SITE = ROOT / "python" / "lowgear" / "site"


class Failed(Exception):
    """A check found something."""


class Skipped(Exception):
    """A check cannot be made here; the message says what is missing."""


class Job(NamedTuple):
    """How a job starts: its words, to which the folder for its results is appended, and what it finds set. `options` of
    `lowgear run`, which only --command knows."""

    words: List[object]
    python_path: List[Path] = []
    folder: Optional[Path] = None
    variables: dict = {}
    options: List[object] = []


def torchrun(ranks, *words):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, *words]


def require(condition, text):
    if not condition:
        raise Failed(text)


def require_attached(said):
    require("lowgear: attached" in said, f"it did not attach: {said[-3000:]}")
    problems = ("measuring only", "not measured", "not attached", "at the end")
    refused = [line for line in said.splitlines() if "lowgear: " in line and any(text in line for text in problems)]
    require(not refused, f"refused: {refused}")


def add_arguments(parser):
    """Those that every script of checks has."""
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/liblowgear.so")
    parser.add_argument("--command", help="the program lowgear, where it runs here")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--log", type=Path, help="a file that gets all that the jobs say")


def cause(said):
    """The end of what a failed job said, before its launcher tells that a rank has failed or that it was ended."""
    return said.split("failed (exitcode")[0].split("death signal, shutting down")[0][-3000:]


class Jobs:
    def __init__(self, arguments, folder, limit_s=600):
        self.arguments = arguments
        self.folder = folder
        self.limit_s = limit_s

    def environment(self, job, recording):
        """Of a job; `recording` is None where Lowgear is not asked for."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_")}
        kept.update(OMP_NUM_THREADS="1", LOWGEAR_AGENT_SOCKET="", LOWGEAR_LIBRARY=str(self.arguments.library))
        kept.update(job.variables)
        paths = [*job.python_path, kept.get("PYTHONPATH")]
        if recording and not self.arguments.command:
            kept["LOWGEAR_RECORDING"] = str(recording)
            paths.insert(0, SITE)
        kept["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths if path)
        return kept

    def run(self, name, job, recording=None):
        """Files that the ranks of a job wrote, in the order of ranks, and what it said."""
        out = self.folder / f"{name}-{'with' if recording else 'without'}"
        out.mkdir()
        words = [*map(str, job.words), str(out)]
        if recording and self.arguments.command:
            words = [self.arguments.command, "run", *map(str, job.options), "--record", str(recording), "--", *words]
        status, said = self._said(words, job, recording)
        if self.arguments.log:
            with open(self.arguments.log, "a", encoding="utf-8") as log:
                log.write(f"\n===== {out.name}: {' '.join(words)}\n{said}\n")
        require(status == 0, f"{out.name} ended with {status}: {cause(said)}")
        return [json.loads(path.read_text()) for path in sorted(out.glob("rank-*.json"))], said

    def _said(self, words, job, recording):
        """Exit status and output. A job that takes too long is asked to end, as its launcher then ends all ranks."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, cwd=job.folder,
                                       env=self.environment(job, recording))
            try:
                status = process.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                status = f"a timeout after {self.limit_s:g} s"
                self._end(process)
            output.seek(0)
            return status, output.read()

    @staticmethod
    def _end(process):
        process.terminate()
        try:
            process.wait(45)  # torchrun gives ranks 30 s
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def both(self, name, job):
        """A job without and with Lowgear: what its ranks wrote, the folder of the recording, and what it said."""
        plain, _ = self.run(name, job)
        recording = self.folder / f"{name}-recording"
        attached, said = self.run(name, job, recording)
        require_attached(said)
        require([rank["losses"] for rank in plain] == [rank["losses"] for rank in attached], "the losses differ")
        require(any(rank["losses"] for rank in plain), "there are no losses")
        return attached, recording, said


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def units_by_iteration(recording, rank):
    """What a rank's recording lists: lists of (instruction, stage, microbatch) by iteration."""
    by_iteration = {}
    for row in rows(recording / f"rank-{rank:05d}" / "units.csv"):
        unit = (row["instruction"], int(row["stage"]), int(row["microbatch"]))
        by_iteration.setdefault(int(row["iteration"]), []).append(unit)
    return by_iteration


def check_rank(by_iteration, rank, iterations):
    """Returns the units of an iteration; `rank` is what the job itself has seen."""
    require(sorted(by_iteration) == list(range(iterations)),
            f"{len(by_iteration)} iterations {sorted(by_iteration)[:3]}... instead of {iterations}")
    first = by_iteration[0]
    counts = Counter(first)
    require(max(counts.values()) == 1, f"more than once: {counts.most_common(1)}")
    for stage in rank["stages"]:
        for microbatch in range(rank["microbatches"]):
            kinds = {kind for kind, at, of in first if (at, of) == (stage, microbatch)}
            split = {"forward", "input_gradient", "weight_gradient"}
            require(kinds in ({"forward", "backward"}, split), f"stage {stage}, microbatch {microbatch}: {sorted(kinds)}")
    forwards = [stage for kind, stage, _ in first if kind == "forward"]
    for iteration in range(iterations):
        require(by_iteration[iteration] == first, f"iteration {iteration} has another order than iteration 0")
        if iteration:  # the first one also finds out shapes
            require(rank["forwards"][iteration] == forwards, f"iteration {iteration}: forwards in another order")
    return first


def table(checks):
    """Prints one row for each (name, function that returns a result) and returns the exit status."""
    counts = Counter()
    for name, check in checks:
        try:
            verdict, result = "ok", check()
        except Skipped as reason:
            verdict, result = "SKIPPED", reason
        except (Failed, OSError, KeyError, ValueError) as error:
            verdict, result = "FAILED", error if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        counts[verdict] += 1
        print(f"| {name} | {verdict} | {result} |", flush=True)
    print(f"{counts['ok']} passed, {counts['SKIPPED']} skipped, {counts['FAILED']} failed")
    return 1 if counts["FAILED"] else 0
