"""Jobs under `lowgear run --server` from their registration to a plan that they follow, by the real server, agent and
library, on simulated GPUs."""

import os
import signal
import statistics
import tempfile
import unittest
from pathlib import Path

from attached_loop import AttachedLoop, wait_until

BINARY, NVML = os.environ.get("LOWGEAR_BINARY"), os.environ.get("LOWGEAR_NVML", "")
FOREVER = 100_000  # iterations

# Whether the first plan came before the end depends on the machine.
ENDED = "all ranks have ended( before the first plan, in state (registering|baseline|profiling|planning))?"


def children(process):
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@unittest.skipUnless(BINARY and NVML.endswith(".so.1"),
                     "SKIPPED: needs `lowgear` and simulated GPUs (LOWGEAR_BINARY, LOWGEAR_NVML)")
class AttachedLoops(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lg-")
        self.addCleanup(folder.cleanup)
        self.loop = AttachedLoop(BINARY, NVML, folder.name, gpus=3, library=os.environ.get("LOWGEAR_LIBRARY"))
        self.addCleanup(self.loop.__exit__)
        self.loop.__enter__()

    def job_in_state(self, state, number=0):
        """The summary of the newest job, once it is the one of this number and in this state."""
        def found():
            jobs = self.loop.jobs()
            self.assertLessEqual(len(jobs), number + 1, jobs)
            return len(jobs) == number + 1 and jobs[number]["state"] == state

        wait_until(lambda: found() or self.fail_if_ended(), f"job {number} is {state}")
        return self.loop.jobs()[number]

    def fail_if_ended(self):
        self.assertIsNone(self.loop.started_jobs[-1].poll(), self.loop.job_log())

    def followed(self, job, iterations=1):
        """The iterations that followed the plan for training, once there are so many."""
        def seen():
            return [one for one in self.loop.iterations(job) if one["planned_time_s"] is not None]

        wait_until(lambda: len(seen()) >= iterations or self.fail_if_ended(), "the plan is followed")
        return seen()

    def kinds(self, job):
        return [decision["kind"] for decision in self.loop.decisions(job)]

    def test_a_job_is_registered_profiled_planned_and_followed(self):
        self.loop.start_job(2, FOREVER, options=("--switch-latency", "25"))
        job = self.job_in_state("running")
        followed = self.followed(job["job"], 3)
        self.assertEqual(job["registered"], 2)
        self.assertEqual(job["microbatches"], 4)
        self.assertEqual(job["schedule"], "1f1b")
        self.assertIn("0F0", self.loop.get(f"/v1/jobs/{job['job']}")["spec"]["schedule"]["csv"])
        reasons = [decision["reason"] for decision in self.loop.decisions(job["job"])]
        self.assertTrue(any(reason.startswith("tries ") for reason in reasons), reasons)
        self.assertTrue(any("planned from a profile" in reason for reason in reasons), reasons)
        self.assertLess(followed[0]["planned_energy_j"], job["baseline"]["energy_j"])
        self.assertNotIn("measuring only", self.loop.job_log())

    def test_another_number_of_microbatches_is_planned_by_the_profile_there_is(self):
        recordings = self.loop.folder / "recordings"
        self.loop.start_job(2, FOREVER, "ramps=60", options=("--record", str(recordings)),
                            LOWGEAR_JOB_SPEC='{"profile": {"clocks": 4, "iterations": 1}}')
        second = self.job_in_state("running", 1)
        self.followed(second["job"], 2)
        first = self.loop.jobs()[0]
        self.assertEqual((first["microbatches"], second["microbatches"]), (4, 8))
        self.assertEqual(first["run"], second["run"])
        for rank in range(2):
            self.assertTrue((recordings / "part-00001" / f"rank-{rank:05d}" / "units.csv").exists())
        self.assertEqual(self.loop.jobs()[0]["state"], "finished")
        # A rank may register for the second job before the other one has left the first.
        self.assertRegex(self.loop.jobs()[0]["reason"], f"^({ENDED}|its run was started again)$")
        reasons = [decision["reason"] for decision in self.loop.decisions(second["job"])]
        self.assertTrue(any("profiling is skipped" in reason for reason in reasons), reasons)
        self.assertFalse(any(reason.startswith("tries ") for reason in reasons), reasons)
        self.assertEqual(self.loop.job_log().count("attached to deepspeed"), 2)
        self.assertNotIn("measuring only", self.loop.job_log())

    def test_another_start_with_other_ranks_is_another_job_of_the_run(self):
        first = self.loop.start_job(2, FOREVER, LOWGEAR_RUN="elastic")
        self.job_in_state("baseline")
        self.loop.kill(first)
        self.loop.start_job(3, FOREVER, LOWGEAR_RUN="elastic")
        second = self.job_in_state("baseline", 1)
        self.assertEqual((second["run"], second["ranks"]), ("elastic", 3))
        self.assertEqual(self.loop.jobs()[0]["reason"], "its run was started again")
        self.assertNotIn("measuring only", self.loop.job_log())

    def test_a_failed_job_is_said_to_have_failed(self):
        process = self.loop.start_job(2, FOREVER, "raises")
        wait_until(lambda: process.poll() is not None, "the job ends")
        job = self.loop.jobs()[0]
        self.assertEqual(job["state"], "finished")
        self.assertRegex(job["reason"], rf"^{ENDED}; rank [01] and 1 other failed \(RuntimeError\)$")
        self.assertIn("rank_failed", [problem["kind"] for problem in job["problems"]])
        self.assertEqual([rank["failure"] for rank in self.loop.get(f"/v1/jobs/{job['job']}")["ranks"]],
                         ["RuntimeError"] * 2)
        self.assertEqual(self.kinds(job["job"]).count("failure"), 2)
        self.assertIn("rank 1 failed (RuntimeError)", self.loop.job_log())

    def test_a_job_whose_ranks_are_killed_ends_with_its_command(self):
        process = self.loop.start_job(2, FOREVER)
        wait_until(lambda: any(job["iteration"] is not None for job in self.loop.jobs()), "both ranks have reported")
        ranks = [rank for launcher in children(process.pid) for rank in children(launcher)]
        self.assertEqual(len(ranks), 2)
        for rank in ranks:
            os.kill(rank, signal.SIGKILL)
        wait_until(lambda: process.poll() is not None, "the job ends")
        job = self.loop.jobs()[0]
        self.assertEqual(job["state"], "finished")
        self.assertRegex(job["reason"], f"^{ENDED}; rank 0 and 1 other failed .no word of it; its command ended")
        self.assertIn("ranks 0, 1: no last word (killed by SIGKILL, or ended by the launcher", self.loop.job_log())

    def test_evaluations_and_checkpoints_do_not_count_against_the_plan(self):
        # The guard leaves a busy machine alone; a pause is longer than anything else of an iteration.
        self.loop.start_job(2, FOREVER, "pauses", LOWGEAR_JOB_SPEC='{"guard_pct": 500}')
        job = self.job_in_state("running")
        followed = self.followed(job["job"], 25)
        self.assertEqual(self.loop.jobs()[0]["state"], "running")
        # A busy machine's own stalls are noted by the guard too, which leaves the plan as it is.
        guards = [one for one in self.loop.decisions(job["job"]) if one["kind"] == "guard" and "stall" not in one["reason"]]
        self.assertEqual(guards, [])
        typical_s = statistics.median(one["time_s"] for one in followed)
        for last_digit in (9, 0):  # the iterations before and after a pause; one of each may be slow for other reasons
            took_s = [one["time_s"] for one in followed if one["iteration"] % 10 == last_digit]
            self.assertLess(min(took_s), typical_s + 1.5, "a pause of 2 s and more is in no iteration")


if __name__ == "__main__":
    unittest.main()
