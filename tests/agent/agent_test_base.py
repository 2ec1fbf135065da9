"""What the tests of the real agent share: a simulated machine, an agent on it, clients in processes of their own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package

LOWGEAR = os.environ["LOWGEAR_BINARY"]
CLIENT = str(Path(__file__).with_name("agent_test_client.py"))


def plan_text(clocks, **members):
    """A plan of one rank: forward of microbatch i at clock i."""
    ops = [
        {"op": "forward", "microbatch": i, "mhz": mhz, "start_s": 0.1 * i, "duration_s": 0.1}
        for i, mhz in enumerate(clocks)
    ]
    figures = {"deadline_s": 0.1 * len(clocks), "time_s": 0.1 * len(clocks), "energy_j": 1.0, "switches": 0}
    return json.dumps(
        {"format": "lowgear.plan/1", "policy": "test", "schedule": "gpipe", "microbatches": len(clocks), **figures, **members,
         "stages": [{"stage": 0, "ops": ops}]}
    )


class AgentTest(unittest.TestCase):
    gpus = "2xH100"
    allow = "everybody: true, power: true"
    controlled = ["all"]
    suspend_after_s = 30
    driver_timeout_s = 60  # the threads of a busy machine are late

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.processes = []
        os.environ["LOWGEAR_SIMGPU"] = str(self.folder / "machine")
        self.lowgear("simgpu", "create", "--gpus", self.gpus, "--any-user")
        self.config = self.folder / "agent.yaml"
        self.write_config()

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        shutil.rmtree(self.folder)

    def write_config(self, extra=""):
        ids = json.dumps(self.controlled)
        gpu = f"gpu: [{{id: {ids}}}]\n" if self.controlled else ""
        self.config.write_text(
            f'journal: "{self.folder}/journal"\n{extra}\nsockets:\n  lease_socket: "{self.folder}/lease.sock"\n'
            f'  http_socket: "{self.folder}/agent.sock"\n  lease_mode: "0666"\n  http_mode: "0666"\n'
            f"limits: {{suspend_after_s: {self.suspend_after_s}, driver_timeout_s: {self.driver_timeout_s}}}\n"
            f"{gpu}allow: [{{{self.allow}}}]\n"
        )
        self.config.chmod(0o600)

    def lowgear(self, *words, code=0):
        result = subprocess.run([LOWGEAR, *words], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def start(self, command, **options):
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.processes.append(process)
        return process

    def start_agent(self, *options):
        agent = self.start([LOWGEAR, "agent", "--config", str(self.config), *options])
        wait_until(lambda: agent.poll() is not None or self.answers(), "the agent answers")
        self.assertIsNone(agent.poll(), agent.poll() is not None and agent.stderr.read())
        return agent

    def answers(self):
        try:
            return self.http("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def http(self, method, path, body=None):
        """Status and JSON (or text) of an answer of the agent."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(str(self.folder / "agent.sock"))
            payload = b"" if body is None else json.dumps(body).encode()
            connection.sendall(
                f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(payload)}\r\n\r\n".encode() + payload
            )
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        head, _, content = answer.partition(b"\r\n\r\n")
        try:
            content = json.loads(content)
        except ValueError:
            content = content.decode()
        return int(head.split()[1]), content

    def start_client(self, clocks, gpu=0, unit_s=0.03, plan_members=None, **environment):
        """A training process that runs units for ever; waits until it says whether it has lease and plan."""
        plan = self.folder / f"plan{len(self.processes)}.json"
        plan.write_text(plan_text(clocks, **(plan_members or {})))
        client = self.start(
            [sys.executable, CLIENT, str(plan), str(gpu), str(unit_s)],
            stdin=subprocess.PIPE,
            env={**os.environ, "LOWGEAR_AGENT_SOCKET": str(self.folder / "lease.sock"), **environment},
        )
        return client, client.stdout.readline().strip()

    def machine(self):
        return json.loads(self.lowgear("simgpu", "show", "--json").stdout)["gpus"]

    def locked(self, gpu=0):
        """The locked range of SM clocks; None when there is none."""
        return self.machine()[gpu]["locked_sm_clocks_mhz"]

    def expect_default(self, gpu=0):
        wait_until(lambda: self.locked(gpu) is None, "the clocks are back")
        self.assertEqual(self.machine()[gpu]["power_limit_w"], 700)

    def kill(self, process, number=signal.SIGKILL):
        process.send_signal(number)
        process.wait(PATIENCE_S)
