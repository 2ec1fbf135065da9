"""docs/coming-from.md: its links and options exist, and lines that need no GPU run as they stand there."""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

from clean_environment import CLEAN
from program_test_base import ProgramTest

LOWGEAR = os.environ["LOWGEAR_BINARY"]
PAGE = Path(__file__).resolve().parents[3] / "docs/coming-from.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTIONS = {section.split("\n", 1)[0]: section for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]}

# Words of the page that stand for files and names of the user, or that it leaves out as the sentence gives them.
PIPELINE = ["--profile", "profile.csv", "--microbatches", "4", "--blocking-power", "75"]
RUNS = {
    "The estimator": {
        "lowgear --version": [],
        "lowgear estimate --help": [],
        "lowgear estimate --examples": [],
        "lowgear estimate --show-example llemma-7b-perlmutter": [],
        "lowgear estimate --show-example NAME > my.yml": [],
        "lowgear estimate --show-example NAME": [],
        "lowgear estimate --peer-formula --job my.yml": [],
        "lowgear estimate --peer-formula --job job.yml": [],
        "lowgear estimate --example NAME": [],
        "lowgear estimate --job job.yml": [],
        "lowgear estimate --plan": ["--job", "job.yml", "--gpu-hour", "2", "--kwh", "0.2", "--co2", "300"],
        "lowgear search": ["--job", "job.yml", "--gpus", "16"],
    },
    "Perseus": {
        "lowgear serve --perseus-listen 127.0.0.1:7787 --perseus-scheduler PointSolution "
        """--perseus-args '{"solution_path": "results"}' --perseus-mode frequency""": ["--check"],
        "lowgear plan --profile FILE": [*PIPELINE[2:], "--out", "again"],
        "lowgear plan --thin INPUT --keep every:50 --out OUTPUT": [],
        "lowgear plan --policy envpipe-offline --perseus-format artifact": [*PIPELINE, "--out", "offline"],
        "lowgear compare --policies perseus,envpipe-offline": PIPELINE,
        "lowgear published emulate --profile PROFILE --blocking-power 83.64 --microbatches 12,24,48,96 "
        "--global-microbatches 1536 --tp 8": ["--straggler", "1.2"],
        "lowgear verify --replay PLAN --profile PROFILE --blocking-power 83.64 --pipelines N --slow-pipeline X": [],
        "lowgear verify --replay PLAN --trace FILE": [*PIPELINE[:2], *PIPELINE[4:]],
        "lowgear verify --replay N.sched.json --profile four-stages.csv --stages 4 --microbatches 128 "
        "--blocking-power 83.64": [],
        "lowgear published evaluate sosp24_data": [],
        "lowgear published evaluate sosp24_data --html figures.html": [],
        "lowgear published evaluate sosp24_data --json": [],
    },
    "Merak": {
        "lowgear show merak-full-critical-path --stages 4 --microbatches 8": [],
        "lowgear plan --profile profile.csv --schedule merak-full-critical-path --microbatches 24 --blocking-power 83.64 "
        "--recomputation-share 1 --out plans": [],
    },
    "EnvPipe": {
        "lowgear plan --policy envpipe --envpipe-type baseline": [*PIPELINE, "--out", "envpipe"],
        "lowgear compare --policies max,envpipe,lowgear": PIPELINE,
    },
    "Zeus": {
        "lowgear compare --profile PROFILE --microbatches N --blocking-power W --policies zeus-global": [],
        "lowgear plan --perseus-format zeus": [*PIPELINE, "--out", "zeus"],
    },
}
NAMES = {"NAME": "llemma-7b-vista", "PROFILE": "profile.csv", "PLAN": "plan/plans/00000.json", "INPUT": "plan",
         "OUTPUT": "thinned", "N": "4", "W": "75", "X": "1.2"}


def words_of(line):
    """As a shell reads them, apart from `>`."""
    return [word[1:-1] if word.startswith("'") else word for word in re.findall(r"'[^']*'|\S+", line)]


def lines_of(text):
    return re.findall(r"`(lowgear [^`]*)`", text)


def anchors_of(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class ComingFromTest(ProgramTest):
    def lowgear(self, *words):
        return subprocess.run([LOWGEAR, *words], env={**CLEAN, "HOME": str(self.folder)}, cwd=self.folder,
                              capture_output=True, text=True, timeout=self.patience_s)

    def help_of(self, verb):
        """The options of a command and of its forms, such as `plan --change`."""
        if verb not in self.helps:
            texts = [self.all_help_of(verb)]
            forms = re.findall(rf"^  lowgear {verb} ([a-z-]+) ", texts[0].partition("Also, ")[2], re.MULTILINE)
            texts += [self.all_help_of(verb, form) for form in forms]
            self.helps[verb] = set(re.findall(r"--[a-z][a-z0-9-]*", "".join(texts)))
        return self.helps[verb]

    def all_help_of(self, *words):
        result = self.lowgear(*words, "--help-all")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def setUp(self):
        super().setUp()
        self.helps = {}

    def test_every_link_leads_somewhere(self):
        for link in re.findall(r"\]\(([^)]+)\)", TEXT):
            if link.startswith("http"):
                continue
            file, _, anchor = link.partition("#")
            target = (PAGE.parent / file).resolve() if file else PAGE
            self.assertTrue(target.exists(), link)
            if anchor:
                self.assertIn(anchor, anchors_of(target), link)

    def test_every_command_has_the_options_that_the_page_gives_it(self):
        seen = 0
        for line in lines_of(TEXT):
            words = words_of(line.split(" -- ")[0])
            verb = words[1]
            if verb.startswith("--"):
                continue
            for option in (word for word in words[2:] if word.startswith("--")):
                seen += 1
                self.assertIn(option, self.help_of(verb), line)
        self.assertGreater(seen, 30)

    def test_every_option_in_our_columns_is_one_of_a_command(self):
        page = self.lowgear("--help").stdout
        more = re.search(r"^More: (.*)$", page, re.MULTILINE)[1]
        verbs = re.findall(r"^  ([a-z]+) ", page, re.MULTILINE) + more.split(", ")
        self.assertIn("published", verbs)
        known = set().union(*(self.help_of(verb) for verb in verbs))
        for row in re.findall(r"^\|(.*)\|$", TEXT, re.MULTILINE):
            ours = row.partition(" | ")[2]
            for option in re.findall(r"`(--[a-z][a-z0-9-]*)", ours):
                self.assertIn(option, known | {"--version"}, row)

    def make_inputs(self):
        self.assertEqual(self.lowgear("example", "--out", ".").returncode, 0)
        (self.folder / "FILE").write_text((self.folder / "profile.csv").read_text())
        job = self.lowgear("estimate", "--show-example", "llemma-7b-perlmutter")
        self.assertEqual(job.returncode, 0, job.stderr)
        (self.folder / "job.yml").write_text(job.stdout)
        planned = self.lowgear("plan", *PIPELINE, "--out", "plan", "--perseus-format", "--plans", "4")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        (self.folder / "results").mkdir()
        for number in range(4):
            (self.folder / f"results/freqs_pipeline_{number:05}.py").write_text("[[1410, 1410]]\n")
        rows = (self.folder / "profile.csv").read_text().splitlines(keepends=True)
        (self.folder / "four-stages.csv").write_text(rows[0] + "".join(row for row in rows[1:] if int(row.split(",")[0]) < 4))
        # As many instructions as Merak gives the stages, all at one clock.
        (self.folder / "N.sched.json").write_text(json.dumps(
            [{"rank": rank, "power_states": [1410] * count} for rank, count in enumerate((518, 520, 518, 516))]))
        zeus = self.folder / "sosp24_data/zeus/csv/A100"
        zeus.mkdir(parents=True)
        (zeus / "zeus_global.csv").write_text("model_name,dp,tp,pp,time,energy\ngpt3-xl,1,1,4,100,1000\n")

    def test_lines_that_need_no_gpu_run_as_they_stand(self):
        self.make_inputs()
        self.assertEqual(set(RUNS) - set(SECTIONS), set())
        for name, section in SECTIONS.items():
            runs = dict(RUNS.get(name, {}))
            for line in lines_of(section):
                if line not in runs:
                    continue
                command, _, output = line.partition(" > ")
                words = [NAMES.get(word, word) for word in words_of(command)[1:]] + runs.pop(line)
                with self.subTest(section=name, line=line):
                    result = self.lowgear(*words)
                    self.assertEqual(result.returncode, 0, result.stderr)
                if output:
                    (self.folder / output).write_text(result.stdout)
            self.assertEqual(list(runs), [], f"{name} has no such lines any more")


if __name__ == "__main__":
    unittest.main()
