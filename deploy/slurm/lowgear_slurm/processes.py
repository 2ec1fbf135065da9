"""Processes of a job, by the environment that Slurm gave them."""

from pathlib import Path

PROC = Path("/proc")


def outlive(job, proc=PROC):
    """Whether a process of the job runs whose environment this user may read; root may read all. The calling epilog, which
    has the same variable from Slurm, does not count."""
    wanted, own = f"SLURM_JOB_ID={job}".encode(), _ancestry(proc)
    for folder in proc.glob("[0-9]*"):
        try:
            if folder.name not in own and wanted in (folder / "environ").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue  # the process has ended, or is another user's
    return False


def _ancestry(proc):
    """Numbers of this process and of those that it descends from, as text."""
    found, number = set(), "self"
    while number not in found | {"0"}:
        try:
            status = (proc / number / "status").read_text(encoding="utf-8")
        except OSError:
            break
        members = dict(line.partition(":\t")[::2] for line in status.splitlines())
        found |= {number, members.get("Pid", number)}
        number = members.get("PPid", "0")
    return found
