"""A test's own machine: simulated GPUs with a real agent, and programs that use them."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package

LOWGEAR = os.environ["LOWGEAR_BINARY"]


class AgentTraining(unittest.TestCase):
    """Made from `config`, the job's YAML, and `gpus`, as for `lowgear simgpu create`."""

    config = ""
    gpus = "1xA100"
    allow = "everybody: true"
    patience_s = PATIENCE_S

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "job.yaml").write_text(self.config)
        socket = self.folder / "lease.sock"
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "LOWGEAR_SIMGPU": str(self.folder / "machine"),
                            "LOWGEAR_AGENT_SOCKET": str(socket)}
        self.run_lowgear("simgpu", "create", "--gpus", self.gpus, "--any-user")
        config = self.folder / "agent.yaml"
        config.write_text(
            f'journal: "{self.folder}/journal"\nsockets: {{lease_socket: "{socket}", http_socket: "{self.folder}/agent.sock"}}\n'
            f"gpu: [{{id: all}}]\nallow: [{{{self.allow}}}]\n"
        )
        config.chmod(0o600)
        agent = self.start("agent", "--config", str(config))
        self.addCleanup(self.end, agent)
        self.wait_until(lambda: socket.exists() or agent.poll() is not None, "the agent listens")

    def start(self, *words, output=subprocess.PIPE):
        """A process whose output nothing reads while it runs should have another `output`: a full pipe stops it."""
        return subprocess.Popen([LOWGEAR, *words], stdout=output, stderr=output, text=True, env=self.environment)

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=self.patience_s)

    def run_lowgear(self, *words):
        process = self.start(*words)
        out, err = process.communicate(timeout=self.patience_s)
        self.assertEqual(process.returncode, 0, err)
        return out

    @staticmethod
    def ranks(launcher):
        """Processes of the ranks that `lowgear train` has started."""
        return [int(child) for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]

    def wait_until(self, condition, what):
        wait_until(condition, what)
