"""Enters a root with Slurm in namespaces of its own, so that nothing of the machine is seen or changed by a test.

The root is that of LOWGEAR_SLURM_ROOT (make_root.sh makes one), or else the machine's own where Slurm is installed. In it
/run, /tmp and what Slurm, munge and Lowgear configure and keep are empty folders that end with the test; there are the
users of `USERS`, no network but a loopback interface, and no process but those of the test."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
NEEDED = ("usr/sbin/slurmctld", "usr/sbin/slurmd", "usr/sbin/munged", "usr/bin/scontrol", "usr/bin/python3")
USERS = {"alice": 2001, "bob": 2002}
GROUP = ("training", 2000)
NODE = "node0"
ADDRESS = "10.77.0.1"  # slurmctld does not listen where a machine has no address but 127.0.0.1
EMPTY = ("run", "tmp", "mnt", "home", "etc/slurm", "etc/munge", "etc/lowgear", "var/lib/lowgear", "var/lib/slurm", "var/log")
SKIPPED = 77
_INSIDE = "LOWGEAR_INSIDE_SLURM_ROOT"


def enter():
    """Returns within the root; the process that calls it outside becomes the one within, or ends as skipped."""
    if os.environ.get(_INSIDE):
        _prepare()
        return
    root = Path(os.environ.get("LOWGEAR_SLURM_ROOT", "/"))
    missing = [name for name in NEEDED if not os.path.lexists(root / name)]
    if os.geteuid() != 0 or missing:
        reason = f"{root} has no {missing[0]}" if missing else "only root can enter it"
        print(f"skipped: Slurm is not tried: {reason}; tests/deploy/slurm/make_root.sh FOLDER makes a root with Slurm, "
              "LOWGEAR_SLURM_ROOT names it", file=sys.stderr)
        sys.exit(SKIPPED)
    variables = {name: value for name, value in os.environ.items() if name.startswith("LOWGEAR_")}
    program = Path(os.environ["LOWGEAR_BINARY"])
    lines = ["set -e", "mount --make-rprivate /"]
    lines += [f"mkdir -p {shlex.quote(str(root / name))} && mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(root / name))}"
              for name in EMPTY if not (root == Path("/") and SOURCE.is_relative_to("/" + name))]
    if root != Path("/"):
        lines += [f"mount --rbind /dev {root}/dev"]
        for folder in {SOURCE, program.resolve().parents[2], program.resolve().parents[3]}:
            place = shlex.quote(f"{root}{folder}")
            lines += [f"mkdir -p {place} && mount --bind {shlex.quote(str(folder))} {place}"]
    lines += [f"mount -t proc proc {root}/proc", "hostname " + NODE, "ip link set lo up", f"ip address add {ADDRESS} dev lo"]
    words = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root", f"{_INSIDE}=1",
             "PYTHONDONTWRITEBYTECODE=1", *(f"{name}={value}" for name, value in variables.items()),
             "/usr/bin/python3", str(Path(sys.argv[0]).resolve()), *sys.argv[1:]]
    # The shell stays, as the init of its namespace: processes that outlive their parents are its, and it reaps them.
    lines += [f"code=0; chroot {shlex.quote(str(root))} {shlex.join(words)} || code=$?", "exit $code"]
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--",
                          "bash", "-c", "\n".join(lines)])


def _replace(path, text):
    """Another content of a file of the root, in this mount namespace alone."""
    new = Path("/run/replaced") / path.name
    new.parent.mkdir(exist_ok=True)
    new.write_text(text)
    subprocess.run(["mount", "--bind", str(new), str(path)], check=True)


def _prepare():
    os.chmod("/tmp", 0o1777)
    passwd, group = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
    _replace(Path("/etc/passwd"), passwd +
             "".join(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/sh\n" for name, uid in USERS.items()))
    _replace(Path("/etc/group"), group + f"{GROUP[0]}:x:{GROUP[1]}:{','.join(USERS)}\n" +
             "".join(f"{name}:x:{uid}:\n" for name, uid in USERS.items()))
    _replace(Path("/etc/hosts"), f"127.0.0.1 localhost\n{ADDRESS} {NODE}\n")
    for name, uid in USERS.items():
        home = Path("/home") / name
        home.mkdir()
        os.chown(home, uid, uid)
