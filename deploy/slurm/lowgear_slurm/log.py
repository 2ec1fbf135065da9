"""The node's log, in which an administrator looks for what happened to a job."""

import functools
import sys
import syslog


def say(job, message):
    """In the system's log, and on standard error, which slurmd keeps of a script that fails."""
    line = f"job {job}: {message}"
    syslog.openlog("lowgear-slurm")
    syslog.syslog(syslog.LOG_WARNING, line)
    print(f"lowgear-slurm: {line}", file=sys.stderr)


def never_fails(script):
    """A function of the environment whose failure is logged and no failure for Slurm: it would end the job or drain the
    node, and training needs nothing of what these scripts do."""
    @functools.wraps(script)
    def run(environment):
        try:
            return script(environment)
        except Exception as error:  # pylint: disable=broad-except
            say(environment.get("SLURM_JOB_ID", "?"), f"{script.__name__}: {type(error).__name__}: {error}")
            return 0
    return run
