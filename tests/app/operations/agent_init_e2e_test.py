"""`lowgear agent init` on simulated GPUs: the configuration that it shows and writes is one that the agent serves by."""

import json
import os
import pty
import stat
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agent"))
from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest  # noqa: E402: the tests are no package


class AgentInit(AgentTest):
    def write_config(self, extra=""):
        pass  # the command under test writes it

    def init(self, *words, code=0):
        return self.lowgear("agent", "init", "--config", str(self.config), *words, code=code)

    def init_at_terminal(self, answer):
        """Exit code after a person has typed the answer."""
        terminal, user = pty.openpty()
        try:
            command = [LOWGEAR, "agent", "init", "--config", str(self.config)]
            os.write(terminal, answer.encode())
            return subprocess.run(command, stdin=user, capture_output=True, text=True, timeout=PATIENCE_S)
        finally:
            os.close(user)
            os.close(terminal)

    def test_an_agent_serves_by_what_it_writes(self):
        said = self.init("--yes")
        self.assertEqual(self.config.read_text(), said.stdout, "it shows what it writes")
        for gpu in self.machine():
            self.assertIn(gpu["uuid"], said.stdout)
        self.assertIn(f"LOWGEAR_AGENT_SOCKET={self.folder}/lease.sock", said.stderr)
        self.assertEqual(stat.S_IMODE(self.config.stat().st_mode), 0o644)
        self.lowgear("agent", "check", "--config", str(self.config))
        self.start_agent()
        client, answer = self.start_client([1200])
        self.assertEqual(answer, "ok", "a process of the calling user's group gets its GPU")
        self.kill(client)
        self.expect_default()

    def test_nobody_is_asked_without_a_terminal(self):
        command = [LOWGEAR, "agent", "init", "--config", str(self.config)]
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertIn("add --yes", said.stderr)
        self.assertIn("gpu:\n", said.stdout)
        self.assertFalse(self.config.exists())

    def test_a_person_is_asked(self):
        said = self.init_at_terminal("n\n")
        self.assertEqual(said.returncode, 1)
        self.assertIn("[y/N]", said.stderr)
        self.assertFalse(self.config.exists())
        self.assertEqual(self.init_at_terminal("y\n").returncode, 0)
        self.assertTrue(self.config.exists())

    def test_an_existing_file_is_only_replaced_on_request_and_kept(self):
        self.config.write_text("# mine\n")
        said = self.init("--yes", code=2)
        self.assertIn("--replace", said.stderr)
        self.assertEqual(self.config.read_text(), "# mine\n")
        self.init("--yes", "--replace")
        self.assertIn("gpu:\n", self.config.read_text())
        self.init("--yes", "--replace")
        self.assertEqual(Path(f"{self.config}.old").read_text(), "# mine\n", "the second does not lose it")
        self.assertIn("gpu:\n", Path(f"{self.config}.old.1").read_text())

    def test_it_refuses_what_is_no_file(self):
        target = self.folder / "real.yaml"
        self.config.symlink_to(target)
        self.assertIn("a symbolic link", self.init("--yes", "--replace", code=2).stderr, "a dangling one")
        self.assertFalse(target.exists())
        target.write_text("# mine\n")
        self.assertIn("a symbolic link", self.init("--yes", "--replace", code=2).stderr)
        self.assertEqual(target.read_text(), "# mine\n")
        for name, said in ((str(self.folder), "is a folder"), (f"{self.folder}/", "is a folder"), ("", "is missing")):
            command = ("agent", "init", "--config", name, "--yes", "--replace")
            self.assertIn(said, self.lowgear(*command, code=2).stderr)

    def test_without_a_driver_it_gives_the_hint_of_the_doctor(self):
        kept = {name: value for name, value in os.environ.items() if name not in ("LOWGEAR_NVML", "LOWGEAR_SIMGPU")}
        for environment in (kept, {**kept, "LOWGEAR_NVML": "/nowhere/libnvidia-ml.so.1"}):
            def said(*words):
                return subprocess.run([LOWGEAR, *words], env=environment, capture_output=True, text=True)

            doctor = json.loads(said("doctor", "--json").stdout)["findings"]
            driver = next(finding for finding in doctor if finding["topic"] == "driver")
            if driver["fix"]:  # this machine has no driver of its own
                init = said("agent", "init", "--config", str(self.config))
                self.assertEqual(init.returncode, 1)
                self.assertIn(driver["fix"], init.stderr)

    def test_it_refuses_what_the_agent_would_not_read(self):
        self.assertIn("there is no group", self.init("--yes", "--group", "no-such-group", code=1).stderr)
        self.folder.chmod(0o777)
        self.assertIn("chmod go-w", self.init("--yes", code=2).stderr)
        self.assertFalse(self.config.exists())

    def test_an_agent_without_a_configuration_names_it(self):
        for action in ("serve", "check"):
            said = self.lowgear("agent", action, "--config", str(self.config), code=2).stderr
            self.assertIn(f"lowgear agent init --config {self.config}", said)

    def test_options_of_it_go_with_nothing_else(self):
        self.assertIn("--yes", self.lowgear("agent", "check", "--yes", code=2).stderr)

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED: only root runs under sudo")
    def test_under_sudo_it_is_the_group_of_the_caller(self):
        environment = {**os.environ, "SUDO_GID": "1", "SUDO_UID": "1", "SUDO_USER": "daemon"}
        command = [LOWGEAR, "agent", "init", "--config", str(self.config), "--yes"]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(f"group: {json.dumps('daemon')}", said.stdout)


if __name__ == "__main__":
    unittest.main()
