"""Task prolog and epilog, as the job's user. Slurm sets the variables that the task prolog prints as
`export NAME=VALUE`."""

import shutil
import subprocess
import time

from . import agent, records
from .account import account, counters, part, part_name
from .allocation import allocation, minor_numbers, visible_uuids
from .comment import CommentError, write_part
from .log import never_fails
from .options import OFF, VARIABLE, OptionError, run_options
from .plans import planned_saving_pct

PROGRAM = "/usr/bin/lowgear"
SET = "LOWGEAR_SLURM_SET"  # names of the variables that a task prolog has set, for those of steps within the job
PATIENCE_S = 30


@never_fails
def task_prolog(environment):
    """Returns the exit status, which is always 0: the task also runs without Lowgear, and its output says why."""
    variables, problem = {}, ""
    try:
        variables = _variables(environment)
    except (OptionError, OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    saving_pct = planned_saving_pct(variables.get("LOWGEAR_PLAN"), variables.get("LOWGEAR_SLOWDOWN"))
    _note(environment, "begin", {"planned_saving_pct": saving_pct})
    if VARIABLE in environment:
        _print(environment, variables, problem)
    return 0


def _print(environment, variables, problem):
    if problem and environment.get("SLURM_PROCID", "0") == "0":
        print(f"print lowgear: the step runs without plan or measurement: {' '.join(problem.split())}")
    for name in environment.get(SET, "").split():
        if name not in variables:
            print(f"unset {name}")
    for name, value in variables.items():
        print(f"export {name}={value}")
    print(f"export {SET}={' '.join(name for name in variables if name.startswith('LOWGEAR_'))}")


@never_fails
def task_epilog(environment):
    """Notes the counters: those after the last task of the node stay. The epilog of the first task updates the job's
    comment; the job's own energy comes last, as its batch script ends after its steps."""
    _note(environment, "end", {})
    job = environment["SLURM_JOB_ID"]
    if environment.get("SLURM_LOCALID", "0") != "0" or not (records.job(job) or {}).get("energy_j"):
        return 0
    try:
        document = account(job, environment["SLURMD_NODENAME"], agent.gpus())
        write_part(environment, part_name(document), part(document))
    except (agent.AgentError, CommentError):
        pass  # a job that is ending, as after scancel, gets no comment; the epilog writes the account of every job
    return 0


def _note(environment, moment, members):
    """Notes the counters of the step's GPUs; at the start only the first task does."""
    if moment == "begin" and environment.get("SLURM_LOCALID", "0") != "0":
        return
    try:
        gpus = agent.gpus()
        variable = "SLURM_STEP_GPUS" if environment.get("SLURM_STEP_GPUS") else "SLURM_JOB_GPUS"
        own = allocation(environment, gpus, minor_numbers(), variable)
        document = {"time_s": time.time(), "energy_j": counters(gpus, own.uuids), **members}
        records.write_step(environment["SLURM_JOB_ID"], environment.get("SLURM_STEP_ID") or "batch", moment, document)
    except (agent.AgentError, OSError):
        pass  # the step's energy is unknown then, and its job's comment says so


def _variables(environment):
    """The variables that `lowgear run` would set, and the GPUs by their UUIDs. Raises OptionError with its message."""
    words = run_options(environment.get(VARIABLE, OFF))
    if not words:
        return {}
    own = {name: value for name, value in environment.items() if name not in environment.get(SET, "").split()}
    program = shutil.which("lowgear", path=environment.get("PATH", "")) or PROGRAM
    result = subprocess.run([program, "run", *words, "--dry-run", "--", "true"], capture_output=True, text=True, env=own,
                            timeout=PATIENCE_S, check=False)
    if result.returncode != 0:
        raise OptionError(result.stderr.strip() or f"{program} ended with {result.returncode}")
    variables = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line.split(" ")[0])
    try:
        uuids = visible_uuids(environment, agent.gpus(), minor_numbers())
        if uuids:
            variables["CUDA_VISIBLE_DEVICES"] = uuids
    except agent.AgentError:
        pass  # CUDA's own numbers are right, too
    return variables
