"""What the real server exports of jobs, against what their ranks have reported; and the account of a month that `lowgear
runs report` makes of it, also over restarts and SIGKILLs."""

import csv
import io
import json
import signal
import sqlite3
import subprocess
import time
import unittest

from api_test import Ranks
from served import ADDRESS, LOWGEAR, PATIENCE_S, TOKENS, ServerTest, wait_until


class Reporting(Ranks):
    """Ranks that remember what they have reported."""

    def __init__(self, test, **options):
        self.energy_j, self.time_s = {}, {}
        super().__init__(test, **options)

    def report(self, rank, time_s, compute_s, energy_j):
        super().report(rank, time_s, compute_s, energy_j)
        reported_j = energy_j + 80.0 * (time_s - compute_s)
        self.energy_j[self.iteration] = self.energy_j.get(self.iteration, 0) + reported_j
        self.time_s[self.iteration] = max(self.time_s.get(self.iteration, 0), time_s)

    def start_all(self):
        for rank in range(self.pp):
            self.register(rank)
        return self


class ExportTest(ServerTest):
    def rows(self, file, query=""):
        """Rows of all pages."""
        path, text, pages = f"/v1/exports/{file}{query}", "", 0
        while path:
            answer = self.request("GET", path, role="read")
            self.assertEqual((answer.status, answer.media.partition(";")[0]), (200, "text/csv"), answer.text)
            text, pages = text + answer.text, pages + 1
            link = answer.headers.get("Link")
            path = link.partition("<")[2].partition(">")[0] if link else None
        self.pages = pages
        return list(csv.DictReader(io.StringIO(text)))

    def usage_of(self, job):
        return [row for row in self.rows("usage.csv") if row["job"] == job]

    def check_usage(self, ranks):
        """Every iteration that was reported is there once."""
        rows = self.usage_of(ranks.job)
        self.assertEqual(sum(int(row["iterations"]) for row in rows), ranks.iteration)
        self.assertEqual(sum(int(row["measured_iterations"]) for row in rows), ranks.iteration)
        self.assertAlmostEqual(sum(float(row["energy_j"]) for row in rows), sum(ranks.energy_j.values()), delta=1e-3)
        self.assertAlmostEqual(sum(float(row["time_s"]) for row in rows), sum(ranks.time_s.values()), delta=1e-6)
        return rows

    def report(self, *words, check=True):
        token = self.folder / "read-token"
        token.touch(0o600)
        token.write_text(TOKENS["read"] + "\n")
        return subprocess.run([LOWGEAR, "runs", "report", *words, "--server", f"http://{ADDRESS}:{self.port}", "--token-file",
                               str(token)], capture_output=True, text=True, timeout=PATIENCE_S, check=check)

    def month(self):
        return time.strftime("%Y-%m", time.gmtime())


class Exports(ExportTest):
    def test_usage_is_what_ranks_reported_and_the_month_adds_it_up(self):
        self.start()
        ada = Reporting(self, user="ada", run="run-a").start_all()
        other = Reporting(self, run="run-b", model="another model").start_all()
        other.train(4)
        ada.train_to_state("running")
        ada.train_until(lambda: (ada.summary()["saved_pct"] or 0) > 0, "something is saved")
        ada.train(5)
        rows = self.check_usage(ada)
        self.assertEqual({(row["user"], row["run"], row["simulated"]) for row in rows}, {("ada", "run-a", "true")})
        self.check_usage(other)
        self.assertEqual({row["user"] for row in self.usage_of(other.job)}, {""})

        report = json.loads(self.report("--month", self.month(), "--json", "--kwh", "0.2", "--co2", "300").stdout)
        self.assertEqual(report["format"], "lowgear.month/1")
        self.assertIsNone(report["measured"])
        account = report["simulated"]
        all_j = sum(ada.energy_j.values()) + sum(other.energy_j.values())
        self.assertAlmostEqual(account["total"]["energy_j"], all_j, delta=1e-3)
        self.assertAlmostEqual(account["total"]["cost_usd"], all_j / 3.6e6 * 0.2, places=9)
        self.assertAlmostEqual(account["total"]["co2_g"], all_j / 3.6e6 * 300, places=6)
        users = {user["user"]: user for user in account["users"]}
        self.assertEqual(set(users), {"ada", None})
        self.assertIsNone(users[None]["saving"])  # four iterations: no baseline yet
        self.check_saving(users["ada"]["saving"], ada)
        self.assertEqual(sorted(job["job"] for job in account["jobs"]), sorted([ada.job, other.job]))

    def check_saving(self, saving, ranks):
        """Against the baseline that the server shows, and the iterations after it was measured."""
        baseline = ranks.summary()["baseline"]
        rows = [row for row in self.usage_of(ranks.job) if row["baseline_energy_j"]]
        self.assertEqual({float(row["baseline_energy_j"]) for row in rows}, {baseline["energy_j"]})
        compared = sum(int(row["measured_iterations"]) for row in rows)
        first = ranks.iteration - compared
        used_j = sum(joules for iteration, joules in ranks.energy_j.items() if iteration >= first)
        self.assertGreaterEqual(first, baseline["iterations"])
        self.assertAlmostEqual(saving["energy_j"], used_j, delta=1e-3)
        self.assertAlmostEqual(saving["saved_j"], compared * baseline["energy_j"] - used_j, delta=1e-2)
        self.assertGreaterEqual(saving["saved_error_j"], compared * baseline["energy_error_j"])

    def test_no_iteration_is_lost_or_counted_twice_when_the_server_is_killed(self):
        self.start()
        ranks = Reporting(self).start_all()
        for _ in range(4):
            ranks.train(7)
            self.end(signal.SIGKILL)
            self.start()
            self.check_usage(ranks)
        ranks.train(2)
        self.end()
        self.start()
        self.check_usage(ranks)
        for rank in range(ranks.pp):
            ranks.call("POST", f"/v1/jobs/{ranks.job}/finish", {"rank": rank}, ranks.keys[rank])
        self.check_usage(ranks)
        [job] = self.rows("jobs.csv")
        self.assertEqual((job["job"], int(job["iterations"])), (ranks.job, ranks.iteration))
        self.assertTrue(job["finished_s"])
        shown = self.ok("GET", f"/v1/jobs/{ranks.job}/decisions", role="read")["decisions"]
        exported = self.rows("decisions.csv")
        self.assertEqual([(int(row["id"]), row["kind"], row["reason"]) for row in exported],
                         [(each["id"], each["kind"], each["reason"]) for each in shown])

    def test_iterations_whose_energy_is_not_known_are_in_no_sum(self):
        self.start()
        ranks = Reporting(self).start_all()
        report = {"iteration": 0, "plan_version": 0, "time_s": 1, "compute_s": 0.9}
        for rank in range(ranks.pp):
            energy = {"energy_j": 100} if rank else {}
            ranks.call("POST", f"/v1/jobs/{ranks.job}/reports", {"rank": rank, "reports": [{**report, **energy}]},
                       ranks.keys[rank])
        [row] = self.usage_of(ranks.job)
        self.assertEqual((row["iterations"], row["measured_iterations"], float(row["energy_j"])), ("1", "0", 0))
        self.assertIn("the energy of 1 of 1 iterations is not known", self.report("--month", self.month()).stdout)

    def test_energy_of_invalid_figures_is_marked(self):
        self.start()
        ranks = Reporting(self).start_all()
        made = {"number": 1, "age_s": 0, "from_iteration": 0, "technique": "simulated_gpu", "change": "invalid",
                "configuration": "x", "reason": "short kernels"}
        ranks.call("POST", f"/v1/jobs/{ranks.job}/decisions", {"rank": 0, "decisions": [made]}, ranks.keys[0])
        ranks.train(2)
        [row] = self.usage_of(ranks.job)
        self.assertGreater(float(row["energy_j"]), 0)
        self.assertEqual(row["doubtful_energy_j"], row["energy_j"])
        self.assertIn("* 100 % of the energy (", self.report("--month", self.month()).stdout)

    def test_budgets(self):
        self.start()
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 60000, "hosts": ["node-1", "node-2"], "other_w": 12})
        wait_until(lambda: len(self.rows("budgets.csv")) == 1, "the budget's first row")
        ranks = Reporting(self).start_all()  # at node-1
        ranks.train(1)
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 50000, "hosts": ["node-1", "node-2"]})
        wait_until(lambda: len(self.rows("budgets.csv")) >= 2, "a row of the other limit")
        first, second = self.rows("budgets.csv")[:2]
        self.assertEqual((first["budget"], float(first["limit_w"]), first["kept"], first["measured_w"], first["held_w"]),
                         ("row-1", 60000, "true", "", ""))
        self.assertGreaterEqual(float(first["planned_w"]), 12)
        self.assertEqual((float(second["limit_w"]), int(second["measured_gpus"])), (50000, ranks.pp))
        [watts] = [energy_j / ranks.time_s[iteration] for iteration, energy_j in ranks.energy_j.items()]
        self.assertAlmostEqual(float(second["measured_w"]), watts, delta=1e-3 * watts)
        self.assertGreaterEqual(int(second["time_s"]), int(first["time_s"]))
        self.assertEqual(self.rows("budgets.csv", f"?from_s={int(second['time_s']) + 3600}"), [])
        self.end()
        self.start()
        self.assertEqual(self.rows("budgets.csv")[:2], [first, second])

    def test_what_cannot_be_exported_is_refused(self):
        self.start()
        self.refused(404, "not_found", "GET", "/v1/exports/secrets.csv", role="read", checked=False)
        self.refused(401, "no_token", "GET", "/v1/exports/usage.csv", role=None)
        for query in ("from_s=x", "to_s=-1", "limit=3", "after=x", "after=1", "after=.1"):
            self.assertEqual(self.request("GET", "/v1/exports/usage.csv?" + query, role="read").status, 400, query)
        self.assertEqual(self.request("GET", "/v1/exports/decisions.csv?after=j-1", role="read").status, 400)

    def test_the_report_says_what_is_wrong(self):
        self.start()
        self.assertIn("no job has completed an iteration", self.report("--month", "2001-01").stdout)
        wrong = self.report("--month", "2001-13", check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("is not a month", wrong.stderr)
        (self.folder / "tokens").write_text("read another-token-for-tests\n")
        self.end()
        self.start()
        refused = self.report("--month", "2001-01", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("(401)", refused.stderr)
        self.assertNotIn(TOKENS["read"], refused.stderr)
        self.end()
        self.assertEqual(self.report("--month", "2001-01", check=False).returncode, 1)


class Pages(ExportTest):
    def test_a_long_file_comes_in_pages(self):
        """Rows of an older time, put into the database, as no test trains for months."""
        self.start()
        Reporting(self).start_all().train(1)
        self.end()
        hours, jobs = 600, 20
        database = sqlite3.connect(self.state / "server.db")
        begin = (int(time.time()) // 3600 - hours) * 3600
        for job in range(jobs):
            database.execute("INSERT INTO used_jobs VALUES (?, 'r', 'n', 'ada', 'g', 0)", (f"j-old-{job}",))
            database.executemany("INSERT INTO usage (job, hour_s, baseline_j, baseline_error_j, baseline_time_s, "
                                 "last_iteration, iterations, measured, time_s, energy_j, energy_variance) VALUES "
                                 "(?, ?, 0, 0, 0, 1, 1, 1, 2, 3, 4)",
                                 [(f"j-old-{job}", begin + 3600 * hour) for hour in range(hours)])
        database.commit()
        database.close()
        self.start()
        rows = [row for row in self.rows("usage.csv") if row["job"].startswith("j-old")]
        self.assertGreater(self.pages, 2)
        self.assertEqual(len({(row["job"], row["hour_s"]) for row in rows}), hours * jobs)
        self.assertEqual(len(rows), hours * jobs)
        some = self.rows("usage.csv", f"?from_s={begin + 36000}&to_s={begin + 72000}")
        self.assertEqual(len(some), 10 * jobs)
        total = 0.0
        for month in {time.strftime("%Y-%m", time.gmtime(begin + 3600 * hour)) for hour in range(hours)}:
            account = json.loads(self.report("--month", month, "--json").stdout)["measured"]
            total += account["total"]["energy_j"] if account else 0
        self.assertAlmostEqual(total, 3 * hours * jobs)


if __name__ == "__main__":
    unittest.main()
