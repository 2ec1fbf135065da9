#!/usr/bin/env python3
"""Follows docs/deploying.md, "Bare metal", word for word, on two machines with a real systemd, and simulated GPUs.

    tests/deploy/bare_metal/follow_page.py PACKAGES [BASE]

PACKAGES is the folder of ./dev package. BASE is a folder that is kept for the next time: a bare Debian 12 with what the
page takes for granted (systemd, sudo, curl, ssh, python3-torch). Needs root, debootstrap, a mirror of Debian and some
4 GB; without BASE all of it is removed again. Every block of the page is run as a user with sudo, in a new login shell;
ends with 1 where a block fails, its output lacks what the page shows, or files or units are left at the end.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import Machine
from page import PAGE, blocks_of, missing_lines, section

USER = "user"
MACHINES = {"planner": "10.47.0.1", "node1": "10.47.0.2"}
TAKEN_FOR_GRANTED = ("systemd", "systemd-sysv", "dbus", "libpam-systemd", "sudo", "curl", "ca-certificates", "iproute2",
                     "procps", "openssh-server", "openssh-client")
INSIDE = f"""
useradd --create-home --shell /bin/bash {USER}
echo '{USER} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/user
install -d -m 700 -o {USER} -g {USER} /home/{USER}/.ssh
runuser -u {USER} -- ssh-keygen -q -t ed25519 -N '' -f /home/{USER}/.ssh/id_ed25519
runuser -u {USER} -- cp /home/{USER}/.ssh/id_ed25519.pub /home/{USER}/.ssh/authorized_keys
echo 'StrictHostKeyChecking accept-new' >/etc/ssh/ssh_config.d/test.conf
"""


def quietly(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def configure_apt(base):
    """This machine's archives, and packages stay where they were downloaded to: the machines have no network."""
    sources = base / "etc/apt/sources.list.d"
    for file in Path("/etc/apt/sources.list.d").glob("debian.*"):
        shutil.copy(file, sources)
        (base / "etc/apt/sources.list").unlink(missing_ok=True)
    for name in ("resolv.conf", "hosts"):
        shutil.copy(Path("/etc") / name, base / "etc" / name)


def mirror():
    """Of this machine, in a list; empty: debootstrap's own."""
    for file in (*Path("/etc/apt/sources.list.d").glob("debian.*"), Path("/etc/apt/sources.list")):
        words = file.read_text().split() if file.exists() else []
        found = [word for word in words if "://" in word and not word.startswith("http://snapshot")]
        if found:
            return found[:1]
    return []


def make_base(base):
    if (base / ".ready").exists():
        return
    base.mkdir(parents=True, exist_ok=True)
    base.chmod(0o755)
    quietly("debootstrap", "--variant=minbase", f"--include={','.join(TAKEN_FOR_GRANTED)}", "bookworm", base, *mirror())
    configure_apt(base)
    quietly("chroot", base, "apt-get", "-q", "update")
    quietly("chroot", base, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "install",
            "--no-install-recommends", "python3-torch")
    quietly("chroot", base, "sh", "-euc", INSIDE)
    (base / ".ready").touch()


def download_dependencies(base, packages):
    """What the packages depend on, and recommend, into the cache of apt."""
    folder = base / "debs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for package in packages:
        shutil.copy(package, folder)
    quietly("chroot", base, "sh", "-euc", "apt-get -q -y -o APT::Keep-Downloaded-Packages=true --download-only install /debs/*.deb")
    shutil.rmtree(folder)


def newer(packages, folder):
    """The same packages with a later version, as an upgrade brings."""
    folder.mkdir()
    for package in packages:
        tree = folder / package.stem
        quietly("dpkg-deb", "--raw-extract", package, tree)
        control = tree / "DEBIAN/control"
        lines = [line + "+next" if line.startswith("Version: ") else line for line in control.read_text().splitlines()]
        control.write_text("\n".join(lines) + "\n")
        quietly("dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", tree, folder / package.name.replace("_", "_next_", 1))
        shutil.rmtree(tree)
    return sorted(folder.glob("*.deb"))


def left_of(machine):
    """What is left of Lowgear on a machine after the page's last block; empty: nothing."""
    return machine.run(USER, "sudo find / -xdev -name '*lowgear*' -not -path \"$HOME/*\" 2>/dev/null\n"
                             "systemctl list-units --all --no-legend 'lowgear*'")[1].strip()


def prepare(machine, packages, upgrades):
    for address_of, address in MACHINES.items():
        machine.as_root(f"echo '{address} {address_of}' >>/etc/hosts")
    machine.as_root(f"install -d -o {USER} -g {USER} /home/{USER}/new")
    for package in packages:
        machine.write(f"/home/{USER}/{package.name}", package.read_bytes())
    for package in upgrades:
        machine.write(f"/home/{USER}/new/{package.name.replace('_next_', '_', 1)}", package.read_bytes())


def follow(blocks, machines):
    """Runs the blocks; returns what is wrong, empty when nothing is."""
    for block in blocks:
        if not block.is_run:
            print(f"--- {PAGE.name}:{block.line}: not run", flush=True)
            continue
        print(f"--- {PAGE.name}:{block.line}: {block.place}", flush=True)
        code, printed = machines[block.place].run(USER, block.text)
        print(printed, end="", flush=True)
        if code:
            return f"{PAGE.name}:{block.line}: ended with {code}"
        if missing := missing_lines(block.expected, printed):
            return f"{PAGE.name}:{block.line}: the output lacks " + "; ".join(missing)
    return "\n".join(f"{name} still has {left}" for name, machine in machines.items() if (left := left_of(machine)))


def run(packages, base, folder):
    make_base(base)
    download_dependencies(base, packages)
    upgrades = newer(packages, folder / "newer")
    machines = {}
    try:
        for name in MACHINES:
            machines[name] = Machine(name, base, folder)
        for machine in machines.values():
            machine.wait_until_up()
            prepare(machine, packages, upgrades)
        planner, node = machines.values()
        planner.join(node, MACHINES.values())
        return follow(blocks_of(section()), machines)
    finally:
        for machine in machines.values():
            machine.stop()


def main(words):
    if len(words) not in (1, 2):
        sys.exit(__doc__)
    packages = sorted(Path(words[0]).resolve().glob("*.deb"))
    if not packages:
        sys.exit(f"there are no packages in {words[0]}; ./dev package makes them")
    with tempfile.TemporaryDirectory(prefix="lowgear-bare-metal-") as folder:
        Path(folder).chmod(0o755)
        base = Path(words[1]).resolve() if len(words) == 2 else Path(folder) / "base"
        problem = run(packages, base, Path(folder))
    if problem:
        sys.exit(problem)
    print("the page was followed to its end")


if __name__ == "__main__":
    main(sys.argv[1:])
