"""The real server when those who talk to it are wrong or hostile: they are refused in one line that says why, and the
job that trains meanwhile goes on."""

import contextlib
import json
import socket
import threading
import time
import unittest

from api_test import Ranks
from served import TOKENS, ServerTest, wait_until

JOB = {"run": "r", "model": "m", "gpu": "g", "parallel": {"pp": 2}, "schedule": "1f1b", "microbatches": 4}


def rank_body(rank, **changes):
    return {"rank": rank, "pp_rank": rank, "dp_rank": 0, "tp_rank": 0, "instance": f"i-{rank}", "host": "h",
            "clocks_mhz": [1410, 1200, 990, 810], "follows_plans": True, **changes}


def report(iteration, **changes):
    return {"iteration": iteration, "plan_version": 0, "time_s": 1, "compute_s": 0.5, **changes}


class Misuse(ServerTest):
    config = "limits: {request_timeout_s: 3600}\n"  # what is slow is not ended

    def setUp(self):
        super().setUp()
        self.start()

    def tearDown(self):
        """Whatever was done, the server serves, and a job can go all its way."""
        self.assertIsNone(self.process.poll())
        self.ok("GET", "/healthz")
        ranks = Ranks(self, pp=2)
        for rank in range(2):
            ranks.register(rank)
        ranks.train_to_state("running")

    def register(self, **changes):
        job = self.ok("POST", "/v1/jobs", {**JOB, **changes})["job"]
        return job, [self.ok("POST", f"/v1/jobs/{job}/ranks", rank_body(rank))["rank_key"] for rank in range(2)]

    def begin_profiling(self, job, keys):
        """Reports iterations of the baseline, the first plan, until clocks are tried out by the second."""
        for iteration in range(40):
            for rank, key in enumerate(keys):
                baseline = {"rank": rank, "reports": [{**report(iteration), "plan_version": 1}]}
                self.ok("POST", f"/v1/jobs/{job}/reports", baseline, key=key)
            if self.ok("GET", f"/v1/jobs/{job}")["job"]["state"] == "profiling":
                return
        self.fail("no clocks are tried out")

    def reports(self, job, key, rank, iterations, **options):
        return self.request("POST", f"/v1/jobs/{job}/reports",
                            {"rank": rank, "reports": [report(each) for each in iterations]}, key=key, **options)

    def test_ranks_of_a_new_start_get_together_though_one_was_among_those_of_the_last(self):
        job = self.ok("POST", "/v1/jobs", JOB)["job"]
        self.ok("POST", f"/v1/jobs/{job}/ranks", rank_body(0))
        # The process of rank 0 is gone; both are started again, and rank 1 is there first.
        key = self.ok("POST", f"/v1/jobs/{job}/ranks", rank_body(1, instance="again-1"))["rank_key"]
        first = rank_body(0, instance="again-0")
        for _ in range(120):
            self.refused(409, "rank_taken", "POST", f"/v1/jobs/{job}/ranks", first)
            self.request("GET", f"/v1/jobs/{job}/plan?rank=1&after=9&wait_s=1", key=key)
            if self.ok("POST", "/v1/jobs", JOB)["job"] != job:
                break
        again = self.ok("POST", "/v1/jobs", JOB)["job"]
        self.assertNotEqual(again, job)
        wait_until(lambda: self.request("GET", f"/v1/jobs/{job}/plan?rank=1&after=9&wait_s=0", key=key).status == 404,
                   "rank 1 is sent to register again")
        for body in (first, rank_body(1, instance="again-1")):
            self.ok("POST", f"/v1/jobs/{again}/ranks", body)

    def test_each_operation_wants_its_scope(self):
        scopes = {None: (), "read": ("read",), "train": ("read", "jobs"), "admin": ("read", "jobs", "operate"), "node": ("node",)}
        for path, item in self.openapi.document["paths"].items():
            if path.endswith("/events"):
                continue  # a stream does not end; the access table is tested in C++
            for method, operation in item.items():
                target = path.replace("{job}", "j-none").replace("{name}", "s")
                for role, allowed in scopes.items():
                    answer = self.request(method.upper(), target, role=role)
                    if operation["x-lowgear-scope"] in (*allowed, "anybody"):
                        self.assertNotIn(answer.status, (401, 403), (method, path, role))
                    else:
                        self.assertEqual(answer.status, 403 if role else 401, (method, path, role))

    def test_tokens_that_are_none(self):
        for header in ("Bearer nobody-knows-this-one", "Bearer", "Bearer ", "Basic " + TOKENS["admin"], TOKENS["admin"],
                       "Bearer " + TOKENS["admin"] + "x", "Bearer " + TOKENS["admin"][:-1], "Bearer " + "x" * 4000):
            self.refused(401, "no_token", "GET", "/v1/jobs", role=None, headers={"Authorization": header})

    def test_a_rank_is_proved_by_its_own_key(self):
        mine, my_keys = self.register()
        other, other_keys = self.register(run="other")
        for key in (None, "", other_keys[0], my_keys[1], my_keys[0][:-1], my_keys[0] + "0", "x" * 4000):
            answers = [self.reports(mine, key, 0, [0]),
                       self.request("POST", f"/v1/jobs/{mine}/finish", {"rank": 0}, key=key),
                       self.request("GET", f"/v1/jobs/{mine}/plan?rank=0", key=key),
                       self.request("POST", f"/v1/jobs/{mine}/profile",
                                    {"rank": 0, "plan_version": 1, "cells": [], "blocking": []}, key=key)]
            for answer in answers:
                self.assertEqual((answer.status, answer.code), (403, "not_your_rank"), key)
        self.assertEqual(self.reports(mine, my_keys[0], 0, [0]).status, 200)
        for document in (f"/v1/jobs/{mine}", "/v1/jobs", f"/v1/jobs/{mine}/decisions", "/metrics"):
            self.assertNotIn(my_keys[0], self.request("GET", document).text, "keys are shown to no user")

    def test_ranks_that_disagree(self):
        self.register()
        for member, value in (("schedule", "gpipe"), ("microbatches", 8), ("parallel", {"pp": 2, "dp": 2}),
                              ("model", "x"), ("gpu", "x"), ("microbatch_size", 2), ("profile", None),
                              ("guard_pct", 3)):
            answer = self.refused(409, "disagrees", "POST", "/v1/jobs", {**JOB, member: value})
            self.assertIn(member, answer.json["error"]["message"])

    def test_ranks_that_take_each_others_places(self):
        job, _ = self.register()
        path = f"/v1/jobs/{job}/ranks"
        self.refused(409, "rank_taken", "POST", path, rank_body(0, instance="another"))
        for member in ("pp_rank", "dp_rank", "tp_rank"):
            wide = self.ok("POST", "/v1/jobs", {**JOB, "run": member, "parallel": {"pp": 2, "dp": 2, "tp": 2}})["job"]
            self.ok("POST", f"/v1/jobs/{wide}/ranks", rank_body(0))
            moved = self.refused(409, "rank_moved", "POST", f"/v1/jobs/{wide}/ranks", rank_body(0, **{member: 1}))
            self.assertIn("start another run", moved.json["error"]["message"])
            self.ok("POST", f"/v1/jobs/{wide}/ranks", rank_body(0))  # as it was
        one = self.ok("POST", "/v1/jobs", {**JOB, "run": "places"})["job"]
        self.ok("POST", f"/v1/jobs/{one}/ranks", rank_body(0))
        self.refused(400, "invalid_argument", "POST", f"/v1/jobs/{one}/ranks", rank_body(1, pp_rank=0))
        for wrong in ({"rank": 2}, {"rank": -1}, {"pp_rank": 2}, {"dp_rank": 1}, {"tp_rank": 1}, {"clocks_mhz": []},
                      {"clocks_mhz": [0]}, {"clocks_mhz": [1] * 2001}, {"instance": ""}, {"instance": "x" * 201},
                      {"host": "a\nb"}, {"extra": 1}):
            self.refused(400, "invalid_argument", "POST", path, {**rank_body(1), **wrong})

    def test_jobs_that_cannot_be(self):
        for wrong in ({"parallel": {"pp": 0}}, {"parallel": {"pp": 100_001}}, {"parallel": {"pp": 1000, "dp": 1000}},
                      {"microbatches": 0}, {"schedule": "nonsense"},
                      {"schedule": {"csv": "0F0,,,\n"}}, {"schedule": {"csv": ""}}, {"schedule": 3}, {"run": ""},
                      {"run": None},
                      {"slowdown_pct": -1}, {"slowdown_pct": 1e9}, {"guard_pct": "2"}, {"profile": {"clocks": 1}},
                      {"profile": {"min_mhz": 1000, "max_mhz": 900}}, {"version": 2}, {"format": "lowgear.job/9"}):
            self.refused(400, "invalid_argument", "POST", "/v1/jobs", {**JOB, **wrong})
        self.refused(413, "too_large", "POST", "/v1/jobs",
                     {**JOB, "microbatches": 1_000_000, "parallel": {"pp": 1000}})
        for missing in ("run", "model", "gpu", "parallel", "schedule", "microbatches"):
            body = {key: value for key, value in JOB.items() if key != missing}
            self.assertIn(missing, self.refused(400, "invalid_argument", "POST", "/v1/jobs", body).text)
        self.assertEqual(self.ok("GET", "/v1/jobs")["jobs"], [])

    def test_numbers_that_are_none(self):
        job, keys = self.register()
        for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0x10", "01", "1.", ".5", "null", "true",
                       '"1"', "[]", "1e400", "-1", "0", "1e30"):
            text = json.dumps({"rank": 0, "reports": [report(0)]}).replace('"time_s": 1', f'"time_s": {number}')
            self.refused(400, "invalid_argument", "POST", f"/v1/jobs/{job}/reports", text.encode(), key=keys[0])
        self.assertEqual(self.ok("GET", f"/v1/jobs/{job}/iterations")["iterations"], [])

    def test_bodies_that_are_no_json(self):
        job, keys = self.register()
        bodies = [b"", b"{", b"[1,2", b"\xff\xfe", b'{"a":1}{"b":2}', b"null", b"[]", b'"text"', b"{" * 100_000,
                  b"[" * 1_000_000,
                  b'{"a":' * 50_000, b'{"rank":0,"rank":1}', b"\0" * 100,
                  b'{"rank":0,"reports":[' + b"1," * 200_000 + b"1]}",
                  b'{"rank":0,"reports":[' + b'{"iteration":0},' * 2_000 + b"0]}"]
        for body in bodies:
            for path in ("/v1/jobs", f"/v1/jobs/{job}/ranks", f"/v1/jobs/{job}/reports", f"/v1/jobs/{job}/straggler",
                         f"/v1/jobs/{job}/power_cap", f"/v1/jobs/{job}/settings", f"/v1/jobs/{job}/profile"):
                answer = self.refused(400, "invalid_argument", "POST", path, body, key=keys[0])
                self.assertLess(len(answer.text), 2_000)
            self.refused(400, "invalid_argument", "PUT", "/v1/signals/s", body)
            self.refused(400, "invalid_argument", "PUT", "/v1/budgets/b", body)
            self.refused(400, "invalid_argument", "POST", "/v1/nodes/n/power", body, role="node")

    def test_settings_that_set_nothing(self):
        job, _ = self.register()
        for body in ({}, {"slowdown_pct": None}, {"slowdown_pct": None, "guard_pct": None}):
            answer = self.refused(400, "invalid_argument", "POST", f"/v1/jobs/{job}/settings", body)
            self.assertIn("slowdown_pct, guard_pct or both", answer.text)

    def test_bodies_that_are_huge(self):
        with self.connect() as connection:
            connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
            self.assertIn(b"413", connection.recv(4096))
        with self.connect() as connection:
            connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 10_000)
            self.assertIn(b"431", connection.recv(4096))

    def test_reports_that_go_back_repeat_or_leap(self):
        job, keys = self.register()
        self.assertEqual(self.reports(job, keys[0], 0, [5, 6]).json["last_iteration"], 6)
        self.assertEqual(self.reports(job, keys[0], 0, [3, 6]).json["last_iteration"], 6)
        for wrong in ([7, 7], [8, 7], [-1], [1 << 41], [1e300], [7.5]):
            self.assertEqual(self.reports(job, keys[0], 0, wrong, checked=False).status, 400, wrong)
        self.assertEqual(self.reports(job, keys[0], 0, range(7, 1008)).status, 400, "more than 1,000")
        self.assertEqual(self.reports(job, keys[0], 0, []).json["last_iteration"], 6)

    def test_one_rank_that_leaps_does_not_stop_the_job(self):
        ranks = Ranks(self, pp=2)
        for rank in range(2):
            ranks.register(rank)
        ranks.train(3)
        reports = f"/v1/jobs/{ranks.job}/reports"
        body = {"rank": 1, "reports": [report(10**12)]}
        self.refused(400, "invalid_argument", "POST", reports, body, key=ranks.keys[1])
        ranks.train_to_state("running")
        ranks.train(3)
        self.assertEqual(len(ranks.show("/iterations")["iterations"]), ranks.iteration)

    def test_one_rank_that_begins_far_ahead_does_not_stop_the_job(self):
        job, keys = self.register(run="ahead")
        self.assertEqual(self.reports(job, keys[0], 0, [10**12]).status, 200)  # may come from a checkpoint
        for iteration in range(60):
            self.assertEqual(self.reports(job, keys[1], 1, [iteration]).status, 200)
        plan = self.ok("GET", f"/v1/jobs/{job}/plan?rank=1", key=keys[1])
        self.assertLess(plan["from_iteration"], 1000)

    def test_cells_of_other_stages_and_plans(self):
        job, keys = self.register()
        self.begin_profiling(job, keys)
        cell = {"stage": 0, "instruction": "forward", "clock_mhz": 1410, "units": 4, "time_s": 0.1, "time_error_s": 0,
                "energy_j": 1, "energy_error_j": 0}
        body = {"rank": 0, "plan_version": 2, "cells": [cell], "blocking": []}
        for wrong in ({"stage": 1}, {"stage": 2}, {"stage": -1}, {"clock_mhz": 0}, {"units": 0}, {"time_s": 0},
                      {"energy_j": -1}, {"instruction": "sideways"}, {"more": 1}):
            self.refused(400, "invalid_argument", "POST", f"/v1/jobs/{job}/profile", {**body, "cells": [{**cell, **wrong}]},
                         key=keys[0])
        for version in (0, 1, 3, 1 << 31, "2"):
            self.refused(400, "invalid_argument", "POST", f"/v1/jobs/{job}/profile", {**body, "plan_version": version},
                         key=keys[0])

    def test_decisions_that_are_none(self):
        job, keys = self.register()
        made = {"number": 1, "age_s": 0, "from_iteration": 0, "technique": "freezing", "change": "adopt",
                "configuration": "x", "reason": "y"}
        path = f"/v1/jobs/{job}/decisions"
        for wrong in ({"number": 0}, {"number": "1"}, {"age_s": -1}, {"from_iteration": 1 << 41},
                      {"technique": "Not one"}, {"change": ""}, {"configuration": "x" * 201}, {"reason": "y" * 1001},
                      {"reason": "a\nb"}, {"more": 1}):
            self.refused(400, "invalid_argument", "POST", path, {"rank": 0, "decisions": [{**made, **wrong}]},
                         key=keys[0])
        for body in ({"rank": 0, "decisions": [made, made]}, {"rank": 0},
                     {"rank": 0, "decisions": [{**made, "number": number} for number in range(1, 102)]},
                     {"rank": 0, "decisions": [], "work": {"layers": 2, "frozen_layers": 3, "precision": "bf16"}}):
            self.refused(400, "invalid_argument", "POST", path, body, key=keys[0])
        self.refused(403, "not_your_rank", "POST", path, {"rank": 0, "decisions": [made]}, key=keys[1])
        kinds = [each["kind"] for each in self.ok("GET", path)["decisions"]]
        self.assertNotIn("technique", kinds)

    def test_a_profile_without_cells_is_given_up(self):
        job, keys = self.register()
        self.begin_profiling(job, keys)
        for _ in range(40):
            state = self.ok("GET", f"/v1/jobs/{job}")["job"]
            if state["state"] != "profiling":
                break
            for rank in range(2):
                nothing = {"rank": rank, "plan_version": state["plan_version"], "cells": [], "blocking": []}
                self.ok("POST", f"/v1/jobs/{job}/profile", nothing, key=keys[rank])
        self.assertEqual(state["state"], "observing")
        self.assertTrue(state["has_failed"])
        self.assertGreater(state["retry_s"], time.time())

    def test_jobs_that_are_over(self):
        job, keys = self.register()
        half = self.ok("POST", "/v1/jobs", {**JOB, "run": "half"})["job"]
        self.ok("POST", f"/v1/jobs/{half}/ranks", rank_body(0))
        for each in (job, half):
            self.ok("DELETE", f"/v1/jobs/{each}")
            for what, body in (("straggler", {"rank": 0, "factor": 2}), ("power_cap", {"watts": 9}), ("settings", {})):
                self.refused(409, "job_over", "POST", f"/v1/jobs/{each}/{what}", body)
        self.refused(409, "job_over", "POST", f"/v1/jobs/{half}/ranks", rank_body(1))
        self.assertEqual(self.ok("GET", f"/v1/jobs/{half}")["job"]["state"], "finished")
        self.assertEqual(self.reports(job, keys[0], 0, [0]).status, 200, "ranks that do not know yet are let be")
        poll = f"/v1/jobs/{job}/plan?rank=0&after=1000000&wait_s=60"
        self.assertEqual(self.request("GET", poll, key=keys[0]).status, 204)
        answer = self.reports(job, "a key that no store keeps any more", 0, [1])
        self.assertEqual((answer.status, answer.code), (409, "job_over"))

    def test_changes_of_plans_of_a_job_that_plans_its_own_steps(self):
        job, _ = self.register(policy="steps")
        before = self.ok("GET", f"/v1/jobs/{job}/decisions")
        for what, body in (("straggler", {"rank": 0, "factor": 2}), ("power_cap", {"watts": 300}),
                           ("settings", {"slowdown_pct": 7})):
            answer = self.refused(409, "disagrees", "POST", f"/v1/jobs/{job}/{what}", body)
            self.assertIn("this job plans its own steps", answer.text)
        summary = self.ok("GET", f"/v1/jobs/{job}")["job"]
        self.assertEqual((summary["stragglers"], summary["power_cap"]), ([], None))
        self.assertEqual(self.ok("GET", f"/v1/jobs/{job}/decisions"), before)

    def test_paths_and_parameters_that_are_none(self):
        job, keys = self.register()
        for method, path, status in (("GET", "/v2/jobs", 404), ("GET", "/v1/jobs/", 404), ("GET", "/v1/jobs/none", 404),
                                     ("POST", "/v1/jobs/none/reports", 404), ("PATCH", "/v1/jobs", 405),
                                     ("DELETE", "/v1/jobs", 405), ("GET", "/v1/jobs?limit=1", 400),
                                     ("GET", f"/v1/jobs/{job}/iterations?limit=0", 400),
                                     ("GET", f"/v1/jobs/{job}/iterations?after=-2", 400),
                                     ("GET", f"/v1/jobs/{job}/plan", 400), ("GET", f"/v1/jobs/{job}/plan?rank=2", 400),
                                     ("GET", f"/v1/jobs/{job}/plan?rank=0&wait_s=61", 400),
                                     ("GET", f"/v1/jobs/{job}/plan?rank=0&wait_s=nan", 400),
                                     ("GET", "/%", 400), ("GET", "/v1/jobs/%00", 404), ("GET", "/v1/jobs/%ff%fe", 404),
                                     ("GET", "/v1/jobs/..%2f..%2fetc", 404), ("PUT", "/v1/signals/%0a", 400),
                                     ("PUT", "/v1/signals/" + "x" * 201, 400), ("PUT", "/v1/budgets/%0a", 400),
                                     ("DELETE", "/v1/budgets/none", 404), ("POST", "/v1/nodes/n/power", 403),
                                     ("DELETE", "/v1/nodes/none", 404)):
            body = {"points": [], "rules": []} if method in ("PUT", "POST", "PATCH") else None
            answer = self.request(method, path, body, key=keys[0], checked=False)
            self.assertEqual(answer.status, status, (method, path, answer.text))
            self.openapi.require(answer.json, "Error")

    def test_events_for_those_who_ask_with_head(self):
        answer = self.request("HEAD", "/v1/events", checked=False)
        self.assertEqual((answer.status, answer.text), (200, ""))

    def test_slow_requests_and_silent_connections(self):
        slow = [self.connect() for _ in range(50)]
        for connection in slow[:25]:
            connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        self.ok("GET", "/v1/jobs")
        for connection in slow:
            connection.setblocking(False)
            self.assertRaises(BlockingIOError, connection.recv, 1)  # it still waits for it
            connection.close()

    def test_fifty_who_ask_at_once(self):
        job, keys = self.register()
        failures = []

        def ask(number):
            try:
                for iteration in range(20):
                    for path in ("/v1/jobs", f"/v1/jobs/{job}", "/metrics", f"/v1/jobs/{job}/decisions"):
                        self.ok("GET", path)
                    self.reports(job, keys[number % 2], number % 2, [iteration])
                    poll = f"/v1/jobs/{job}/plan?rank={number % 2}&after=9&wait_s=0.05"
                    self.request("GET", poll, key=keys[number % 2])
            except Exception as error:  # told by the test's own thread
                failures.append(repr(error))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual([each["iteration"] for each in self.ok("GET", f"/v1/jobs/{job}/iterations")["iterations"]],
                         list(range(20)))


class ShortPatience(ServerTest):
    config = "limits: {request_timeout_s: 0.5, max_connections: 40, max_jobs: 5, max_ranks: 12, max_streams: 2}\n"

    def test_a_slow_loris_is_closed(self):
        self.start()
        with self.connect() as connection:
            sent = 0
            with contextlib.suppress(OSError):  # closed
                while sent < 5_000:  # fewer than it would refuse for their number
                    connection.sendall(b"G")
                    sent += 1
                    time.sleep(0.05)
            self.assertLess(sent, 5_000)
        self.ok("GET", "/healthz")

    def test_connections_are_bounded(self):
        self.start()
        held = [self.connect() for _ in range(100)]
        wait_until(lambda: self.answers(), "another client is served")
        for connection in held:
            connection.close()

    def answers(self):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self.folder / "socket"))
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                return b"200" in connection.recv(4096)
        except OSError:
            return False

    def test_jobs_and_ranks_are_bounded(self):
        self.start()
        for number in range(5):
            job = self.ok("POST", "/v1/jobs", {**JOB, "run": f"run-{number}"})["job"]
        self.refused(503, "full", "POST", "/v1/jobs", {**JOB, "run": "one-more"})
        self.ok("DELETE", f"/v1/jobs/{job}")
        self.refused(503, "full", "POST", "/v1/jobs", {**JOB, "run": "wide", "parallel": {"pp": 2, "dp": 3}})
        self.ok("POST", "/v1/jobs", {**JOB, "run": "one-more"})
        self.ok("POST", "/v1/jobs", {**JOB, "run": "run-0"})


class ManyJobs(ServerTest):
    def test_a_thousand_jobs_and_not_one_more(self):
        self.start()
        for number in range(1_000):
            self.ok("POST", "/v1/jobs", {**JOB, "run": f"run-{number}"}, checked=False)
        self.refused(503, "full", "POST", "/v1/jobs", {**JOB, "run": "one-more"})
        self.assertEqual(len(self.ok("GET", "/v1/jobs")["jobs"]), 1_000)


if __name__ == "__main__":
    unittest.main()
