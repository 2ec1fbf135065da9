"""A machine with a real systemd in namespaces of its own, on an overlay of a Debian root: nothing of it stays."""

import os
import signal
import subprocess
import time
from pathlib import Path

# The root of the machine is $0. /sys/fs/cgroup is a group of its own of version 2: systemd delegates from there.
BOOT = """
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/changes,workdir=$2/work" "$0"
mount -t proc proc "$0/proc"
mount -t sysfs -o ro sysfs "$0/sys"
mount -t cgroup2 none "$0/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$0/dev"
for device in null zero full random urandom tty; do touch "$0/dev/$device"; mount --bind "/dev/$device" "$0/dev/$device"; done
mkdir "$0/dev/pts" "$0/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"
ln -s pts/ptmx "$0/dev/ptmx"
ln -s /proc/self/fd "$0/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$0/run"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
ip link set lo up
hostname "$3"
cd "$0"
exec chroot . /usr/bin/env -i container=test /lib/systemd/systemd --log-level=warning --show-status=false
"""


def group_folder():
    """Where groups of version 2 are made on this machine."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    raise RuntimeError("this kernel has no control groups of version 2 mounted")


class Machine:
    def __init__(self, name, base, folder):
        self.name = name
        self._root = folder / name / "root"
        for part in ("root", "changes", "work"):
            (folder / name / part).mkdir(parents=True)
        self._group = group_folder() / f"lowgear-{os.getpid()}-{name}"
        self._group.mkdir()
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc", "--net",
                  "bash", "-euc", BOOT, str(self._root), str(base), str(folder / name), name]
        enter = f'echo $$ >"{self._group}/cgroup.procs" && exec "$@"'
        with open(folder / f"{name}.log", "wb") as log:
            self._process = subprocess.Popen(["sh", "-c", enter, "sh", *inside], stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL)
        self.init = self._wait_for_init()

    def _wait_for_init(self):
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while self._process.poll() is None:
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return int(child)
            time.sleep(0.1)
        raise RuntimeError(f"{self.name}: systemd has not started")

    def _inside(self, *words):
        return ["nsenter", "--target", str(self.init), "--all", "--root", "--wd", *words]

    def wait_until_up(self):
        while self.as_root("systemctl is-system-running --wait || true").stdout.strip() not in ("running", "degraded"):
            time.sleep(0.5)

    def as_root(self, script):
        return subprocess.run(self._inside("/bin/sh", "-c", script), capture_output=True, text=True)

    def write(self, path, data):
        subprocess.run(self._inside("/bin/sh", "-c", f"cat >{path}"), input=data, check=True)

    def run(self, user, script):
        """A script in a new login shell of a user; ends at the first command that fails. Output and errors together."""
        self.write("/run/block", script.encode())
        done = subprocess.run(self._inside("/usr/sbin/runuser", "-l", user, "-c", "bash -eo pipefail -l /run/block"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
        return done.returncode, done.stdout

    def join(self, other, addresses):
        """A wire between two machines."""
        subprocess.run(["nsenter", "--target", str(self.init), "--net", "ip", "link", "add", "wire", "type", "veth", "peer",
                        "name", "wire", "netns", str(other.init)], check=True)
        for machine, address in zip((self, other), addresses):
            for words in (["addr", "add", f"{address}/24", "dev", "wire"], ["link", "set", "wire", "up"]):
                subprocess.run(["nsenter", "--target", str(machine.init), "--net", "ip", *words], check=True)

    def stop(self):
        """Ends everything in the machine; its mounts end with it."""
        if self._process.poll() is None:
            os.kill(self.init, signal.SIGKILL)
            self._process.wait()
        while self._group.exists():  # what was killed takes a moment to be gone
            subprocess.run(["find", str(self._group), "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"],
                           stderr=subprocess.DEVNULL)
            time.sleep(0.1)
