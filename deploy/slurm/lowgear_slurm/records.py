"""Records of a job on its node from prolog to epilog. They are kept in memory, as the GPUs' counters do not
outlive a boot either.

FOLDER/JOB/job.json is root's; FOLDER/JOB/steps belongs to the job's user, so its content is checked when read."""

import json
import math
import os
import shutil
import stat
from pathlib import Path

FOLDER = Path("/run/lowgear-slurm")
ACCOUNTS = Path("/var/log/lowgear-slurm.jsonl")
MAX_BYTES = 64 * 1024  # largest size of a record
MAX_STEPS = 1000


def _write(path, document):
    """Writes the whole file or nothing."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document), encoding="utf-8")
    os.replace(temporary, path)


def _read(path):
    """Returns None unless the file is a regular one of limited size with a JSON object: its writer may be any user."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            document = json.loads(file.read(MAX_BYTES))
        except (ValueError, RecursionError):
            return None
    return document if isinstance(document, dict) else None


def begin_job(job, uid, gid, document):
    """Notes the start of a job and replaces the records of its earlier starts."""
    FOLDER.mkdir(mode=0o755, exist_ok=True)
    shutil.rmtree(FOLDER / job, ignore_errors=True)
    (FOLDER / job / "steps").mkdir(parents=True)
    os.chmod(FOLDER / job, 0o755)
    os.chmod(FOLDER / job / "steps", 0o700)
    os.chown(FOLDER / job / "steps", uid, gid)
    _write(FOLDER / job / "job.json", document)


def job(number):
    """The document that begin_job() wrote; None without one."""
    return _read(FOLDER / number / "job.json")


def forget_job(number):
    shutil.rmtree(FOLDER / number, ignore_errors=True)


def write_step(number, step, moment, document):
    """`moment`: begin or end. Does nothing if the prolog has not run."""
    folder = FOLDER / number / "steps"
    if folder.is_dir():
        _write(folder / f"{step}.{moment}", document)


def steps(number):
    """Begin and end of each step, by its name: `batch` or a number."""
    found = {}
    try:
        names = sorted(os.listdir(FOLDER / number / "steps"))[: 2 * MAX_STEPS]
    except OSError:
        return found
    for name in names:
        step, _, moment = name.partition(".")
        document = _read(FOLDER / number / "steps" / name)
        if (step == "batch" or (step.isdigit() and len(step) < 10)) and moment in ("begin", "end") and document:
            found.setdefault(step, {})[moment] = document
    return found


def append_account(document):
    """Appends a line to the node's accounts in one write, so that readers see only whole lines."""
    descriptor = os.open(ACCOUNTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o640)
    try:
        os.write(descriptor, (json.dumps(document) + "\n").encode())
    finally:
        os.close(descriptor)


def number_in(document, *names):
    """The finite number >= 0 at a path of nested objects; None without one."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    is_number = isinstance(document, (int, float)) and not isinstance(document, bool)
    return document if is_number and math.isfinite(document) and document >= 0 else None
