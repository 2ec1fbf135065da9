"""Prolog and epilog of a job, as root. The agent restores GPUs when leases end; these scripts make sure of it."""

import time

from . import agent, processes, records
from .account import account, counters
from .allocation import allocation, minor_numbers
from .log import never_fails, say

NOTICE_S = 2  # in which the agent notices by itself that a process has ended
RETURN_S = 5  # in which processes renew their leases after a restart of the agent
LATE_RETURN_S = 20  # the same for running processes on a busy machine, which ask the agent late
RESTORE_PATIENCE_S = 30  # covers a restart of the agent
PAUSE_S = 0.05


@never_fails
def prolog(environment):
    """Returns the exit status, which is always 0: a job runs without Lowgear, too."""
    if not _has_gpus(environment):
        return 0
    job = environment["SLURM_JOB_ID"]
    try:
        gpus = agent.gpus()
        own = allocation(environment, gpus, minor_numbers())
        for gpu in _assigned(job, environment, own.uuids):
            if gpu["lease"] is not None:
                say(job, f"{gpu['uuid']} is still leased by an earlier job; ending lease {gpu['lease']}")
                agent.end_lease(gpu["lease"])
        document = {"energy_j": counters(gpus, own.uuids), "problem": own.problem}
    except agent.AgentError as error:
        document = {"energy_j": {}, "problem": str(error)}
    if document["problem"]:
        say(job, document["problem"])
    uid, gid = int(environment["SLURM_JOB_UID"]), int(environment["SLURM_JOB_GID"])
    records.begin_job(job, uid, gid, {**document, "time_s": time.time(), "uid": uid,
                                        "restart": int(environment.get("SLURM_JOB_RESTART_COUNT", "0"))})
    return 0


def _assigned(job, environment, uuids):
    """Assigns the job's GPUs to its user, so that no other user can lease them, and returns them."""
    try:
        for uuid in uuids:
            # From Slurm 26.05 on, it is the name of the job's control group.
            agent.assign(uuid, int(environment["SLURM_JOB_UID"]), job, environment.get("SLURM_JOB_SLUID"))
    except agent.AgentError as error:
        say(job, f"other users can lease its GPUs while it does not: {error}")
    return [gpu for gpu in agent.gpus() if gpu["uuid"] in uuids]


def _give_back(job, gpus):
    """Gives back the GPUs that are assigned to the job."""
    for gpu in gpus:
        if (gpu.get("assigned_to") or {}).get("job") != job:
            continue
        try:
            agent.give_back(gpu["uuid"], job)
        except agent.AgentError as error:
            say(job, f"{gpu['uuid']} stays assigned to it: {error}")


def epilog(environment):
    """Returns the exit status: 1, for which Slurm drains the node, if GPUs of the job are left changed."""
    if not _has_gpus(environment):
        return 0
    job = environment["SLURM_JOB_ID"]
    gpus, problem = _restored(job, environment)
    _give_back(job, gpus)
    if problem:
        say(job, problem)
    try:
        document = account(job, environment["SLURMD_NODENAME"], gpus)
        records.append_account({**document, "left_changed": problem})
    except OSError as error:
        say(job, f"it is not in the accounts: {error}")
    records.forget_job(job)
    return 1 if problem else 0


def _has_gpus(environment):
    return bool(environment.get("SLURM_JOB_GPUS") or environment.get("CUDA_VISIBLE_DEVICES"))


def _restored(job, environment):
    """The node's GPUs once those of the job are restored, and the reason why some are not; no GPUs without an agent."""
    begin_s, gpus, problem = time.monotonic(), [], ""
    while time.monotonic() < begin_s + RESTORE_PATIENCE_S:
        try:
            gpus = agent.gpus()
            own = allocation(environment, gpus, minor_numbers())
            changed = [gpu for gpu in gpus if gpu["uuid"] in own.uuids and
                       (gpu["lease"] is not None or gpu["clocks"]["state"] in ("leased", "failed"))]
            if not changed and (not own.uuids or _is_final(job)):
                return gpus, ""
            problem = "; ".join(f"{gpu['uuid']} is left changed: {gpu['problem'] or gpu['clocks']['state']}" for gpu in changed)
            if time.monotonic() > begin_s + NOTICE_S:
                _end_leases(job, changed)
        except agent.AgentError as error:
            problem = str(error)
            if _never_had_gpus(job):
                return [], ""
        time.sleep(PAUSE_S)
    return gpus, problem


def _is_final(job):
    """Whether no process of the job can still renew a lease from before the agent's restart."""
    age_s = agent.age_s()
    return age_s > LATE_RETURN_S or (age_s > RETURN_S and not processes.outlive(job))


def _end_leases(job, gpus):
    """Ends the leases of processes that have outlived their job."""
    for gpu in gpus:
        if gpu["lease"] is None:
            continue
        try:
            agent.end_lease(gpu["lease"])
            say(job, f"a process has outlived the job with a lease on {gpu['uuid']}; ended lease {gpu['lease']}")
        except agent.AgentError:
            pass  # the lease has ended by itself; the next check shows it


def _never_had_gpus(job):
    """Whether the job cannot have changed a GPU: it had no GPU, or no agent ran when it started."""
    begin = records.job(job)
    return begin is not None and not begin.get("energy_j")
