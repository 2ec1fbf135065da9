"""The real server when the machine runs out of disk, when it is ended and started again, and when its place is taken:
jobs go on."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import unittest
from pathlib import Path

from api_test import Ranks
from served import ADDRESS, LOWGEAR, PATIENCE_S, TOKENS, Events, ServerTest, wait_until
from training_ranks import TrainingRanks

TRAINING_DECISIONS = {
    "rank": 0, "work": {"layers": 24, "frozen_layers": 6, "precision": "bf16"},
    "decisions": [{"number": 1, "age_s": 0, "from_iteration": 9, "technique": "freezing", "change": "adopt",
                   "configuration": "6 of 24 blocks frozen", "reason": "it saves 3 %"}]}
STATES = ("registering", "baseline", "profiling", "planning", "running", "finished")
JOB = {"run": "r", "model": "m", "gpu": "g", "parallel": {"pp": 2}, "schedule": "1f1b", "microbatches": 4}


def may_mount():
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return subprocess.run(command, capture_output=True).returncode == 0


@unittest.skipUnless(may_mount(), "a disk of our own needs the right to mount")
class FullDisk(ServerTest):
    """The server's state on a disk of 32 MiB, in a mount namespace of the server's own."""

    def command(self):
        self.state.mkdir(mode=0o700)
        return ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=32m,mode=0700 none {self.state} && "
                f"exec {LOWGEAR} serve --config {self.write_config()} --json"]

    def fill(self):
        self.filler = f"/proc/{self.process.pid}/root{self.state}/filler"
        try:
            with open(self.filler, "ab", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
        except OSError:
            pass  # full now

    def report(self, ranks, rank, iteration):
        body = {"rank": rank, "reports": [{"iteration": iteration, "plan_version": 0, "time_s": 1, "compute_s": 1}]}
        return self.request("POST", f"/v1/jobs/{ranks.job}/reports", body, key=ranks.keys[rank])

    def decide(self, ranks):
        return self.request("POST", f"/v1/jobs/{ranks.job}/decisions", TRAINING_DECISIONS, key=ranks.keys[0])

    def test_running_jobs_go_on_and_new_ones_wait(self):
        self.start()
        ranks = Ranks(self, pp=2)
        for rank in range(2):
            ranks.register(rank)
        ranks.train_to_state("running")
        ranks.train(2)
        self.fill()
        # What is already allocated takes a few changes more.
        iteration = ranks.iteration
        while (answer := self.report(ranks, 0, iteration)).status == 200:
            self.assertLess(iteration, ranks.iteration + 20_000)
            self.report(ranks, 1, iteration)
            iteration += 1
        self.assertEqual((answer.status, answer.code), (503, "disk_full"))
        self.assertIsNotNone(answer.headers["Retry-After"])
        # Sent again it is not acknowledged either: it is on no disk.
        self.assertEqual(self.report(ranks, 0, iteration).code, "disk_full")
        # Nor is a decision, and it is there once when it is sent until it is.
        self.assertEqual(self.decide(ranks).code, "disk_full")
        self.assertEqual(self.decide(ranks).code, "disk_full")
        self.assertEqual(self.request("GET", "/healthz").json, {"status": "disk_full"})
        self.assertEqual(self.request("POST", "/v1/jobs", {**JOB, "run": "new"}).code, "disk_full")
        self.assertEqual(self.ok("GET", f"/v1/jobs/{ranks.job}")["job"]["state"], "running")
        self.ok("GET", f"/v1/jobs/{ranks.job}/timeline")
        os.remove(self.filler)
        # By itself, without anybody who sends anything.
        wait_until(lambda: self.request("GET", "/healthz").status == 200, "the server notices that there is room")
        self.assertEqual(self.report(ranks, 0, iteration).status, 200)
        self.assertEqual(self.decide(ranks).status, 200)
        self.assertEqual(ranks.reasons("technique"), ["it saves 3 %"])
        self.ok("POST", "/v1/jobs", {**JOB, "run": "new"})

    def test_a_job_that_was_refused_is_registered_when_there_is_room(self):
        self.start()
        self.ok("POST", "/v1/jobs", {**JOB, "run": "first"})
        self.fill()
        number = 0
        while (answer := self.register(number)).status == 201:
            number += 1
        self.assertEqual(answer.code, "disk_full")
        self.assertEqual(self.register(number).code, "disk_full")
        os.remove(self.filler)
        wait_until(lambda: self.request("GET", "/healthz").status == 200, "the server notices that there is room")
        self.assertIn(self.register(number).status, (200, 201))

    def register(self, number):
        return self.request("POST", "/v1/jobs", {**JOB, "run": f"run-{number}", "name": "n" * 200})


class Restarts(ServerTest):
    def restart(self, number):
        self.end(number)
        self.start()

    def test_in_every_state_the_job_continues(self):
        for number, signal_number in enumerate((signal.SIGKILL, signal.SIGTERM)):
            with self.subTest(signal_number):
                if number == 0:
                    self.start()
                states = self.go_through_all_states(number, signal_number)
                self.assertLessEqual({"registering", "baseline", "profiling", "running", "finished"}, states)

    def go_through_all_states(self, number, signal_number):
        ranks = RunRanks(self, f"run-{number}")
        states = set()
        for rank in range(ranks.pp):
            states.add(self.restarted(ranks, signal_number))
            ranks.register(rank)
        for _ in range(60):
            states.add(self.restarted(ranks, signal_number))
            if ranks.summary()["state"] == "running" and (ranks.summary()["iteration"] or 0) > 40:
                break
            ranks.train(3)
        ranks.train_to_state("running")
        ranks.decide("straggler", {"rank": 1, "factor": 1.2})
        ranks.decide("power_cap", {"scope": "gpu", "watts": 300, "swing_w": None})
        path = f"/v1/jobs/{ranks.job}/decisions"
        ranks.call("POST", path, TRAINING_DECISIONS, ranks.keys[0])
        self.restarted(ranks, signal_number)
        ranks.call("POST", path, TRAINING_DECISIONS, ranks.keys[0])  # its answer may have been lost
        self.assertEqual(ranks.reasons("technique"), ["it saves 3 %"])
        self.assertEqual(ranks.summary()["work"], TRAINING_DECISIONS["work"])
        self.assertEqual(ranks.summary()["stragglers"][0]["factor"], 1.2)
        self.assertEqual(ranks.summary()["power_cap"]["watts"], 300)
        for rank in range(ranks.pp):
            ranks.call("POST", f"/v1/jobs/{ranks.job}/finish", {"rank": rank}, ranks.keys[rank])
            states.add(self.restarted(ranks, signal_number))
        self.assertEqual(ranks.summary()["state"], "finished")
        return states

    def restarted(self, ranks, signal_number):
        before = ranks.summary()
        iterations = ranks.show("/iterations")["iterations"]
        # People see what is decided at once, maybe before the disk has it. An answer to a change comes after all that.
        ranks.call("POST", "/v1/jobs", ranks.show()["spec"])
        self.restart(signal_number)
        after = ranks.summary()
        # A plan may have been found on either side of the end.
        self.assertGreaterEqual(STATES.index(after["state"]), STATES.index(before["state"]))
        for name in ("run", "baseline", "stragglers", "power_cap", "settings"):
            self.assertEqual(after[name], before[name], name)
        self.assertEqual(after["registered"], before["registered"])
        self.assertGreaterEqual(after["plan_version"], before["plan_version"])
        self.assertEqual([each["iteration"] for each in ranks.show("/iterations")["iterations"]],
                         [each["iteration"] for each in iterations])
        return before["state"]


class RunRanks(Ranks):
    """Ranks of a run with a name of its own."""

    def __init__(self, test, run):
        self.run = run
        super().__init__(test, pp=2)

    def call(self, method, path, body=None, key=None):
        if method == "POST" and path == "/v1/jobs":
            body = {**body, "run": self.run, "model": self.run}
        return super().call(method, path, body, key)


class Ends(ServerTest):
    def wait_for_a_plan(self, answers):
        """In a thread: a long poll that nothing but the server's end ends."""
        def ask():
            answers.append(self.request("GET", self.poll, key=self.key, checked=False))

        thread = threading.Thread(target=ask)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def register(self):
        job = self.ok("POST", "/v1/jobs", JOB)["job"]
        body = {"rank": 0, "pp_rank": 0, "dp_rank": 0, "tp_rank": 0, "instance": "i", "host": "h"}
        self.key = self.ok("POST", f"/v1/jobs/{job}/ranks", body)["rank_key"]
        self.poll = f"/v1/jobs/{job}/plan?rank=0&wait_s=60"

    def test_waiting_ranks_are_answered_and_streams_end(self):
        self.start()
        self.register()
        answers = []
        polls = [self.wait_for_a_plan(answers) for _ in range(10)]
        streams = [Events(self) for _ in range(10)]
        wait_until(lambda: self.waiting() == 10, "all of them wait")
        self.assertEqual(self.end(), 0)  # which closes connections that are not answered, long before the polls end
        for poll in polls:
            poll.join(PATIENCE_S)
        self.assertEqual([answer.status for answer in answers], [204] * 10)
        wait_until(lambda: all(stream.ended for stream in streams), "the streams end")

    def waiting(self):
        text = self.request("GET", "/metrics").text
        return sum(float(line.split()[-1]) for line in text.splitlines()
                   if not line.startswith("#") and "waiting" in line and "perseus" not in line)

    def time_to_end_when_asked_twice(self):
        self.start()
        with self.connect() as connection:
            # A request at hand.
            connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            time.sleep(0.2)
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            self.assertIsNone(self.process.poll())
            before = time.monotonic()
            self.assertEqual(self.end(), 0)
            return time.monotonic() - before

    def test_asked_twice_it_ends_at_once(self):
        # Asked once, it would wait 3.5 s for the request. The shortest of several: any one may be held up by the machine.
        self.assertTrue(any(self.time_to_end_when_asked_twice() < 2 for _ in range(5)))

    def test_a_request_at_hand_is_finished(self):
        self.start()
        body = json.dumps(JOB).encode()
        with self.connect() as connection:
            connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (TOKENS["admin"].encode(), len(body), body[:10]))
            time.sleep(0.2)
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            connection.sendall(body[10:])
            self.assertIn(b"503", connection.recv(4096).partition(b"\r\n")[0])  # draining: no new job
        self.assertEqual(self.process.wait(PATIENCE_S), 0)


class Starting(ServerTest):
    def test_a_signal_at_any_moment_of_the_start_ends_it(self):
        command = self.command()
        for moment in range(24):
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(0.004 * moment)
            server.send_signal(signal.SIGTERM)
            try:
                _, said = server.communicate(timeout=PATIENCE_S)  # one that is lost lets it serve for ever
            except subprocess.TimeoutExpired:
                server.kill()
                server.communicate()
                self.fail(f"the signal of moment {moment} was lost")
            self.assertIn(server.returncode, (0, -signal.SIGTERM), said)
        self.start()
        self.assertEqual(self.end(), 0)


class LargeJobs(ServerTest):
    """A job whose plan takes a minute: 16 stages of 4096 microbatches."""

    def planned_for(self):
        """How many jobs are planned for at present."""
        [line] = [line for line in self.request("GET", "/metrics").text.splitlines()
                  if line.startswith('lowgear_server_planned_jobs{state="running"}')]
        return float(line.split()[-1])

    def test_others_are_planned_for_meanwhile_and_it_ends_at_once(self):
        self.start()
        large = TrainingRanks(f"http://{ADDRESS}:{self.port}", TOKENS["train"], pp=16, run="large", model="large",
                              microbatches=4096)
        for rank in range(large.pp):
            large.register(rank)
        wait_until(lambda: large.train(1) or self.planned_for() > 0, "there is a profile to plan with")
        small = Ranks(self, pp=2, run="small", model="small")
        for rank in range(2):
            small.register(rank)
        small.train_to_state("running")
        self.assertNotEqual(self.ok("GET", f"/v1/jobs/{large.job}")["job"]["state"], "running")
        self.assertEqual(self.end(), 0)
        self.start()
        # Its plan was given up, and is to be made again.
        self.assertNotEqual(self.ok("GET", f"/v1/jobs/{large.job}")["job"]["state"], "running")
        self.assertEqual(self.ok("GET", f"/v1/jobs/{small.job}")["job"]["state"], "running")


class FinishedJobs(ServerTest):
    """Jobs of the largest size that the server takes, one after the other. LOWGEAR_FINISHED_JOBS=150 makes the figures
    of docs/serving.md, and prints them."""

    jobs = int(os.environ.get("LOWGEAR_FINISHED_JOBS", "12"))

    def rss_mb(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no VmRSS")

    def finish_one(self, number):
        spec = {**JOB, "run": f"run-{number}", "parallel": {"pp": 1}, "microbatches": 500_000}
        job = self.ok("POST", "/v1/jobs", spec)["job"]
        rank = {"rank": 0, "pp_rank": 0, "dp_rank": 0, "tp_rank": 0, "instance": "i", "host": "h"}
        key = self.ok("POST", f"/v1/jobs/{job}/ranks", rank)["rank_key"]
        report = {"plan_version": 0, "time_s": 1, "compute_s": 1}
        self.ok("POST", f"/v1/jobs/{job}/reports",
                {"rank": 0, "reports": [{"iteration": iteration, **report} for iteration in range(5)]}, key=key)
        self.ok("POST", f"/v1/jobs/{job}/finish", {"rank": 0}, key=key)
        return job, key

    def test_they_cost_no_memory_and_stay_readable(self):
        self.start()
        job, key = self.finish_one(0)
        before_mb = self.rss_mb()
        for number in range(1, self.jobs):
            self.finish_one(number)
        after_mb = self.rss_mb()
        # Before, each kept its schedule of 11 MB.
        self.assertLess(after_mb, before_mb + 40)
        self.read(job, key)
        self.end()
        begin = time.monotonic()
        self.start()
        restart_s = time.monotonic() - begin
        if "LOWGEAR_FINISHED_JOBS" in os.environ:
            print(f"{self.jobs} jobs: {before_mb:.0f} MB after the first, {after_mb:.0f} MB after the last, "
                  f"{self.rss_mb():.0f} MB and {restart_s:.2f} s after a restart")
        self.read(job, key)

    def read(self, job, key):
        shown = self.ok("GET", f"/v1/jobs/{job}", role="read")
        self.assertEqual(shown["job"]["state"], "finished")
        self.assertEqual(shown["spec"]["microbatches"], 500_000)
        self.assertEqual([rank["last_iteration"] for rank in shown["ranks"]], [4])
        iterations = self.ok("GET", f"/v1/jobs/{job}/iterations?after=2", role="read")["iterations"]
        self.assertEqual([each["iteration"] for each in iterations], [3, 4])
        self.ok("GET", f"/v1/jobs/{job}/frontier", role="read")
        self.ok("GET", f"/v1/jobs/{job}/timeline", role="read")
        self.assertTrue(self.ok("GET", f"/v1/jobs/{job}/decisions", role="read")["decisions"])
        self.assertIn(job, [each["job"] for each in self.ok("GET", "/v1/jobs", role="read")["jobs"]])
        self.refused(409, "job_over", "POST", f"/v1/jobs/{job}/reports", {"rank": 0, "reports": []}, key=key)
        self.refused(409, "job_over", "POST", f"/v1/jobs/{job}/settings", {"guard_pct": 3})
        self.assertEqual(self.ok("POST", f"/v1/jobs/{job}/finish", {"rank": 0}, key=key), {"state": "finished"})
        self.assertEqual(self.ok("DELETE", f"/v1/jobs/{job}"), {"state": "finished"})

    def test_larger_ones_are_refused(self):
        self.start()
        self.refused(413, "too_large", "POST", "/v1/jobs",
                     {**JOB, "parallel": {"pp": 1}, "microbatches": 500_001})


class LockedDatabase(ServerTest):
    """Another program holds the database, as a backup that goes wrong does."""

    def test_nothing_is_acknowledged_and_health_says_so(self):
        self.start()
        self.ok("POST", "/v1/jobs", JOB)
        with contextlib.closing(sqlite3.connect(self.state / "server.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            self.refused(503, "busy", "POST", "/v1/jobs", {**JOB, "run": "other"})
            self.assertEqual(self.request("GET", "/healthz").json, {"status": "store_busy"})
            other.execute("ROLLBACK")
        wait_until(lambda: self.request("GET", "/healthz").status == 200, "the server notices that it may write")
        self.assertIn(self.request("POST", "/v1/jobs", {**JOB, "run": "other"}).status, (200, 201))


class DamagedRows(ServerTest):
    def test_a_job_continues_without_them(self):
        self.start()
        ranks = Ranks(self, pp=2)
        for rank in range(2):
            ranks.register(rank)
        ranks.train(5)
        self.end()
        with contextlib.closing(sqlite3.connect(self.state / "server.db")) as database, database:
            database.execute("UPDATE reports SET document = 'x' || document WHERE rank = 1 AND first_iteration = 2")
            self.assertEqual(database.total_changes, 1)
        self.start()
        self.assertIn("reports of rank 1 from iteration 2 on", (self.folder / "log").read_text())
        self.assertEqual(ranks.summary()["registered"], 2)
        ranks.train(2)


class TakenPlaces(ServerTest):
    def refused_start(self, config, text):
        path = self.folder / "second.yaml"
        path.touch(0o600)
        path.write_text(config)
        ended = subprocess.run([LOWGEAR, "serve", "--config", str(path)], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertNotEqual(ended.returncode, 0)
        self.assertEqual(len(ended.stderr.strip().splitlines()), 1, ended.stderr)
        self.assertIn(text, ended.stderr)

    def test_state_port_and_socket_of_another_server(self):
        self.start()
        other = self.folder / "other"
        self.refused_start(f'state: "{self.state}"\nlisten: {{unix: "{self.folder}/socket2"}}\n', str(self.state))
        self.refused_start(f'state: "{other}"\nlisten: {{unix: "{self.folder}/socket2", tcp: ["{ADDRESS}:{self.port}"]}}\n', str(self.port))
        self.refused_start(f'state: "{other}"\nlisten: {{unix: "{self.folder}/socket"}}\n', "socket")
        self.ok("GET", "/healthz")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / "socket"))  # still its own


if __name__ == "__main__":
    unittest.main()
