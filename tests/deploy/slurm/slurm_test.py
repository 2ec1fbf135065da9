"""deploy/slurm on a real Slurm: Debian's munged, slurmctld and slurmd on one node, the real agent, simulated GPUs, jobs of
two users that follow plans. Ends as skipped where Slurm is not installed (own_root.py)."""

import csv
import json
import re
import sys
import time
import unittest
from pathlib import Path

import own_root

own_root.enter()
from cluster import GPUS, LOWGEAR, Cluster, wait_until  # noqa: E402

PIPELINE = own_root.SOURCE / "python/tests/job"
sys.path.insert(0, str(own_root.SOURCE / "examples"))
from modelled_profile import write_profile  # noqa: E402

JOB = f"/usr/bin/python3 {own_root.SOURCE}/tests/deploy/slurm/gpu_job.py"
LONG_S = 3600
COMMENT = re.compile(r"lowgear\[node0 ([^\]]*)\]")


CLUSTER = Cluster()  # of all tests, as its start takes longer than most of them


def setUpModule():
    unittest.addModuleCleanup(CLUSTER.stop)
    CLUSTER.start()


class SlurmTest(unittest.TestCase):
    cluster = CLUSTER

    def tearDown(self):
        for user in own_root.USERS:
            self.cluster.run(["scancel", f"--user={user}"], check=False)
        wait_until(lambda: not self.cluster.run(["squeue", "--noheader"]).stdout, "no job is left")

    def start(self, *options, seconds=LONG_S, tasks=2, escape="", **more):
        """A job whose tasks follow a plan, once all of their GPUs' clocks are locked; and the indices of its GPUs."""
        before = self.cluster.changed()
        job = self.cluster.submit(f"srun {JOB} {seconds} {escape}", f"--ntasks={tasks}", f"--gres=gpu:{tasks}", *options,
                                  **more)
        self.wait_for_clocks(job, tasks, len(before))
        return job, [gpu for gpu in self.cluster.changed() if gpu not in before]

    def wait_for_clocks(self, job, tasks, others=0):
        wait_until(lambda: len(self.cluster.changed()) == tasks + others,
                   lambda: f"{tasks} GPUs are locked: {self.cluster.job(job)} {self.cluster.output(job)} {self.cluster.logs()}")

    def expect_restored(self, job):
        """Nothing is left changed when Slurm has the node's resources back."""
        fields = self.cluster.wait_for_end(job)
        self.assertEqual(self.cluster.changed(), [], fields)
        self.assertEqual(self.cluster.agent("GET", "/v1/leases")["leases"], [])
        self.assertEqual(self.cluster.node_state(), "IDLE")
        return fields

    def comment(self, fields):
        found = COMMENT.search(fields.get("Comment", ""))
        self.assertIsNotNone(found, fields)
        return dict(word.split("=", 1) for word in found[1].split())

    def accounts(self, job):
        """What the epilogs of a job's starts have written."""
        path = Path("/var/log/lowgear-slurm.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if line["job"] == str(job)]


class Jobs(SlurmTest):
    def make_plan(self):
        """A folder of plans for python/tests/job/train.py on two ranks."""
        write_profile(Path("/home/alice/profile.csv"))
        self.cluster.run([LOWGEAR, "plan", "--profile", "profile.csv", "--stages", 2, "--microbatches", 4, "--schedule", "1f1b",
                          "--blocking-power", 116, "--plans", 4, "--out", "plan"], user="alice")

    def test_a_job_that_knows_nothing_of_lowgear_follows_a_plan(self):
        if not self.cluster.has_plugin():
            self.skipTest("SKIPPED: the SPANK plugin: there is no slurm/spank.h (libslurm-dev)")
        self.make_plan()
        before = self.cluster.machine()
        library = self.cluster.run(["printenv", "LOWGEAR_NVML"]).stdout.strip()
        job = self.cluster.submit(
            f"srun --lowgear=plan=plan,slowdown=10%,record=recordings /usr/bin/python3 {PIPELINE}/train.py 2 6", "--gres=gpu:2",
            PYTHONPATH=str(PIPELINE), JOB_SIMULATION=library)
        fields = self.expect_restored(job)
        self.assertEqual(fields["JobState"], "COMPLETED", self.cluster.output(job))
        self.assertNotIn("lowgear: the step runs without", self.cluster.output(job))
        with open("/home/alice/recordings/rank-00001/units.csv", encoding="utf-8") as file:
            clocks = {row["frequency"] for row in csv.DictReader(file)} - {"", "0"}
        self.assertTrue(clocks, "units are marked with the clocks of the plan")
        spent_j = sum(after["true_energy_j"] - gpu["true_energy_j"] for gpu, after in zip(before[:2], self.cluster.machine()))
        comment = self.comment(fields)
        self.assertEqual(comment["gpus"], "2")
        self.assertGreater(float(comment["energy_j"]), 100)
        self.assertLess(float(comment["energy_j"]), spent_j + 1)
        steps = dict(step.split(":") for step in comment["steps_j"].split(","))
        self.assertEqual(set(steps), {"batch", "0"})
        self.assertLessEqual(float(steps["0"]), float(steps["batch"]))
        self.assertLessEqual(float(steps["batch"]), float(comment["energy_j"]))
        self.assertGreater(float(comment["planned_saving_pct"].removeprefix("0:")), 1)
        [account] = self.accounts(job)
        self.assertEqual((account["gpus"], account["uid"]), ([gpu["uuid"] for gpu in before[:2]], own_root.USERS["alice"]))
        self.assertLess(float(comment["energy_j"]), account["energy_j"])
        self.assertLess(account["energy_j"], spent_j + 1)

    def test_a_job_without_gpus_has_no_account(self):
        job = self.cluster.submit("true")
        self.assertNotIn("lowgear", self.expect_restored(job).get("Comment", ""))
        self.assertEqual(self.accounts(job), [])

    def test_what_the_user_has_written_into_the_comment_stays(self):
        job = self.cluster.submit("true", "--gres=gpu:1", "--comment=my own")
        self.assertRegex(self.expect_restored(job)["Comment"], r"^my own lowgear\[node0 gpus=1 energy_j=\d")

    def test_a_cancelled_job(self):
        job, _ = self.start()
        self.cluster.run(["scancel", job])
        fields = self.expect_restored(job)
        self.assertEqual(fields["JobState"], "CANCELLED")
        [account] = self.accounts(job)
        self.assertGreater(account["energy_j"], 0)
        self.assertGreater(account["steps"]["0"]["energy_j"], 0)

    def test_a_job_whose_processes_are_killed(self):
        job, _ = self.start()
        self.cluster.run(["scancel", "--signal=KILL", "--full", job])
        self.expect_restored(job)

    def test_a_process_that_outlives_its_job_has_no_lease(self):
        job, _ = self.start(tasks=1, seconds=60, escape="--escape")
        self.cluster.run(["scancel", job])
        self.expect_restored(job)
        left = self.cluster.run(["pgrep", "--full", "gpu_job.py"]).stdout.split()
        self.assertTrue(left, "the process has left the step")
        self.cluster.run(["kill", "-KILL", *left])

    def test_a_job_that_is_requeued(self):
        job, _ = self.start("--requeue")
        self.cluster.run(["scontrol", "requeue", job])
        wait_until(lambda: self.cluster.changed() == [], "GPUs are restored between the starts")
        self.cluster.wait_for_state(job, "RUNNING")
        self.wait_for_clocks(job, 2)
        self.cluster.run(["scancel", job])
        self.expect_restored(job)
        self.assertEqual([account["restart"] for account in self.accounts(job)], [0, 1])

    def test_two_users(self):
        first, own = self.start(tasks=1, user="alice")
        _, others = self.start(tasks=2, user="bob")
        refused = self.cluster.submit(f"CUDA_VISIBLE_DEVICES={own[0]} {JOB} 1", "--gres=gpu:1", user="bob")
        self.cluster.wait_for_end(refused)
        self.assertIn("of user alice", self.cluster.output(refused, "bob"))
        self.cluster.run(["scancel", first])
        self.cluster.wait_for_end(first)
        self.assertEqual(self.cluster.changed(), others, "the other user's GPUs follow their plan")

    def assigned(self):
        """Who has the GPUs, by index: uid or None."""
        return [(gpu["assigned_to"] or {}).get("uid") for gpu in self.cluster.agent("GET", "/v1/gpus")["gpus"]]

    def test_gpus_are_leased_only_by_the_user_to_whom_slurm_gave_them(self):
        uid = own_root.USERS
        owner = self.cluster.submit(f"sleep {LONG_S}", "--gres=gpu:2", user="alice")  # has no lease, and needs none
        wait_until(lambda: self.assigned() == [uid["alice"], uid["alice"], None, None], lambda: f"{self.assigned()}")
        other, [gpu] = self.start(tasks=1, user="bob")
        self.assertEqual(self.assigned()[gpu], uid["bob"])
        thief = self.cluster.submit(f"CUDA_VISIBLE_DEVICES=0 {JOB} 1", "--gres=gpu:1", user="bob")
        self.cluster.wait_for_end(thief)
        self.assertIn(f"assigned to job \"{owner}\" of user alice", self.cluster.output(thief, "bob"))
        self.assertEqual(self.cluster.changed(), [gpu], "nothing of alice's was changed")
        self.cluster.kill("agent")
        self.cluster.start_agent()
        self.assertEqual(self.assigned()[:2], [uid["alice"]] * 2, "an agent that is started again knows")
        self.cluster.run(["scancel", owner])
        self.cluster.run(["scancel", other])
        self.cluster.wait_for_end(owner)
        self.expect_restored(other)
        wait_until(lambda: self.assigned() == [None] * GPUS, lambda: f"{self.assigned()}")

    def test_a_lease_that_another_user_has_left_is_ended_before_the_job(self):
        job, [gpu] = self.start(tasks=1, seconds=60, escape="--escape")
        stray = self.cluster.run(["pgrep", "--full", "gpu_job.py"]).stdout.split()
        self.cluster.run(["scancel", job])
        self.expect_restored(job)
        self.assertEqual(self.start(tasks=GPUS, user="bob")[1], list(range(GPUS)), f"GPU {gpu} is bob's")
        self.cluster.run(["kill", "-KILL", *stray], check=False)


class Options(SlurmTest):
    def setUp(self):
        if not self.cluster.has_plugin():
            self.skipTest("SKIPPED: the SPANK plugin: there is no slurm/spank.h (libslurm-dev)")

    def variables(self, *words):
        lines = self.cluster.run(words, user="alice").stdout.splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def test_srun(self):
        found = self.variables("srun", "--lowgear=record=rec,slowdown=2%", "--gres=gpu:1", "env")
        self.assertEqual((found["LOWGEAR_RECORDING"], found["LOWGEAR_SLOWDOWN"]), ("/home/alice/rec", "2"))
        self.assertEqual(found["CUDA_VISIBLE_DEVICES"], self.cluster.machine()[0]["uuid"])
        self.assertIn("lowgear/site", found["PYTHONPATH"])

    def test_without_the_option_nothing_is_set(self):
        found = self.variables("srun", "--gres=gpu:1", "env")
        self.assertFalse({"LOWGEAR_SLURM", "LOWGEAR_RECORDING"} & set(found))
        self.assertEqual(found["CUDA_VISIBLE_DEVICES"], "0")

    def test_sbatch_and_its_steps(self):
        job = self.cluster.submit("env | grep ^LOWGEAR_RECORDING; srun env | grep ^LOWGEAR_RECORDING\n"
                                  "srun --lowgear=off env | grep ^LOWGEAR_RECORDING\n"
                                  "srun --lowgear=search,slowdown=3% env | grep -E '^(LOWGEAR_(SEARCH|REC)|lowgear:)'",
                                  "--lowgear=record=rec", "--gres=gpu:1")
        self.cluster.wait_for_end(job)
        # srun itself says so where a step has to wait for the GPU of the one before.
        lines = [line for line in self.cluster.output(job).splitlines() if not line.startswith("srun: ")]
        self.assertEqual(lines, ["LOWGEAR_RECORDING=/home/alice/rec"] * 2 + ["LOWGEAR_SEARCH=slowdown=3%"])

    def test_ranks_of_mpirun(self):
        if not Path("/usr/bin/mpirun").exists():
            self.skipTest("SKIPPED: there is no mpirun (openmpi-bin)")
        mpirun = "mpirun --oversubscribe --mca oob_tcp_if_include lo --mca btl self,vader -np 2"
        job = self.cluster.submit(f"{mpirun} env | grep ^LOWGEAR_REC", "--lowgear=record=rec", "--gres=gpu:2", "--ntasks=2")
        self.cluster.wait_for_end(job)
        lines = [line for line in self.cluster.output(job).splitlines() if line.startswith("LOWGEAR")]
        self.assertEqual(lines, ["LOWGEAR_RECORDING=/home/alice/rec"] * 2)

    def test_salloc(self):
        found = self.variables("salloc", "--quiet", "--gres=gpu:1", "--lowgear=record=rec", "srun", "env")
        self.assertEqual(found["LOWGEAR_RECORDING"], "/home/alice/rec")

    def test_nothing_of_the_submitters_variables_is_needed(self):
        found = self.variables("srun", "--export=NONE", "--lowgear=record=rec", "/usr/bin/env")
        self.assertEqual(found["LOWGEAR_SLURM"], "record=rec")

    def test_mistakes_are_refused_before_the_job_is_queued(self):
        for text in ("plam=x", "plan", "plan=", "", "search=2", "plan=a,,slowdown=2", "off=1", "x" * 5000):
            result = self.cluster.run(["srun", f"--lowgear={text}", "true"], user="alice", check=False)
            self.assertNotEqual(result.returncode, 0, text)
            self.assertIn("lowgear", result.stderr)

    def test_a_plan_that_is_not_there_is_said_and_the_step_runs(self):
        result = self.cluster.run(["srun", "--ntasks=2", "--lowgear=plan=/nowhere", "echo", "ran"], user="alice")
        self.assertEqual(result.stdout.count("ran\n"), 2)
        self.assertEqual(result.stdout.count("--plan: /nowhere: no such file or folder"), 1)


class Failures(SlurmTest):
    def test_a_node_that_is_drained_lets_its_job_end(self):
        job, _ = self.start(seconds=LONG_S)
        self.cluster.run(["scontrol", "update", f"NodeName={own_root.NODE}", "State=DRAIN", "Reason=test"])
        self.assertEqual(len(self.cluster.changed()), 2, "the job still follows its plan")
        self.cluster.run(["scancel", job])
        self.cluster.wait_for_end(job)
        self.assertEqual(self.cluster.changed(), [])
        wait_until(lambda: self.cluster.node_state() == "DRAINED", self.cluster.node_state)
        self.resume()

    def resume(self):
        self.cluster.run(["scontrol", "update", f"NodeName={own_root.NODE}", "State=RESUME"])
        wait_until(lambda: self.cluster.node_state() == "IDLE", self.cluster.node_state)

    def test_slurmd_is_killed_and_started_again(self):
        job, _ = self.start()
        self.cluster.kill("slurmd")
        self.assertEqual(len(self.cluster.changed()), 2, "the job still follows its plan")
        self.cluster.start_slurmd()
        self.cluster.run(["scancel", job])
        self.expect_restored(job)

    def test_a_job_is_cancelled_while_slurmd_is_away(self):
        job, _ = self.start()
        self.cluster.kill("slurmd")
        self.cluster.run(["scancel", job])
        time.sleep(1)
        self.cluster.start_slurmd()
        self.expect_restored(job)

    def test_the_agent_is_killed_and_started_again_after_the_job(self):
        job, _ = self.start()
        self.cluster.kill("agent")
        self.cluster.run(["scancel", job])
        self.assertEqual(len(self.cluster.changed()), 2)
        self.cluster.start_agent()
        self.expect_restored(job)

    def test_the_node_is_drained_when_gpus_stay_changed(self):
        job, _ = self.start()
        self.cluster.kill("agent")
        self.cluster.run(["scancel", job])
        self.cluster.wait_for_end(job)
        wait_until(lambda: self.cluster.node_state() == "DRAINED", lambda: f"{self.cluster.node()}")
        self.assertIn("Epilog error", self.cluster.node()["Reason"])
        [account] = self.accounts(job)
        self.assertIsNone(account["energy_j"])
        self.assertIn("does not respond", account["left_changed"])
        self.cluster.start_agent()
        self.assertEqual(self.cluster.changed(), [], "the next agent restores")
        self.resume()

    def test_jobs_run_without_an_agent(self):
        self.cluster.kill("agent", 15)
        job = self.cluster.submit("srun true", "--gres=gpu:1")
        fields = self.cluster.wait_for_end(job)
        self.cluster.start_agent()
        self.assertEqual((fields["JobState"], self.cluster.node_state()), ("COMPLETED", "IDLE"))
        [account] = self.accounts(job)
        self.assertIsNone(account["energy_j"])
        self.assertIn("does not respond", account["problem"])


if __name__ == "__main__":
    unittest.main()
