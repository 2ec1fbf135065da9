"""Signals to the real trainer, started without `lowgear train`, which would pass on how it takes them itself."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

TRAINER = os.environ["LOWGEAR_TRAINER"]

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

    def start(self, *words, hang_up=signal.SIG_DFL):
        """Starts the rank, which inherits what is to become of SIGHUP."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1",
                       "LOWGEAR_RENDEZVOUS": str(self.folder / "meeting")}
        self.rank = subprocess.Popen([TRAINER, "--set", f"metrics={self.folder / 'metrics.jsonl'}",
                                      "--set", f"checkpoint.folder={self.folder / 'ckpt'}",
                                      *words, str(self.folder / "job.yaml")],
                                     env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     restore_signals=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, hang_up))
        self.addCleanup(self.rank.stderr.close)
        self.addCleanup(self.rank.wait)
        self.addCleanup(self.rank.kill)

    def steps(self):
        metrics = self.folder / "metrics.jsonl"
        return metrics.read_text().count("\n") if metrics.exists() else 0

    def wait_for_steps(self, steps):
        while self.steps() < steps:
            if self.rank.poll() is not None:
                self.fail(f"it ended with {self.rank.returncode}: {self.rank.communicate()[1]}")
            time.sleep(0.005)

    def end_by(self, number):
        """Ends it with a signal; what it wrote to standard error."""
        self.rank.send_signal(number)
        return self.rank.communicate()[1]

    def test_a_connection_that_closes_as_it_writes_does_not_end_it(self):
        self.start()
        self.wait_for_steps(1)
        self.rank.send_signal(signal.SIGPIPE)
        self.wait_for_steps(self.steps() + 3)
        self.end_by(signal.SIGTERM)
        self.assertEqual(self.rank.returncode, 128 + signal.SIGTERM)

    def test_ended_early_it_saves_the_step_and_says_so_by_its_status(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                self.start()
                self.wait_for_steps(self.steps() + 1)
                err = self.end_by(number)
                self.assertEqual((self.rank.returncode, err), (128 + number, ""))
                newest = sorted((self.folder / "ckpt").glob("step-*/checkpoint.json"))[-1]
                self.assertEqual(int(newest.parent.name[5:]), self.steps())

    def test_its_recording_has_the_error_that_ended_it(self):
        self.start("--require-server", "--set", f"energy.recording={self.folder / 'rec'}")
        _, err = self.rank.communicate()
        self.assertEqual(self.rank.returncode, 2, err)
        recording = json.loads((self.folder / "rec" / "rank-00000" / "recording.json").read_text())
        self.assertIn("no server is named", recording["failure"])
        self.assertIn(f"error: {recording['failure']}\n", err)

    def test_started_to_ignore_hanging_up_it_continues(self):
        self.start(hang_up=signal.SIG_IGN)
        self.wait_for_steps(1)
        self.rank.send_signal(signal.SIGHUP)
        self.wait_for_steps(self.steps() + 3)
        self.end_by(signal.SIGTERM)
        self.assertEqual(self.rank.returncode, 128 + signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
