#!/usr/bin/env python3
"""The real, unmodified clients and scripts of Perseus and Zeus against `lowgear serve`, and Perseus' own server beside it.

Follows the README of Perseus' artifact from step 1 to step 3 and Zeus' example of its pipeline frequency optimizer, with
simulated kernels in place of the model. PEERS names the folder in which their code lies; without it, or without their
dependencies, every test is skipped.
"""

import glob
import importlib.util
import json
import math
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package

STAND_INS = HERE.parents[1] / "stand_ins"
PEERS = pathlib.Path(os.environ["PEERS"])
PERSEUS = PEERS / "perseus" / "perseus"
ZEUS = PEERS / "zeus"
LOWGEAR = os.environ["LOWGEAR_BINARY"]
MODULES = ("aiofiles", "fastapi", "httpx", "numpy", "pandas", "pydantic", "uvicorn")
SKIP_CODE = 77
MICROBATCHES = 4
PARTITION = "custom:0,12,24"


def why_not():
    """Why these tests cannot run here; None when they can."""
    for path in (PERSEUS / "perseus" / "server" / "main.py", ZEUS / "zeus" / "optimizer" / "pipeline_frequency"):
        if not path.exists():
            return f"{path} is not there"
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    return f"{sys.executable} has no {', '.join(missing)}: apt-get install python3-NAME" if missing else None


class Server:
    """A server that Perseus' own script has started: theirs, or Lowgear where the script calls uvicorn."""

    def __init__(self, test, name, port=0):
        self._test = test
        self.name = name
        self.folder = test.folder / name
        self.folder.mkdir(exist_ok=True)
        self.log = self.folder / "log"
        self.port = port

    def start(self, *arguments):
        """`bash scripts/run_server.sh ARGUMENTS` with nothing changed, in a folder of its own."""
        environment = {**self._test.environment, "PORT": str(self.port), "PYTHONPATH": f"{PERSEUS}:{STAND_INS}",
                       "PATH": f"{self._test.folder / (self.name + '-bin')}:{os.environ['PATH']}",
                       "ZEUS_PFO_DUMP_DATA": "false"}
        began = self.log.stat().st_size if self.log.exists() else 0
        self.ended, inherited = os.pipe()  # reads its end when no process of the script has the other one any more
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["bash", str(PERSEUS / "scripts" / "run_server.sh"), *arguments],
                                            cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True, pass_fds=[inherited])
        os.close(inherited)
        self._test.addCleanup(os.close, self.ended)
        self._test.addCleanup(self.end)
        listening = re.compile(r"http://127\.0\.0\.1:(\d+)")
        wait_until(lambda: listening.search(self.text()[began:]) or self.process.poll() is not None, self.text)
        found = listening.search(self.text()[began:])
        self._test.assertTrue(found, self.text())
        self.port = int(found.group(1))
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def text(self):
        return self.log.read_text(errors="replace")

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)  # of the session that was made for it
            wait_until(lambda: self.process.poll() is not None, lambda: f"run_server.sh ends: {self.text()}")
            # The server itself is a child of the script, and ends after it.
            wait_until(lambda: select.select([self.ended], [], [], 0)[0], lambda: f"the server ends: {self.text()}")

    def results(self, job):
        return self.folder / "dump" / job


class PeersTest(unittest.TestCase):
    gpus = "2xA100"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "lib").mkdir()
        (self.folder / "lib" / "libnvidia-ml.so.1").symlink_to(os.environ["LOWGEAR_NVML"])
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(self.folder / "lib"),
                            "LOWGEAR_SIMGPU": str(self.folder / "machine"), "LOWGEAR_SIMGPU_GPUS": self.gpus,
                            # The clients read all certificates before every request, also of plain HTTP: here, none.
                            "SSL_CERT_FILE": "", "SSL_CERT_DIR": str(self.folder / "lib"),
                            "PYTHONDONTWRITEBYTECODE": "1"}
        self.make_uvicorn("perseus", f'exec "{sys.executable}" -m uvicorn "$1" --host 127.0.0.1 --port "$PORT"')
        self.make_uvicorn("lowgear", f'''exec "{LOWGEAR}" serve --json --config server.yaml --unix "$PWD/socket" \\
  --perseus-listen "127.0.0.1:$PORT" --perseus-scheduler "$PERSEUS_SCHEDULER" \\
  --perseus-args "$PERSEUS_SCHEDULER_ARGS" --perseus-mode "$PERSEUS_MODE" --perseus-dump-dir dump''')
        (self.folder / "lowgear").mkdir()
        config = self.folder / "lowgear" / "server.yaml"
        config.touch(0o600)
        config.write_text(f'state: "{self.folder}/lowgear/state"\n')
        self.jobs = 0

    def make_uvicorn(self, name, command):
        """What run_server.sh finds as `uvicorn`. It names any address; tests listen on the loopback interface alone."""
        path = self.folder / f"{name}-bin" / "uvicorn"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o700)

    def serve(self, name, *arguments):
        return Server(self, name).start(*arguments)

    def begin(self, program, server, pp=2, dp=1, **settings):
        """Starts all ranks of a job: the folder that they meet in, and their processes."""
        self.jobs += 1
        group = self.folder / f"job-{self.jobs}"
        group.mkdir()
        settings = {"pp": pp, "dp": dp, "tp": 1, "microbatches": MICROBATCHES, "iterations": 3, "url": server.url,
                    "partition": PARTITION, "perseus": str(PERSEUS), "zeus": str(ZEUS), "stand_ins": str(STAND_INS),
                    "out": str(group), **settings}
        ranks = []
        for rank in range(pp * dp):
            log = open(group / f"log-{rank}", "wb")
            self.addCleanup(log.close)
            environment = {**self.environment, "RANK": str(rank), "STAND_IN_GROUP": str(group)}
            ranks.append(subprocess.Popen([sys.executable, str(HERE / "peer_rank.py"), program, json.dumps(settings)],
                                          env=environment, stdout=log, stderr=subprocess.STDOUT))
            self.addCleanup(self.end_rank, ranks[-1])
        return group, ranks

    @staticmethod
    def end_rank(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    @staticmethod
    def logs(group):
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')}" for path in sorted(group.glob("log-*")))

    def finish(self, group, ranks):
        """What each rank says of itself when it has ended well. When one fails, others may wait for it without end."""
        def codes():
            return [process.poll() for process in ranks]

        wait_until(lambda: None not in codes() or any(codes()), lambda: f"ranks end, {codes()} so far: {self.logs(group)}")
        self.assertFalse(any(codes()), self.logs(group))
        return [json.loads((group / f"rank-{rank}.json").read_text()) for rank in range(len(ranks))]

    def train(self, program, server, **settings):
        return self.finish(*self.begin(program, server, **settings))

    def refusals(self, program, server, **settings):
        """What each rank prints of the error that it ends with."""
        group, ranks = self.begin(program, server, **settings)
        for process in ranks:
            wait_until(lambda: process.poll() is not None, lambda: f"ranks end: {self.logs(group)}")
            self.assertNotEqual(process.returncode, 0)
        return [(group / f"log-{rank}").read_text(errors="replace") for rank in range(len(ranks))]

    def lowgear(self, *arguments):
        return subprocess.run([LOWGEAR, *arguments], capture_output=True, text=True, env=self.environment,
                              timeout=PATIENCE_S, check=False)

    # --- what is in a folder of results

    def read_json(self, path):
        return json.loads(pathlib.Path(path).read_text())

    def read_profile(self, folder):
        import pandas

        [path] = folder.glob("*.csv")
        table = pandas.read_csv(path)
        return table.sort_values(["stage", "instruction", table.columns[2]]).reset_index(drop=True)

    def expect_close(self, ours, theirs, where):
        """Equal, but for the last digits of numbers."""
        if isinstance(theirs, dict):
            self.assertEqual(set(ours), set(theirs), where)
            for key, value in theirs.items():
                self.expect_close(ours[key], value, f"{where}/{key}")
        elif isinstance(theirs, list):
            self.assertEqual(len(ours), len(theirs), where)
            for i, value in enumerate(theirs):
                self.expect_close(ours[i], value, f"{where}/{i}")
        elif isinstance(theirs, float):
            self.assertTrue(math.isclose(ours, theirs, rel_tol=1e-12), f"{where}: {ours} and {theirs}")
        else:
            self.assertEqual(ours, theirs, where)

    def expect_same_results(self, ours, theirs):
        """Both servers have left the same of the same job; the time at which they got it is no part of that."""
        self.assertRegex(ours.name, r"^\d{4}(-\d\d){5}\+")
        self.assertEqual(ours.name.partition("+")[2], theirs.name.partition("+")[2])
        self.assertEqual({path.name for path in ours.iterdir()}, {path.name for path in theirs.iterdir()})
        for path in theirs.glob("*.json"):
            our_file, their_file = self.read_json(ours / path.name), self.read_json(path)
            if path.name == "perseus.json":
                self.assertTrue(their_file.pop("dump_dir").endswith("dump") and our_file.pop("dump_dir").endswith("dump"))
                self.assertEqual((our_file.pop("log_level"), their_file.pop("log_level")), ("INFO", "DEBUG"))
            if path.name == "ranks.json":
                self.assertEqual([rank.pop("job_id") for rank in our_file], [ours.name] * len(our_file))
                self.assertEqual([rank.pop("job_id") for rank in their_file], [theirs.name] * len(their_file))
            self.expect_close(our_file, their_file, path.name)

    def expect_same_profile(self, ours, theirs):
        import pandas

        pandas.testing.assert_frame_equal(self.read_profile(ours), self.read_profile(theirs), check_dtype=False,
                                          rtol=1e-12)


class PerseusReadme(PeersTest):
    def run_both(self, *arguments, **settings):
        """The same job on both servers: what Lowgear's and Perseus' own have left, and what the ranks ran."""
        folders, ran = [], []
        for name in ("lowgear", "perseus"):
            server = self.serve(name, *arguments)
            ranks = self.train("perseus", server, **settings)
            folders.append(server.results(ranks[0]["job"]))
            ran.append([rank["ran"] for rank in ranks])
            server.end()
        self.assertEqual(ran[0], ran[1])
        return (*folders, ran[0])

    def frontier_of(self, data):
        """Time and energy of every plan, read as the artifact's plot.py reads them: by the end of the folder's name."""
        sys.path.insert(0, str(PERSEUS))
        sys.path.insert(0, str(STAND_INS))
        self.addCleanup(sys.path.remove, str(PERSEUS))
        self.addCleanup(sys.path.remove, str(STAND_INS))
        from perseus.utils.analysis import total_time_and_energy
        from perseus.utils.state import load_info, load_prof, load_ranks, load_sched

        name = f"merak+gpt3-large+{PARTITION}+dp1+pp2+tp1+mbs4+nmb{MICROBATCHES}"
        [folder] = glob.glob(f"{data}/*{name}+PointSolution")
        self.assertEqual(load_info(folder).scheduler, "PointSolution")
        self.assertEqual([rank.rank for rank in load_ranks(folder)], [0, 1])
        windows = len(glob.glob(f"{folder}/*.prof.json"))
        self.assertEqual([sched.rank for sched in load_sched(folder, windows - 1)], [0, 1])
        return [total_time_and_energy(load_prof(folder, i)) for i in range(2, windows)]

    def test_steps_1_to_3(self):
        # Step 1, word for word. Merak reports no energies by instruction, so there are none in the profile.
        ours, theirs, ran = self.run_both("InstructionProfiler", "{}", "frequency", iterations=5)
        self.expect_same_results(ours, theirs)
        self.expect_same_profile(ours, theirs)
        clocks = sorted({states[0] for states in ran[0]}, reverse=True)
        self.assertGreater(len(clocks), 30)
        self.assertGreaterEqual(min(clocks), 850)
        self.assertEqual([states[0] for states in ran[0]], [clocks[0]] * 2 + clocks)
        applied = (self.folder / "job-1" / "0.freqevents.csv").read_text().split("\n")[1:-1]
        self.assertLessEqual(set(clocks), {int(line.partition(",")[0]) for line in applied})
        profile = self.read_profile(ours)
        self.assertEqual(len(profile), 2 * 2 * len(clocks))
        self.assertTrue(profile["energy"].isna().all())
        [path] = ours.glob("*.csv")
        refused = self.lowgear("plan", "--profile", str(path), "--stages", "2", "--microbatches", str(MICROBATCHES),
                               "--blocking-power", "80", "--out", str(self.folder / "none"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("blocking_power_w", refused.stderr)

        # With the power of a waiting GPU, Lowgear divides the energies that Merak does report.
        server = self.serve("lowgear", "InstructionProfiler", '{"blocking_power_w": 80, "minimum_power_state": 1100}',
                            "frequency")
        [first, _] = self.train("perseus", server)
        server.end()
        [path] = server.results(first["job"]).glob("*.csv")
        self.assertFalse(self.read_profile(path.parent)["energy"].isna().any())

        # Step 2: plans, number 0 the slowest.
        results = self.folder / "results"
        planned = self.lowgear("plan", "--profile", str(path), "--stages", "2", "--microbatches", str(MICROBATCHES),
                               "--blocking-power", "80", "--plans", "3", "--perseus-format", "--out", str(results))
        self.assertEqual(planned.returncode, 0, planned.stderr)
        sampled = self.folder / "sampled"
        sampled.mkdir()
        plans = sorted(results.glob("freqs_pipeline_*.py"))
        self.assertEqual([plan.name for plan in plans], [f"freqs_pipeline_0000{i}.py" for i in range(3)])
        for plan in plans:
            shutil.copy(plan, sampled)

        # Step 3: every plan in the order of names, measured, and read by the artifact's own functions.
        ours, theirs, ran = self.run_both("PointSolution", json.dumps({"solution_path": str(sampled)}), "frequency")
        self.expect_same_results(ours, theirs)
        self.assertEqual(len(ran[0]), 2 + len(plans))
        points = self.frontier_of(ours.parent)
        self.assertEqual(points, self.frontier_of(theirs.parent))
        self.assertEqual(len(points), len(plans))
        self.assertEqual(points, sorted(points, reverse=True))  # slowest first
        self.assertLess(points[0][1], points[-1][1])

    def test_baselines_of_zeus(self):
        ours, theirs, _ = self.run_both("ZeusGlobalPowerLimit", "{}", "power limit")
        self.assertTrue((ours / "ZeusGlobalPowerLimit.json").exists())
        self.expect_same_results(ours, theirs)

    def test_results_survive_a_kill(self):
        arguments = ("InstructionProfiler", '{"minimum_power_state": 1300}', "frequency")
        server = self.serve("lowgear", *arguments)
        [first, _] = self.train("perseus", server)
        undisturbed = server.results(first["job"])
        group, ranks = self.begin("perseus", server, hold_at=4)
        wait_until(lambda: len(list(group.glob("held-*"))) == 2, server.text)
        server.end(signal.SIGKILL)
        (server.folder / "socket").unlink(missing_ok=True)
        server.start(*arguments)
        (group / "go").touch()
        [first, _] = self.finish(group, ranks)
        killed = server.results(first["job"])
        self.assertNotEqual(killed, undisturbed)
        self.assertEqual({path.name for path in killed.iterdir()}, {path.name for path in undisturbed.iterdir()})
        for path in undisturbed.glob("*.prof.json"):
            self.assertEqual((killed / path.name).read_text(), path.read_text())
        [profile] = undisturbed.glob("*.csv")
        self.assertEqual((killed / profile.name).read_text(), profile.read_text())


class ZeusOptimizer(PeersTest):
    def plan(self, dialect, microbatches=MICROBATCHES):
        """The faster of two plans of two stages, for the clocks of the simulated GPUs."""
        rows = ["stage,instruction,frequency,time,energy"]
        for stage in range(2):
            for instruction, work in (("forward", 1), ("backward", 2)):
                for mhz in range(1410, 1000, -45):
                    time_s = work * (1 + 0.3 * stage) * (0.01 + 20 / mhz)
                    rows.append(f"{stage},{instruction},{mhz},{time_s},{time_s * (120 + 250 * (mhz / 1410) ** 3)}")
        profile = self.folder / "profile.csv"
        profile.write_text("\n".join(rows) + "\n")
        out = self.folder / dialect
        planned = self.lowgear("plan", "--profile", str(profile), "--stages", "2", "--microbatches", str(microbatches),
                               "--blocking-power", "80", "--plans", "2", "--perseus-format", dialect, "--out", str(out))
        self.assertEqual(planned.returncode, 0, planned.stderr)
        return out / "freqs_pipeline_00001.py"

    def locked_mhz(self):
        shown = self.lowgear("simgpu", "show", "--json")
        return [gpu["locked_sm_clocks_mhz"] for gpu in json.loads(shown.stdout)["gpus"]]

    def start_agent(self):
        """In the place of Zeus' daemon, over the simulated GPUs."""
        config = self.folder / "agent.yaml"
        config.touch(0o600)
        config.write_text(
            f'journal: "{self.folder}/journal"\nsockets: {{lease_socket: "{self.folder}/lease.sock", '
            f'http_socket: "{self.folder}/agent.sock"}}\ngpu: [{{id: all}}]\n'
            "allow: [{everybody: true, power: true, memory_clocks: true}]\n")
        log = open(self.folder / "agent.log", "wb")
        self.addCleanup(log.close)
        agent = subprocess.Popen([LOWGEAR, "agent", "--config", str(config)], stdout=log, stderr=subprocess.STDOUT,
                                 env=self.environment)
        self.addCleanup(self.end_rank, agent)
        wait_until(lambda: (self.folder / "agent.sock").exists() or agent.poll() is not None,
                   (self.folder / "agent.log").read_text)

    def serve_plan(self, path, scheduler="PointSolution"):
        return self.serve("lowgear", scheduler, json.dumps({"solution_path": str(path)}), "frequency")

    def test_runs_a_plan_from_end_to_end(self):
        path = self.plan("zeus")
        server = self.serve_plan(path)
        ranks = self.train("zeus", server)
        expected = eval(path.read_text())  # as Zeus' own server reads it
        self.assertEqual([rank["frequencies"] for rank in ranks],
                         [[list(pair) for pair in stage] for stage in expected])
        self.assertGreater(len({mhz for _, mhz in ranks[0]["frequencies"]}), 1)
        self.assertRegex(ranks[0]["job"], r"\+dp1\+pp2\+tp1\+PointSolution\+gpt3-large$")
        [registered] = server.folder.glob("dump/*/ranks.json")
        self.assertEqual(self.read_json(registered)[1]["pp_rank"], 1)
        self.assertEqual(self.locked_mhz(), [None, None])

    def test_runs_a_plan_through_the_agent(self):
        self.start_agent()
        self.environment["ZEUSD_SOCK_PATH"] = str(self.folder / "agent.sock")
        ranks = self.train("zeus", self.serve_plan(self.plan("zeus")))
        self.assertEqual(len(ranks), 2)
        wait_until(lambda: self.locked_mhz() == [None, None], self.locked_mhz)

    def test_runs_a_plan_with_replicas(self):
        self.environment["LOWGEAR_SIMGPU_GPUS"] = "4xA100"
        server = self.serve_plan(self.plan("zeus"), "PointSolution3D")
        ranks = self.train("zeus", server, dp=2, iterations=1)
        self.assertEqual(ranks[0]["frequencies"], ranks[2]["frequencies"])
        self.assertNotEqual(ranks[0]["frequencies"], ranks[1]["frequencies"])

    def test_says_which_plans_it_needs(self):
        for error in self.refusals("zeus", self.serve_plan(self.plan("artifact"))):
            self.assertIn("status code 400", error)
            self.assertIn("--perseus-format zeus", error)


if __name__ == "__main__":
    REASON = why_not()
    if REASON:
        print(f"SKIPPED: {REASON}; the real clients of Perseus and Zeus were not tried")
        sys.exit(SKIP_CODE)
    unittest.main(verbosity=2)
