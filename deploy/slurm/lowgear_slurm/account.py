"""The account of a job on one node, from the energy counters at its start and at its end."""

import time

from . import records


def counters(gpus, uuids):
    """Joules since the driver was loaded, by UUID; None for a GPU that does not report them now. The last reading of a
    lost GPU does not count, as it is older than the GPU's last use."""
    return {gpu["uuid"]: (gpu["reading"] or {}).get("energy_j") if gpu["healthy"] else None
            for gpu in gpus if gpu["uuid"] in uuids}


def energy_between(begin, end):
    """Joules of all GPUs of `begin` from there to `end`, both objects with `energy_j`, and "". None and the reason if
    the energy of a GPU is unknown: the GPU was lost, the driver was loaded again, or the counter does not answer or stands
    still."""
    of_begin = begin.get("energy_j")
    if not isinstance(of_begin, dict) or not of_begin:
        return None, ""
    total_j = 0.0
    for uuid in of_begin:
        first_j, last_j = (records.number_in(document, "energy_j", uuid) for document in (begin, end))
        if first_j is None or last_j is None:
            return None, f"{uuid} reported no energy at the {'begin' if first_j is None else 'end'}"
        if last_j <= first_j:
            return None, f"the energy counter of {uuid} {'stands still' if last_j == first_j else 'fell'} at {last_j} J"
        total_j += last_j - first_j
    return total_j, ""


def account(job, node, gpus):
    """The account (`lowgear.slurm-job/1`) of a job until now. `gpus`: the agent's list; empty without an agent."""
    begin = records.job(job) or {"problem": "the prolog has left no record"}
    now_s, begin_s = time.time(), records.number_in(begin, "time_s")
    uuids = list(begin.get("energy_j") or {})
    energy_j, unknown = energy_between(begin, {"energy_j": counters(gpus, uuids)})
    return {"format": "lowgear.slurm-job/1", "job": job, "restart": begin.get("restart", 0), "node": node,
            "uid": begin.get("uid"), "end_time_s": now_s, "time_s": None if begin_s is None else now_s - begin_s, "gpus": uuids,
            "energy_j": energy_j,
            "steps": {name: _step(step) for name, step in records.steps(job).items()},
            "problem": begin.get("problem", "") or unknown}


def _step(step):
    begin, end = step.get("begin", {}), step.get("end", {})
    return {"energy_j": energy_between(begin, end)[0], "planned_saving_pct": records.number_in(begin, "planned_saving_pct")}


def part(document):
    """The node's part of the job's comment, as text by name. The first start of a job has the node's name, later starts
    also have their number."""
    figures = {"gpus": str(len(document["gpus"])) if document["gpus"] else "unknown",
               "energy_j": _figure(document["energy_j"]), "time_s": _figure(document["time_s"])}
    steps = document["steps"]
    if steps:
        figures["steps_j"] = ",".join(f"{name}:{_figure(step['energy_j'])}" for name, step in steps.items())
    planned = [f"{name}:{step['planned_saving_pct']:.1f}" for name, step in steps.items()
               if step["planned_saving_pct"] is not None]
    if planned:
        figures["planned_saving_pct"] = ",".join(planned)
    return figures


def part_name(document):
    return document["node"] + (f".{document['restart']}" if document["restart"] else "")


def _figure(number):
    return "unknown" if number is None else f"{number:.1f}"
