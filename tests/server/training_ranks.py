"""Ranks of a job that does not train: they do over HTTP what docs/server-api.md asks of ranks, with units whose time
and energy follow from the clock."""

import json
import urllib.error
import urllib.request

FULL_MHZ = 1410
CLOCKS_MHZ = list(range(FULL_MHZ, 900, -15))
BLOCKING_W = 80.0
UNIT_S = {"forward": 0.02, "backward": 0.04}


def unit_time_s(instruction, mhz):
    return UNIT_S[instruction] * (FULL_MHZ / mhz) ** 0.85


def unit_energy_j(instruction, mhz):
    return unit_time_s(instruction, mhz) * (120 + 230 * (mhz / FULL_MHZ) ** 2.6)


class TrainingRanks:
    def __init__(self, url, token, pp=4, run="run-1", model="llama 24x2048", microbatches=8,
                 gpu="Simulated GPU", user=None, gpu_uuids=(), policy=None, power_share=1):
        self.url, self.token, self.pp = url.rstrip("/"), token, pp
        self.power_share = power_share
        self.iteration, self.microbatches = 0, microbatches
        self.gpu_uuids = {rank: f"GPU-{run}-{rank}" for rank in range(pp)} | dict(enumerate(gpu_uuids))
        self.plans, self.next_plans = [None] * pp, [None] * pp
        self.measured = [set() for _ in range(pp)]  # clocks in MHz
        self.job = self.call("POST", "/v1/jobs", {
            "run": run, "name": "made-up", "framework": "test", "model": model, "partition": "uniform",
            "gpu": gpu, "parallel": {"pp": pp, "dp": 1, "tp": 1, "chunks": 1}, "schedule": "1f1b",
            "microbatches": self.microbatches, "microbatch_size": 2, "slowdown_pct": 0, "guard_pct": 5,
            "profile": {"clocks": 4, "iterations": 2, "min_mhz": 900, "max_mhz": None},
            **({"user": user} if user else {}), **({"policy": policy} if policy else {})})["job"]
        self.keys = []

    def call(self, method, path, body=None, key=None):
        """Answer to a request that has to succeed; None when it has no body."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        if key:
            headers["Lowgear-Rank-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=None) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return json.loads(text) if text else None

    def register(self, rank):
        answer = self.call("POST", f"/v1/jobs/{self.job}/ranks", {
            "rank": rank, "pp_rank": rank, "dp_rank": 0, "tp_rank": 0, "instance": f"instance-{rank}", "host": "node-1",
            "gpu_uuid": self.gpu_uuids[rank], "gpu": "Simulated GPU", "simulated": True, "clocks_mhz": CLOCKS_MHZ,
            "power_limit_w": 400, "follows_plans": True})
        self.keys.append(answer["rank_key"])

    def train(self, iterations):
        for _ in range(iterations):
            for rank in range(self.pp):
                self.follow(rank)
            costs = [self.costs(rank) for rank in range(self.pp)]
            plan = self.plans[0]
            time_s = max(compute_s for compute_s, _ in costs) + 0.18
            if plan and plan["purpose"] == "train":
                time_s = max(plan["time_s"], max(compute_s for compute_s, _ in costs))
            for rank, (compute_s, energy_j) in enumerate(costs):
                self.report(rank, time_s * (1 + 0.001 * (self.iteration % 3)), compute_s, energy_j)
            self.iteration += 1

    def follow(self, rank):
        newest = self.next_plans[rank] or self.plans[rank] or {"version": 0}
        answer = self.call("GET", f"/v1/jobs/{self.job}/plan?rank={rank}&after={newest['version']}&wait_s=0",
            key=self.keys[rank])
        self.next_plans[rank] = answer or self.next_plans[rank]
        upcoming = self.next_plans[rank]
        if upcoming and self.iteration >= upcoming["from_iteration"]:
            self.plans[rank], self.next_plans[rank] = upcoming, None

    def costs(self, rank):
        """Compute time and energy of the rank's units at the clocks of its plan."""
        units = [(kind, FULL_MHZ) for kind in UNIT_S for _ in range(self.microbatches)]
        if self.plans[rank]:
            trial_mhz = self.trial_mhz(self.plans[rank])
            units = [(op["op"], trial_mhz or op["mhz"]) for op in self.plans[rank]["plan"]["stages"][0]["ops"]]
        return sum(unit_time_s(*unit) for unit in units), sum(self.cost_j(*unit) for unit in units)

    def cost_j(self, instruction, mhz):
        return self.power_share * unit_energy_j(instruction, mhz)

    def trial_mhz(self, plan):
        """The clock that the plan tries out in this iteration; None: its own clocks."""
        for trial in plan["trials"]:
            if 0 <= self.iteration - trial["first_iteration"] < trial["iterations"]:
                return trial["clock_mhz"]
        return None

    def report(self, rank, time_s, compute_s, energy_j):
        plan = self.plans[rank]
        energy_j += self.power_share * BLOCKING_W * (time_s - compute_s)
        self.call("POST", f"/v1/jobs/{self.job}/reports", {
            "rank": rank,
            "gpu": {"power_w": energy_j / time_s, "sm_clock_mhz": 1300, "sm_clock_min_mhz": 1005,
                    "sm_clock_max_mhz": 1410, "temperature_c": 60},
            "reports": [{"iteration": self.iteration, "plan_version": plan["version"] if plan else 0, "time_s": time_s,
                         "compute_s": compute_s, "energy_j": energy_j, "energy_error_j": 0.5, "throttled_power": 0,
                         "throttled_thermal": 0}]}, self.keys[rank])
        if plan and plan["purpose"] == "profile":
            self.measured[rank].add(self.trial_mhz(plan) or plan["plan"]["stages"][0]["ops"][0]["mhz"])
            last = plan["trials"][-1]
            if self.iteration + 1 == last["first_iteration"] + last["iterations"]:
                self.post_cells(rank, plan)

    def post_cells(self, rank, plan):
        cells = [{"stage": rank, "instruction": kind, "clock_mhz": mhz, "units": 24, "time_s": unit_time_s(kind, mhz),
                  "time_error_s": 1e-5, "energy_j": self.cost_j(kind, mhz), "energy_error_j": 0.01}
                 for mhz in sorted(self.measured[rank]) for kind in UNIT_S]
        self.call("POST", f"/v1/jobs/{self.job}/profile", {
            "rank": rank, "plan_version": plan["version"], "cells": cells,
            "blocking": [{"stage": rank, "power_w": self.power_share * BLOCKING_W, "error_w": 0.3}]}, self.keys[rank])
