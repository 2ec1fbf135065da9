"""A real agent on simulated GPUs, and a real server, for the tests of what Prometheus makes of them."""

import grp
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from prometheus_process import PATIENCE_S, Listener, get, wait_until

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "server"), str(TESTS / "agent")]
from agent_test_base import plan_text  # noqa: E402
from training_ranks import TrainingRanks  # noqa: E402

LOWGEAR = os.environ["LOWGEAR_BINARY"]
TOKEN = "a-token-for-tests-only"
CLIENT = TESTS / "agent/agent_test_client.py"


def private_file(path, text):
    path.touch(0o600)
    path.write_text(text)
    return path


class SimulatedNode(Listener):
    """Simulated GPUs, an agent that sets their clocks, and processes that use them."""

    def __init__(self, test, folder, gpus):
        self.environment = {**os.environ, "LOWGEAR_SIMGPU": str(folder / "machine"),
                            "LOWGEAR_AGENT_SOCKET": str(folder / "lease.sock")}
        super().__init__(test, folder, "agent", lambda port: [LOWGEAR, "agent", "--config", self.write_config(port)])
        os.environ["LOWGEAR_SIMGPU"] = self.environment["LOWGEAR_SIMGPU"]
        self.simgpu("create", "--gpus", gpus, "--any-user")
        test.addCleanup(self.end_mps_daemons)

    def end_mps_daemons(self):
        """Those of an agent that was killed."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"CUDA_MPS_PIPE_DIRECTORY={self.folder}/".encode() in (path / "environ").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)
            except OSError:
                continue

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def write_config(self, port):
        return private_file(self.folder / "agent.yaml", f'''journal: "{self.folder}/journal"
sockets:
  lease_socket: "{self.folder}/lease.sock"
  http_socket: "{self.folder}/agent.sock"
  http_port: {port}
mps:
  gpus: ["{self.uuids()[1]}"]
  group: "{grp.getgrgid(os.getgid()).gr_name}"
  folder: "{self.folder}/mps"
  program: "{os.environ["LOWGEAR_MPS_CONTROL"]}"
gpu:
  - id: all
allow:
  - everybody: true
    power: true
    workload_power_profiles: true
''')

    def is_ready(self):
        try:
            return get(self.port, "/healthz")[0] == 200
        except OSError:
            return False

    def simgpu(self, *words):
        return subprocess.run([LOWGEAR, "simgpu", *words], env=self.environment, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE_S).stdout

    def uuids(self):
        return [gpu["uuid"] for gpu in json.loads(self.simgpu("show", "--json"))["gpus"]]

    def start_process(self, command, **options):
        process = subprocess.Popen([str(word) for word in command], env=self.environment, text=True, **options)
        self.test.addCleanup(process.wait, PATIENCE_S)
        self.test.addCleanup(process.kill)
        return process

    def load(self, gpu):
        """Kernels on a GPU until the test ends."""
        self.start_process([LOWGEAR, "simgpu", "run", "--gpu", gpu, "--time", "3600"], stdout=subprocess.DEVNULL)

    def train_by_plan(self, gpu, clocks_mhz):
        """A training process with a lease on a GPU, which follows a plan with these clocks."""
        path = self.folder / "plan.json"
        path.write_text(plan_text(clocks_mhz))
        client = self.start_process([sys.executable, CLIENT, path, gpu, "0.05"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE)
        self.test.addCleanup(client.stdin.close)
        self.test.addCleanup(client.stdout.close)
        self.test.assertEqual(client.stdout.readline().strip(), "ok")

    def post(self, gpu, path, body):
        """To the agent: what it responds. Leases and shares are this process', until it ends."""
        connection = http.client.HTTPConnection("agent")
        self.test.addCleanup(connection.close)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.folder / "agent.sock"))
        connection.request("POST", f"/v1/gpus/{self.uuids()[gpu]}/{path}", json.dumps(body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()

    def set_power_limit(self, gpu, watts):
        status, text = self.post(gpu, "power_limit", {"power_limit_w": watts})
        self.test.assertEqual(status, 200, text)

    def share(self, gpu, percent):
        """A share of the GPU, once its MPS daemon runs."""
        wait_until(lambda: self.post(gpu, "shares", {"percent": percent})[0] == 200, "the agent gives a share")


class ControlPlane:
    """A server, which lets this machine read its metrics."""

    def __init__(self, test, folder):
        tokens = private_file(folder / "tokens", f"read,jobs,operate,node nodes=node-* {TOKEN}\n")
        config = private_file(folder / "server.yaml", f'''state: "{folder}/state"
listen:
  unix: "{folder}/server.sock"
  tcp: ["127.0.0.1:0"]
  token_file: "{tokens}"
  loopback_read: true
''')
        self.log = open(folder / "server.log", "w", encoding="utf-8")
        test.addCleanup(self.log.close)
        self.process = subprocess.Popen([LOWGEAR, "serve", "--config", str(config), "--json"], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
        test.addCleanup(self.end)
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            test.assertTrue(line, (folder / "server.log").read_text())
            text += line
        [self.url] = json.loads(text)["tcp"]

    @property
    def address(self):
        return self.url.removeprefix("http://").rstrip("/")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


class ReportingJob:
    """A job whose ranks report iterations until the test ends, from their registration on."""

    PAUSE_S = 0.05  # between iterations

    def __init__(self, test, url, gpu_uuids=()):
        """`gpu_uuids`: of the first ranks."""
        self.ranks = TrainingRanks(url, TOKEN, gpu_uuids=gpu_uuids)
        self.problem, self.ending = None, threading.Event()
        for rank in range(self.ranks.pp):
            self.ranks.register(rank)
        self.thread = threading.Thread(target=self._report, daemon=True)
        self.thread.start()
        test.addCleanup(self.thread.join, PATIENCE_S)
        test.addCleanup(self.ending.set)

    def _report(self):
        while not self.ending.wait(self.PAUSE_S):
            try:
                self.ranks.train(1)
            except Exception as problem:  # pylint: disable=broad-except  # shown by the test
                self.problem = problem
                return

    def post(self, path, body):
        return self.ranks.call("POST", f"/v1/jobs/{self.ranks.job}/{path}", body)

    def refuse(self, rank, reason):
        """The rank reports that it follows no plans, with no iteration."""
        self.ranks.call("POST", f"/v1/jobs/{self.ranks.job}/reports",
                        {"rank": rank, "reports": [], "refusal": reason}, self.ranks.keys[rank])

    def summary(self):
        if self.problem:
            raise AssertionError("the ranks ended") from self.problem
        return self.ranks.call("GET", f"/v1/jobs/{self.ranks.job}")["job"]

    def wait_for_savings(self):
        """Until a plan is followed and the last iterations can be compared with the baseline."""
        wait_until(lambda: self.summary()["saved_pct"] is not None, "the job saves energy")
