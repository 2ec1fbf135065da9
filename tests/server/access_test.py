#!/usr/bin/env python3
"""Who may do what at the real server: tokens with scopes that change while it serves, and the audit log of it all."""

import json
import os
import pty
import signal
import subprocess
import unittest
from pathlib import Path

from api_misuse_test import JOB
from served import ADDRESS, LOWGEAR, PATIENCE_S, TOKENS, Events, ServerTest, wait_until

OLD, NEW = "the-old-token-of-tests", "the-new-token-of-tests"


class Access(ServerTest):
    def write_tokens(self, *lines, mode=0o600):
        """Replaces the file at once, as editors and secret stores do."""
        new = self.folder / "tokens.new"
        new.touch(0o600)
        new.write_text("".join(f"{line}\n" for line in lines))
        new.chmod(mode)
        new.rename(self.folder / "tokens")

    def status(self, token, method="GET", path="/v1/jobs", body=None):
        return self.request(method, path, body, role=token).status

    def log_text(self):
        return (self.folder / "log").read_text()

    def entries(self, event=None, path=None):
        lines = (path or self.state / "audit.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        for entry in entries:
            self.assertEqual(entry["format"], "lowgear.audit/1")
            self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        return [entry for entry in entries if event in (None, entry["event"])]

    def await_entry(self, event, **members):
        wait_until(lambda: any(members.items() <= entry.items() for entry in self.entries(event)), (event, members))

    def assert_no_secret(self, *secrets):
        texts = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and path.name != "tokens"}
        texts["argv"] = Path(f"/proc/{self.process.pid}/cmdline").read_bytes()
        for name, text in texts.items():
            for secret in secrets:
                self.assertNotIn(secret.encode(), text, name)

    # Scopes

    def test_an_agent_speaks_for_its_own_node_alone(self):
        self.write_tokens(f"admin {TOKENS['admin']}", f"node nodes=node-1,gpu-*-a name=agents {TOKENS['node']}")
        self.start()
        statuses = {host: self.status(TOKENS["node"], "POST", f"/v1/nodes/{host}/power", {"safe_w": 100, "gpus": []})
                    for host in ("node-1", "gpu-7-a", "node-2", "node-11", "gpu-7-b", "*", "gpu-*-a%20")}
        self.assertEqual(statuses, {"node-1": 200, "gpu-7-a": 200, "node-2": 403, "node-11": 403, "gpu-7-b": 403, "*": 403,
                                    "gpu-*-a%20": 403})
        self.assertEqual(self.status(TOKENS["node"], "DELETE", "/v1/nodes/node-1"), 403)
        self.assertEqual([entry["result"] for entry in self.entries("request")].count("ok"), 0, "agents ask all the time")
        self.write_tokens(f"admin {TOKENS['admin']}", f"node nodes=node-2 name=agents {TOKENS['node']}")
        node = ("POST", "/v1/nodes/node-1/power", {"safe_w": 100, "gpus": []})
        wait_until(lambda: self.status(TOKENS["node"], *node) == 403, "the token is for another node by now")

    def test_a_scope_allows_nothing_but_its_own(self):
        self.write_tokens(f"read name=prometheus {TOKENS['read']}", f"jobs name=trainers {TOKENS['train']}",
                          f"operate name=power {TOKENS['admin']}")
        self.start()
        budget = ("PUT", "/v1/budgets/row", {"watts": 1000})
        self.assertEqual([self.status(TOKENS[role]) for role in ("read", "train", "admin")], [200, 403, 403])
        self.assertEqual([self.status(TOKENS[role], *budget) for role in ("read", "train", "admin")], [403, 403, 200])
        self.assertEqual([self.status(TOKENS[role], "POST", "/v1/jobs", JOB) for role in ("read", "admin", "train")],
                         [403, 403, 201])
        node = ("POST", "/v1/nodes/node-1/power", {"safe_w": 100, "gpus": []})
        self.assertEqual([self.status(TOKENS[role], *node) for role in ("read", "train", "admin")], [403, 403, 403])
        refused = self.request("GET", "/metrics", role="admin")
        self.assertIn("lacks the scope read", refused.json["error"]["message"])

    # Sign-ins of browsers

    def sign_in(self):
        """The one-time token of a new address, as the server's own user gets it."""
        words = [LOWGEAR, "serve", "sign-in", "--unix", str(self.folder / "socket")]
        said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 0, said.stderr)
        address, mark, token = said.stdout.strip().partition("/#token=")
        self.assertEqual((address, mark), (f"http://{ADDRESS}:{self.port}", "/#token="))
        return token

    def test_a_one_time_token_opens_one_session_that_reads(self):
        self.start()
        token = self.sign_in()
        self.assertEqual(self.status(token), 401, "it opens nothing by itself")
        session = self.ok("POST", "/v1/sessions", {"token": token}, role=None)["token"]
        self.refused(401, "no_token", "POST", "/v1/sessions", {"token": token}, role=None)
        shown = self.ok("GET", "/v1/jobs", role=session)
        self.assertEqual(shown, {"jobs": [], "server": {"unix": f"{self.folder}/socket", "job_tokens": True}})
        self.assertEqual(self.status(session, "PUT", "/v1/budgets/row", {"watts": 1000}), 403)
        self.assertEqual(self.status(session, "POST", "/v1/jobs", JOB), 403)
        self.assertEqual(self.status(session, "POST", "/v1/sign_ins"), 404, "a session makes no others")
        self.await_entry("request", caller="session 1", result="not_allowed")
        self.assert_no_secret(token, session)
        self.end()
        self.start()
        self.assertEqual(self.status(session), 401, "a restart ends sessions")

    def test_sign_ins_are_made_for_users_of_the_socket_alone(self):
        self.start()
        for role in ("read", "admin"):
            self.refused(404, "not_found", "POST", "/v1/sign_ins", role=role)
        self.assertEqual(self.status(TOKENS["train"] + "x", "POST", "/v1/sign_ins"), 401)
        for body in ({}, {"token": 1}, {"token": "", "more": 1}, []):
            self.refused(400, "invalid_argument", "POST", "/v1/sessions", body, role=None)
        for token in ("", "0" * 32, TOKENS["admin"]):
            self.refused(401, "no_token", "POST", "/v1/sessions", {"token": token}, role=None)

    def test_where_all_may_read_there_is_nothing_to_sign_in_to(self):
        config = self.write_config()
        config.write_text(config.read_text().replace("listen: {", "listen: {loopback_read: true, "))
        self.start([LOWGEAR, "serve", "--config", str(config), "--json"])
        words = [LOWGEAR, "serve", "sign-in", "--config", str(config)]
        said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 1)
        self.assertIn("may read there without signing in", said.stderr)

    def first_lines(self, output):
        """Of a server on a port of its own choice, until it has named the dashboard."""
        text = ""
        while "sign-in" not in text:
            read = os.read(output, 4096).decode()
            self.assertTrue(read, f"it ended after {text!r}")
            text += read
        return text

    def test_a_token_is_printed_for_a_person_and_into_no_log(self):
        self.write_tokens(f"admin {TOKENS['admin']}")
        words = [LOWGEAR, "serve", "--state", str(self.state), "--token-file", str(self.folder / "tokens"), "--listen"]
        terminal, screen = pty.openpty()
        for listen, shown, output, fits in ((ADDRESS, ADDRESS, screen, self.assertRegex),
                                            (ADDRESS, ADDRESS, None, self.assertNotRegex),
                                            ("0.0.0.0", "127.0.0.1", screen, self.assertRegex)):
            process = subprocess.Popen([*words, f"{listen}:0"], stdout=subprocess.PIPE if output is None else output)
            try:
                text = self.first_lines(process.stdout.fileno() if output is None else terminal)
                fits(text, rf"dashboard: http://{shown}:\d+/#token=[0-9a-f]{{32}}\s")
            finally:
                process.terminate()
                process.wait(PATIENCE_S)
                if process.stdout:
                    process.stdout.close()
        os.close(terminal)
        os.close(screen)

    # Rotation

    def test_tokens_are_rotated_while_the_server_serves(self):
        self.write_tokens(f"read name=a {OLD}", f"admin {TOKENS['admin']}")
        self.start()
        self.assertEqual((self.status(OLD), self.status(NEW)), (200, 401))
        self.write_tokens(f"read name=a {OLD}", f"read name=a {NEW}", f"admin {TOKENS['admin']}")
        wait_until(lambda: self.status(NEW) == 200, "the new token is valid")
        self.assertEqual(self.status(OLD), 200)
        self.write_tokens(f"read name=a {NEW}", f"admin {TOKENS['admin']}")
        wait_until(lambda: self.status(OLD) == 401, "the old token is not valid any more")
        self.assertEqual(self.status(NEW), 200)
        self.await_entry("tokens", detail="2 tokens are valid; new: none; no longer valid: a")
        self.assertEqual(self.end(), 0)
        self.assertEqual([entry["event"] for entry in self.entries()][0], "started")
        self.assertEqual([entry["event"] for entry in self.entries()][-1], "stopped")

    def test_who_watches_with_a_withdrawn_token_is_cut_off(self):
        self.start()
        events = Events(self)
        self.write_tokens(f"admin {TOKENS['admin']}")
        wait_until(lambda: events.ended, "the stream ends")
        self.assertEqual(self.status(TOKENS["read"]), 401)

    def test_a_file_that_is_refused_changes_nothing_and_that_is_said(self):
        self.start()
        for lines, mode, why in ((["read x"], 0o600, "less than 16"), ([f"root {NEW}"], 0o600, "begins with scopes"),
                                 ([f"read {NEW}"], 0o644, "others may read it"), ([], 0o600, "there is no token")):
            self.write_tokens(*lines, mode=mode)
            wait_until(lambda: why in self.log_text(), why)
            self.assertEqual((self.status(TOKENS["read"]), self.status(NEW)), (200, 401))
            self.assertIn("lowgear_server_tokens_stale 1\n", self.request("GET", "/metrics").text)
        (self.folder / "tokens").unlink()
        wait_until(lambda: self.log_text().count("stay valid") == 5, "the file is missing")
        self.assertEqual(self.status(TOKENS["read"]), 200)
        self.assertNotIn(NEW, self.log_text())
        wait_until(lambda: len([each for each in self.entries("tokens") if "stay valid" in each["detail"]]) == 5,
                   "every refusal is recorded")
        self.write_tokens(f"admin {NEW}")
        wait_until(lambda: self.status(NEW) == 200, "a valid file is read")
        self.assertIn("lowgear_server_tokens_stale 0\n", self.request("GET", "/metrics", role=NEW).text)

    # The audit log

    def test_changes_and_refusals_are_entered_and_nothing_else(self):
        self.write_tokens(f"read name=viewer {TOKENS['read']}", f"jobs name=trainers {TOKENS['train']}",
                          f"admin name=ada {TOKENS['admin']}")
        self.start()
        job = self.ok("POST", "/v1/jobs", JOB, role="train")["job"]
        self.ok("GET", "/v1/jobs", role="read")
        self.ok("PUT", "/v1/budgets/row", {"watts": 1000})
        self.request("PUT", "/v1/budgets/row", {"watts": -1})
        self.request("DELETE", f"/v1/jobs/{job}", role="read")
        self.request("GET", "/v1/jobs", role="nobody-knows-this-one")
        self.ok("DELETE", f"/v1/jobs/{job}")
        self.await_entry("request", method="DELETE", result="ok")
        entries = [tuple(entry[name] for name in ("caller", "method", "route", "object", "status", "result"))
                   for entry in self.entries("request")]
        self.assertEqual(entries, [
            ("token trainers", "POST", "/v1/jobs", job, 201, "ok"),
            ("token ada", "PUT", "/v1/budgets/{}", "row", 200, "ok"),
            ("token ada", "PUT", "/v1/budgets/{}", "row", 400, "invalid_argument"),
            ("token viewer", "DELETE", "/v1/jobs/{}", job, 403, "not_allowed"),
            (None, "GET", "/v1/jobs", None, 401, "no_token"),
            ("token ada", "DELETE", "/v1/jobs/{}", job, 200, "ok")])
        self.assertTrue(all(entry["address"].startswith("127.") for entry in self.entries("request")))
        self.assert_no_secret(*TOKENS.values(), "nobody-knows-this-one")

    def test_an_entry_survives_the_kill_of_the_server(self):
        self.start()
        self.ok("PUT", "/v1/budgets/row", {"watts": 1000})
        self.await_entry("request", object="row")
        self.end(signal.SIGKILL)
        self.start()
        self.ok("PUT", "/v1/budgets/row", {"watts": 1100})
        self.await_entry("request", object="row")
        wait_until(lambda: len(self.entries("request")) == 2, "both are there")
        self.assertEqual(len(self.entries("started")), 2)

    def test_it_is_moved_away_by_another_program(self):
        self.start()
        self.ok("PUT", "/v1/budgets/one", {"watts": 1000})
        self.await_entry("request", object="one")
        (self.state / "audit.jsonl").rename(self.folder / "moved.jsonl")
        self.ok("PUT", "/v1/budgets/two", {"watts": 1000})
        wait_until(lambda: (self.state / "audit.jsonl").exists(), "a new file")
        self.await_entry("request", object="two")
        self.assertEqual([entry["object"] for entry in self.entries("request", self.folder / "moved.jsonl")], ["one"])

    def test_a_failure_to_write_it_is_seen_and_loses_nothing_soon(self):
        self.start()
        path = self.state / "audit.jsonl"
        path.rename(self.folder / "moved.jsonl")
        path.mkdir()
        self.ok("PUT", "/v1/budgets/one", {"watts": 1000})
        wait_until(lambda: "the audit log cannot be written" in self.log_text(), "a warning")
        self.assertIn("lowgear_server_audit_failing 1\n", self.request("GET", "/metrics").text)
        path.rmdir()
        wait_until(lambda: "the audit log is written again" in self.log_text(), "it works again")
        self.await_entry("request", object="one")
        self.assertIn("lowgear_server_audit_failing 0\n", self.request("GET", "/metrics").text)

    def test_a_server_that_cannot_write_it_does_not_start(self):
        self.config = f'audit: {{file: "{self.folder}/none/audit.jsonl"}}\n'
        result = subprocess.run(self.command(), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("audit log cannot be written", result.stderr)

    def test_it_can_be_left_out(self):
        self.config = "audit: {keep: false}\n"
        self.start()
        self.ok("PUT", "/v1/budgets/one", {"watts": 1000})
        self.assertFalse((self.state / "audit.jsonl").exists())
        self.assertNotIn("audit", self.request("GET", "/metrics").text)


if __name__ == "__main__":
    unittest.main()
