"""Databases that earlier versions of the server wrote: today's server opens each, and its jobs continue.

old_states/version-N.sql is what the server of schema version N kept of a job that is over and one that trains, with two
ranks each, dumped by SQLite. Versions 1 and 2 were written by these servers themselves; version 3 is that of 2 after
version 3's own step, as its server has it once it has opened the other; versions 4
and 5 are what their servers kept of that."""

import json
import sqlite3
import subprocess
import unittest
from pathlib import Path

from served import LOWGEAR, PATIENCE_S, ServerTest, wait_until

STATES = Path(__file__).with_name("old_states")
OPEN_RUN, FINISHED_RUN = "open-run", "finished-run"


def newest_version():
    """Of the schema, as the server makes it."""
    text = (STATES.parents[3] / "src/control/server/store/store_schema.cpp").read_text()
    return int(text.partition("std::array<const char*, ")[2].partition(">")[0])


class OldStates(ServerTest):
    config = "[retention]\nfinished_days = 3650\n"

    def make(self, version, path):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(0o600)
        database = sqlite3.connect(path)
        database.executescript((STATES / f"version-{version}.sql").read_text())
        self.assertEqual(database.execute("PRAGMA user_version").fetchone()[0], version)
        rows = {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("jobs", "ranks", "reports", "plans", "decisions")}
        self.assertTrue(all(rows.values()), rows)
        ranks = [(job, rank, json.loads(document)["key"]) for job, rank, document in database.execute(
            "SELECT job, rank, document FROM ranks WHERE job IN (SELECT id FROM jobs WHERE run = ?)", (OPEN_RUN,))]
        decisions = dict(database.execute("SELECT job, count(*) FROM decisions GROUP BY job"))
        database.close()
        return ranks, decisions

    def job_of(self, run):
        [job] = [each for each in self.ok("GET", "/v1/jobs")["jobs"] if each["run"] == run]
        return job

    def expect_open_job_to_continue(self, ranks, decisions):
        job = self.job_of(OPEN_RUN)
        self.assertEqual(job["state"], "running", job["reason"])
        last = self.ok("GET", f"/v1/jobs/{job['job']}")["ranks"][0]["last_iteration"]
        for of_job, rank, key in ranks:
            self.assertEqual(of_job, job["job"])
            report = {"iteration": last + 1, "plan_version": job["plan_version"], "time_s": 0.3, "compute_s": 0.2,
                      "energy_j": 60.0, "energy_error_j": 0.5, "throttled_power": 0, "throttled_thermal": 0}
            answer = self.ok("POST", f"/v1/jobs/{of_job}/reports", {"rank": rank, "reports": [report], "gpu": {
                "power_w": 200, "sm_clock_mhz": 1300, "sm_clock_min_mhz": 1005, "sm_clock_max_mhz": 1410,
                "temperature_c": 60}}, role="train", key=key)
            self.assertEqual(answer["last_iteration"], last + 1, "its key is known, and what it had reported")
        wait_until(lambda: self.job_of(OPEN_RUN)["iteration"] == last + 1, "the iteration counts")
        self.assertGreaterEqual(len(self.decisions(job)), decisions[job["job"]])
        slow = self.ok("POST", f"/v1/jobs/{job['job']}/straggler", {"rank": 1, "factor": 1.5})["decision"]
        wait_until(lambda: any(each["id"] > slow and each["kind"] == "plan" for each in self.decisions(job)),
                   "it is planned again")

    def decisions(self, job):
        return self.ok("GET", f"/v1/jobs/{job['job']}/decisions?limit=1000")["decisions"]

    def expect_finished_job(self, decisions):
        job = self.job_of(FINISHED_RUN)
        self.assertEqual(job["state"], "finished")
        for part in ("", "/frontier", "/timeline", "/iterations"):
            self.ok("GET", f"/v1/jobs/{job['job']}{part}")
        self.assertGreaterEqual(len(self.decisions(job)), decisions[job["job"]])

    def expect_all(self, ranks, decisions):
        self.start()
        self.expect_finished_job(decisions)
        self.expect_open_job_to_continue(ranks, decisions)
        self.assertEqual(self.end(), 0)
        self.assertNotIn("left out", (self.folder / "log").read_text())
        database = sqlite3.connect(self.state / "server.db")
        self.addCleanup(database.close)
        self.assertEqual(database.execute("PRAGMA user_version").fetchone()[0], newest_version())
        [(key,)] = database.execute("SELECT key FROM documents WHERE key LIKE 'profile/%'").fetchall()
        self.assertIn('"simulated":true', key, "the measured profile is known to new jobs of simulated GPUs")


def opens(version):
    def test(self):
        self.expect_all(*self.make(version, self.state / "server.db"))
    return test


def restores(version):
    def test(self):
        was = self.make(version, self.folder / "old" / "server.db")
        backup = self.folder / "backup"
        for words in (["backup", "--state", str(self.folder / "old")], ["restore", "--state", str(self.state)]):
            result = subprocess.run([LOWGEAR, "serve", *words, str(backup), "--json"], capture_output=True, text=True,
                                    timeout=PATIENCE_S)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["schema_version"], version)
        self.expect_all(*was)
    return test


class EveryVersion(unittest.TestCase):
    def test_has_a_state(self):
        self.assertEqual(sorted(path.name for path in STATES.glob("*.sql")),
                         [f"version-{version}.sql" for version in range(1, newest_version())])


for number in range(1, newest_version()):
    setattr(OldStates, f"test_version_{number}_is_opened", opens(number))
    setattr(OldStates, f"test_version_{number}_is_backed_up_and_restored", restores(number))

if __name__ == "__main__":
    unittest.main()
