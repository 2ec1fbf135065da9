#!/usr/bin/env python3
"""check_images.py FOLDER AGAIN: what `./dev image --check` checks of images that were built twice, into both folders:
they are the same, no larger than images.json allows, their digests are right, and every program in them starts in their
own root. Needs root, for chroot."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
LOWGEAR = "/usr/bin/lowgear"
# What every program is started with in its root, and the exit code: 2 of those that refuse the argument, after they are
# linked. The client's lowgear runs in other images: tests/deploy/kubernetes/run_test.py copies it into one.
STARTS = {
    "agent": [([LOWGEAR, "--version"], 0), ([LOWGEAR, "agent", "--help"], 0)],
    "server": [([LOWGEAR, "--version"], 0), ([LOWGEAR, "serve", "--help"], 0)],
    "client": [(["/bin/busybox", "ls", "/opt/lowgear/bin/lowgear"], 0)],
    "trainer": [([LOWGEAR, "--version"], 0), (["/usr/bin/lowgear-trainer", "--no-such-option"], 2),
                (["/usr/bin/lowgear-sampler", "--no-such-option"], 2)],
}


def blob(archive, descriptor):
    data = archive.extractfile("blobs/" + descriptor["digest"].replace(":", "/")).read()
    assert len(data) == descriptor["size"] and "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"]
    return data


def layer_of(file):
    """The config and the unpacked layer of an image, whose digests and sizes are right."""
    with tarfile.open(file) as archive:
        manifest = json.loads(blob(archive, json.load(archive.extractfile("index.json"))["manifests"][0]))
        config = json.loads(blob(archive, manifest["config"]))
        unpacked = gzip.decompress(blob(archive, manifest["layers"][0]))
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(unpacked).hexdigest()]
    return config, unpacked


def start_all(name, root, user):
    number = int(user.partition(":")[0])
    for command, code in STARTS[name]:
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                              preexec_fn=lambda: (os.chroot(root), os.chdir("/"), os.setgroups([]), os.setgid(number),
                                                  os.setuid(number)))
        if done.returncode != code:
            sys.exit(f"{name}: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def check(name, spec, folder, again):
    file = next(folder.glob(f"lowgear-{name}_*.oci.tar"))
    if file.read_bytes() != (again / file.name).read_bytes():
        sys.exit(f"{file.name}: two builds of the same packages differ")
    config, unpacked = layer_of(file)
    megabytes = len(unpacked) / 1e6
    if megabytes > spec.get("limit_mb", float("inf")):
        sys.exit(f"{file.name}: {megabytes:.1f} MB, more than {spec['limit_mb']} MB")
    start_all(name, folder / "roots" / name, config["config"]["User"])
    print(f"{file.name}: {megabytes:.1f} MB, {file.stat().st_size / 1e6:.1f} MB compressed; built twice alike; "
          f"{len(STARTS[name])} starts as user {config['config']['User']}")


def main(folder, again):
    if os.getuid() != 0:
        sys.exit("only root can enter the roots of images: run this as root")
    images = json.loads((SOURCE / "deploy/images/images.json").read_text())["images"]
    for name, spec in images.items():
        check(name, spec, Path(folder), Path(again))


if __name__ == "__main__":
    main(*sys.argv[1:])
