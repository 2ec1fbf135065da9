"""Runs the containers of manifests as processes, without a container engine: the same command, user, groups,
capabilities, variables, mounted files and read-only root. Needs root and a mount namespace of its own.

What is not as in a cluster: all share one network and one table of processes, there are no limits of CPU and memory, and
no seccomp profile.
"""

import base64
import ctypes
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

CAP_SYS_ADMIN = 21
CAPABILITIES = {"SYS_ADMIN": CAP_SYS_ADMIN}
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
MNT_DETACH = 2
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags, data=None):
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    if LIBC.mount(words[0], words[1], words[2], flags, words[3]) != 0:
        raise OSError(ctypes.get_errno(), "mount", str(target))


def make_point(target, is_folder):
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_folder:
        target.mkdir()
    else:
        target.touch()


def bind(source, target, read_only=False):
    make_point(target, Path(source).is_dir())
    mount(source, target, None, MS_BIND)
    if read_only:
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def libraries_of(program):
    """Paths of the shared libraries and the loader that a program needs, as the loader finds them."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?:=> )?(/\S+) \(0x", listed)


class BuiltRoot:
    """A root like an image's: programs of a build at the places of the packages, the libraries that they load, and the
    image's users."""

    def __init__(self, files, images):
        self.files = files  # {path in the root: file}
        self.images = images

    def make(self, root):
        for place, file in self.files.items():
            bind(file, root / place.lstrip("/"), read_only=True)
            for library in libraries_of(file) if os.access(file, os.X_OK) else []:
                if not (root / library.lstrip("/")).exists():
                    bind(library, root / library.lstrip("/"), read_only=True)
        etc = root / "etc"
        (etc / "lowgear").mkdir(parents=True, mode=0o755)
        users = "".join(f"{name}:x:{number}:{number}::/:/\n" for name, number in self.images["users"].items())
        (etc / "passwd").write_text("root:x:0:0::/root:/\n" + users)
        groups = "".join(f"{name}:x:{number}:\n" for name, number in self.images["groups"].items())
        (etc / "group").write_text("root:x:0:\n" + groups)


class ImageRoot:
    """The root of an image that was built, which stays as it is: what is written goes elsewhere."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()

    def make(self, root):
        writes = root.with_name(root.name + ".writes")
        writes.mkdir()
        mount("tmpfs", writes, "tmpfs", 0, "mode=755")
        (writes / "upper").mkdir()
        (writes / "work").mkdir()
        mount("overlay", root, "overlay", 0, f"lowerdir={self.folder},upperdir={writes}/upper,workdir={writes}/work")


def system_files(root, hosts):
    """What a runtime adds to every container."""
    for name in ("proc", "dev", "dev/shm", "tmp", "run"):
        (root / name).mkdir(exist_ok=True, parents=True)
    bind("/proc", root / "proc")
    for device in ("null", "zero", "urandom"):
        bind(f"/dev/{device}", root / "dev" / device)
    mount("tmpfs", root / "dev/shm", "tmpfs", 0, "mode=1777")
    (root / "etc/hosts").write_text("127.0.0.1 localhost " + " ".join(hosts) + "\n")


class Roots:
    """The roots of images, each made once: containers of all nodes mount them, with their own volumes."""

    def __init__(self, folder, root_of, hosts):
        self.folder = Path(folder)
        self.root_of = root_of  # image name -> BuiltRoot or ImageRoot
        self.hosts = hosts
        self.made = {}

    def of(self, image):
        if image not in self.made:
            root = self.folder / f"image-{len(self.made)}"
            root.mkdir()
            mount("tmpfs", root, "tmpfs", 0, "mode=755")
            self.root_of(image).make(root)
            system_files(root, self.hosts)
            self.made[image] = root
        return self.made[image]


class Node:
    """A machine: its host paths, and its claims of volumes, outlast the pods."""

    def __init__(self, folder, cluster, roots):
        self.folder = Path(folder)
        self.cluster = cluster
        self.roots = roots
        self.count = 0

    def volume_of(self, pod, volume):
        group = pod.spec.get("securityContext", {}).get("fsGroup")
        if "hostPath" in volume:
            return self.host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            folder = self.folder / "claims" / volume["name"]
            if not folder.exists():
                folder.mkdir(parents=True)
                os.chown(folder, 0, group or 0)
                folder.chmod(0o2775 if group else 0o755)
            return folder
        folder = self.folder / f"volume-{self.count}"
        self.count += 1
        folder.mkdir()
        if "emptyDir" in volume:
            os.chown(folder, 0, group or 0)
            folder.chmod(0o2777 if group else 0o777)
        else:
            self.write_files(pod, volume, folder, group)
        return folder

    def host_path(self, host_path):
        folder = self.folder / "host" / host_path["path"].lstrip("/")
        if host_path["type"] == "Directory" and not folder.is_dir():
            raise FileNotFoundError(f"the node has no {host_path['path']}")
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        return folder

    def write_files(self, pod, volume, folder, group):
        """As kubelet does: files in a folder of their own, links to them, a group that may read them."""
        source = volume.get("configMap") or volume["secret"]
        mode = source.get("defaultMode", 0o644)
        data = folder / "..2026"
        data.mkdir()
        (folder / "..data").symlink_to("..2026")
        for name, text in self.cluster.files_of(pod, volume).items():
            content = base64.b64decode(text) if "secret" in volume else text.encode()
            (data / name).write_bytes(content)
            os.chown(data / name, 0, group or 0)
            (data / name).chmod(mode | (0o440 if group else 0))
            (folder / name).symlink_to(f"..data/{name}")
        folder.chmod(0o777)

    def start(self, pod, container, log, command=None, volumes=None):
        """Starts a container; its volumes are made anew, unless they are given by name."""
        root = self.folder / f"root-{self.count}"
        self.count += 1
        root.mkdir()
        mount(self.roots.of(container["image"]), root, None, MS_BIND | MS_REC)
        made = {} if volumes is None else volumes
        for wanted in container.get("volumeMounts", []):
            name = wanted["name"]
            if name not in made:
                made[name] = self.volume_of(pod, pod.volume(name))
            source = made[name] / wanted["subPath"] if "subPath" in wanted else made[name]
            bind(source.resolve(), root / wanted["mountPath"].lstrip("/"), wanted.get("readOnly", False))
        if container.get("securityContext", {}).get("readOnlyRootFilesystem"):
            mount(None, root, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
        return Container(pod, container, root, log, command)


class Container:
    def __init__(self, pod, container, root, log, command=None):
        self.pod, self.container, self.root, self.log = pod, container, root, Path(log)
        variables = {entry["name"]: entry.get("value", "") for entry in container.get("env", [])}
        words = [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word) for word in command or container["command"]]
        with open(log, "ab") as output:
            self.process = subprocess.Popen(words, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", **variables},
                                            stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                                            preexec_fn=self.become, start_new_session=True)

    def become(self):
        context = {**self.pod.spec.get("securityContext", {}), **self.container.get("securityContext", {})}
        os.chroot(self.root)
        os.chdir("/")
        os.umask(0o022)
        kept = {CAPABILITIES[name] for name in context.get("capabilities", {}).get("add", [])}
        for capability in range(64):
            if capability not in kept:
                LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those that the kernel does not have
        group = context.get("fsGroup")
        os.setgroups(context.get("supplementalGroups", []) + ([group] if group else []))
        os.setgid(context.get("runAsGroup", 0))
        os.setuid(context.get("runAsUser", 0))
        if not context.get("allowPrivilegeEscalation", True) and LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            os._exit(126)

    def output(self):
        return self.log.read_text(errors="replace")

    def probe(self, kind):
        """The status of the response to a probe; None where there is none."""
        get = self.container[kind]["httpGet"]
        port = next(p["containerPort"] for p in self.container["ports"] if p["name"] == get["port"])
        return status_of(f"http://127.0.0.1:{port}{get['path']}", self.container[kind].get("timeoutSeconds", 1))

    def wait_until_started(self):
        self.wait_until_answers("startupProbe")

    def wait_until_answers(self, kind):
        """As kubelet, which tries a probe again that has no response in time."""
        while self.probe(kind) != 200:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.pod.name} ended with {self.process.returncode}:\n{self.output()}")
            time.sleep(0.05)

    def stop(self):
        """As kubelet does. The exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(self.pod.spec.get("terminationGracePeriodSeconds", 30))
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def status(self, name):
        """A line of the kernel's status of the process."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return re.search(rf"^{name}:\s*(.*)$", text, re.MULTILINE)[1]


def status_of(url, timeout_s=None, token=None):
    return response_of(url, timeout_s, token)[0]


def response_of(url, timeout_s=None, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return None, b""


def remove_tree(folder):
    """Also where mounts are left in it: detaching one takes along what is mounted within it."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    detached = None
    for point in sorted((m for m in mounted if m.startswith(f"{folder}/")), key=lambda place: Path(place).parts):
        if detached is not None and f"{point}/".startswith(f"{detached}/"):
            continue
        if LIBC.umount2(os.fsencode(point), MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), "umount2", point)
        detached = point
    shutil.rmtree(folder)
