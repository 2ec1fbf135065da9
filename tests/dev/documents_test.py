#!/usr/bin/env python3
"""What the documents name exists: relative links of all pages, the files, folders and names of code that
docs/architecture.md and CONTRIBUTING.md show in backticks, the sources that comments in C++ name, and the commands of
`lowgear` by their names of today."""

import os
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ("src", "tests", "cmake", "python", "fuzz", "bench", "examples", "deploy", "docs", "dashboard")
TEXTS = (".md", ".py", ".sh", ".yaml", ".yml", ".h", ".cpp", ".cu", ".js", ".json", ".html", ".txt", ".service", ".conf")
# Written as examples of names, or names of what is no file of the tree.
NO_PATHS = re.compile(r"^(/|https?:|build/|\w+\.\w+/\d|[^ ]*[*<>{}$=|()\" ])|[A-Z]{4,}|^config\.json$")


def files():
    found = {path.name for path in ROOT.iterdir() if path.is_file()}
    for folder in CODE:
        for place, folders, names in os.walk(ROOT / folder):
            folders[:] = [name for name in folders if name not in ("__pycache__", "node_modules")]
            found.update(str((Path(place) / name).relative_to(ROOT)) for name in names)
    return found


def words(page):
    """The text between backticks of a page, without its blocks of code."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", text)


def dead_links(page):
    """The relative links and pictures of a page that lead nowhere."""
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text())
    return [link for link in links if not re.match(r"[a-z]+:", link) and not (page.parent / link).exists()]


class Documents(unittest.TestCase):
    def setUp(self):
        self.files = files()
        # Every end of a path, with and without the ending of its name, and of each folder.
        self.ends = set()
        for path in self.files:
            parts = Path(path).parts
            for end in range(1, len(parts) + 1):
                for begin in range(end):
                    self.ends.add("/".join(parts[begin:end]))
            stem = path[: path.rindex(".")] if "." in parts[-1][1:] else path
            self.ends.update("/".join(Path(stem).parts[begin:]) for begin in range(len(parts)))

    def test_links_lead_somewhere(self):
        for folder in ("", "docs", "bench", "data"):
            for page in (ROOT / folder).glob("*.md"):
                with self.subTest(page=page):
                    self.assertEqual(dead_links(page), [])

    def test_paths_exist(self):
        seen = 0
        for page in ("docs/architecture.md", "CONTRIBUTING.md"):
            for word in words(page):
                if not re.search(r"/|\.(cpp|h|py|js|md|json|sh|cmake|txt|yml)$", word) or NO_PATHS.search(word):
                    continue
                seen += 1
                with self.subTest(page=page, path=word):
                    self.assertTrue(word.rstrip("/") in self.ends, f"there is no {word}")
        self.assertGreater(seen, 40)

    def test_names_of_code_exist(self):
        text = "\n".join((ROOT / path).read_text(errors="replace") for path in sorted(self.files)
                         if path.startswith(("src/", "cmake/")) and path.endswith((".h", ".cpp", ".txt", ".cmake")))
        seen = 0
        for word in words("docs/architecture.md"):
            name = re.fullmatch(r"(?:\w+::)*(\w+)(?:\(\))?", word)
            if not name or word in self.ends or not re.search(r"_|[a-z][A-Z]|^[A-Z][a-z]", name[1]):
                continue
            seen += 1
            with self.subTest(name=word):
                self.assertTrue(re.search(rf"\b{name[1]}\b", text), f"no code has {word}")
        self.assertGreater(seen, 3)

    def test_sources_that_comments_name_exist(self):
        names = {Path(path).name for path in self.files} | {"cuda.h"}
        seen = 0
        for path in sorted(self.files):
            if not path.startswith(("src/", "tests/", "bench/", "fuzz/")) or not path.endswith((".h", ".cpp", ".cu")):
                continue
            for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1):
                comment = "" if line.startswith("#include") else line.partition("//")[2]
                for name in re.findall(r"\b[a-z_0-9]+\.(?:h|cpp)\b", comment):
                    seen += 1
                    with self.subTest(place=f"{path}:{number}"):
                        self.assertTrue(name in names, f"there is no {name}")
        self.assertGreater(seen, 40)

    def test_commands_have_their_names_of_today(self):
        source = (ROOT / "src/app/cli/commands/application.cpp").read_text()
        table = re.search(r"kOldWords = .*?\}\);", source, re.S)[0]
        old = re.findall(r'\{"(\w+)", "', table)
        self.assertGreater(len(old), 5)
        # Also where a line, in a comment or not, ends after `lowgear`.
        call = re.compile(r"\blowgear\s+(?:(?:#|//+|\*)\s+)?(" + "|".join(old) + r")(?![\w.-])")
        for path in sorted(self.files):
            if path.startswith(("tests/app/", "tests/dev/")) or not path.endswith(TEXTS):
                continue
            text = (ROOT / path).read_text(errors="replace")
            for found in call.finditer(text):
                with self.subTest(place=f"{path}:{text.count(chr(10), 0, found.start()) + 1}"):
                    self.fail(f"lowgear {found[1]} is an old word")

    def test_programs_that_dev_runs_exist(self):
        seen = 0
        for path in sorted(self.files):
            if not path.endswith(TEXTS) or path.startswith("tests/dev/"):
                continue
            for name in re.findall(r"\./dev bench (\w+_(?:study|bench))\b", (ROOT / path).read_text(errors="replace")):
                seen += 1
                with self.subTest(page=path):
                    self.assertTrue(name == "NAME_study" or f"bench/{name}.cpp" in self.files, f"there is no {name}")
        self.assertGreater(seen, 2)


if __name__ == "__main__":
    unittest.main()
