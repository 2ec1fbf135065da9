"""SIGKILLs a replica of the real trainer, without its launcher: the others notice by themselves, and say whom they miss.

The gradients are most of what a step does, so that kills often come while sums of them are under way.
"""

import os
import random
import shutil
import signal
import tempfile
import time
import unittest
from pathlib import Path

from started_ranks import start_ranks

ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))
SEED = int(os.environ.get("KILL_SEED", "6"))
LOST_A_PEER = 3

CONFIG = """
model: {architecture: llama, vocabulary: 4096, hidden: 256, layers: 4, heads: 4}
data: {synthetic_tokens: 20000, sequence_length: 8}
parallel: {gradient_bucket_mib: 1}
steps: 1000000
"""


class ReplicaLossTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        (self.folder / "job.yaml").write_text(CONFIG)
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, name, size, *settings):
        """All ranks of a job, which rank 0 keeps the metrics of."""
        return start_ranks(self, self.folder / "job.yaml", [f"metrics={self.folder / name}.jsonl", *settings], size,
                           self.folder / f"{name}.meeting")

    def wait_for_steps(self, name, steps):
        metrics = self.folder / f"{name}.jsonl"
        while not metrics.exists() or metrics.read_text().count("\n") < steps:
            time.sleep(0.005)

    def lose_one(self, name, size, *settings):
        generator = random.Random(f"{SEED} {name}")
        ranks = self.start(name, size, *settings)
        self.wait_for_steps(name, 3)
        time.sleep(generator.uniform(0, 0.2))
        lost = generator.choice(ranks)
        lost.send_signal(signal.SIGKILL)
        for rank in ranks:
            if rank is lost:
                continue
            _, err = rank.communicate()
            self.assertEqual(rank.returncode, LOST_A_PEER, err)
            self.assertRegex(err, r"^error: lost the connection to (the |rank )")

    def test_replicas(self):
        for number in range(ROUNDS):
            self.lose_one(f"replicas-{number}", 2, "parallel.dp=2")

    def test_replicas_that_own_parts_of_the_optimizer(self):
        for number in range(ROUNDS):
            self.lose_one(f"owners-{number}", 2, "parallel.dp=2", "optimizer.zero1=true")

    def test_replicas_of_pipelines(self):
        for number in range(ROUNDS):
            self.lose_one(f"pipelines-{number}", 4, "parallel.dp=2", "parallel.pp=2", "microbatches=2")


if __name__ == "__main__":
    unittest.main()
