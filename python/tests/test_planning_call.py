"""Calls of the planning library: which one, failures, interrupts, threads, names."""

import ast
import os
import signal
import threading
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import lowgear
from lowgear import planning
from planning_inputs import InAFolder, POWER_W, ROWS, SOURCE, plan, require_the_library


def setUpModule():
    require_the_library()


class TestCall(InAFolder):
    def library(self, name):
        return mock.patch.dict(os.environ, LOWGEAR_PLANNING_LIBRARY=str(name))

    def test_the_library_that_is_named(self):
        with self.library(self.folder / "none.so"):
            with self.assertRaisesRegex(lowgear.LowgearError, "is not found.*none.so.*set LOWGEAR_PLANNING_LIBRARY"):
                plan()
        with self.library("libm.so.6"):
            with self.assertRaisesRegex(lowgear.LowgearError, "libm.so.6 is .*set LOWGEAR_PLANNING_LIBRARY"):
                plan()

    def test_one_of_another_version_is_refused(self):
        with mock.patch.object(lowgear, "__version__", "0.0.1"):
            with self.assertRaisesRegex(lowgear.LowgearError, "of version .*this package of 0.0.1; install both from one release"):
                planning.call._load.__wrapped__(None)

    def test_failures_are_errors_of_their_own(self):
        failure = {"error": {"kind": "failed", "message": "the disk is full"}}
        with mock.patch.object(planning.call, "_answer", lambda verb, request: failure):
            with self.assertRaisesRegex(lowgear.LowgearError, "^the disk is full$") as caught:
                plan()
        self.assertNotIsInstance(caught.exception, lowgear.InvalidUse)

    def test_warnings_become_warnings(self):
        above_limit = [dict(row, energy=row["energy"] * 1.8) for row in ROWS]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lowgear.plan(above_limit, blocking_power_w=POWER_W, microbatches=2, gpu="NVIDIA A100-SXM4-80GB",
                         accept_units=True)
        own = [one for one in caught if issubclass(one.category, planning.LowgearWarning)]
        self.assertTrue(own)
        self.assertEqual(own[0].filename, __file__)
        self.assertNotRegex(str(own[0].message), r"profile(\.csv)?:[0-9]", "rows instead of lines")

    def test_an_interrupt_cancels_the_call(self):
        ended = threading.Event()

        class Waiting:
            """A library whose call is interrupted and ends once it is cancelled, never otherwise."""

            def lowgear_call(self, verb, request, cancelled):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                while not cancelled._obj.value:
                    threading.Event().wait(0.001)
                ended.set()

        with mock.patch.object(planning.call, "load", Waiting):
            with self.assertRaises(KeyboardInterrupt):
                plan()
        self.assertTrue(ended.wait(60))

    def test_threads_plan_at_once(self):
        expected = plan()
        with ThreadPoolExecutor(4) as pool:
            for result in pool.map(lambda _: plan(), range(8)):
                self.assertEqual(result.files["frontier.csv"], expected.files["frontier.csv"])


class TestNames(unittest.TestCase):
    def test_public_functions_are_documented_and_typed(self):
        for name in ("plan", "replan", "verify", "simulate", "estimate", "search"):
            function = getattr(lowgear, name)
            self.assertIn("Raises InvalidUse", " ".join(function.__doc__.split()))
            self.assertIn("return", function.__annotations__)
            self.assertIn(name, dir(lowgear))
        with self.assertRaises(AttributeError):
            lowgear.no_such_thing

    def test_the_package_is_read_by_python_3_8(self):
        for path in (SOURCE / "lowgear" / "planning").rglob("*.py"):
            ast.parse(path.read_text(), str(path), feature_version=(3, 8))


if __name__ == "__main__":
    unittest.main()
