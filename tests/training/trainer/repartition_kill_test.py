"""SIGKILLs a rank of the real trainer when layers are about to move between its ranks, while they do, or just after; the
job, started again, ends as if nothing had been, every sample taken once.

The ranks are started without `lowgear train`; as it would, this test ends those that are left.
"""

import shutil
import tempfile
import time
import unittest
from pathlib import Path

from json_lines import lines_of, losses_of
from started_ranks import kill_ranks, start_ranks

RANKS = 3
STEPS = 14
SWITCHES = {3: "custom:0,4,5,6", 7: "custom:0,1,2,6", 11: "custom:0,2,5,6"}

CONFIG = f"""
model: {{vocabulary: 256, hidden: 64, layers: 6, heads: 4}}
data: {{synthetic_tokens: 20000, sequence_length: 32}}
parallel: {{pp: {RANKS}}}
microbatches: 2
steps: {STEPS}
optimizer: {{learning_rate: 1e-3}}
"""
SCHEDULE = ", ".join(f'{{step: {step}, partition: "{partition}"}}' for step, partition in SWITCHES.items())


class RepartitionKillTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "job.yaml").write_text(CONFIG)
        self.started = 0

    def start(self, name, *more):
        """All ranks of the job `name`, whose files are its own."""
        self.started += 1
        settings = [f"metrics={self.folder / name}.jsonl", f"checkpoint.folder={self.folder / name}",
                    "checkpoint.every=4", *more]
        return start_ranks(self, self.folder / "job.yaml", settings, RANKS, self.folder / f"{self.started}.meeting")

    def finish(self, ranks):
        for rank in ranks:
            _, err = rank.communicate()
            self.assertEqual(rank.returncode, 0, err)

    def lines(self, name):
        return lines_of(self.folder / f"{name}.jsonl")

    def losses(self, name):
        return losses_of(self.folder / f"{name}.jsonl")

    def kill_before(self, name, rank, step, delay_s):
        """Kills the rank when the step before has been done and some time more has passed. Whether it was alive."""
        ranks = self.start(name, f"adapt.repartition.schedule=[{SCHEDULE}]")
        while not any(line["step"] == step - 1 for line in self.lines(name)):
            if any(process.poll() is not None for process in ranks):
                break
            time.sleep(0.0002)
        time.sleep(delay_s)
        return kill_ranks(ranks, rank)

    def test_a_job_that_is_killed_at_a_switch_continues_with_one_partition(self):
        self.finish(self.start("plain"))
        self.assertEqual([step for step, _ in self.losses("plain")], list(range(STEPS)))
        killed = [self.kill_before("killed", number % RANKS, step, delay_s)
                  for number, (step, delay_s) in enumerate([(3, 0), (7, 0.002), (7, 0.005), (11, 0.001)])]
        self.assertTrue(any(killed))
        self.finish(self.start("killed", f"adapt.repartition.schedule=[{SCHEDULE}]"))
        self.assertEqual(self.losses("killed"), self.losses("plain"))
        expected = ["custom:0,2,4,6"] * STEPS
        for first, partition in SWITCHES.items():
            expected[first:] = [partition] * (STEPS - first)
        partitions = [line["partition"] for line in self.lines("killed")]
        self.assertEqual(partitions, expected)


if __name__ == "__main__":
    unittest.main()
