#!/usr/bin/env python3
"""docs/deploying.md, "Bare metal", names packages, paths, units, verbs and options that exist, and its changes of the
configurations are accepted by the programs. follow_page.py runs it; this needs neither root nor a machine."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

SOURCE, LOWGEAR = Path(os.environ["SOURCE"]), os.environ["LOWGEAR_BINARY"]
os.environ.update(PREFIX="/usr", LIBDIR="lib/x86_64-linux-gnu")
sys.path.insert(0, str(SOURCE / "tests/package"))

from installed_files import PACKAGES, expected_files, run  # noqa: E402  # reads these variables

from page import blocks_of, missing_lines, section  # noqa: E402

PAGE = section()
PLACES = {"", "planner", "node1"}
# Stand-ins for what changes a machine.
STAND_INS = """
sudo() { if [ "$1" = -u ]; then shift 2; fi; "$@"; }
apt-get() { :; }; systemctl() { :; }; curl() { :; }
lowgear() { "$LOWGEAR_BINARY" "$@"; }
install() { cat >"${@: -1}"; chmod 600 "${@: -1}"; }
"""


def commands(text):
    """Command lines of all blocks, those that continue on the next line as one."""
    joined = "\n".join(block.text for block in blocks_of(text)).replace("\\\n", " ")
    return [line.partition(" # ")[0] for line in joined.splitlines()]


def unknown_packages(text):
    named = re.findall(r"\./([a-z0-9-]+)_\*\.deb", text)
    return [f"there is no package {name}" for name in named if name not in PACKAGES.values()]


def unknown_options(text):
    found = []
    for line in commands(text):
        for words in re.findall(r"(?:^|sudo (?:-\S+ )*|-u \S+ )lowgear ([a-z]+)((?: \S+)*)", line):
            own = (" " + words[1]).partition(" -- ")[0]
            form = re.findall(r"^ ([a-z]+)", own)  # as of `runs report`
            help_text = run(LOWGEAR, words[0], *form, "--help-all", check=False)
            if help_text.returncode:
                found.append(f"lowgear has no verb {words[0]}")
            options = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", help_text.stdout))
            found += [f"lowgear {words[0]} has no option {word}" for word in re.findall(r"(?<!\S)--[a-z][a-z-]*", own)
                      if word not in options]
    return found


def unknown_paths(text):
    files = set.union(*expected_files().values())
    named = set(re.findall(r"/usr/[\w./+-]*\w", text))
    return [f"no package has {path}" for path in sorted(named)
            if path not in files and not any(file.startswith(path + "/") for file in files)]


def unknown_units(text):
    known = {path.stem for path in (SOURCE / "deploy/systemd").glob("*.service")}
    named = re.findall(r"systemctl (?:enable --now|is-active|status|restart) ([\w-]+)", text)
    named += re.findall(r"journalctl -u ([\w-]+)", text)
    return [f"there is no unit {unit}" for unit in named if unit not in known]


def unknown_places(text):
    return [f"no machine is called {block.place}" for block in blocks_of(text) if block.place not in PLACES]


def refused_configurations(text):
    """Runs the blocks that write the server's configuration into another folder; what the program says of the result. The
    agent's is written by `agent init`, which tests/app/operations/agent_init_e2e_test.py tests."""
    with tempfile.TemporaryDirectory() as folder:
        etc = Path(folder) / "etc/lowgear"
        etc.mkdir(parents=True)
        for block in blocks_of(text):
            if block.is_run and "/etc/lowgear/server.yaml" in block.text:
                script = STAND_INS + block.text.replace("/etc/", f"{folder}/etc/").replace("/usr/share/lowgear", f"{SOURCE}/deploy")
                done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], capture_output=True, text=True)
                if done.returncode:
                    return [f"line {block.line}: ended with {done.returncode}: {done.stdout}{done.stderr}"]
        listen = yaml.safe_load((etc / "server.yaml").read_text())["listen"]
        wanted = {"address": (listen.get("tcp"), ["0.0.0.0:7787"]),
                  "tokens": (listen.get("token_file"), f"{folder}/etc/lowgear/server.tokens")}
        return [f"{what}: {is_} is configured, not {meant}" for what, (is_, meant) in wanted.items() if is_ != meant]

CHECKS = (unknown_packages, unknown_options, unknown_paths, unknown_units, unknown_places, refused_configurations)
# What is planted in the page: a text, its replacement, and what the refusal says.
FAULTS = {
    "a package that is not built": ("./lowgear-simgpu_*", "./lowgear-simulation_*", "no package lowgear-simulation"),
    "an option that is not there": ("--any-user", "--all-users", "no option --all-users"),
    "a verb that is not there": ("lowgear agent status", "lowgear agents status", "no verb agents"),
    "an option after a line break": ("--require-server", "--need-server", "no option --need-server"),
    "a path in no package": ("/usr/share/lowgear/examples/", "/usr/share/lowgear/example/", "no package has"),
    "a unit that is not installed": ("enable --now lowgear-server", "enable --now lowgear-serve", "no unit lowgear-serve"),
    "a change that changes nothing": ("s|^  # tcp: .*|", "s|^  #tcp: .*|", "address: None is configured"),
    "a file that is not installed": ("share/lowgear/server.yaml", "share/lowgear/srever.yaml", "no package has"),
    "a machine that the page does not have": ("```sh planner", "```sh plannner", "no machine is called plannner"),
}


class Page(unittest.TestCase):
    def test_it_agrees_with_what_there_is(self):
        self.assertEqual([problem for check in CHECKS for problem in check(PAGE)], [])

    def test_each_planted_fault_is_refused(self):
        for what, (text, replacement, refusal) in FAULTS.items():
            with self.subTest(what):
                self.assertIn(text, PAGE)
                changed = PAGE.replace(text, replacement)
                found = [problem for check in CHECKS for problem in check(changed)]
                self.assertTrue(any(refusal in problem for problem in found), (refusal, found))

    def test_most_blocks_are_run_and_the_others_are_marked(self):
        blocks = blocks_of(PAGE)
        self.assertGreater(sum(block.is_run for block in blocks), 12)
        for block in blocks:
            self.assertTrue(block.is_run or "# not run" in block.text, block)

    def test_output_is_compared_line_by_line(self):
        self.assertEqual(missing_lines(["a ... c", "0"], "x\na b c\n0\n"), [])
        self.assertEqual(missing_lines(["a ... c", "0"], "a b\n10\n"), ["a ... c", "0"])


if __name__ == "__main__":
    unittest.main()
