"""Signals to the real trainer, started without `lowgear train`, which would pass on how it takes them itself."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

TRAINER = os.environ["LOWGEAR_TRAINER"]
PATIENCE_S = 60

CONFIG = """
model: {architecture: llama, vocabulary: 256, hidden: 16, layers: 1, heads: 2}
data: {synthetic_tokens: 2000, sequence_length: 8}
steps: 1000000
"""


class LoneRankTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "job.yaml").write_text(CONFIG)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1",
                       "LOWGEAR_RENDEZVOUS": str(self.folder / "meeting")}
        self.rank = subprocess.Popen([TRAINER, "--set", f"metrics={self.folder / 'metrics.jsonl'}",
                                      str(self.folder / "job.yaml")],
                                     env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     restore_signals=True)
        self.addCleanup(self.rank.communicate)
        self.addCleanup(self.rank.kill)

    def steps(self):
        metrics = self.folder / "metrics.jsonl"
        return metrics.read_text().count("\n") if metrics.exists() else 0

    def wait_for_steps(self, steps):
        end = time.monotonic() + PATIENCE_S
        while self.steps() < steps:
            if self.rank.poll() is not None:
                self.fail(f"it ended with {self.rank.returncode}: {self.rank.communicate()[1]}")
            self.assertLess(time.monotonic(), end, "it did not train")
            time.sleep(0.005)

    def test_a_connection_that_closes_as_it_writes_does_not_end_it(self):
        self.wait_for_steps(1)
        self.rank.send_signal(signal.SIGPIPE)
        self.wait_for_steps(self.steps() + 3)
        self.rank.send_signal(signal.SIGTERM)
        self.rank.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.rank.returncode, 0)


if __name__ == "__main__":
    unittest.main()
