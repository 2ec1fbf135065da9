"""SIGKILLs a rank of the real trainer at random moments; the job, started again, ends as if nothing had been."""

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

LOWGEAR = os.environ["LOWGEAR_BINARY"]
ROUNDS = int(os.environ.get("KILL_ROUNDS", "6"))
SEED = int(os.environ.get("KILL_SEED", "4"))
STEPS = 60
EVERY = 5

CONFIG = """
model: {architecture: llama, vocabulary: 256, hidden: 32, layers: 4, heads: 4, kv_heads: 2, intermediate: 48}
data: {synthetic_tokens: 20000, sequence_length: 32}
parallel: {pp: 2}
microbatches: 4
optimizer: {learning_rate: 1e-2, warmup_steps: 5}
"""


def ranks_of(job):
    """Process ids of the ranks: the launcher's children."""
    try:
        return [int(pid) for pid in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


class TrainResumeTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        (self.folder / "job.yaml").write_text(CONFIG)
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def tearDown(self):
        shutil.rmtree(self.folder)

    def start(self, name, *settings):
        """Starts the job `name`, whose files are its own."""
        command = [LOWGEAR, "train", str(self.folder / "job.yaml"), "--json", "--steps", str(STEPS)]
        command += ["--metrics", str(self.folder / f"{name}.jsonl")]
        for setting in [f"checkpoint.folder={self.folder / name}", f"checkpoint.every={EVERY}", *settings]:
            command += ["--set", setting]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment)

    def finish(self, job):
        """Waits for the end of a job; its exit status, and what it wrote to both outputs."""
        try:
            out, err = job.communicate()
        except subprocess.TimeoutExpired:
            job.kill()
            job.communicate()
            raise
        return job.returncode, out, err

    def losses(self, name):
        lines = (self.folder / f"{name}.jsonl").read_text().splitlines()
        return [(line["step"], line["loss"]) for line in map(json.loads, lines)]

    def checkpoints(self, name):
        """Steps of the complete ones."""
        return sorted(int(path.parent.name[5:]) for path in (self.folder / name).glob("step-*/checkpoint.json"))

    def undisturbed(self):
        status, out, err = self.finish(self.start("straight"))
        self.assertEqual(status, 0, err)
        return json.loads(out)["last_loss"]

    def steps_written(self, name):
        try:
            return (self.folder / f"{name}.jsonl").read_text().count("\n")
        except FileNotFoundError:
            return 0

    def kill_behind(self, job, name, steps, wait_s, choice):
        """SIGKILLs a rank a while after so many further steps. Whether there was one to kill."""
        before = self.steps_written(name)
        while self.steps_written(name) - before < steps and job.poll() is None:
            time.sleep(0.002)
        time.sleep(wait_s)
        ranks = ranks_of(job)
        if len(ranks) < 2:
            return False
        os.kill(choice(ranks), signal.SIGKILL)
        return True

    def test_kills_lose_at_most_an_interval(self):
        expected = self.undisturbed()
        generator = random.Random(SEED)
        reached = 0
        for _ in range(ROUNDS):
            job = self.start("killed")
            killed = self.kill_behind(job, "killed", generator.randint(0, 8), generator.uniform(0, 0.05),
                                      generator.choice)
            status, _, err = self.finish(job)
            if status == 0:
                break
            self.assertTrue(killed, err)
            self.assertRegex(err, r"rank \d")
            kept = self.checkpoints("killed")
            newest = kept[-1] if kept else 0
            done = self.losses("killed")[-1][0] + 1 if self.steps_written("killed") else 0
            self.assertGreaterEqual(newest, reached, "a checkpoint was lost")
            self.assertLessEqual(done - newest, EVERY, "more than an interval was lost")
            reached = newest
        status, out, err = self.finish(self.start("killed"))
        self.assertEqual(status, 0, err)
        self.assertEqual([step for step, _ in self.losses("killed")], list(range(STEPS)))
        self.assertEqual(self.losses("killed"), self.losses("straight"))
        self.assertEqual(self.losses("killed")[-1][1], expected)
        self.assertEqual([path.name for path in (self.folder / "killed").iterdir() if path.name.startswith(".")], [])

    def test_asked_to_end_it_saves_the_step_and_continues_from_it(self):
        self.undisturbed()
        job = self.start("ended", "checkpoint.every=1000")
        self.addCleanup(job.kill)
        while self.steps_written("ended") < 3:
            self.assertIsNone(job.poll(), "it ended by itself")
            time.sleep(0.002)
        job.send_signal(signal.SIGTERM)
        _, _, err = self.finish(job)
        done = self.losses("ended")[-1][0] + 1
        self.assertEqual(self.checkpoints("ended"), [done], err)
        status, out, err = self.finish(self.start("ended", "checkpoint.every=1000"))
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out)["first_step"], done)
        self.assertEqual(self.losses("ended"), self.losses("straight"))

    def test_two_jobs_do_not_share_a_folder(self):
        self.undisturbed()
        first = self.start("shared", "checkpoint.every=1")
        self.addCleanup(first.kill)
        while self.steps_written("shared") < 1:
            self.assertIsNone(first.poll(), "it ended by itself")
            time.sleep(0.002)
        ranks = ranks_of(first)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        second = self.start("second", "checkpoint.every=1", f"checkpoint.folder={self.folder / 'shared'}")
        status, _, err = self.finish(second)
        self.assertEqual(status, 2, err)
        self.assertRegex(err, r"shared: another training \(process \d+ on .*\) writes checkpoints here")
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)
        status, _, err = self.finish(first)
        self.assertEqual(status, 0, err)
        self.assertEqual(self.losses("shared"), self.losses("straight"))

    def test_a_checkpoint_of_another_model_is_refused(self):
        self.undisturbed()
        job = self.start("straight", "model.hidden=64")
        status, _, err = self.finish(job)
        self.assertEqual(status, 2)
        self.assertRegex(err, r"step-00000060.*is of another model: hidden_size is 32 there, and 64 here")


if __name__ == "__main__":
    unittest.main()
