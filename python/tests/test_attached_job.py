"""`lowgear run` on jobs that know nothing of it: processes, environments and exit codes as users see them, the real
library, agent and simulated GPUs, and an engine with the shape of DeepSpeed's."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "examples"))
from modelled_profile import write_profile  # noqa: E402: the examples are no package

BINARY = os.environ.get("LOWGEAR_BINARY")
SITE = HERE.parent / "lowgear" / "site"


@unittest.skipUnless(BINARY, "SKIPPED: needs the program `lowgear` (LOWGEAR_BINARY)")
class Attached(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lg-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("LOWGEAR_") or name == "LOWGEAR_LIBRARY"}
        self.environment = {**kept, "PYTHONPATH": str(HERE / "job"), "PYTHONDONTWRITEBYTECODE": "1",
                            "LOWGEAR_NVML": "/no/such/library", "LOWGEAR_AGENT_SOCKET": ""}

    def run_attached(self, *command, options=None, **more):
        words = [BINARY, "run", *(options or ("--record", str(self.folder / "recordings"))), "--", *map(str, command)]
        return subprocess.run(words, capture_output=True, text=True, check=False,
                              env={**self.environment, **more})

    def run_plainly(self, *command):
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False,
                              env=self.environment)

    def script(self, text):
        path = self.folder / "script.py"
        path.write_text(text)
        return path

    def units(self, rank):
        with open(self.folder / "recordings" / f"rank-{rank:05d}" / "units.csv", newline="") as file:
            return list(csv.DictReader(file))


class Jobs(Attached):
    def train(self, *words, **more):
        return self.run_attached(sys.executable, HERE / "job" / "train.py", *words, **more)

    def test_every_unit_of_training_is_recorded_and_no_other(self):
        run = self.train(2, 5, "evaluates")
        self.assertEqual(run.returncode, 0, run.stderr)
        orders = {0: ["f0", "f1", "b0", "f2", "b1", "f3", "b2", "b3"], 1: ["f0", "b0", "f1", "b1", "f2", "b2", "f3", "b3"]}
        for rank, order in orders.items():
            rows = self.units(rank)
            self.assertEqual([f"{row['instruction'][0]}{row['microbatch']}" for row in rows], order * 5)
            self.assertEqual({row["stage"] for row in rows}, {str(rank)})
            self.assertEqual([int(row["iteration"]) for row in rows], sorted(list(range(5)) * 8))
        self.assertEqual(run.stderr.count("lowgear: attached to deepspeed"), 1)
        self.assertNotIn("nothing attached", run.stderr)

    def test_losses_are_the_same_bits(self):
        plain = self.run_plainly(sys.executable, HERE / "job" / "train.py", 2, 5)
        self.assertEqual(plain.stdout.count("loss"), 2, plain.stderr)
        self.assertEqual(sorted(self.train(2, 5).stdout.split("\n")), sorted(plain.stdout.split("\n")))

    def test_an_order_that_differs_is_said_once_by_the_rank_that_has_seen_it(self):
        run = self.train(2, 6, "reorders")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stderr.count("measuring only"), 1)
        self.assertIn("the job ran 9 units, the schedule lists 8: then came forward of microbatch 4 on stage 1", run.stderr)
        self.assertEqual(len(self.units(1)), 6 * 8 + 1)

    def test_exceptions_and_exit_codes_are_the_jobs_own(self):
        raised = self.train(1, 6, "raises")
        self.assertEqual(raised.returncode, 1)
        self.assertIn("RuntimeError: the job's own error\n", raised.stderr)
        self.assertNotIn("During handling", raised.stderr)
        self.assertEqual(self.failure("recordings"), "RuntimeError")
        for how, status in (("exits", 7), ("leaves", 3)):
            exited = self.train(1, 6, how, options=("--record", str(self.folder / how)))
            self.assertEqual(exited.returncode, status)
            self.assertEqual(self.failure(how), f"exit status {status}")
        self.train(1, 6, options=("--record", str(self.folder / "good")))
        self.assertIsNone(self.failure("good"))

    def failure(self, recording):
        header = json.loads((self.folder / recording / "rank-00000" / "recording.json").read_text())
        self.assertTrue(header["ended"])
        return header.get("failure")

    def test_a_version_that_is_not_known_is_refused_and_the_job_continues(self):
        copy = self.folder / "changed"
        for path in (HERE / "job").rglob("*.py"):
            target = copy / path.relative_to(HERE / "job")
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text()
            target.write_text(text.replace("buffer_id", "buffers") if "pipe" in str(path) else text)
        run = self.run_attached(sys.executable, copy / "train.py", 2, 5)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.count("loss"), 2)
        self.assertEqual(run.stderr.count("measuring only"), 1)
        self.assertIn(f"{copy}/deepspeed/runtime/pipe/engine.py (deepspeed version 0.0.test)", run.stderr)
        self.assertIn("_exec_forward_pass(self, buffers) has no parameter buffer_id", run.stderr)

    def test_a_recording_that_cannot_be_made_is_said_and_the_job_runs(self):
        run = self.train(1, 3, options=("--record", "/proc/none"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("this job is not measured: /proc/none", run.stderr)
        self.assertRegex(run.stderr, r"nothing attached: /proc/none[^\n]*\n\Z")

    def test_a_plan_that_does_not_fit_is_said_and_the_job_is_measured(self):
        plan = self.folder / "plan.json"
        plan.write_text("{}")
        run = self.train(1, 3, options=("--plan", str(plan), "--record", str(self.folder / "recordings")))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"measuring only, the GPU's clocks are its own: {plan}", run.stderr)
        self.assertEqual(len(self.units(0)), 3 * 8)

    def test_a_library_that_is_missing_is_said_and_the_job_runs(self):
        run = self.train(1, 3, LOWGEAR_LIBRARY="/no/such/liblowgear.so")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("this job is not measured: liblowgear.so is not found", run.stderr)
        self.assertEqual(run.stderr.count("lowgear:"), 2)
        self.assertIn("lowgear: warning: nothing attached: liblowgear.so is not found", run.stderr)
        self.assertNotIn("no process", run.stderr)

    def test_a_library_that_is_another_one_is_said_and_the_job_runs(self):
        text = self.folder / "libtext.so"
        text.write_text("no library\n")
        for library, said in (("libm.so.6", "libm.so.6 is not liblowgear.so: it lacks lowgear_abi_version; set LOWGEAR_LIBRARY"),
                              (str(text), f"liblowgear.so cannot be loaded ({text}: ")):
            run = self.train(1, 3, LOWGEAR_LIBRARY=library)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(f"this job is not measured: {said}", run.stderr)
            self.assertEqual(run.stderr.count("lowgear:"), 2)


class Processes(Attached):
    def assert_only_nothing_attached(self, run, stdout):
        self.assertEqual((run.returncode, run.stdout), (0, stdout), run.stderr)
        self.assertRegex(run.stderr, r"\Alowgear: warning: nothing attached: [^\n]*\n\Z")

    def test_python_without_a_framework_is_as_it_was(self):
        script = self.script("import sys; print(sorted(name for name in sys.modules if 'lowgear' in name.lower()))")
        run = self.run_attached(sys.executable, script)
        self.assert_only_nothing_attached(run, "['_lowgear_importing']\n")

    def test_imports_are_watched_only_where_a_variable_asks(self):
        script = self.script("import sys; print([type(each).__name__ for each in sys.meta_path].count('AfterImport'))")
        for variables, watched in (({}, 0), ({"LOWGEAR_RECORDING": "x"}, 1),
                                   ({"LOWGEAR_RECORDING": "x", "LOWGEAR_ATTACH": "0"}, 0)):
            run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True,
                                 env={**self.environment, "PYTHONPATH": str(SITE), **variables})
            self.assertEqual(run.stdout, f"{watched}\n")

    def test_children_inherit_it_and_isolated_ones_do_not(self):
        script = self.script(
            "import subprocess, sys\n"
            "print('_lowgear_importing' in sys.modules, flush=True)\n"
            "if len(sys.argv) < 4:\n"
            "    options = ['-I'] if len(sys.argv) == 3 else []\n"
            "    subprocess.run([sys.executable, *options, *sys.argv, 'deeper'], check=True)\n")
        run = self.run_attached(sys.executable, script)
        self.assert_only_nothing_attached(run, "True\nTrue\nTrue\nFalse\n")

    def test_the_sitecustomize_that_it_hides_runs(self):
        hidden = self.folder / "hidden"
        hidden.mkdir()
        (hidden / "sitecustomize.py").write_text("VALUE = 'of the site'\n")
        script = self.script("import sitecustomize; print(sitecustomize.VALUE, sitecustomize.__file__)")
        run = self.run_attached(sys.executable, script, PYTHONPATH=str(hidden))
        self.assertEqual(run.stdout, f"of the site {hidden}/sitecustomize.py\n", run.stderr)

    def installed(self, name):
        """The `site` folder of another installation."""
        package = self.folder / name / "lowgear"
        shutil.copytree(SITE.parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.so*"))
        return package / "site"

    def user_site(self, name, text=""):
        """A folder with a sitecustomize that writes its name into a file when it runs."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(f"open({str(self.folder / 'ran')!r}, 'a').write({name + ' '!r})\n{text}")
        return folder

    def what_runs(self, *path):
        """The names of users' sitecustomize that run when the folders are in PYTHONPATH."""
        (self.folder / "ran").write_text("")
        script = self.script("import sys; print([type(finder).__name__ for finder in sys.meta_path].count('AfterImport'))")
        run = self.run_attached(sys.executable, script, PYTHONPATH=":".join(map(str, path)))
        self.assert_only_nothing_attached(run, "1\n")
        return (self.folder / "ran").read_text().split()

    def test_of_several_installations_one_attaches_and_the_users_sitecustomize_runs_once(self):
        debian, wheel, users = self.installed("debian"), self.installed("wheel"), self.user_site("users")
        link = self.folder / "link"
        link.symlink_to(debian)
        linked_package = self.folder / "linked"
        linked_package.symlink_to(SITE.parent)
        archive = self.folder / "zipped.zip"
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr("sitecustomize.py", f"open({str(self.folder / 'ran')!r}, 'a').write('zipped ')\n")
        self.assertEqual(self.what_runs(debian, wheel), [])
        for path in ([SITE, users], [debian, users], [debian, wheel, users], [users, debian, wheel], [debian, users, wheel],
                     [link, debian, users], [linked_package / "site", users], [os.path.relpath(SITE), users, wheel],
                     ["", debian, users, users]):
            with self.subTest(path=path):
                self.assertEqual(self.what_runs(*path), ["users"])
        self.assertEqual(self.what_runs(wheel, archive, users), ["zipped"])
        other = self.user_site("other")
        self.assertEqual(self.what_runs(other, debian, users), ["other"], "as without Lowgear: the first of them")

    def test_commands_that_attach_within_each_other_attach_once(self):
        self.user_site("users")
        script = self.script("import sys; print([type(finder).__name__ for finder in sys.meta_path].count('AfterImport'))")
        words = [BINARY, "run", "--record", str(self.folder / "inner"), "--", sys.executable, script]
        run = self.run_attached(*words, PYTHONPATH=str(self.folder / "users"))
        self.assert_only_nothing_attached(run, "1\n")
        self.assertEqual((self.folder / "ran").read_text(), "users ")

    def test_a_sitecustomize_that_runs_the_one_it_hides_does_so_once(self):
        tool = self.user_site("tool", "import os, sys\n"
                                      "del sys.modules['sitecustomize']\n"
                                      "own = os.path.dirname(__file__)\n"
                                      "kept, sys.path = sys.path, [entry for entry in sys.path if entry != own]\n"
                                      "import sitecustomize\n"
                                      "sys.path = kept\n")
        users = self.user_site("users")
        self.assertEqual(self.what_runs(tool, users), ["tool", "users"])
        self.assertEqual(self.what_runs(tool, self.installed("wheel"), users), ["tool", "users"])
        self.assertEqual(self.what_runs(users, tool), ["users"])

    def test_what_the_hidden_one_raises_is_its_own(self):
        hidden = self.folder / "hidden"
        hidden.mkdir()
        (hidden / "sitecustomize.py").write_text("raise ValueError('of the site')\n")
        script = self.script("print('runs')")
        environment = {"PYTHONPATH": str(hidden)}
        run = self.run_attached(sys.executable, script, **environment)
        self.assertEqual((run.returncode, run.stdout), (0, "runs\n"))
        self.assertIn("ValueError: of the site", run.stderr)

    def test_a_program_that_marks_by_itself_is_left_alone(self):
        script = self.script(
            "import runpy, sys, lowgear\n"
            f"client = lowgear.Client(recording={str(self.folder / 'own')!r})\n"
            f"sys.argv[0] = {str(HERE / 'job' / 'train.py')!r}\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')\n"
            "client.close()\n")
        run = self.run_attached(sys.executable, script, 1, 3, RANK="0", WORLD_SIZE="1",
                                PYTHONPATH=f"{HERE.parent}:{HERE / 'job'}")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("not measured: the program has a lowgear.Client of its own", run.stderr)
        self.assertFalse((self.folder / "recordings").exists())

    def test_an_interrupt_arrives_once(self):
        ready = self.folder / "ready"
        script = self.script(
            "import signal, sys, time\n"
            "count = []\n"
            "signal.signal(signal.SIGINT, lambda *_: count.append(1))\n"
            f"open({str(ready)!r}, 'w').close()\n"
            f"while not __import__('os').path.exists({str(ready) + '2'!r}): time.sleep(0.01)\n"
            "print(len(count)); sys.exit(5)\n")
        process = subprocess.Popen([BINARY, "run", "--record", str(self.folder / "r"), "--", sys.executable, script],
                                   stdout=subprocess.PIPE, text=True, env=self.environment, process_group=0)
        while not ready.exists():
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        time.sleep(0.2)
        Path(str(ready) + "2").touch()
        out, _ = process.communicate()
        self.assertEqual((out, process.returncode), ("1\n", 5))

    def test_the_line_in_a_script_does_the_same(self):
        package = self.folder / "site"
        package.mkdir()
        (package / "lowgear").symlink_to(HERE.parent / "lowgear")
        script = self.script("import lowgear.auto, runpy, sys\n"
                             f"sys.argv[0] = {str(HERE / 'job' / 'train.py')!r}\n"
                             "runpy.run_path(sys.argv[0], run_name='__main__')\n")
        run = subprocess.run([sys.executable, script, "1", "3"], capture_output=True, text=True,
                             check=False, env={**self.environment, "PYTHONPATH": f"{package}:{HERE / 'job'}",
                                               "LOWGEAR_RECORDING": str(self.folder / "recordings"), "RANK": "0",
                                               "WORLD_SIZE": "1"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(self.units(0)), 3 * 8)


@unittest.skipUnless(os.environ.get("LOWGEAR_NVML", "").endswith(".so.1"), "SKIPPED: needs simulated GPUs (LOWGEAR_NVML)")
class WithSimulatedGpus(Attached):
    def setUp(self):
        super().setUp()
        self.environment.update(
            LOWGEAR_NVML=os.environ["LOWGEAR_NVML"], JOB_SIMULATION=os.environ["LOWGEAR_NVML"],
            LOWGEAR_SIMGPU=str(self.folder / "machine"), LOWGEAR_AGENT_SOCKET=str(self.folder / "lease.sock"))
        self.lowgear("simgpu", "create", "--gpus", "2xH100", "--any-user")
        config = self.folder / "agent.yaml"
        config.write_text(
            f'journal: "{self.folder}/journal"\nsockets: {{lease_socket: "{self.folder}/lease.sock", http_socket: "{self.folder}/agent.sock"}}\n'
            "gpu: [{id: all}]\nallow: [{everybody: true}]\n")
        config.chmod(0o600)
        agent = subprocess.Popen([BINARY, "agent", "--config", str(config)], env=self.environment,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.send_signal, signal.SIGTERM)
        while agent.poll() is None:
            with socket.socket(socket.AF_UNIX) as connection:
                if connection.connect_ex(str(self.folder / "lease.sock")) == 0:
                    return
            time.sleep(0.05)
        self.fail("the agent did not start")

    def lowgear(self, *words):
        result = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, env=self.environment,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class OnSimulatedGpus(WithSimulatedGpus):
    def make_plan(self):
        """A folder of plans for train.py on two ranks."""
        write_profile(self.folder / "profile.csv")
        plan = self.folder / "plan"
        self.lowgear("plan", "--profile", self.folder / "profile.csv", "--stages", 2, "--microbatches", 4, "--schedule",
                     "1f1b", "--blocking-power", 116, "--plans", 4, "--out", plan)
        return plan

    def test_a_job_follows_a_plan(self):
        plan = self.make_plan()
        run = self.run_attached(
            sys.executable, HERE / "job" / "train.py", 2, 6, options=("--plan", str(plan), "--slowdown", "10", "--record",
                                                                      str(self.folder / "recordings")))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("measuring only", run.stderr)
        with open(plan / "plans.csv", newline="") as file:
            plans = [(float(row["time_s"]), int(row["plan"])) for row in csv.DictReader(file)]
        number = max(row for row in plans if row[0] <= 1.1 * min(plans)[0])[1]
        said = f"lowgear: the plan that this job asks for is {plan}/plans/{number:05d}.json\n"
        self.assertEqual(run.stderr.count(said), 1, run.stderr)
        stages = json.loads((plan / "plans" / f"{number:05d}.json").read_text())["stages"]
        gpus = json.loads(self.lowgear("simgpu", "show", "--json"))["gpus"]
        for rank in range(2):
            planned = {op["mhz"] for op in stages[rank]["ops"]}
            self.assertGreater(gpus[rank]["writes"], 0)
            self.assertIsNone(gpus[rank]["locked_sm_clocks_mhz"], "the clocks went back")
            seen = {int(row["frequency"]) for row in self.units(rank) if row["frequency"]}
            self.assertTrue(planned & seen, f"planned {planned}, seen {seen}")

    def test_a_recording_that_is_there_is_kept_and_the_plan_is_followed_all_the_same(self):
        recordings = self.folder / "recordings"
        (recordings / "rank-00000").mkdir(parents=True)
        options = ("--plan", str(self.make_plan()), "--record", str(recordings))
        run = self.run_attached(sys.executable, HERE / "job" / "train.py", 1, 6, options=options)
        self.assertEqual(run.returncode, 0, run.stderr)
        before, after = run.stderr.split("lowgear: attached to deepspeed")
        self.assertIn("it has a recording", before)
        self.assertEqual(after.count(f"lowgear: not recorded: {recordings}/rank-00000: there is a recording already"), 1)
        self.assertNotIn("not measured", run.stderr)
        self.assertEqual([path.name for path in recordings.rglob("*")], ["rank-00000"])

    def test_a_recording_that_is_there_keeps_no_job_from_its_server(self):
        recordings = self.folder / "recordings"
        (recordings / "rank-00000").mkdir(parents=True)
        options = ("--server", f"unix:{self.folder}/none.sock", "--record", str(recordings))
        run = self.run_attached(sys.executable, HERE / "job" / "train.py", 1, 3, options=options)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("lowgear: attached to deepspeed", run.stderr)
        self.assertIn("no plan was followed in 3 iterations: ", run.stderr)
        strict = self.run_attached(sys.executable, "-c", "print('started')", options=("--strict", *options))
        self.assertEqual((strict.returncode, strict.stdout), (1, ""))

    def test_a_plan_waits_while_the_job_runs_another_schedule(self):
        run = self.run_attached(
            sys.executable, HERE / "job" / "train.py", 2, 6, "ramps=2", "returns=4",
            options=("--plan", str(self.make_plan()), "--record", str(self.folder / "recordings")))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("measuring only", run.stderr)
        for rank in range(2):
            followed = [set() for _ in range(6)]
            for row in self.units(rank):
                followed[int(row["iteration"])].add(row["frequency"] != "0")
            # The agent may read an iteration's first marks late on a busy machine: the second of each pair counts.
            self.assertEqual([True in one for one in followed][1::2], [True, False, True], followed)
            self.assertNotIn(True, followed[2], followed)


if __name__ == "__main__":
    unittest.main()
