"""The real client library and agent on simulated GPUs, against a small server made here: clocks change where it says."""

import csv
import json
import sys
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parent.with_name("agent")))
from agent_test_base import AgentTest, plan_text, wait_until  # noqa: E402

import lowgear  # noqa: E402

UNITS = 3
UNIT_S = 0.1  # at least: a unit ends when its clock is set, which takes 10 to 20 ms, and longer on a busy machine
JOB = {"run": "r", "model": "m"}


class FakeServer:
    """One job and one rank over TCP. Offers a plan until the reports say that it is followed, as the real one does."""

    def __init__(self, port=0):
        self.changed = threading.Condition()
        self.offered = None
        self.offers = 0  # times that a plan was handed out
        self.polls = 0  # times that the rank asked for one
        self.first_poll = None  # of those that were answered by the plan on offer
        self.reports = {}  # by iteration
        self.refusals = []  # why no plan is followed, of each post; None: they are
        self.finished = False
        self.closed = False
        self.lose_answers = 0  # to the next posts
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                if server.closed:
                    self.close_connection = True
                    return
                server.get(self)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = None if server.closed else server.post(self.path, body)
                if server.closed:
                    self.close_connection = True
                    return
                if server.lose_answers > 0 and self.path.endswith("/reports"):
                    server.lose_answers -= 1
                    self.close_connection = True
                    return
                self.answer(200, answer)

            def answer(self, status, body):
                payload = json.dumps(body).encode() if body is not None else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

        class Http(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # the client has gone, as it may

        self.http = Http(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def close(self):
        self.closed = True
        self.http.shutdown()
        self.http.server_close()

    def post(self, path, body):
        with self.changed:
            self.changed.notify_all()
            if path == "/v1/jobs":
                return {"job": "j-1", "created": True, "state": "registering"}
            if path.endswith("/ranks"):
                return {"rank_key": "k", "plan_version": 0}
            if path.endswith("/reports"):
                self.refusals.append(body.get("refusal"))
                for report in body["reports"]:
                    self.reports.setdefault(report["iteration"], report)
            if path.endswith("/finish"):
                self.finished = True
            return {}

    def get(self, handler):
        query = parse_qs(urlsplit(handler.path).query)
        after = int(query["after"][0])
        with self.changed:
            self.polls += 1
            # Short, so that nothing here outlives its test for long.
            self.changed.wait_for(lambda: self.offered and self.offered["version"] > after, timeout=1)
            plan = self.offered if self.offered and self.offered["version"] > after else None
            if plan:
                self.offers += 1
                self.first_poll = self.first_poll or self.polls
        handler.answer(200 if plan else 204, plan)

    def offer(self, version, clock_mhz, from_iteration):
        with self.changed:
            self.first_poll = None
            self.offered = {
                "version": version,
                "purpose": "train",
                "from_iteration": from_iteration,
                "reason": "test",
                "time_s": None,
                "energy_j": None,
                "iterations": 0,
                "settle_iterations": 0,
                "plan": json.loads(plan_text([clock_mhz] * UNITS)),
            }
            self.changed.notify_all()


class PlansOfTheServer(AgentTest):
    gpus = "H100"

    def setUp(self):
        super().setUp()
        self.agent = self.start_agent()
        self.server = FakeServer()
        self.addCleanup(lambda: self.server.close())
        self.iteration = 0
        self.client = lowgear.Client(
            agent_socket=str(self.folder / "lease.sock"),
            recording=str(self.folder / "run"),
            server=self.server.address,
            job_spec=JOB,
        )
        self.addCleanup(self.client.close)
        wait_until(lambda: self.client.status().server_connected, "the server answers")

    def train(self, *clocks_mhz):
        """An iteration for each clock, which is the one that its units need; 0: the default, None: any."""
        for clock_mhz in clocks_mhz:
            with self.client.iteration():
                self.run_units(clock_mhz)
            self.iteration += 1

    def run_units(self, clock_mhz):
        for microbatch in range(UNITS):
            with self.client.unit("forward", 0, microbatch):
                time.sleep(UNIT_S)
                if clock_mhz is not None:
                    wait_until(lambda: self.client.status().requested_clock_mhz == clock_mhz, f"{clock_mhz} MHz are set")

    def wait_for_report(self, iteration):
        """What is reported keeps its plan version, whatever comes."""
        wait_until(lambda: iteration in self.server.reports, f"iteration {iteration} is reported")

    def offer(self, version, clock_mhz, from_iteration):
        """Offers a plan and waits until the agent has it: only then the client asks for another."""
        self.server.offer(version, clock_mhz, from_iteration)
        wait_until(lambda: self.server.first_poll, "the plan is fetched")
        wait_until(lambda: self.server.polls > self.server.first_poll, "the agent has answered")

    def finish(self):
        """Clocks of the units of each iteration, and the plan version of each report."""
        self.client.close()
        self.assertTrue(self.server.finished)
        clocks = {}
        with open(self.folder / "run" / "rank-00000" / "units.csv") as file:
            for row in csv.DictReader(file):
                clocks.setdefault(int(row["iteration"]), []).append(int(row["frequency"]))
        versions = {number: report["plan_version"] for number, report in sorted(self.server.reports.items())}
        self.assertEqual(list(versions), list(range(self.iteration)), "every iteration is reported")
        return clocks, versions

    def expect_both_plans(self, clocks, versions, first, second, iterations):
        """Plan 1 (1305 MHz) was followed from iteration `first`, plan 2 (1605 MHz) from `second`."""
        for iteration, in_iteration in clocks.items():
            expected = 0 if iteration < first else 1305 if iteration < second else 1605
            self.assertEqual(in_iteration, [expected] * UNITS, f"iteration {iteration}")
        self.assertEqual(versions, {i: 0 if i < first else 1 if i < second else 2 for i in range(iterations)})

    def test_begin_with_the_iteration_that_was_agreed(self):
        self.offer(1, 1305, 2)
        self.train(0, 0, 1305, 1305)
        self.offer(2, 1605, 6)
        began_s = time.monotonic()
        self.train(1305, 1305, 1605, 1605, 1605)
        trained_s = time.monotonic() - began_s
        clocks, versions = self.finish()
        self.expect_both_plans(clocks, versions, 2, 6, iterations=9)
        report = self.server.reports[5]
        self.assertGreater(report["compute_s"], 0.99 * UNITS * UNIT_S)
        self.assertLess(report["compute_s"], trained_s - 4 * UNITS * UNIT_S)
        self.assertGreater(report["energy_j"], 0)
        self.assertGreater(report["energy_error_j"], 0)

    def test_are_ignored_as_a_whole_when_they_come_too_late(self):
        self.offer(1, 1305, 1)
        self.train(0, 1305, 1305)
        self.offer(2, 1605, 1)  # two iterations ago
        self.train(1305, 1305)
        wait_until(lambda: self.server.offers > 2, "the client asks for another plan")
        self.offer(2, 1605, 8)
        self.train(1305, 1305, 1305, 1605, 1605)
        clocks, versions = self.finish()
        self.expect_both_plans(clocks, versions, 1, 8, iterations=10)

    def test_that_come_one_upon_the_other_leave_the_newest(self):
        self.offer(1, 1305, 2)
        self.offer(2, 1605, 3)
        self.train(0, 0, 0, 1605, 1605)
        clocks, versions = self.finish()
        for iteration, in_iteration in clocks.items():
            self.assertEqual(in_iteration, [0 if iteration < 3 else 1605] * UNITS, f"iteration {iteration}")
        self.assertEqual(versions, {i: 0 if i < 3 else 2 for i in range(5)})

    def test_go_on_while_the_server_is_away_and_reports_arrive_behind(self):
        self.offer(1, 1305, 1)
        self.server.lose_answers = 2
        self.train(0, 1305, 1305)
        wait_until(lambda: self.server.lose_answers == 0, "two answers are lost")
        reported = self.server.reports
        port = self.server.http.server_address[1]
        self.server.close()
        self.train(1305, 1305, 1305)
        wait_until(lambda: not self.client.status().server_connected, "the client notices")
        self.assertEqual(self.client.status().plan_version, 1)
        self.server = FakeServer(port)
        self.server.reports = reported
        self.train(1305)
        wait_until(lambda: len(reported) == self.iteration, "all is reported")
        clocks, versions = self.finish()
        self.assertEqual(clocks[6], [1305] * UNITS)
        self.assertEqual(versions, {i: min(i, 1) for i in range(7)})

    def test_are_followed_again_when_the_agent_comes_back(self):
        self.offer(1, 1305, 1)
        self.train(0, 1305)
        self.agent.kill()
        self.agent.wait()
        self.train(None, None)
        self.start_agent()
        wait_until(lambda: self.train(None) or self.client.status().plan_version == 1, "the plan is followed again")
        self.train(1305)
        clocks, versions = self.finish()
        self.assertIn(0, [versions[i] for i in range(2, 5)], "no process set clocks")
        self.assertEqual(clocks[self.iteration - 1], [1305] * UNITS)
        self.assertEqual(versions[self.iteration - 1], 1)

    def test_are_given_up_at_once_when_the_program_refuses(self):
        self.offer(1, 1305, 1)
        self.train(0, 1305, 1305)
        self.wait_for_report(1)
        self.client.refuse("the model was rebuilt")
        self.assertFalse(self.client.status().has_lease)
        wait_until(lambda: "the model was rebuilt" in self.server.refusals, "the server hears of it")
        self.train(0, 0)
        with self.assertRaisesRegex(lowgear.Refused, "the model was rebuilt"):
            self.client.follow_again()
        clocks, versions = self.finish()
        # The newest iteration that had begun counts as one of no plan, unless it had been reported already.
        self.assertEqual([versions[i] for i in (0, 1, 3, 4)], [0, 1, 0, 0])
        self.assertEqual([clocks[i] for i in range(1, 5)], [[1305] * UNITS] * 2 + [[0] * UNITS] * 2)
        self.assertEqual(self.server.refusals[-1], "the model was rebuilt")

    def test_are_followed_again_after_a_stop(self):
        self.offer(1, 1305, 1)
        self.train(0, 1305, 1305)
        self.wait_for_report(1)
        self.client.stop_following()
        self.train(0)
        self.client.follow_again()
        self.assertTrue(self.client.status().has_lease)
        self.offer(2, 1605, 6)
        self.train(0, 0, 1605)
        clocks, versions = self.finish()
        self.assertEqual([versions[i] for i in (0, 1, 3, 4, 5, 6)], [0, 1, 0, 0, 0, 2])
        self.assertEqual(clocks[3], [0] * UNITS)
        self.assertEqual(clocks[6], [1605] * UNITS)
        self.assertIsNone(self.server.refusals[-1])

    def test_begin_with_the_framework_s_number_and_stay_when_training_goes_back(self):
        self.offer(1, 1305, 702)
        for number in (700, 701, 703, 704, 702, 703, 705):  # a leap, and back to a checkpoint
            self.client.iteration_begin_at(number)
            self.run_units(1305 if number >= 702 else 0)
            self.client.iteration_end()
        self.client.close()
        reports = self.server.reports
        self.assertEqual({number: reports[number]["plan_version"] for number in sorted(reports)},
                         {700: 0, 701: 0, 703: 1, 704: 1, 705: 1})
        clocks = {}
        for part in ("", "part-00001"):
            with open(self.folder / "run" / part / "rank-00000" / "units.csv") as file:
                for row in csv.DictReader(file):
                    clocks.setdefault((part, int(row["iteration"])), []).append(int(row["frequency"]))
        self.assertEqual(clocks, {("", 700): [0] * UNITS, ("", 701): [0] * UNITS, ("", 703): [1305] * UNITS,
                                  ("", 704): [1305] * UNITS, ("part-00001", 702): [1305] * UNITS,
                                  ("part-00001", 703): [1305] * UNITS, ("part-00001", 705): [1305] * UNITS})


if __name__ == "__main__":
    unittest.main()
