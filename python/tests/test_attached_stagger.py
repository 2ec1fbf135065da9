"""Jobs under `lowgear run --server` on two hosts whose clocks differ, which the server staggers: the real server, agent and
library, on simulated GPUs."""

import json
import os
import statistics
import tempfile
import unittest

from attached_loop import AttachedLoop, wait_until

BINARY, NVML = os.environ.get("LOWGEAR_BINARY"), os.environ.get("LOWGEAR_NVML", "")
OTHER_HOST = os.environ.get("LOWGEAR_OTHER_HOST")
FOREVER = 100_000  # iterations
AHEAD_S = 7  # of the second host's clock
# A busy machine makes some iterations longer: with much to lose, jobs may still wait for each other.
SPEC = {"guard_pct": 100, "slowdown_pct": 0, "profile": {"clocks": 4, "iterations": 1, "settle_iterations": 1}}
NEAR = 0.15  # of an iteration
IN_A_ROW = 20  # more than a job needs to pass through a phase


@unittest.skipUnless(BINARY and OTHER_HOST and NVML.endswith(".so.1"),
                     "SKIPPED: needs `lowgear`, simulated GPUs and a stand-in for another host (LOWGEAR_BINARY, "
                     "LOWGEAR_NVML, LOWGEAR_OTHER_HOST)")
class StaggeredHosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lg-")
        self.addCleanup(folder.cleanup)
        self.loop = AttachedLoop(BINARY, NVML, folder.name, gpus=4, library=os.environ.get("LOWGEAR_LIBRARY"))
        self.addCleanup(self.loop.__exit__)
        self.loop.__enter__()

    def start(self, name, first_gpu, **host):
        self.loop.start_job(2, FOREVER, LOWGEAR_JOB_SPEC=json.dumps({"run": name, **SPEC}),
                            JOB_FIRST_GPU=str(first_gpu), CUDA_VISIBLE_DEVICES=f"{first_gpu},{first_gpu + 1}",
                            JOB_BEGINS=str(self.loop.folder / f"begins-{name}"), **host)

    def staggered(self):
        """What the server says of each job, by the job's run; empty until all are kept at their phases."""
        self.assertNotIn("(400)", self.loop.job_log())
        runs = {job["job"]: job["run"] for job in self.loop.jobs()}
        stagger = self.loop.get("/v1/budgets")["budgets"][0]["stagger"]
        jobs = {runs[job["job"]]: job for job in (stagger or {"jobs": []})["jobs"]}
        are_kept = len(jobs) == 2 and all(job.get("left_out", "") is None for job in jobs.values())
        return jobs if are_kept and all(job["not_delayed"] is None for job in jobs.values()) else {}

    def waits_for(self, what):
        """A text for `wait_until`."""
        return lambda: f"{what}: {self.loop.get('/v1/budgets')['budgets'][0]['stagger']} of {self.loop.jobs()}"

    def begins(self, name):
        lines = (self.loop.folder / f"begins-{name}").read_text().splitlines(keepends=True)
        return [float(line) for line in lines[-2 * IN_A_ROW:] if line.endswith("\n")]

    def in_phase(self):
        """What the server says of each job, when the last iterations began as far apart, by a clock that both share."""
        jobs = self.staggered()
        if not jobs:
            return {}
        period_s = jobs["a"]["period_s"]
        planned_s = jobs["b"]["delay_s"] - jobs["a"]["delay_s"]
        others = self.begins("a")
        begins = [begin for begin in self.begins("b")[-IN_A_ROW:] if begin < others[-1]]
        errors = [(begin - max(other for other in others if other <= begin) - planned_s) / period_s % 1
                  for begin in begins if begin > others[0]]
        # The median: a busy machine lets some begin much later.
        is_near = len(errors) > IN_A_ROW // 2 and statistics.median(min(error, 1 - error) for error in errors) < NEAR
        return jobs if is_near else {}

    def test_jobs_under_lowgear_run_are_staggered_by_one_clock(self):
        self.start("a", 0)
        self.start("b", 2, LD_PRELOAD=OTHER_HOST, OTHER_HOST_NAME="node-2", OTHER_HOST_AHEAD_S=str(AHEAD_S))
        self.loop.request("PUT", "/v1/budgets/all", {"watts": 1e6, "stagger_pct": 90, "stagger_apply": True})
        wait_until(self.staggered, self.waits_for("both jobs are kept at phases"))
        hosts = {rank["host"] for job in self.loop.jobs() for rank in self.loop.get(f"/v1/jobs/{job['job']}")["ranks"]}
        self.assertEqual(len(hosts), 2, hosts)
        jobs = wait_until(self.in_phase, self.waits_for("jobs begin their iterations as far apart as the server says"))
        self.assertNotEqual(jobs["a"]["delay_s"], jobs["b"]["delay_s"])


if __name__ == "__main__":
    unittest.main()
