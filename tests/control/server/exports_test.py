"""What the real server exports of jobs, against what their ranks have reported; and the account of a month that `lowgear
report` makes of it, also over restarts and SIGKILLs."""

import csv
import http.server
import io
import json
import shutil
import signal
import sqlite3
import ssl
import subprocess
import threading
import time
import unittest

from api_test import Ranks
from certificates import Authority
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
        return subprocess.run([LOWGEAR, "report", *words, "--server", f"http://{ADDRESS}:{self.port}", "--token-file",
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


class Receiver:
    """An HTTP server that takes what webhooks post, and answers as `answer` says: a status, or "hang" or "huge"."""

    def __init__(self, test, answer=lambda number: 200, tls=None):
        self.bodies, self.requests, self.ended = [], 0, threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.path, outer.media = self.path, self.headers["Content-Type"]
                number, outer.requests = outer.requests, outer.requests + 1
                said = answer(number)
                if said == "hang":
                    outer.ended.wait(PATIENCE_S)
                    return
                if said != "huge" and said < 300:
                    outer.bodies.append(body)  # before the response, after which another thread gets the next one
                self.send_response(200 if said == "huge" else said)
                self.send_header("Content-Length", str(100 << 20 if said == "huge" else 0))
                self.end_headers()
                if said == "huge":
                    try:
                        for _ in range(100):
                            self.wfile.write(b"x" * (1 << 20))
                    except OSError:
                        pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((ADDRESS, 0), Handler)
        self.server.daemon_threads = True
        self.scheme = "https" if tls else "http"
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)
        test.addCleanup(self.ended.set)

    @property
    def address(self):
        return f"{self.scheme}://{ADDRESS}:{self.server.server_address[1]}/services/SECRET-PART"


class Webhooks(ExportTest):
    def hook(self, name, address, more=""):
        file = self.folder / f"address-{name}"
        file.touch(0o600)
        file.write_text(address + "\n")
        self.config += f'[[webhook]]\nname = "{name}"\nurl_file = "{file}"\n{more}\n'

    def metric(self, name):
        text = self.request("GET", "/metrics", role="read").text
        return {line.rpartition(" ")[0].partition("{")[2].rstrip("}"): float(line.rpartition(" ")[2])
                for line in text.splitlines() if line.startswith(f"lowgear_server_webhook_{name}")}

    def decisions(self, ranks):
        return [(each["id"], each["kind"], each["reason"]) for each in ranks.show("/decisions")["decisions"]]

    def posted(self, receiver):
        return [(body["id"], body["kind"], body["reason"]) for body in receiver.bodies]

    def test_decisions_are_posted_as_slack_reads_them(self):
        all_of_them, some = Receiver(self), Receiver(self)
        self.hook("all", all_of_them.address)
        self.hook("some", some.address, 'kinds = ["finish"]')
        self.start()
        ranks = Reporting(self).start_all()
        ranks.train_to_state("running")
        self.ok("DELETE", f"/v1/jobs/{ranks.job}")
        wait_until(lambda: some.bodies, "the end is posted")
        wait_until(lambda: self.posted(all_of_them) == self.decisions(ranks), "all decisions are posted")
        self.assertIn("plan", {body["kind"] for body in all_of_them.bodies})
        [end] = some.bodies
        self.assertEqual(end["text"], f"Lowgear, job {ranks.job}: finish: finished by request")
        self.assertEqual((some.path, some.media), ("/services/SECRET-PART", "application/json"))
        wait_until(lambda: self.metric("events_total")['webhook="some",outcome="sent"'] == 1, "the count")
        self.assertNotIn("SECRET-PART", self.request("GET", "/metrics", role="read").text)

    def events(self, receiver):
        return [body["event"] for body in receiver.bodies]

    def test_events_of_jobs_are_posted(self):
        receiver = Receiver(self)
        self.hook("w", receiver.address, 'events = ["job_registered", "job_ended", "job_lost", "plans_refused", '
                                         '"plans_followed"]')
        self.start()
        ranks = Reporting(self, run="run-a", user="ada").start_all()
        for refusal in ("the model was rebuilt", ""):
            ranks.call("POST", f"/v1/jobs/{ranks.job}/reports",
                       {"rank": 1, "reports": [], **({"refusal": refusal} if refusal else {})}, ranks.keys[1])
        self.ok("DELETE", f"/v1/jobs/{ranks.job}")
        wait_until(lambda: len(receiver.bodies) == 4, "four events")
        self.assertEqual(self.events(receiver), ["job_registered", "plans_refused", "plans_followed", "job_ended"])
        self.assertEqual({(body["job"], body["run"], body["user"]) for body in receiver.bodies},
                         {(ranks.job, "run-a", "ada")})
        self.assertEqual(receiver.bodies[1]["text"], f"Lowgear, job {ranks.job}: plans are refused: rank 1 follows no "
                         "plans: the model was rebuilt")
        self.assertEqual(receiver.bodies[3]["reason"], "finished by request")

    def test_events_of_budgets_and_agents_are_posted(self):
        receiver = Receiver(self)
        self.hook("w", receiver.address, 'events = ["budget_exceeded", "budget_kept", "agent_silent", "agent_heard"]')
        self.start()
        share = {"safe_w": 200, "gpus": [{"uuid": "GPU-9", "limit_w": 200, "least_w": 100, "most_w": 400}]}
        self.ok("POST", "/v1/nodes/node-9/power", share, role="node")
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 100, "other_w": 300})
        wait_until(lambda: len(receiver.bodies) >= 2, "the budget cannot be kept, and the agent does not ask again")
        self.assertEqual(set(self.events(receiver)), {"budget_exceeded", "agent_silent"})
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 1000, "other_w": 300})

        def is_heard():
            self.ok("POST", "/v1/nodes/node-9/power", share, role="node")
            return len(receiver.bodies) >= 4
        wait_until(is_heard, "both are well again")
        bodies = {body["event"]: body for body in receiver.bodies}
        self.assertEqual(set(bodies), {"budget_exceeded", "agent_silent", "budget_kept", "agent_heard"})
        self.assertEqual((bodies["budget_kept"]["budget"], bodies["agent_silent"]["node"]), ("row-1", "node-9"))
        self.assertIn("add up to", bodies["budget_exceeded"]["reason"])
        for body in receiver.bodies:
            self.openapi.require({name: value for name, value in body.items() if name != "text"}, "FleetEvent")
        self.assertTrue(bodies["agent_heard"]["text"].startswith("Lowgear, node node-9: its agent is heard of again: "))

    def test_an_unknown_event_is_refused(self):
        self.hook("w", "http://127.0.0.1:9/", 'events = ["job_gone"]')
        started = subprocess.run(self.command(), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(started.returncode, 2)
        self.assertIn("there is no event \"job_gone\"; there are decision, job_registered", started.stderr)

    def test_a_receiver_that_fails_gets_them_later(self):
        receiver = Receiver(self, answer=lambda number: (500, 503, 200)[min(number, 2)])
        self.hook("w", receiver.address)
        self.start()
        ranks = Reporting(self).start_all()
        ranks.train(1)
        wait_until(lambda: receiver.bodies, "the third attempt")
        wait_until(lambda: self.posted(receiver) == self.decisions(ranks), "all decisions")
        self.assertEqual(self.metric("failures_total"), {'webhook="w"': 2})
        log = (self.folder / "log").read_text()
        self.assertIn("events cannot be posted: status 500", log)
        wait_until(lambda: "events are posted again" in (self.folder / "log").read_text(), "the log says so")
        self.assertNotIn("SECRET-PART", log)

    @unittest.skipUnless(shutil.which("openssl"), "there is no command openssl, which makes the certificates")
    def test_https_is_verified(self):
        """The authorities of the system are those of a file here; one webhook names its own."""
        receivers = {}
        for name in ("trusted", "untrusted", "own"):
            folder = self.folder / name
            folder.mkdir()
            certificate = Authority(folder).issue("receiver", f"IP:{ADDRESS}")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
            receivers[name] = Receiver(self, tls=context)
            self.hook(name, receivers[name].address, f'ca_file = "{folder}/ca.pem"' if name == "own" else "")
        self.wrapper = ("env", f"SSL_CERT_FILE={self.folder}/trusted/ca.pem")
        self.start()
        ranks = Reporting(self).start_all()
        ranks.train(1)
        for name in ("trusted", "own"):
            wait_until(lambda: receivers[name].bodies and self.posted(receivers[name]) == self.decisions(ranks),
                       f"all decisions to {name}")
        wait_until(lambda: self.metric("failures_total")['webhook="untrusted"'] > 0, "its certificate is refused")
        self.assertEqual(receivers["untrusted"].requests, 0)
        self.assertNotIn("SECRET-PART", (self.folder / "log").read_text())

    def test_huge_responses_are_not_read_and_bring_no_copies(self):
        receiver = Receiver(self, answer=lambda _: "huge")
        self.hook("w", receiver.address)
        self.start()
        Reporting(self).start_all().train(1)
        wait_until(lambda: receiver.requests, "a post")
        wait_until(lambda: self.metric("events_total")['webhook="w",outcome="dropped"'] == receiver.requests,
                   "the decisions are given up")
        self.assertEqual(self.metric("failures_total"), {'webhook="w"': receiver.requests})

    def test_no_receiver_holds_the_server_or_another_one_up(self):
        hanging, gone, refusing, well = Receiver(self, lambda _: "hang"), Receiver(self), Receiver(self, lambda _: 404), \
            Receiver(self)
        gone.server.socket.close()
        for name, receiver in (("hanging", hanging), ("gone", gone), ("refusing", refusing), ("well", well)):
            self.hook(name, receiver.address)
        self.start()
        ranks = Reporting(self).start_all()
        ranks.train_to_state("running")
        wait_until(lambda: self.posted(well) == self.decisions(ranks), "all decisions at the receiver that is well")
        wait_until(lambda: self.metric("events_total")['webhook="refusing",outcome="dropped"'] ==
                   len(self.decisions(ranks)), "what is refused is not posted again")
        self.assertEqual(refusing.requests, len(self.decisions(ranks)))
        wait_until(lambda: self.metric("failures_total")['webhook="gone"'] > 0, "nothing listens there")
        self.assertGreater(self.metric("waiting")['webhook="hanging"'], 0)
        self.assertEqual(self.end(), 0)

    def test_a_wrong_configuration_shows_no_secret(self):
        self.hook("w", "ftp://hooks.example/SECRET-PART")
        started = subprocess.run(self.command(), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(started.returncode, 2)
        self.assertIn("address-w: expected one address", started.stderr)
        self.assertNotIn("SECRET-PART", started.stderr + started.stdout)


if __name__ == "__main__":
    unittest.main()
