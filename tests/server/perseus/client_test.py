#!/usr/bin/env python3
"""perseus/client_test.py PERSEUS_SERVER_FIXTURE: trains as clients of Perseus and Zeus do, against the real server.

Facts, not code, from ml-energy/zeus: perseus/perseus/client/api.py and models.py (branch kronos: paths, members, that
every status but 200 is an error, `timeout=None` for the schedule and 5 s for all else), the loop of Merak's trainer
(ml-energy/merak-zeus: ask, train a window, report, ask; `[profiling-done]` in the error ends training), and
zeus/optimizer/pipeline_frequency (Zeus' client: `/register_rank/{job_id}`, `frequencies`, asks once).
"""

import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from urllib.parse import quote, urlencode

FIXTURE = sys.argv.pop(1)
CLOCKS = list(range(1410, 1200, -15))
MICROBATCHES = 4


class ServerError(RuntimeError):
    """What the client raises for every status but 200, with the status and the text in it."""


class Server:
    """The server in a process of its own; `kill` ends it as a crash would."""

    def __init__(self, folder, scheduler, arguments=None, mode="unspecified"):
        self._command = [FIXTURE, str(folder), scheduler, json.dumps(arguments or {}), mode]
        self.start()

    def start(self):
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self._process.stdout.readline())

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def stop(self):
        self._process.stdin.close()
        code = self._process.wait()
        self._process.stdout.close()
        assert code == 0, f"the server ended with {code}"

    def ask(self, method, path, parameters=None, body=None):
        """One request on a connection of its own, as httpx' module-level functions send it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive",
                   "User-Agent": "python-httpx/0.24.1"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        query = "?" + urlencode(parameters) if parameters else ""
        try:
            connection.request(method, quote(path, safe="/+") + query, content, headers)
            response = connection.getresponse()
            text = response.read().decode()
            if response.status != 200:
                raise ServerError(f"Perseus server returned status code {response.status}: {text}")
            return json.loads(text)
        finally:
            connection.close()


class Layout:
    """Degrees of parallelism, and which rank is where: data parallelism innermost, which is not Merak's order."""

    def __init__(self, pp, dp, tp):
        self.pp, self.dp, self.tp = pp, dp, tp
        self.world = pp * dp * tp

    def of(self, rank):
        return {"dp_rank": rank % self.dp, "tp_rank": rank // self.dp % self.tp, "pp_rank": rank // self.dp // self.tp}


def pipe_schedule(stages, stage):
    schedule = []
    warm_up = min(stages - stage, MICROBATCHES)
    backwards = 0
    for forward in range(MICROBATCHES):
        schedule += ["load" if stage == 0 else "p2p", "forward", "p2p"]
        if forward + 1 >= warm_up:
            schedule += ["p2p", "backward"]
            backwards += 1
    schedule += ["p2p", "backward"] * (MICROBATCHES - backwards)
    return schedule + ["cc", "step", "other"]


def window_of(instructions, states, stage):
    """What three iterations took: longer at lower clocks; energies by instruction are empty, as Merak leaves them."""
    times = {"load": [], "forward": [], "backward": []}
    energies = {"load": [], "forward": [], "backward": []}
    for _ in range(3):
        each = {"load": [], "forward": [], "backward": []}
        for instruction, state in zip(instructions, states):
            if instruction in each:
                each[instruction].append((1 + 0.1 * stage) * 20.0 / state)
        for name, values in each.items():
            times[name].append(values)
            if name != "load":
                energies[name].append([])
    busy = sum(times["forward"][0]) + sum(times["backward"][0])
    joules = busy * (100 + 250 * (max(states) / CLOCKS[0]) ** 3) + 0.02 * 80
    return {"iter_time": [busy + 0.02] * 3, "iter_energy": [joules] * 3, "time_breakdown": times,
            "energy_breakdown": energies}


class Rank(threading.Thread):
    """One rank of Merak: registers, then runs windows until the server ends training."""

    def __init__(self, job, rank):
        super().__init__(daemon=True)
        self.job, self.rank = job, rank
        self.states, self.error, self.ended = [], None, False

    def run(self):
        try:
            self._train()
        except Exception as error:  # shown by the test
            self.error = error
            self.job.registered.abort()

    def _train(self):
        job = self.job
        place = job.layout.of(self.rank)
        schedule = pipe_schedule(job.layout.pp, place["pp_rank"])
        if self.rank == 0:
            job.register()
        job.registered.wait()  # stands for the broadcast of the id
        assert job.server.ask("POST", "/register_rank", body={
            "job_id": job.id, "rank": self.rank, **place, "pipe_schedule": schedule,
            "power_state_range": CLOCKS}) is None
        while len(self.states) < job.windows:
            try:
                reply = job.server.ask("GET", f"/schedule/{job.id}", {"rank": self.rank})
            except ServerError as error:
                self.ended = "[profiling-done]" in error.args[0]
                if not self.ended:
                    raise
                return
            assert reply["rank"] == self.rank
            assert len(reply["power_states"]) == len(schedule)
            self.states.append(reply["power_states"])
            job.at_window(self.rank, len(self.states))
            assert job.server.ask("POST", f"/result/{job.id}", body={
                "rank": self.rank, **window_of(schedule, self.states[-1], place["pp_rank"])}) is None


class Job:
    def __init__(self, server, layout, windows=1000):
        self.server, self.layout, self.windows = server, layout, windows
        self.registered = threading.Barrier(layout.world)
        self.at_window = lambda rank, window: None

    def register(self):
        layout = self.layout
        self.id = self.server.ask("POST", "/register_job", body={
            "job_id": "", "pp_degree": layout.pp, "dp_degree": layout.dp, "tp_degree": layout.tp,
            "world_size": layout.world, "framework": "merak", "model_name": "gpt3-xl", "partition_method": "uniform",
            "microbatch_size": 4, "num_microbatches": MICROBATCHES})
        assert isinstance(self.id, str)

    def train(self):
        ranks = [Rank(self, rank) for rank in range(self.layout.world)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        return ranks


class PerseusClient(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="lowgear-perseus-")
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)

    def serve(self, *arguments):
        server = Server(self.folder, *arguments)
        self.addCleanup(server.stop)
        return server

    def train(self, job):
        ranks = job.train()
        for rank in ranks:
            if rank.error:
                raise rank.error
        return ranks

    def test_info_says_which_knob_clients_turn(self):
        server = self.serve("ZeusGlobalPowerLimit")
        info = server.ask("GET", "/info")
        self.assertEqual(info["mode"], "power limit")
        self.assertEqual(set(info), {"scheduler", "scheduler_args", "log_level", "mode", "dump_data", "dump_dir"})

    def test_profiling_runs_every_clock_and_ends_training(self):
        server = self.serve("InstructionProfiler", {"minimum_power_state": 1300, "blocking_power_w": 80}, "frequency")
        job = Job(server, Layout(pp=2, dp=2, tp=1))
        ranks = self.train(job)
        clocks = [1410, 1410] + [clock for clock in CLOCKS if clock >= 1300]
        for rank in ranks:
            self.assertTrue(rank.ended)
            self.assertEqual([states[0] for states in rank.states], clocks)
        dump = self.folder / "dump" / job.id
        rows = (dump / "merak+gpt3-xl+uniform+dp2+tp1+pp2+mbs4+nmb4.csv").read_text().splitlines()
        self.assertEqual(len(rows), 1 + 2 * 2 * (len(clocks) - 2))
        self.assertEqual(len(json.loads((dump / "3.prof.json").read_text())), 4)

    def test_plans_reach_every_rank_of_their_stage(self):
        for number, clock in enumerate((1395, 1380)):
            stages = [[clock - 15 * stage] * (2 * MICROBATCHES) for stage in range(3)]
            (self.folder / f"freqs_pipeline_{number:05}.py").write_text(f"{stages}\n# Iteration 0: total cost 1.0 \n")
        server = self.serve("PointSolution3D", {"solution_path": str(self.folder), "warmup_iters": 1}, "frequency")
        layout = Layout(pp=3, dp=2, tp=2)
        for rank in self.train(Job(server, layout)):
            stage = layout.of(rank.rank)["pp_rank"]
            self.assertEqual([states[0] for states in rank.states], [1410, 1395 - 15 * stage, 1380 - 15 * stage])

    def test_a_scheduler_that_cannot_serve_the_job_is_heard_by_every_rank(self):
        server = self.serve("ZeusLocalPowerState", {}, "frequency")
        for rank in Job(server, Layout(pp=2, dp=2, tp=1)).train():
            self.assertIn("status code 400", str(rank.error))
            self.assertIn("ZeusLocalPowerState3D", str(rank.error))

    def test_lowgear_plans_and_training_continues(self):
        server = self.serve("Lowgear", {"blocking_power_w": 80, "clocks": 4, "warmup_iters": 1,
                                        "minimum_power_state": 1200})
        ranks = self.train(Job(server, Layout(pp=3, dp=1, tp=1), windows=8))
        for rank in ranks:
            self.assertEqual(rank.states[5], rank.states[7])
        # The last stage is the slowest; others have time to spare.
        self.assertLess(min(ranks[0].states[7]), CLOCKS[0])

    def test_a_killed_server_continues_where_it_was(self):
        server = self.serve("InstructionProfiler", {"minimum_power_state": 1300, "blocking_power_w": 80}, "frequency")
        job = Job(server, Layout(pp=2, dp=1, tp=1))
        trained = threading.Barrier(job.layout.world)

        def crash_while_training(rank, window):
            if window not in (2, 5):
                return
            trained.wait()  # no rank has a request under way
            if rank == 0:
                server.kill()
                server.start()
            trained.wait()

        job.at_window = crash_while_training
        clocks = [1410, 1410] + [clock for clock in CLOCKS if clock >= 1300]
        for rank in self.train(job):
            self.assertTrue(rank.ended)
            self.assertEqual([states[0] for states in rank.states], clocks)

    def test_zeus_registers_clocks_and_gets_names(self):
        plan = [[("forward", 1395), ("backward", 1380)], [("forward", 1410), ("backward", 1365)]]
        (self.folder / "plan.py").write_text(repr(plan))
        server = self.serve("PointSolution", {"solution_path": str(self.folder / "plan.py")}, "frequency")
        job = server.ask("POST", "/register_job", body={
            "job_id": "", "pp_degree": 2, "dp_degree": 1, "tp_degree": 1, "world_size": 2, "job_metadata": None})
        for rank in range(2):
            self.assertIsNone(server.ask("POST", f"/register_rank/{job}", body={
                "rank": rank, "dp_rank": 0, "pp_rank": rank, "tp_rank": 0, "available_frequencies": CLOCKS}))
        replies = [None, None]

        def ask(rank):
            replies[rank] = server.ask("GET", f"/schedule/{job}", {"rank": rank})

        other = threading.Thread(target=ask, args=(1,))
        other.start()
        ask(0)
        other.join()
        self.assertEqual(replies, [{"rank": rank, "frequencies": [list(pair) for pair in plan[rank]]}
                                   for rank in range(2)])


if __name__ == "__main__":
    unittest.main()
