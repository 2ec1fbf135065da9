#!/usr/bin/env python3
"""prometheus_test.py METRICS_FIXTURE PROMETHEUS PROMTOOL MONITORING: a real Prometheus with the configuration and rules of
deploy/monitoring reads the metrics of agent and server over loopback."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from prometheus_process import PATIENCE_S, Prometheus, get

MONITORING, PROMTOOL, PROMETHEUS, FIXTURE = (sys.argv.pop() for _ in range(4))


class ReadsBoth(unittest.TestCase):
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

    def test_a_real_prometheus_reads_both(self):
        prometheus = Prometheus(self, self.folder, PROMETHEUS, pathlib.Path(MONITORING), [f"127.0.0.1:{self.agent_port}"],
                                [f"127.0.0.1:{self.server_port}"])
        prometheus.start()
        self.assertEqual(prometheus.wait_for("sum(up) == 2")[0]["value"][1], "2")
        power = prometheus.wait_for("instance:lowgear_gpu_power_watts:sum")[0]
        self.assertEqual(power["metric"]["instance"], f"127.0.0.1:{self.agent_port}")
        # 1000 J and 800 J, in 2 s each, one of both with every scrape.
        per_step = prometheus.wait_for('training_energy_per_step{phase="train"}')[0]
        self.assertAlmostEqual(float(per_step["value"][1]), 800, places=6)
        saved = prometheus.wait_for("training_power_saved")[0]
        self.assertAlmostEqual(float(saved["value"][1]), 100, places=6)
        self.assertEqual(prometheus.wait_for("training_active_layers")[0]["value"][1], "20")
        self.assertEqual(prometheus.wait_for("training_precision_mode")[0]["value"][1], "2")
        info = prometheus.wait_for("lowgear_train_info")[0]["metric"]
        self.assertEqual((info["job"], info["job_id"], info["name"]),
                         ("lowgear-server", "j-1", 'a "name"\nof two lines'))
        # No name of ours is one that Prometheus gives to its targets.
        self.assertEqual(prometheus.query('{__name__=~"lowgear_.+", exported_job=~".+"}'), [])
        self.assertEqual(prometheus.query('{__name__=~"lowgear_.+", exported_instance=~".+"}'), [])
        prometheus.wait_for('ALERTS{alertname="LowgearStraggler"}')
        rules = prometheus.rules()
        self.assertGreater(len(rules), 20)
        self.assertEqual([rule["lastError"] for rule in rules if rule.get("lastError")], [])


if __name__ == "__main__":
    unittest.main()
