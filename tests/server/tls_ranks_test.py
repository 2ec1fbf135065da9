#!/usr/bin/env python3
"""Ranks of the Python package, which register with the real server over TLS, or train on without it."""

import json
import os
import subprocess
import sys
import unittest

from certificates import Authority, TlsServerTest, skip_without_openssl
from served import ADDRESS, TOKENS

skip_without_openssl()

RANK = """
import json, sys, time
import lowgear
server, token_file, problem = sys.argv[1:]
spec = {"run": "r", "model": "m", "gpu": "g", "parallel": {"pp": 1}, "schedule": "1f1b", "microbatches": 2}
client = lowgear.Client(agent_socket="", server=server, token_file=token_file, job_spec=spec, rank=0, local_rank=0,
                        world_size=1, pp_rank=0, dp_rank=0, tp_rank=0)
iterations = 0
while True:
    with client.iteration():
        time.sleep(0.02)
    iterations += 1
    status = client.status()
    if status.server_problem and problem in status.server_problem if problem else status.server_connected:
        break
print(json.dumps({"iterations": iterations, "connected": status.server_connected, "problem": status.server_problem}))
import warnings
warnings.simplefilter("ignore")
client.close()
"""


class TlsRanks(TlsServerTest):
    def setUp(self):
        super().setUp()
        self.token = self.folder / "train.token"
        self.token.touch(0o600)
        self.token.write_text(TOKENS["train"])

    def rank(self, problem="", host=ADDRESS, scheme="https", **files):
        """How a rank sees the server once it is connected, or has a problem with this text (a busy machine may cause others
        before). `files` are those of the environment: ca, certificate, key."""
        environment = {**self.environment, **{f"LOWGEAR_SERVER_{name.upper()}_FILE": str(path)
                                              for name, path in files.items()}}
        result = subprocess.run([sys.executable, "-c", RANK, f"{scheme}://{host}:{self.port}", self.token, problem],
                                env=environment, capture_output=True, text=True)
        if result.returncode:
            return result.stderr
        return json.loads(result.stdout)

    @property
    def environment(self):
        return {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_SERVER")}

    def test_a_rank_registers_with_a_server_that_it_trusts(self):
        self.start()
        seen = self.rank(ca=self.folder / "ca.pem")
        self.assertEqual((seen["connected"], seen["problem"]), (True, ""))
        text = (self.state / "audit.jsonl").read_text()
        self.assertIn('"caller":"token line 2"', text)
        self.assertNotIn(TOKENS["train"], text)

    def test_a_rank_trains_on_without_a_server_that_it_does_not_trust(self):
        self.start()
        Authority(self.folder, "stranger")
        for files in ({"ca": self.folder / "stranger.pem"}, {}):
            seen = self.rank("TLS failed", **files)
            self.assertFalse(seen["connected"])
            self.assertIn("TLS failed", seen["problem"])
            self.assertGreater(seen["iterations"], 0)
        self.assertNotIn("/v1/jobs", (self.state / "audit.jsonl").read_text())

    def test_a_rank_speaks_tls_only_where_it_is_configured_to(self):
        self.start()
        seen = self.rank("this port speaks TLS", scheme="http", ca=self.folder / "ca.pem")
        self.assertFalse(seen["connected"])
        self.assertIn("this port speaks TLS", seen["problem"])

    def test_a_rank_shows_its_certificate(self):
        self.client_ca = f'  client_ca: "{self.folder}/ca.pem"\n'
        self.start()
        self.assertFalse(self.rank(":", ca=self.folder / "ca.pem")["connected"])  # any problem
        self.authority.issue("rank")
        seen = self.rank(ca=self.folder / "ca.pem", certificate=self.folder / "rank.pem", key=self.folder / "rank.key")
        self.assertTrue(seen["connected"], seen)

    def test_a_file_that_is_missing_is_named_at_once(self):
        self.start()
        self.assertIn("none.pem: is missing or unreadable", self.rank(ca=self.folder / "none.pem"))
        self.assertIn("set both, or none", self.rank(ca=self.folder / "ca.pem", key=self.folder / "server.key"))


if __name__ == "__main__":
    unittest.main()
