"""SIGKILLs a rank of the real trainer as soon as it is decided to freeze a block, which the next step does; the job,
started again, ends as if nothing had been.

The ranks are started without `lowgear train`; as it would, this test ends those that are left.
"""

import random
import shutil
import tempfile
import time
import unittest
from pathlib import Path

from json_lines import lines_of
from started_ranks import kill_ranks, start_ranks

RANKS = 2
STEPS = 45

CONFIG = f"""
model: {{architecture: gpt2, vocabulary: 256, hidden: 32, layers: 4, heads: 4}}
data: {{tokens: text.bin, token_type: uint16, sequence_length: 32}}
parallel: {{pp: {RANKS}}}
microbatches: 1
steps: {STEPS}
optimizer: {{learning_rate: 1e-3}}
adapt:
  freeze:
    controller: {{held_out: held-out.bin, window_steps: 1, cap: 0.75, dwell_windows: 1, steady_windows: 1,
                 steady_drift: 10, loss_margin_pct: 0, rewarm_steps: 4}}
"""


def write_text(path, tokens, seed):
    """Random words over 20 letters, as headerless uint16."""
    generator = random.Random(seed)
    words = [[generator.randrange(97, 117) for _ in range(generator.randint(2, 7))] + [32] for _ in range(50)]
    text = []
    while len(text) < tokens:
        text += generator.choice(words)
    path.write_bytes(b"".join(token.to_bytes(2, "little") for token in text[:tokens]))


class FreezingKillTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "job.yaml").write_text(CONFIG)
        write_text(self.folder / "text.bin", 20000, 1)
        write_text(self.folder / "held-out.bin", 3000, 2)
        self.started = 0

    def start(self, name):
        """All ranks of the job `name`, whose files are its own."""
        self.started += 1
        settings = [f"metrics={self.folder / name}.jsonl", f"checkpoint.folder={self.folder / name}",
                    "checkpoint.every=2", f"adapt.freeze.controller.log={self.folder / name}-freezing.jsonl"]
        return start_ranks(self, self.folder / "job.yaml", settings, RANKS, self.folder / f"{self.started}.meeting")

    def finish(self, ranks):
        for rank in ranks:
            _, err = rank.communicate()
            self.assertEqual(rank.returncode, 0, err)

    def decisions(self, name):
        """Of each window, by the steps done."""
        lines = lines_of(self.folder / f"{name}-freezing.jsonl")
        return {line["step"] + 1: line.get("decisions", []) for line in lines if "window" in line}

    def changes(self, name):
        return [done for done, decisions in self.decisions(name).items() if decisions]

    def steps(self, name):
        """Loss and frozen blocks of each."""
        return [(line["step"], line["loss"], line.get("frozen_blocks", 0))
                for line in lines_of(self.folder / f"{name}.jsonl")]

    def kill_at_change(self, name, rank, change):
        """Kills the rank when the change after so many steps has been decided. Whether it was alive then."""
        ranks = self.start(name)
        while change not in self.changes(name) and all(process.poll() is None for process in ranks):
            time.sleep(0.0005)
        return kill_ranks(ranks, rank)

    def test_all_ranks_are_on_one_configuration_afterwards(self):
        self.finish(self.start("straight"))
        changes = self.changes("straight")
        self.assertGreaterEqual(len(changes), 2, "nothing to test")
        killed = [self.kill_at_change("killed", number % RANKS, change) for number, change in enumerate(changes[:4])]
        self.assertTrue(any(killed))
        self.finish(self.start("killed"))
        self.assertEqual(self.steps("killed"), self.steps("straight"))
        self.assertEqual(self.decisions("killed"), self.decisions("straight"))
        self.assertEqual([step for step, _, _ in self.steps("killed")], list(range(STEPS)))


if __name__ == "__main__":
    unittest.main()
