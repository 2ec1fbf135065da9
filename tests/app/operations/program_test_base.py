"""What tests of programs share that they start in a folder of their own."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from clean_environment import CLEAN

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package


class ProgramTest(unittest.TestCase):
    """`folder` is new for each test, and what `popen` has started there ends with it."""

    patience_s = PATIENCE_S

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lowgear-test-"))
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        shutil.rmtree(self.folder)

    def popen(self, words, environment=None):
        process = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**CLEAN, **(environment or {})}, cwd=self.folder)
        self.processes.append(process)
        return process

    def wait_until(self, condition, what):
        wait_until(condition, what)
