"""A job under `lowgear run --server`: the real server, the real agent, simulated GPUs, and what the server says of it."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package

JOB = HERE / "job" / "train.py"
ENDING_S = 40  # torchrun gives its ranks 30
TOKENS = "train token-of-the-ranks\nread token-of-readers\n"


def answers(path):
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


class AttachedLoop:
    """A server, and an agent on simulated GPUs, in a folder; jobs that they run. A context manager."""

    def __init__(self, lowgear, nvml, folder, gpus=2, library=None):
        self.lowgear, self.folder, self.gpus = str(lowgear), Path(folder), gpus
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_")}
        self.environment = {**kept, "LOWGEAR_NVML": str(nvml), "LOWGEAR_SIMGPU": str(self.folder / "machine"),
                            "LOWGEAR_AGENT_SOCKET": str(self.folder / "lease.sock"), "PYTHONDONTWRITEBYTECODE": "1"}
        if library:
            self.environment["LOWGEAR_LIBRARY"] = str(library)
        self.processes = []
        self.started_jobs = []
        self.url = None

    def __enter__(self):
        try:
            self._command("simgpu", "create", "--gpus", f"{self.gpus}xH100", "--any-user")
            self._start_agent()
            self._start_server()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for job in self.started_jobs:
            self.end(job)
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()

    def _command(self, *words):
        return subprocess.run([self.lowgear, *map(str, words)], env=self.environment, check=True, text=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE_S).stdout

    def _start(self, *words, **options):
        process = subprocess.Popen([self.lowgear, *map(str, words)], env=self.environment, text=True, **options)
        self.processes.append(process)
        return process

    def _private(self, name, text):
        path = self.folder / name
        path.touch(0o600)
        path.write_text(text)
        return path

    def _start_agent(self):
        config = self._private("agent.yaml", f'''journal: "{self.folder}/journal"
sockets:
  lease_socket: "{self.folder}/lease.sock"
  http_socket: "{self.folder}/agent.sock"
gpu:
  - id: all
allow:
  - everybody: true
''')
        with open(self.folder / "agent.log", "a", encoding="utf-8") as log:
            self._start("agent", "--config", config, stderr=log)
        wait_until(lambda: answers(self.folder / "lease.sock"), "the agent answers")

    def _start_server(self):
        tokens = self._private("tokens", TOKENS)
        config = self._private("server.yaml", f'''state: "{self.folder}/server"
listen:
  unix: "{self.folder}/server.sock"
  tcp: ["127.0.0.1:0"]
  token_file: "{tokens}"
''')
        with open(self.folder / "server.log", "a", encoding="utf-8") as log:
            server = self._start("serve", "--config", config, "--json", stdout=subprocess.PIPE, stderr=log)
        text = ""
        while not text.rstrip().endswith("}"):
            line = server.stdout.readline()
            if not line:
                raise AssertionError((self.folder / "server.log").read_text())
            text += line
        self.url = json.loads(text)["tcp"][0]

    def start_job(self, *words, options=(), **more):
        """`lowgear run --server http://... -- python3 train.py WORDS`; its standard error goes to job.log."""
        return self.start_command([sys.executable, JOB, *words], options, PYTHONPATH=str(HERE / "job"),
                                  JOB_SIMULATION=self.environment["LOWGEAR_NVML"], **more)

    def start_command(self, command, options=(), **more):
        """`lowgear run --server http://... -- COMMAND` with more of an environment."""
        token = self._private("token", "token-of-the-ranks")
        environment = {**self.environment, "LOWGEAR_SERVER_TOKEN_FILE": str(token), **more}
        with open(self.folder / "job.log", "a", encoding="utf-8") as log:
            self.started_jobs.append(subprocess.Popen(
                [self.lowgear, "run", "--server", self.url, *options, "--", *map(str, command)], env=environment,
                stdout=subprocess.DEVNULL, stderr=log, process_group=0))
        return self.started_jobs[-1]

    @staticmethod
    def end(job):
        """Lets a job end its ranks, which torchrun starts in sessions of their own, and ends what has not ended then."""
        if job.poll() is None:
            job.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(ENDING_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(PATIENCE_S)

    @staticmethod
    def kill(job):
        """Ends a job and its ranks, which say nothing any more."""
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(PATIENCE_S)

    def get(self, path):
        return self.request("GET", path)

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("server")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(str(self.folder / "server.sock"))
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        if response.status != 200:
            raise AssertionError(f"{method} {path}: {response.status} {answer}")
        return answer

    def jobs(self):
        """Summaries, the oldest first."""
        return self.get("/v1/jobs")["jobs"][::-1]

    def decisions(self, job):
        return self.get(f"/v1/jobs/{job}/decisions")["decisions"]

    def iterations(self, job):
        return self.get(f"/v1/jobs/{job}/iterations")["iterations"]

    def job_log(self):
        return (self.folder / "job.log").read_text()
