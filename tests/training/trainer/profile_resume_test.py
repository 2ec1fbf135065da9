"""A clock sweep that is ended in the middle and goes on from its checkpoint, on a simulated GPU with a real agent."""

import csv
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

LOWGEAR = os.environ["LOWGEAR_BINARY"]
PATIENCE_S = 60
CLOCKS_MHZ = [1410, 1200, 1005, 885]
SETTLE, COUNTED = 1, 6
STEPS = len(CLOCKS_MHZ) * (SETTLE + COUNTED)
MICROBATCHES = 2

CONFIG = f"""
model: {{vocabulary: 256, hidden: 32, layers: 1, heads: 2}}
data: {{synthetic_tokens: 20000, sequence_length: 16}}
microbatches: {MICROBATCHES}
steps: {STEPS}
checkpoint: {{folder: checkpoints, every: 1}}
metrics: metrics.jsonl
energy:
  recording: rec
  profile: {{clocks_mhz: {CLOCKS_MHZ}, settle_iterations: {SETTLE}, iterations: {COUNTED}}}
simulated_gpu: {{layer_forward_s: 0.03}}
"""


class ProfileResumeTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "job.yaml").write_text(CONFIG)
        socket = self.folder / "lease.sock"
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "LOWGEAR_SIMGPU": str(self.folder / "machine"),
                            "LOWGEAR_AGENT_SOCKET": str(socket)}
        self.run_lowgear("simgpu", "create", "--gpus", "1xA100", "--any-user")
        config = self.folder / "agent.toml"
        config.write_text(
            f'journal = "{self.folder}/journal"\n[sockets]\nlease_socket = "{socket}"\n'
            f'http_socket = "{self.folder}/agent.sock"\n[[gpu]]\nid = "all"\n[[allow]]\neverybody = true\n'
        )
        config.chmod(0o600)
        agent = self.start("agent", "--config", str(config))
        self.addCleanup(self.end, agent)
        self.wait_until(lambda: socket.exists() or agent.poll() is not None, "the agent listens")

    def start(self, *words):
        return subprocess.Popen([LOWGEAR, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment)

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)

    def run_lowgear(self, *words):
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, err)
        return out

    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            self.assertLess(time.monotonic(), end, f"waited in vain until {what}")
            time.sleep(0.01)

    def steps(self):
        file = self.folder / "metrics.jsonl"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def train_until(self, steps):
        """Ends training behind a step once that many are done."""
        job = self.start("train", str(self.folder / "job.yaml"))
        self.wait_until(lambda: self.steps() >= steps or job.poll() is not None, "it trains")
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=PATIENCE_S)
        self.assertIn("stopping after this step", err)

    def units(self, part):
        with open(self.folder / "rec" / part / "rank-00000" / "units.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_goes_on_with_the_clock_at_which_it_ended(self):
        within_second_clock = SETTLE + COUNTED + SETTLE + 2
        self.train_until(within_second_clock)
        ended_behind = self.steps()
        self.assertLess(ended_behind, STEPS)
        self.run_lowgear("train", str(self.folder / "job.yaml"))
        self.assertEqual(self.steps(), STEPS)

        before, behind = self.units(""), self.units("part-00001")
        self.assertEqual([int(unit["iteration"]) for unit in before + behind],
                         [step for step in range(STEPS) for _ in range(2 * MICROBATCHES)])
        length = SETTLE + COUNTED
        counted = Counter()
        for part, first in (before, 0), (behind, ended_behind):
            for unit in part:
                step = int(unit["iteration"])
                begins = max(step // length * length, first)
                self.assertEqual(int(unit["settling"]), int(step - begins < SETTLE), unit)
                if unit["settling"] == "0":
                    # 0 where the agent has not answered yet: the profiler leaves such units out.
                    self.assertIn(int(unit["frequency"]), (0, CLOCKS_MHZ[step // length]), unit)
                    counted[int(unit["frequency"])] += 1

        profile = self.folder / "profile.csv"
        summary = json.loads(self.run_lowgear("profile", str(self.folder / "rec"), "--skip-iterations", "0",
                                              "--blocking-power", "60", "--out", str(profile), "--json"))
        self.assertEqual({cell["frequency"] for cell in summary["cells"]}, set(CLOCKS_MHZ))
        for clock_mhz in CLOCKS_MHZ:
            units = sum(cell["units"] for cell in summary["cells"] if cell["frequency"] == clock_mhz)
            self.assertEqual(units, counted[clock_mhz])


if __name__ == "__main__":
    unittest.main()
