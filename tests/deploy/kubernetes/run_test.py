#!/usr/bin/env python3
"""The containers of deploy/kubernetes as processes, with the real programs: agents and server of the overlay with
simulated GPUs start and answer their probes, its training job trains, and the other configurations are accepted.

Needs root, kubectl and python3-yaml; ends with 77 without them. With ROOTS, a folder that has the roots of images, the
programs run in these.
"""

import base64
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

try:
    import yaml  # noqa: F401  what manifests needs

    from manifests import Cluster, copied_manifests, kubectl, read_images, render
    from pods import CAP_SYS_ADMIN, BuiltRoot, ImageRoot, Node, Roots, remove_tree, response_of, status_of
    kubectl()
except ImportError as missing:
    print(f"skipped: {missing}: the containers of deploy/kubernetes are not run", flush=True)
    sys.exit(77)

SOURCE = Path(os.environ["SOURCE"])
IMAGES = read_images(SOURCE / "deploy/images/images.json")
SERVER = "http://127.0.0.1:7787"
AGENT = "http://127.0.0.1:9401"


def enter_namespaces():
    """Starts this program again with mounts, processes and a loopback interface of its own."""
    inside = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.getuid() != 0 or subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        print("skipped: only root may make namespaces, and not everywhere: the containers of deploy/kubernetes are not run")
        sys.exit(77)
    os.execvpe(inside[0], [*inside, sys.executable, *sys.argv], {**os.environ, "LOWGEAR_INSIDE": "1"})


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        SIOCSIFFLAGS, IFF_UP = 0x8914, 1
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def built_root():
    files = {"/usr/bin/lowgear": "LOWGEAR_BINARY",
             "/usr/lib/x86_64-linux-gnu/lowgear/simgpu/libnvidia-ml.so.1": "LOWGEAR_NVML",
             "/usr/bin/lowgear-trainer": "LOWGEAR_TRAINER"}
    present = {place: Path(os.environ[name]) for place, name in files.items() if os.environ.get(name)}
    present["/usr/share/lowgear/examples/llama-4-stages.yaml"] = SOURCE / "examples/training/llama-4-stages.yaml"
    return BuiltRoot(present, IMAGES)


def root_of(image):
    if "ROOTS" in os.environ:
        return ImageRoot(Path(os.environ["ROOTS"]) / image.removeprefix("lowgear-").partition(":")[0])
    return built_root()


class Pods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = Path(tempfile.mkdtemp(prefix="lowgear-pods-"))
        cls.addClassCleanup(remove_tree, cls.work)
        folder = copied_manifests(SOURCE / "deploy", cls.work)
        cls.simulated = Cluster(render(folder / "overlays/simulated") + render(folder / "examples/simulated"))
        cls.others = [Cluster(render(folder / f"overlays/{name}")) for name in ("cluster", "mps-pool")]
        cls.roots = Roots(cls.work, root_of, ["lowgear-server.lowgear"])
        cls.jobset = Cluster(render(folder / "examples/jobset"))

    def setUp(self):
        self.node = Node(self.folder(), self.simulated, self.roots)
        self.logs = self.folder()

    def folder(self):
        made = Path(tempfile.mkdtemp(dir=self.work))
        made.chmod(0o755)
        return made

    def pod(self, kind, cluster=None):
        return next(pod for pod in (cluster or self.simulated).pods if pod.owner["kind"] == kind)

    def start(self, kind):
        pod = self.pod(kind)
        container = self.node.start(pod, pod.spec["containers"][0], self.logs / f"{kind}-{time.monotonic_ns()}.log")
        self.addCleanup(container.stop)
        container.wait_until_started()
        return container

    def secret(self, name):
        found = next(d for d in self.simulated.of_kind("Secret") if d["metadata"]["name"] == name)
        return base64.b64decode(found["data"]["token"]).decode()

    def test_the_agent_starts_and_answers_its_probes(self):
        agent = self.start("DaemonSet")
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            agent.wait_until_answers(kind)
        self.assertIn(b"lowgear_gpu_power_watts", response_of(f"{AGENT}/metrics")[1])
        self.assertEqual(status_of(f"{AGENT}/v1/gpus"), 404)
        self.assertEqual(agent.stop(), 0, agent.output())

    def test_the_agent_has_one_capability_and_its_sockets_belong_to_the_group_of_training_pods(self):
        agent = self.start("DaemonSet")
        for kind in ("CapEff", "CapPrm", "CapBnd"):
            self.assertEqual(int(agent.status(kind), 16), 1 << CAP_SYS_ADMIN, kind)
        for name in ("lease.sock", "agent.sock"):
            status = (self.node.folder / "host/run/lowgear" / name).stat()
            self.assertEqual((status.st_gid, status.st_mode & 0o777), (IMAGES["groups"]["lowgear"], 0o660))

    def test_the_agent_starts_again_with_what_the_node_has_kept(self):
        self.assertEqual(self.start("DaemonSet").stop(), 0)
        again = self.start("DaemonSet")
        again.process.kill()
        again.process.wait()
        self.start("DaemonSet")

    def test_the_server_starts_without_a_capability_and_wants_tokens(self):
        server = self.start("StatefulSet")
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            server.wait_until_answers(kind)
        self.assertEqual(int(server.status("CapEff"), 16), 0)
        self.assertEqual(server.status("Uid").split()[0], str(IMAGES["users"]["lowgear-server"]))
        self.assertEqual(status_of(f"{SERVER}/metrics"), 401)
        self.assertEqual(status_of(f"{SERVER}/metrics", token=self.secret("lowgear-read-token")), 200)
        self.assertEqual(status_of(f"{SERVER}/v1/jobs", token=self.secret("lowgear-train-token")), 200)

    def test_the_server_comes_back_on_its_volume(self):
        self.assertEqual(self.start("StatefulSet").stop(), 0)
        again = self.start("StatefulSet")
        state = self.node.folder / "claims/data/jobs"
        self.assertEqual(state.stat().st_mode & 0o777, 0o700)
        again.wait_until_answers("readinessProbe")

    def test_the_training_job_follows_plans_of_the_server(self):
        if "ROOTS" not in os.environ and not os.environ.get("LOWGEAR_TRAINER"):
            self.skipTest("there is no lowgear-trainer")
        self.start("StatefulSet")
        self.start("DaemonSet")
        pod = self.pod("Job")
        job = self.node.start(pod, pod.spec["containers"][0], self.logs / "job.log")
        self.addCleanup(job.stop)
        self.assertEqual(job.process.wait(), 0, job.output())
        token = self.secret("lowgear-read-token")
        jobs = json.loads(response_of(f"{SERVER}/v1/jobs", token=token)[1])["jobs"]
        self.assertEqual([(each["simulated"], each["ranks"]) for each in jobs], [(True, 4)], job.output())
        ranks = json.loads(response_of(f"{SERVER}/v1/jobs/{jobs[0]['job']}", token=token)[1])["ranks"]
        self.assertEqual([rank["follows_plans"] for rank in ranks], [True] * 4, job.output())

    def test_the_other_configurations_are_accepted_as_they_are_mounted(self):
        for cluster in self.others:
            node = Node(self.folder(), cluster, self.roots)
            for pod in cluster.pods:
                container = pod.spec["containers"][0]
                command = container["command"]
                check = ([*command[:2], "check", *command[2:]] if command[1] == "agent" else [*command, "--check"])
                with self.subTest(pod.name):
                    checked = node.start(pod, container, self.logs / "check.log", command=check)
                    self.assertEqual(checked.process.wait(), 0, checked.output())

    def test_a_configuration_that_is_mounted_as_a_link_is_refused(self):
        pod = self.pod("DaemonSet")
        container = json.loads(json.dumps(pod.spec["containers"][0]))
        next(m for m in container["volumeMounts"] if m["name"] == "config").update(mountPath="/etc/lowgear", subPath=".")
        refused = self.node.start(pod, container, self.logs / "link.log")
        self.assertEqual(refused.process.wait(), 2, refused.output())

    @unittest.skipUnless("ROOTS" in os.environ, "the client's image is needed: ./dev image --check")
    def test_the_client_is_injected_into_the_pods_of_a_job(self):
        node = Node(self.folder(), self.jobset, self.roots)
        pod = self.pod("JobSet", self.jobset)
        volumes = {"lowgear": node.volume_of(pod, pod.volume("lowgear"))}
        copy = node.start(pod, pod.spec["initContainers"][0], self.logs / "copy.log", volumes=volumes)
        self.assertEqual(copy.process.wait(), 0, copy.output())
        container = json.loads(json.dumps(pod.spec["containers"][0]))
        container["image"] = "lowgear-agent:any"  # an image that has a C library and nothing of Python
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] == "lowgear"]
        command = container["command"]
        split = command.index("--")
        container["env"] = [e for e in container["env"] if "value" in e]
        dry = node.start(pod, container, self.logs / "run.log", [*command[:split], "--dry-run", "--", "train"], volumes)
        self.assertEqual(dry.process.wait(), 0, dry.output())
        self.assertIn("LOWGEAR_SERVER=http://lowgear-server.lowgear:7787", dry.output())
        self.assertIn("PYTHONPATH=/lowgear/lowgear/site", dry.output())


if __name__ == "__main__":
    if "LOWGEAR_INSIDE" not in os.environ:
        enter_namespaces()
    raise_loopback()
    unittest.main()
