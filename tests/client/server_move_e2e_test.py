"""Jobs of the real client library, on simulated GPUs with the real agent, whose server moves from one machine (a loopback
address with a state folder of its own) to another and back by `lowgear serve backup --final` and `restore`, at random
moments, stopped or killed. No rank may stop, no report may be lost or count twice.

server_move_e2e_test.py [MOVES [SEED]] runs more moves; it then prints what it measured."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.with_name("agent")))
sys.path.insert(0, str(Path(__file__).parent.with_name("server")))
from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until  # noqa: E402
from served import ADDRESS, TOKEN_LINES, TOKENS, Answer  # noqa: E402
from training_ranks import TrainingRanks  # noqa: E402

RANK = str(Path(__file__).with_name("moving_server_rank.py"))
JOBS, RANKS = 3, 2
MOVES, SEED = 3, 1
PORT = 7787
JOB = {"model": "m", "partition": "uniform", "gpu": "NVIDIA A100-SXM4-80GB", "schedule": "1f1b",
       "parallel": {"pp": 1, "dp": RANKS, "tp": 1, "chunks": 1}, "microbatches": 2, "microbatch_size": 2,
       "guard_pct": 500, "profile": None}


class Machine:
    """An address and a state folder; `lowgear serve` on them."""

    def __init__(self, folder, address, tokens):
        self.folder, self.address, self.process = folder, address, None
        folder.mkdir(mode=0o700)
        self.state = folder / "state"
        self.config = folder / "server.yaml"
        self.config.touch(0o600)
        self.config.write_text(f'state: "{self.state}"\nlisten: {{unix: "{folder}/socket", tcp: ["{address}:{PORT}"], '
                               f'token_file: "{tokens}"}}\nretention: {{iterations: 100000}}\n')

    @property
    def url(self):
        return f"http://{self.address}:{PORT}"

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([LOWGEAR, "serve", "--config", str(self.config)], stdout=subprocess.PIPE,
                                            stderr=log, text=True)
        if not self.process.stdout.readline().startswith("serving"):
            raise AssertionError((self.folder / "log").read_text())

    def end(self, number):
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        if number == signal.SIGTERM and code != 0:
            raise AssertionError(f"the server ended with {code}: {(self.folder / 'log').read_text()}")

    def state_command(self, *words):
        return subprocess.run([LOWGEAR, "serve", *words, "--config", str(self.config)], capture_output=True, text=True,
                              timeout=PATIENCE_S)

    def get(self, path):
        from http.client import HTTPConnection
        connection = HTTPConnection(self.address, PORT, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {TOKENS['admin']}"})
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {answer.text}")
        return answer.json

    def stored(self):
        """Iterations of each (job, rank) that the database has, sorted; what is stored twice is there twice."""
        database = sqlite3.connect(f"file:{self.state}/server.db?mode=ro", uri=True)
        try:
            reports = {}
            for job, rank, document in database.execute("SELECT job, rank, document FROM reports"):
                reports.setdefault((job, rank), []).extend(each["iteration"] for each in json.loads(document)["reports"])
            return {key: sorted(iterations) for key, iterations in reports.items()}
        finally:
            database.close()


class ServerThatMoves(AgentTest):
    gpus = f"{JOBS * RANKS}xA100"

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.start_agent()
        tokens = self.folder / "tokens"
        tokens.touch(0o600)
        tokens.write_text(TOKEN_LINES)
        self.token = self.folder / "train_token"
        self.token.touch(0o600)
        self.token.write_text(TOKENS["train"])
        # The second address is this process' own, too: served.py leaves these to it.
        first, _, rest = ADDRESS.removeprefix("127.").partition(".")
        self.here = Machine(self.folder / "a", ADDRESS, tokens)
        self.there = Machine(self.folder / "b", f"127.{int(first) + 64}.{rest}", tokens)
        self.here.start()
        self.addCleanup(self.end_server)
        self.measure_profile()
        self.ranks = {}

    def end_server(self):
        if self.here.process.poll() is None:
            self.here.end(signal.SIGKILL)

    def measure_profile(self):
        """By a job of the same model, as it would take these minutes."""
        ranks = TrainingRanks(self.here.url, TOKENS["train"], pp=1, run="profiled", model="m",
                              microbatches=JOB["microbatches"], gpu=JOB["gpu"])
        ranks.register(0)
        self.until(lambda: ranks.train(1) or self.here.get("/v1/jobs")["jobs"][0]["state"] == "running",
                   "a profile is measured")
        ranks.call("POST", f"/v1/jobs/{ranks.job}/finish", {"rank": 0}, ranks.keys[0])

    def until(self, condition, what):
        wait_until(condition, lambda: f"{what}; {self.here.get('/v1/jobs')}")

    def start_ranks(self):
        servers = f"{self.here.url},{self.there.url}"
        environment = {**os.environ, "LOWGEAR_AGENT_SOCKET": str(self.folder / "lease.sock"),
                       "LOWGEAR_SERVER_TOKEN_FILE": str(self.token)}
        for job in range(JOBS):
            for rank in range(RANKS):
                self.ranks[f"run-{job}", rank] = self.start(
                    [sys.executable, RANK, str(rank), str(RANKS), servers, json.dumps({**JOB, "run": f"run-{job}"}),
                     str(job * RANKS + rank)], stdin=subprocess.PIPE, env=environment)
        for process in self.ranks.values():
            line = process.stdout.readline().strip()
            self.assertEqual(line, "ready", process.stderr.read() if not line else "")

    def jobs(self):
        """Summaries of the jobs that train, by the names of their runs."""
        return {job["run"]: job for job in self.here.get("/v1/jobs")["jobs"] if job["run"] != "profiled"}

    def move(self, number):
        """Returns what the database had acknowledged, and for how long no server served."""
        begin = time.monotonic()
        self.here.end(number)
        acknowledged = self.here.stored()
        file = self.folder / f"backup-{time.monotonic_ns()}"
        for machine, words in ((self.here, ["backup", "--final"]), (self.there, ["restore"])):
            result = machine.state_command(*words, str(file))
            self.assertEqual(result.returncode, 0, result.stderr)
        self.there.start()
        away_s = time.monotonic() - begin
        self.here, self.there = self.there, self.here
        again = self.there.state_command("run")
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("have moved", again.stderr)
        return acknowledged, away_s

    def stop_ranks(self):
        """Ends training, not the ranks; returns what each did."""
        for process in self.ranks.values():
            self.assertIsNone(process.poll(), "a rank has ended")
            process.stdin.write("stop\n")
            process.stdin.flush()
        return {key: json.loads(process.stdout.readline()) for key, process in self.ranks.items()}

    def check_ranks_end(self):
        for process in self.ranks.values():
            process.stdin.close()
        for key, process in self.ranks.items():
            end = json.loads(process.stdout.readline())
            self.assertEqual(process.wait(PATIENCE_S), 0, key)
            self.assertEqual((end["reports_lost"], end["connected"]), (0, True), end)

    def check_reports(self, did, jobs):
        """Each iteration of each rank is stored and counts once."""
        def last(run, rank):
            document = self.here.get(f"/v1/jobs/{jobs[run]['job']}")
            return next(each["last_iteration"] for each in document["ranks"] if each["rank"] == rank)

        for (run, rank), done in did.items():
            self.until(lambda: last(run, rank) == done["iterations"] - 1, f"all of {run}, rank {rank}, is reported")
        def missing():
            stored = self.here.stored()
            return {(run, rank): lost for (run, rank), done in did.items()
                    if (lost := set(range(done["iterations"])) - set(stored[jobs[run]["job"], rank]))}

        # The server shows an iteration before it is on the disk, and acknowledges it after.
        wait_until(lambda: not missing(), lambda: f"all iterations are stored, not without {missing()}")
        for run, job in jobs.items():
            shown = [each["iteration"] for each in self.here.get(f"/v1/jobs/{job['job']}/iterations?limit=1000")["iterations"]]
            self.assertEqual(shown, sorted(set(shown)), "an iteration of the job counts twice")
            self.assertGreater(len(shown), 0)

    def test_loses_no_report_and_stops_no_rank(self):
        self.start_ranks()
        self.until(lambda: len(self.jobs()) == JOBS and all(job["plan_version"] for job in self.jobs().values()),
                   "all jobs train")
        jobs = self.jobs()
        moves = []
        for move in range(MOVES):
            time.sleep(self.random.uniform(0.2, 3))
            number = (signal.SIGTERM, signal.SIGKILL)[move % 2]
            acknowledged, away_s = self.move(number)
            moves.append((away_s, acknowledged))
            latest = {key: iterations[-1] for key, iterations in acknowledged.items()}
            self.until(lambda: all(self.here.stored()[key][-1] > last for key, last in latest.items()),
                       "all ranks have found the server")
        did = self.stop_ranks()
        self.check_reports(did, jobs)
        self.assertEqual({run: job["job"] for run, job in self.jobs().items()},
                         {run: job["job"] for run, job in jobs.items()}, "the same jobs, nothing registered anew")
        stored = self.here.stored()
        for _, acknowledged in moves:
            for key, iterations in acknowledged.items():
                self.assertEqual(set(iterations) - set(stored[key]), set(), "acknowledged and lost")
        longest_away_s = max(away_s for away_s, _ in moves)
        self.check_ranks_end()
        print(f"{MOVES} moves (seed {SEED}), {JOBS} jobs of {RANKS} ranks: {sum(each['iterations'] for each in did.values())} "
              f"reports, none lost, none twice; no rank stopped: the longest time between two ends of 50 ms iterations was "
              f"{max(each['longest_gap_s'] for each in did.values()):.2f} s, the server was away for up to "
              f"{longest_away_s:.2f} s, {sum(away_s for away_s, _ in moves):.1f} s in all")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        MOVES = int(sys.argv.pop(1))
        if len(sys.argv) > 1 and sys.argv[1].isdigit():
            SEED = int(sys.argv.pop(1))
    unittest.main()
