"""Orders of plans in PyTorch: `schedule.csv` of an output folder of `lowgear plan` is what `_load_csv` accepts, and what
its ranks then run.

"lowering": PyTorch's own code reads, validates, lowers and simulates the order of every schedule that Lowgear generates, of
several sizes. "order NAME": a pipeline runs the order by `_PipelineScheduleRuntime._load_csv` under `lowgear run --plan`.
Checked is that every rank runs its row of the file in every iteration, that nothing is refused, and the losses against
the same job with PyTorch's own schedule for the same stages. They are the same bits where each stage sums the gradients of
microbatches in the same order; split backwards compute in other steps, so that only the first iteration's losses, which are
of forwards alone, are the same bits, and the others close. With --simulated, an agent sets clocks of simulated GPUs: all
that were requested are the plan's.
"""

import contextlib
import csv
import json
import math
import os
import re
import socket
import subprocess
import sys
import time
from typing import NamedTuple

from checks import HERE, Job, Skipped, require, require_attached, rows, torchrun, units_by_iteration

MICROBATCHES = 8  # of jobs/pipeline.py
CLOCKS_MHZ = (1980, 1485, 990)
KINDS = {"F": "forward", "B": "backward", "I": "input_gradient", "W": "weight_gradient"}


class Order(NamedTuple):
    schedule: str  # of lowgear plan
    own: str  # PyTorch's for the same stages
    chunks: int = 1
    same_sums: bool = True  # gradients of microbatches are summed in the same order


ORDERS = {"order 1f1b": Order("1f1b", "1F1B"), "order gpipe": Order("gpipe", "1F1B"),
          "order envpipe": Order("envpipe", "1F1B"), "order interleaved": Order("interleaved", "Interleaved1F1B", 2),
          "order zb-h1": Order("zb-h1", "1F1B", same_sums=False)}


def write_plan(jobs, order, ranks, microbatches, out):
    """Output folder of `lowgear plan`, from a profile that is made up: what matters here is the order."""
    profile = out.with_suffix(".profile.csv")
    kinds = ("forward", "input_gradient", "weight_gradient") if order.schedule == "zb-h1" else ("forward", "backward")
    lines = ["stage,instruction,frequency,time,energy"]
    for stage in range(ranks * order.chunks):
        for kind in kinds:
            for mhz in CLOCKS_MHZ:
                time_s = 0.02 * (1 + stage % 2) * (0.3 + 0.7 * 1980 / mhz)
                lines.append(f"{stage},{kind},{mhz},{time_s:.6f},{time_s * (150 + 520 * (mhz / 1980) ** 2.4):.4f}")
    profile.write_text("\n".join(lines) + "\n")
    words = [jobs.arguments.command, "plan", "--profile", profile, "--schedule", order.schedule, "--stages", ranks,
             "--microbatches", microbatches, "--virtual-stages", order.chunks, "--blocking-power", 116, "--slowdown", 10, "--quiet",
             "--out", out]
    made = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    require(made.returncode == 0, f"lowgear plan: {made.stderr}")
    return out


def units_of(row):
    """(kind, stage, microbatch) of a rank's row in PyTorch's notation."""
    parts = [re.fullmatch(r"(\d+)([FBIW])(\d+)", cell).groups() for cell in row]
    return [(KINDS[letter], int(stage), int(microbatch)) for stage, letter, microbatch in parts]


@contextlib.contextmanager
def agent(jobs, folder):
    """Variables of a job whose GPUs are simulated, with an agent that sets their clocks; none without --simulated."""
    if not jobs.arguments.simulated:
        yield {}
        return
    command, lease = jobs.arguments.command, folder / "lease.sock"
    variables = {"LOWGEAR_NVML": str(jobs.arguments.simulated.resolve()), "LOWGEAR_SIMGPU": str(folder / "machine"),
                 "LOWGEAR_AGENT_SOCKET": str(lease)}
    subprocess.run([command, "simgpu", "create", "--gpus", f"{jobs.arguments.ranks}xH200", "--any-user"], check=True,
                   env={**os.environ, **variables}, capture_output=True)
    config = folder / "agent.yaml"
    config.write_text(f'journal: "{folder}/journal"\nsockets: {{lease_socket: "{lease}", http_socket: "{folder}/agent.sock"}}\n'
                      "gpu: [{id: all}]\nallow: [{everybody: true}]\n")
    config.chmod(0o600)
    process = subprocess.Popen([command, "agent", "--config", str(config)], env={**os.environ, **variables},
                               stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket(socket.AF_UNIX) as connection:
                if connection.connect_ex(str(lease)) == 0:
                    break
            time.sleep(0.1)
        yield variables
    finally:
        process.terminate()
        process.wait()


def check_losses(order, own, ordered):
    own, ordered = [[[[float.fromhex(loss) for loss in losses] for losses in rank["losses"]] for rank in job]
                    for job in (own, ordered)]
    require(any(map(any, own)), "there are no losses")
    if order.same_sums:
        require(own == ordered, "the losses differ")
        return "same losses"
    require([rank[0] for rank in own] == [rank[0] for rank in ordered], "the first iteration's losses differ")
    pairs = [pair for mine, theirs in zip(own, ordered) for pair in zip(sum(mine, []), sum(theirs, []))]
    difference = max(abs(a - b) / abs(a) for a, b in pairs)
    require(all(math.isclose(a, b, rel_tol=1e-4) for a, b in pairs), f"losses differ by up to {difference:.1e}")
    return f"first losses the same, others within {difference:.1e}"


def check_order_of(by_iteration, row, iterations):
    expected = units_of(row)
    require(len(set(expected)) == len(expected), "the file lists a unit twice")
    require(sorted(by_iteration) == list(range(iterations)), f"iterations {sorted(by_iteration)[:3]}...")
    for iteration, units in by_iteration.items():
        require(units == expected, f"iteration {iteration} is not in the plan's order")


def requested_mhz(recording, ranks):
    """Clocks that the agent has requested for units of the job."""
    units = (unit for rank in range(ranks) for unit in rows(recording / f"rank-{rank:05d}" / "units.csv"))
    return {int(unit["frequency"] or 0) for unit in units} - {0}


def planned_mhz(plan):
    [file] = (plan / "plans").iterdir()
    return {op["mhz"] for rank in json.loads(file.read_text())["stages"] for op in rank["ops"]}


def rows_of(plan):
    with open(plan / "schedule.csv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def check_order(jobs, name, iterations):
    order, ranks = ORDERS[name], jobs.arguments.ranks
    if not jobs.arguments.command:
        raise Skipped("it needs --command")
    folder = jobs.folder / name.replace(" ", "-")
    folder.mkdir()
    plan, recording = write_plan(jobs, order, ranks, MICROBATCHES, folder / "plan"), folder / "recording"
    words = torchrun(ranks, HERE / "jobs" / "pipeline.py")
    own, _ = jobs.run(name, Job([*words, order.own, iterations]))
    with agent(jobs, folder) as variables:
        words += ["--order", plan / "schedule.csv", order.own, iterations]
        ordered, said = jobs.run(name, Job(words, variables=variables, options=["--plan", plan]), recording)
    require_attached(said)
    order_rows = rows_of(plan)
    require(len(order_rows) == ranks, f"{len(order_rows)} rows for {ranks} ranks")
    for rank, row in enumerate(order_rows):
        check_order_of(units_by_iteration(recording, rank), row, iterations)
    requested, planned = requested_mhz(recording, ranks), planned_mhz(plan)
    require(requested <= planned, f"clocks {requested - planned} are not of the plan")
    require(requested or not jobs.arguments.simulated, "the agent has requested no clock")
    clocks = f", clocks of the plan: {sorted(requested)} MHz" if requested else ""
    return f"{'/'.join(str(len(row)) for row in order_rows)} units in the plan's order, {iterations} iterations, " \
           f"{check_losses(order, own, ordered)}{clocks}"


def check_lowering(jobs, _name, _iterations):
    if not jobs.arguments.command:
        raise Skipped("it needs --command")
    folder = jobs.folder / "lowering"
    folder.mkdir()
    count = 0
    for order in ORDERS.values():
        for ranks in (1, 2, 3, 4, 8):
            for microbatches in (1, 2, 6, 8, 24):
                write_plan(jobs, order, ranks, microbatches, folder / f"{order.schedule}-{ranks}-{microbatches}")
                count += 1
    result = subprocess.run([sys.executable, str(HERE / "jobs" / "lowering.py"), str(folder)], capture_output=True,
                            text=True, check=False)
    require(result.returncode == 0, result.stderr[-3000:])
    require(result.stdout.split() == [str(count)], f"{result.stdout!r} instead of {count} orders")
    return f"{count} orders read, validated, lowered and simulated by PyTorch"
