"""The real server, agent and client library on simulated GPUs whose driver refuses every clock: a rank that is slow as its
clocks are not those of the plan is no straggler, and the server says why its plan is not followed."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.with_name("agent")))
sys.path.insert(0, str(Path(__file__).parent.with_name("server")))
from agent_test_base import AgentTest  # noqa: E402
from served import ADDRESS, TOKENS, ServerTest, wait_until  # noqa: E402
from training_ranks import TrainingRanks  # noqa: E402

RANK = str(Path(__file__).with_name("served_test_rank.py"))
REPLICAS = 3
UNSET, SLOW = 1, 1.5  # a rank, and how many times slower it is
JOB = {"run": "r", "model": "m", "partition": "uniform", "gpu": "NVIDIA A100-SXM4-80GB", "schedule": "1f1b",
       "parallel": {"pp": 1, "dp": REPLICAS, "tp": 1, "chunks": 1}, "microbatches": 2, "microbatch_size": 2,
       "guard_pct": 500, "profile": None}
# Of the profile's powers: the ranks sleep, so their GPUs draw as little as idle ones.
POWER_SHARE = 0.12
# Iterations; the server takes a rank that is so slow for a straggler within two.
WATCHED = 20


class UnsetClocks(AgentTest):
    gpus = f"{REPLICAS}xA100"

    def setUp(self):
        super().setUp()
        self.start_agent()
        self.server = ServerTest()
        self.server.setUp()
        self.addCleanup(self.server.doCleanups)
        self.server.start()
        self.measure_profile()

    def measure_profile(self):
        """By a job of the same model, as it would take this one minutes."""
        ranks = TrainingRanks(f"http://{ADDRESS}:{self.server.port}", TOKENS["train"], pp=1, run="profiled", model="m",
                              microbatches=JOB["microbatches"], gpu=JOB["gpu"], power_share=POWER_SHARE)
        ranks.register(0)
        self.until(lambda: ranks.train(1) or self.summary(ranks.job)["state"] == "running", "a profile is measured")
        ranks.call("POST", f"/v1/jobs/{ranks.job}/finish", {"rank": 0}, ranks.keys[0])

    def until(self, condition, what):
        wait_until(condition, lambda: f"{what}; {self.server.ok('GET', '/v1/jobs')}", pause_s=0)

    def summary(self, job=None):
        [summary] = [each for each in self.server.ok("GET", "/v1/jobs")["jobs"]
                     if each["job"] == job or (job is None and each["run"] == JOB["run"])]
        return summary

    def refuse_clocks(self, *gpus):
        for gpu in gpus:
            for call in ("DeviceSetGpuLockedClocks", "DeviceSetApplicationsClocks"):
                self.lowgear("simgpu", "inject", "--gpu", str(gpu), "--call", call, "--return-code", "999")

    def start_ranks(self):
        environment = {**os.environ, "LOWGEAR_AGENT_SOCKET": str(self.folder / "lease.sock")}
        command = [sys.executable, RANK]
        self.ranks = [self.start([*command, str(rank), str(REPLICAS), f"unix:{self.server.folder}/socket", json.dumps(JOB)],
                                 stdin=subprocess.PIPE, env=environment) for rank in range(REPLICAS)]
        for rank in self.ranks:
            self.hear(rank, "ready")

    def hear(self, rank, word):
        line = rank.stdout.readline().strip()
        self.assertEqual(line, word, rank.stderr.read() if line == "" else "")

    def train(self):
        """An iteration of all ranks, which wait for each other at its end."""
        for number, rank in enumerate(self.ranks):
            rank.stdin.write(f"{SLOW if number == UNSET else 1}\n")
            rank.stdin.flush()
        for rank in self.ranks:
            self.hear(rank, "done")

    def stragglers(self):
        return [each["rank"] for each in self.summary()["stragglers"]]

    def test_of_one_rank_make_it_no_straggler(self):
        self.refuse_clocks(UNSET)
        self.start_ranks()
        self.until(lambda: self.train() or self.summary()["state"] == "running", "a plan is there")
        not_following = f"rank {UNSET} does not follow the plan"
        self.until(lambda: self.train() or not_following in self.summary()["reason"], "its reports say so")
        for _ in range(WATCHED):
            self.train()
            self.assertNotIn(UNSET, self.stragglers())
        self.assertIn(not_following, self.summary()["reason"])
        # The same rank, as slow, at the plan's clocks.
        self.lowgear("simgpu", "reset", "--gpu", str(UNSET))
        self.until(lambda: self.train() or UNSET in self.stragglers(), "it is taken for a straggler")
        self.assertNotIn(f"rank {UNSET} does not follow", self.summary()["reason"])

    def test_of_all_ranks_are_why_none_follows_a_plan(self):
        self.refuse_clocks(*range(REPLICAS))
        self.start_ranks()
        self.until(lambda: self.train() or self.summary()["state"] == "observing", "the server gives the plan up")
        self.assertEqual(self.summary()["reason"],
                         "no rank follows the plan for the baseline: see the logs of the agents")
        self.assertEqual(self.stragglers(), [])
        self.assertEqual(self.http("GET", "/healthz")[1]["status"], "degraded")


if __name__ == "__main__":
    unittest.main()
