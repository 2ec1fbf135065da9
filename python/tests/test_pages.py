"""Runs the examples of docs/python.md, as a reader would type them."""

import doctest
import os
import re
import tempfile
import unittest
from pathlib import Path

from lowgear import LowgearError, planning

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


class TestPages(unittest.TestCase):
    def test_every_example_gives_what_the_page_says(self):
        try:
            planning.call.load()
        except LowgearError as error:
            self.skipTest(f"SKIPPED: {error}")
        if not PAGE.is_file():
            self.skipTest(f"SKIPPED: {PAGE} is not part of this installation")
        text = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
        examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
        self.assertGreater(len(examples.examples), 20)
        folder = tempfile.TemporaryDirectory(prefix="lg-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)  # examples write files
        said = []
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failed, _ = doctest.DocTestRunner(verbose=False, optionflags=options).run(examples, out=said.append)
        self.assertEqual(failed, 0, "".join(said))


if __name__ == "__main__":
    unittest.main()
