"""The core of the adapters: the importer, the wrapper, and the marks of a process."""

import json
import importlib
import inspect
import os
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
from pathlib import Path

from lowgear.adapters import core, job, plans
from lowgear.adapters.importing import AfterImport
from lowgear.adapters.job import Job, Place
from lowgear.adapters.marks import FRAMEWORK, OPTIMIZER, PIPELINE
from lowgear.adapters.wrapping import Unsupported, is_wrapped, wrap
from stand_ins import Observed

UNITS = [("forward", 0, 0), ("forward", 0, 1), ("backward", 0, 0), ("backward", 0, 1)]


def one_stage(units=UNITS):
    return Job("test", Place(0, 1), [list(units)], 2)


class Imports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        self.seen = []
        self.importer = AfterImport(["observed_one"], lambda name, module: self.seen.append((name, module.VALUE)))
        self.addCleanup(lambda: sys.meta_path.remove(self.importer))
        self.addCleanup(lambda: sys.modules.pop("observed_one", None))
        (self.folder / "observed_one.py").write_text("VALUE = 1\n")
        (self.folder / "other_one.py").write_text("from observed_one import VALUE\n")
        importlib.invalidate_caches()

    def test_a_module_is_seen_after_it_was_executed_whoever_imports_it(self):
        self.importer.install()
        import other_one

        self.assertEqual(self.seen, [("observed_one", 1)])
        self.assertEqual(inspect.getsource(sys.modules["observed_one"]), "VALUE = 1\n")
        self.assertEqual(other_one.VALUE, 1)

    def test_a_module_is_seen_again_when_it_is_executed_again(self):
        self.importer.install()
        module = importlib.import_module("observed_one")
        importlib.reload(module)
        self.assertEqual(len(self.seen), 2)

    def test_a_module_that_is_there_already_is_seen_at_once(self):
        importlib.import_module("observed_one")
        self.importer.install()
        self.assertEqual(len(self.seen), 1)

    def test_what_a_module_raises_passes(self):
        (self.folder / "observed_one.py").write_text("raise OSError('its own')\n")
        self.importer.install()
        with self.assertRaisesRegex(OSError, "its own"):
            importlib.import_module("observed_one")
        self.assertEqual(self.seen, [])

    def test_a_module_that_is_nowhere_is_missing_as_ever(self):
        (self.folder / "observed_one.py").unlink()
        importlib.invalidate_caches()
        self.importer.install()
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module("observed_one")


class Wrapping(unittest.TestCase):
    def setUp(self):
        self.calls = []
        self.failures = []

    def observer(self, arguments):
        self.calls.append(dict(arguments))
        result = yield
        self.calls.append(result)

    def wrapped(self, function, needs=(), observer=None):
        owner = types.ModuleType("owner")
        owner.function = function
        wrap(owner, "function", needs, observer or self.observer, self.failures.append)
        return owner.function

    def test_arguments_come_by_name_however_they_are_passed(self):
        def function(a, b=2, c=3):
            return a + b + c

        def keyword_only(a, b=2, *, c=3):
            return a + b + c

        for original in (function, keyword_only):
            self.calls.clear()
            wrapped = self.wrapped(original, {"a", "b", "c"})
            self.assertEqual((wrapped(1), wrapped(b=5, a=1), wrapped(1, 2, c=4)), (6, 9, 7))
            self.assertEqual(self.calls, [{"a": 1, "b": 2, "c": 3}, 6, {"a": 1, "b": 5, "c": 3}, 9,
                                          {"a": 1, "b": 2, "c": 4}, 7])
            self.assertEqual((wrapped.__name__, inspect.signature(wrapped)),
                             (original.__name__, inspect.signature(original)))

    def test_a_function_that_lacks_a_parameter_is_refused_by_name(self):
        def function(a):
            pass

        with self.assertRaisesRegex(Unsupported, r"function\(a\) has no parameter b, c"):
            self.wrapped(function, {"a", "b", "c"})
        with self.assertRaisesRegex(Unsupported, "has no nothing"):
            wrap(types.ModuleType("owner"), "nothing", {}, self.observer, self.failures.append)

    def test_a_method_after_a_decorator_that_hides_its_parameters_still_has_its_object(self):
        def hides(function):
            return lambda *args, **kwargs: function(*args, **kwargs)

        class Engine:
            @hides
            def step(self, factor, *, offset=0):
                return factor + offset

        wrap(Engine, "step", {"self"}, self.observer, self.failures.append)
        engine = Engine()
        self.assertEqual(engine.step(2, offset=1), 3)
        self.assertIs(self.calls[0]["self"], engine)
        with self.assertRaisesRegex(Unsupported, "has no parameter factor"):
            wrap(type("Other", (Engine,), {"step": hides(lambda self: None)}), "step", {"factor"}, self.observer,
                 self.failures.append)

    def test_an_exception_of_the_job_passes_as_it_is(self):
        error = KeyboardInterrupt()

        def function():
            raise error

        def observer(arguments):
            try:
                yield
            except GeneratorExit:
                self.calls.append("closed")
                raise

        with self.assertRaises(KeyboardInterrupt) as caught:
            self.wrapped(function, observer=observer)()
        self.assertIs(caught.exception, error)
        self.assertIsNone(error.__context__)
        self.assertEqual((self.calls, self.failures), (["closed"], []))

    def test_an_exception_of_the_observer_does_not(self):
        def before(arguments):
            raise ValueError("before")
            yield

        def after(arguments):
            yield
            raise ValueError("after")

        def closing(arguments):
            try:
                yield
            finally:
                raise ValueError("closing")

        def fails():
            raise OSError("of the job")

        self.assertEqual(self.wrapped(lambda: 1, observer=before)(), 1)
        self.assertEqual(self.wrapped(lambda: 2, observer=after)(), 2)
        with self.assertRaisesRegex(OSError, "of the job"):
            self.wrapped(fails, observer=closing)()
        self.assertEqual([str(error) for error in self.failures], ["before", "after", "closing"])

    def test_a_wrong_call_is_answered_by_the_function(self):
        with self.assertRaisesRegex(TypeError, "missing 1 required positional argument: 'a'"):
            self.wrapped(lambda a: a)()
        for args, kwargs in (((1, 2), {}), ((1,), {"a": 1}), ((1,), {"c": 1}), ((), {"c": 1})):
            with self.assertRaises(TypeError):
                self.wrapped(lambda a: a)(*args, **kwargs)
        self.assertEqual((self.calls, self.failures), ([], []))

    def test_an_observer_may_have_nothing_to_say(self):
        def observer(arguments):
            return
            yield

        self.assertEqual(self.wrapped(lambda: 3, observer=observer)(), 3)
        self.assertEqual(self.failures, [])

    def test_nothing_is_wrapped_twice(self):
        owner = types.ModuleType("owner")
        owner.function = lambda: 1
        for _ in range(2):
            wrap(owner, "function", (), self.observer, self.failures.append)
        owner.function()
        self.assertEqual(len(self.calls), 2)
        self.assertTrue(is_wrapped(owner.function))


class OfAProcess(Observed):
    def iterate(self, units=UNITS, made=None, source="test"):
        self.marks.begin(source, PIPELINE, made or self.job)
        for unit in units:
            self.marks.begin_unit(source, *unit)
            self.marks.end_unit()

    def job(self):
        if not hasattr(self, "made"):
            self.made = one_stage()
        return self.made

    def test_iterations_last_until_the_next(self):
        for _ in range(3):
            self.iterate()
            self.assertTrue(self.session.in_iteration)
        self.assert_all_as_listed(3)
        self.assertEqual(len(self.said), 1)
        self.assertIn("attached to test: pipeline of 1, 4 units", self.said[0])

    def test_the_first_difference_is_named_once_and_measuring_continues(self):
        self.iterate()
        self.iterate(UNITS[:2] + [UNITS[3], UNITS[2]])
        self.iterate()
        self.iterate(UNITS[:1])
        self.marks.pause()
        self.assertEqual(self.session.refusals, ["unit 2: the schedule lists backward of microbatch 0 on stage 0, the "
                                                 "job ran backward of microbatch 1 on stage 0"])
        self.assertEqual(sum("measuring only" in text for text in self.said), 1)
        self.assertEqual(len(self.session.iterations), 4)

    def test_a_unit_too_few_and_too_many(self):
        self.assertIn("next backward of microbatch 1 on stage 0", job.first_difference(UNITS, UNITS[:3]))
        self.assertIn("then came backward of microbatch 1 on stage 0", job.first_difference(UNITS[:3], UNITS))
        self.assertIsNone(job.first_difference(UNITS, list(UNITS)))

    def test_units_outside_of_iterations_are_not_marked(self):
        self.iterate()
        self.marks.pause()
        self.assertFalse(self.marks.begin_unit("test", "forward", 0, 0))
        self.assert_all_as_listed(1)

    def test_what_an_exception_has_cut_off_proves_nothing_and_does_not_end(self):
        self.iterate()
        self.marks.begin("test", PIPELINE, self.job)
        around = self.marks.unit("test", "forward", 0, 0)
        next(around)
        around.close()
        self.iterate()
        self.marks.pause()
        self.assertIsNone(self.marks.refused)
        self.assertEqual([len(units) for units in self.session.iterations], [4, 1, 4])
        self.assertEqual(self.session.ended, [0, 2])

    def test_a_second_thread_is_refused(self):
        self.iterate()
        self.marks.begin("test", PIPELINE, self.job)
        thread = threading.Thread(target=self.marks.begin_unit, args=("test", "forward", 0, 0))
        thread.start()
        thread.join()
        self.assertIn("forward of microbatch 0 on stage 0 runs in a second thread", self.marks.refused)

    def test_another_schedule_is_measured_by_the_same_client(self):
        self.iterate()
        other = one_stage(UNITS[:1])
        self.iterate(UNITS[:1], lambda: other)
        self.iterate(UNITS[:1], lambda: other)
        self.iterate()
        self.marks.pause()
        self.assertIsNone(self.marks.refused)
        self.assertEqual([len(units) for units in self.session.iterations], [4, 1, 1, 4])
        self.assertEqual(len(self.sessions), 1)

    def test_a_plan_that_cannot_wait_for_its_schedule_is_refused(self):
        self.iterate()
        self.session.problem = "an older library"
        other = one_stage(UNITS[:1])
        self.iterate(UNITS[:1], lambda: other)
        self.assertEqual(self.session.refusals, ["an older library"])

    def test_what_every_rank_finds_is_said_by_the_first(self):
        for pp_rank, lines in ((0, 1), (1, 0)):
            self.made = Job("test", Place(pp_rank, 2), [list(UNITS), list(UNITS)], 2)
            self.marks = type(self.marks)(self.open)
            self.iterate()
            self.session.problem_of_all = "the plan is for 3 pipeline ranks"
            self.marks.refuse(self.session.problem_of_all)
            self.assertEqual(sum("measuring only" in text for text in self.said), lines, pp_rank)
            del self.said[:]

    def test_the_adapter_that_knows_most_marks(self):
        for level, source in ((OPTIMIZER, "optimizer"), (FRAMEWORK, "trainer"), (FRAMEWORK, "other"),
                              (PIPELINE, "pipeline"), (OPTIMIZER, "optimizer")):
            self.marks.begin(source, level, self.job)
            self.assertEqual(self.marks.running(source), source in ("optimizer", "trainer", "pipeline")
                             and not (source == "optimizer" and level == OPTIMIZER and self.marks.running("pipeline")))
        self.assertTrue(self.marks.running("pipeline"))

    def test_what_is_refused_before_the_first_iteration_is_given_to_the_client(self):
        self.marks.refuse("no such function")
        self.iterate()
        self.assertEqual(self.session.refusals, ["no such function"])

    def test_only_an_adapter_with_units_keeps_a_job_from_plans(self):
        changed = types.ModuleType("deepspeed.runtime.engine")
        with unittest.mock.patch("lowgear.adapters.core.say", self.said.append):
            core.install("deepspeed.runtime.engine", changed, self.marks)
        self.assertIsNone(self.marks.refused)
        self.assertEqual(len(self.said), 1)
        self.assertRegex(self.said[0], "^not attached to deepspeed.runtime.engine: .* has no DeepSpeedEngine; docs/")
        core.install("deepspeed.runtime.pipe.engine", types.ModuleType("deepspeed.runtime.pipe.engine"), self.marks)
        self.assertIn("has no PipelineEngine", self.marks.refused)

    def test_a_client_that_cannot_be_opened_is_no_concern_of_the_job(self):
        def fails(job, refused, earlier):
            raise OSError("no library")

        marks = type(self.marks)(fails)
        for _ in range(3):
            marks.begin("test", PIPELINE, self.job)
            self.assertFalse(marks.begin_unit("test", *UNITS[0]))
        marks.close()
        self.assertEqual(self.said, ["this job is not measured: no library"])

    def test_the_end_of_the_process_ends_what_is_open(self):
        self.iterate()
        self.marks.close()
        self.assertTrue(self.session.closed)
        self.assertFalse(self.session.in_iteration)
        self.iterate()
        self.assertEqual(len(self.session.iterations), 1)

    def test_the_iteration_in_which_the_process_fails_does_not_end(self):
        self.iterate()
        self.iterate()
        with unittest.mock.patch("sys.last_value", RuntimeError(), create=True):
            self.marks.close()
        self.assertEqual((self.session.ended, self.session.failure), ([0], "RuntimeError"))


class Endings(unittest.TestCase):
    """What a process that ends in some way says of it at its end, in a Python of its own."""

    BEGIN = ("import atexit, sys; from lowgear.adapters.ending import Ending; ending = Ending(); ending.watch(); "
             "atexit.register(lambda: print(ending.failure())); ending.forget()\n")

    def said(self, end):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        ended = subprocess.run([sys.executable, "-c", self.BEGIN + end], env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        return ended.stdout.strip(), ended.returncode

    def test_an_exception_is_named_without_its_text(self):
        self.assertEqual(self.said("raise RuntimeError('a secret')"), ("RuntimeError", 1))
        self.assertEqual(self.said("sys.excepthook = lambda *_: None; {}['a secret']"), ("KeyError", 1))
        self.assertEqual(self.said("raise KeyboardInterrupt")[0], "KeyboardInterrupt")

    def test_an_exit_status_is_named(self):
        self.assertEqual(self.said("sys.exit(3)"), ("exit status 3", 3))
        self.assertEqual(self.said("sys.exit('a secret')"), ("exit status 1", 1))

    def test_a_good_end_is_none(self):
        for end in ("", "sys.exit()", "sys.exit(0)", "try: raise OSError\nexcept OSError: pass"):
            self.assertEqual(self.said(end), ("None", 0), end)

    def test_what_an_iteration_follows_has_ended_nothing(self):
        self.assertEqual(self.said("try: sys.exit(3)\nexcept SystemExit: ending.forget()"), ("None", 0))
        self.assertEqual(self.said("sys.last_value = OSError(); ending.forget()"), ("None", 0))


class ServedProcess(Observed):
    """Of a job that a server plans, which changes its schedule while it runs."""

    is_served = True

    def iterate(self, job, number=None):
        self.marks.begin("test", PIPELINE, lambda: job, number)
        for unit in job.expected:
            self.marks.begin_unit("test", *unit)
            self.marks.end_unit()

    def test_another_schedule_is_another_job_from_its_second_iteration_on(self):
        first, second = one_stage(), one_stage(UNITS[:1])
        for job_now in (first, first, second, second, second, first, first):
            self.iterate(job_now)
        self.marks.pause()
        self.assertIsNone(self.marks.refused)
        self.assertEqual([session.job for session in self.sessions], [first, second, first])
        self.assertEqual([session.earlier for session in self.sessions], [0, 1, 2])
        self.assertEqual([len(session.iterations) for session in self.sessions], [2, 2, 1])
        self.assertEqual([session.closed for session in self.sessions], [True, True, False])
        self.assertEqual(sum("attached to" in text for text in self.said), 3)

    def test_schedules_that_alternate_open_no_client(self):
        first, second = one_stage(), one_stage(UNITS[:1])
        for number in range(6):
            self.iterate((first, second)[number % 2])
        self.assertEqual(len(self.sessions), 1)
        self.assertFalse(self.session.closed)
        self.assertEqual(len(self.session.iterations), 3)
        self.iterate(second)
        self.assertEqual(len(self.sessions), 2)

    def test_an_odd_iteration_now_and_then_is_not_measured_and_changes_nothing(self):
        every, last = one_stage(), one_stage(UNITS[:1])
        for _ in range(3):
            for job_now in (every, every, last):
                self.iterate(job_now)
        self.assertEqual([len(units) for units in self.session.iterations], [4] * 6)
        self.assertEqual(len(self.sessions), 1)
        self.assertIsNone(self.marks.refused)

    def test_a_rank_that_refuses_takes_part_in_the_next_job_and_refuses_there(self):
        other = one_stage(UNITS[:1])
        self.iterate(one_stage())
        self.marks.refuse("a reason")
        self.iterate(other)
        self.iterate(other)
        self.marks.pause()
        self.assertEqual([session.job for session in self.sessions][1:], [other])
        self.assertTrue(self.sessions[0].closed)
        self.assertTrue(self.session.is_served)
        self.assertEqual(self.session.refusals, ["a reason"])


class OfAJob(unittest.TestCase):
    def test_the_specification_says_what_all_ranks_say(self):
        orders = [[("forward", 0, 0), ("input_gradient", 0, 0), ("weight_gradient", 0, 0)],
                  [("forward", 1, 0), ("backward", 1, 0)]]
        specs = []
        for rank in range(2):
            with unittest.mock.patch.object(sys, "argv", ["train.py", f"--local_rank={rank}", "--lr", "1"]):
                specs.append(job.job_spec(Job("test", Place(rank, 2, 1, 3), orders, 1, 4)))
        self.assertEqual(specs[0], specs[1])
        self.assertEqual(specs[0]["schedule"], {"csv": "0F0,0I0,0W0\n1F0,1B0\n"})
        self.assertEqual(specs[0]["parallel"], {"pp": 2, "dp": 3, "tp": 1, "chunks": 1})
        with unittest.mock.patch.object(sys, "argv", ["train.py", "--lr", "2"]):
            self.assertNotEqual(job.job_spec(Job("test", Place(0, 2), orders))["model"], specs[0]["model"])

    def test_the_user_has_the_last_word(self):
        with unittest.mock.patch.dict("os.environ", {"LOWGEAR_JOB_SPEC": '{"model": "mine", "guard_pct": 1}',
                                                     "LOWGEAR_SLOWDOWN": "3", "LOWGEAR_SWITCH_LATENCY": "25"}):
            spec = job.job_spec(Job("test", Place(0, 1), None))
        self.assertEqual((spec["model"], spec["guard_pct"], spec["slowdown_pct"]), ("mine", 1, 3.0))
        self.assertEqual(spec["switch_latency_ms"], 25)

    def test_a_plan_is_chosen_by_the_slowdown(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "plans.csv").write_text(
                "plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches\n"
                "0,1.0,1.0,9,,,0\n1,1.02,1.02,8,,,0\n2,1.1,1.1,7,,,0\n")
            for slowdown, number in (("", 0), ("1.9", 0), ("2.1", 1), ("50", 2)):
                with unittest.mock.patch.dict("os.environ", {"LOWGEAR_SLOWDOWN": slowdown}):
                    self.assertEqual(plans.plan_file(folder), Path(folder) / "plans" / f"{number:05d}.json")
            self.assertEqual(plans.plan_file(f"{folder}/plans.csv"), Path(folder) / "plans.csv")
            (Path(folder) / "plans.csv").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
            with self.assertRaisesRegex(ValueError, "a Git LFS pointer, not the file itself; run `git lfs pull`"):
                plans.plan_file(folder)

    def test_a_plan_for_another_order_is_named(self):
        orders = [[("forward", 0, 0), ("backward", 0, 0)], [("forward", 1, 0), ("backward", 1, 0)]]
        ops = [[{"op": kind, "microbatch": microbatch} for kind, _, microbatch in order] for order in orders]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.json"

            def problem(ops, orders):
                path.write_text(json.dumps({"stages": [{"stage": at, "ops": rank} for at, rank in enumerate(ops)]}))
                return plans.order_problem(path, orders)

            self.assertIsNone(problem(ops, orders))
            self.assertIn("this job has none whose units are marked; search its clock", problem(ops, None))
            self.assertEqual(problem(ops[:1], orders).partition(": ")[2].partition(";")[0],
                             "is a plan for 1 pipeline ranks, the job has 2")
            self.assertIn("unit 1 of pipeline rank 1 is backward of microbatch 0 on stage 1 there, and forward of "
                          "microbatch 1 on stage 1 in the job",
                          problem(ops, [orders[0], [("forward", 1, 0), ("forward", 1, 1), ("backward", 1, 0)]]))
            self.assertIn("pipeline rank 1 runs 1 units there, and 2 in the job", problem([ops[0], ops[1][:1]], orders))
            chunk = [[{**ops[0][0], "virtual_stage": 2}]]
            self.assertIsNone(problem(chunk, [[("forward", 2, 0)]]))
            path.write_text("[\n[1410, 990],\n]\n# Iteration 2: cost change 24.4\n")
            self.assertIsNone(plans.order_problem(path, orders), "Perseus' format does not say")


class Cost(unittest.TestCase):
    def test_the_importer_brings_nothing_along(self):
        """What every Python process of a job pays for."""
        script = ("import sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1]); import importing; "
                  "print(sorted(set(sys.modules) - before))")
        folder = Path(core.__file__).parent
        run = subprocess.run([sys.executable, "-S", "-c", script, str(folder)], capture_output=True, text=True,
                             check=True)
        self.assertEqual(run.stdout.strip(), "['importing']")


if __name__ == "__main__":
    unittest.main()
