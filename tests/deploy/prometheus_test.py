#!/usr/bin/env python3
"""prometheus_test.py METRICS_FIXTURE PROMETHEUS PROMTOOL DEPLOY: a real Prometheus with the configuration and rules of
deploy/prometheus reads the metrics of agent and server over loopback."""

import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from urllib.parse import urlencode

DEPLOY, PROMTOOL, PROMETHEUS, FIXTURE = (sys.argv.pop() for _ in range(4))
PATIENCE_S = 60


def get(port, path, parameters=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path + ("?" + urlencode(parameters) if parameters else ""))
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()
    finally:
        connection.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fixture = subprocess.Popen([FIXTURE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.agent_port, cls.server_port = (int(word) for word in cls.fixture.stdout.readline().split())

    @classmethod
    def tearDownClass(cls):
        cls.fixture.stdin.close()
        cls.fixture.stdout.close()
        code = cls.fixture.wait(PATIENCE_S)
        assert code == 0, f"the fixture ended with {code}"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lowgear-prometheus-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_promtool_finds_nothing_to_criticise(self):
        for port in (self.agent_port, self.server_port):
            status, content_type, text = get(port, "/metrics")
            self.assertEqual(status, 200)
            self.assertEqual(content_type, "text/plain; version=0.0.4; charset=utf-8")
            check = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, timeout=PATIENCE_S)
            self.assertEqual((check.returncode, check.stdout + check.stderr), (0, b""))

    def start_prometheus(self):
        """Another process may take the free port first: then on another one."""
        for _ in range(5):
            self.port = free_port()
            log = open(self.folder / "prometheus.log", "w")
            self.addCleanup(log.close)
            process = subprocess.Popen(
                [PROMETHEUS, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)
            self.addCleanup(process.wait, PATIENCE_S)
            self.addCleanup(process.kill)
            end = time.monotonic() + PATIENCE_S
            while process.poll() is None and time.monotonic() < end:
                try:
                    if get(self.port, "/-/ready")[0] == 200:
                        return
                except OSError:
                    pass
                time.sleep(0.05)
        self.fail((self.folder / "prometheus.log").read_text())

    def ask(self, path, parameters=None):
        reply = json.loads(get(self.port, path, parameters)[2])
        self.assertEqual(reply["status"], "success", reply)
        return reply["data"]

    def query(self, expression):
        return self.ask("/api/v1/query", {"query": expression})["result"]

    def wait_for(self, expression):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            result = self.query(expression)
            if result:
                return result
            time.sleep(0.1)
        self.fail(f"no series for {expression}; targets: {self.ask('/api/v1/targets')}")

    def test_a_real_prometheus_reads_both(self):
        for name in ("lowgear.rules.yml", "lowgear.alerts.yml"):
            shutil.copy(pathlib.Path(DEPLOY) / name, self.folder)
        config = (pathlib.Path(DEPLOY) / "prometheus.yml").read_text()
        config, targets = re.subn("127.0.0.1:9400", f"127.0.0.1:{self.agent_port}", config)
        self.assertEqual(targets, 1)
        config, targets = re.subn("127.0.0.1:7787", f"127.0.0.1:{self.server_port}", config)
        self.assertEqual(targets, 1)
        config = config.replace("_interval: 15s", "_interval: 500ms").replace("_interval: 5s", "_interval: 500ms")
        (self.folder / "prometheus.yml").write_text(config)
        self.start_prometheus()

        self.assertEqual(self.wait_for("sum(up) == 2")[0]["value"][1], "2")
        power = self.wait_for("instance:lowgear_gpu_power_watts:sum")[0]
        self.assertEqual(power["metric"]["instance"], f"127.0.0.1:{self.agent_port}")
        # 1000 J and 800 J, in 2 s each, one of both with every scrape.
        per_step = self.wait_for('training_energy_per_step{phase="train"}')[0]
        self.assertAlmostEqual(float(per_step["value"][1]), 800, places=6)
        saved = self.wait_for("training_power_saved")[0]
        self.assertAlmostEqual(float(saved["value"][1]), 100, places=6)
        info = self.wait_for("lowgear_train_info")[0]["metric"]
        self.assertEqual((info["job"], info["job_id"], info["name"]),
                         ("lowgear-server", "j-1", 'a "name"\nof two lines'))
        # No name of ours is one that Prometheus gives to its targets.
        self.assertEqual(self.query('{__name__=~"lowgear_.+", exported_job=~".+"}'), [])
        self.assertEqual(self.query('{__name__=~"lowgear_.+", exported_instance=~".+"}'), [])
        self.wait_for('ALERTS{alertname="LowgearStraggler"}')
        rules = [rule for group in self.ask("/api/v1/rules")["groups"] for rule in group["rules"]]
        self.assertGreater(len(rules), 20)
        self.assertEqual([rule["lastError"] for rule in rules if rule.get("lastError")], [])


if __name__ == "__main__":
    unittest.main()
