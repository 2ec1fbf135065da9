"""Messages about a job in the node's log."""

import functools
import sys
import syslog


def say(job, message):
    """Writes to the system's log, and to standard error, which slurmd logs if a script fails."""
    line = f"job {job}: {message}"
    syslog.openlog("lowgear-slurm")
    syslog.syslog(syslog.LOG_WARNING, line)
    print(f"lowgear-slurm: {line}", file=sys.stderr)


def never_fails(script):
    """Makes a function of the environment log its failure and return 0: a failure would end the job or drain the node,
    although training does not depend on these scripts."""
    @functools.wraps(script)
    def run(environment):
        try:
            return script(environment)
        except Exception as error:  # pylint: disable=broad-except
            say(environment.get("SLURM_JOB_ID", "?"), f"{script.__name__}: {type(error).__name__}: {error}")
            return 0
    return run
