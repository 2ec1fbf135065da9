"""The job's Comment, in which every node of the job has a part: `lowgear[node1 gpus=8 energy_j=51200.0 time_s=12.5]`.
The user's text in the comment stays. slurmctld accepts changes while the job runs, but not while it is ending."""

import random
import re
import shutil
import subprocess
import time

FOLDERS = "/usr/bin:/usr/local/bin:/opt/slurm/bin"  # where scontrol is looked for after the user's PATH
PATIENCE_S = 10
TURNS = 6
LONGEST_WAIT_S = 5
MOST_NODES = 16  # of a job that gets comments: each node sends slurmctld two or more requests after every step
_PART = re.compile(r"lowgear\[(\S+) ([^\]]*)\]")


class CommentError(Exception):
    """scontrol is missing, or slurmctld refuses or does not respond."""


def part_of(text, name):
    """The members of a part, as text by name; empty if the comment lacks the part."""
    for other, members in _PART.findall(text):
        if other == name:
            return dict(member.partition("=")[::2] for member in members.split())
    return {}


def with_part(text, name, members):
    """The comment with this part in place of the node's previous part."""
    rest = _PART.sub(lambda found: "" if found[1] == name else found[0], text)
    words = " ".join(f"{key}={value}" for key, value in members.items())
    return " ".join([*rest.split(), f"lowgear[{name} {words}]"])


def _scontrol(path, *words):
    program = shutil.which("scontrol", path=f"{path}:{FOLDERS}")
    if program is None:
        raise CommentError(f"there is no scontrol in {path}:{FOLDERS}")
    try:
        result = subprocess.run([program, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise CommentError(f"slurmctld has not responded within {PATIENCE_S} s") from None
    if result.returncode != 0:
        raise CommentError(f"scontrol {words[0]}: {result.stderr.strip()}")
    return result.stdout


def _read(path, job):
    found = re.search(r"^\s*Comment=(.*?)\s*$", _scontrol(path, "show", "job", job), re.MULTILINE)
    return found[1] if found else ""


def write_part(environment, name, members):
    """Adds the part. scontrol replaces the whole comment, so that another node may overwrite the part. It checks
    the comment again, after a delay that differs from node to node, until the part has stayed. Raises CommentError."""
    path, job, nodes = environment.get("PATH", ""), environment["SLURM_JOB_ID"], environment.get("SLURM_JOB_NUM_NODES", "1")
    if not nodes.isdigit() or int(nodes) > MOST_NODES:
        raise CommentError(f"comments are for jobs of at most {MOST_NODES} nodes")
    begun_s = time.monotonic()
    text = _read(path, job)
    for turn in range(TURNS):
        if part_of(text, name) == members and turn > 0:
            return
        _scontrol(path, "update", f"JobId={job}", f"Comment={with_part(text, name, members)}")
        if nodes == "1":
            return
        # Another node that read the comment before this update writes it within about the time that this node took.
        time.sleep(min(LONGEST_WAIT_S, random.uniform(2, 8) * max(0.05, time.monotonic() - begun_s)))
        begun_s = time.monotonic()
        text = _read(path, job)
    raise CommentError(f"other nodes have overwritten the part of {name} {TURNS} times")
