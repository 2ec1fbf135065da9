#!/usr/bin/env python3
"""alertmanager_test.py PROMETHEUS MONITORING: alerts of a real agent on simulated GPUs reach a receiver through a real
Prometheus and a real Alertmanager, with the rules and configurations of deploy/monitoring, and are resolved again."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SKIP_CODE = 77
MONITORING, PROMETHEUS = (sys.argv.pop() for _ in range(2))
ALERTMANAGER, AMTOOL = shutil.which("prometheus-alertmanager"), shutil.which("amtool")


class Receiver:
    """The webhook: keeps every alert that arrives."""

    def __init__(self):
        received, lock = [], threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    received.extend(body["alerts"])
                self.send_response(200)
                self.end_headers()

        self.received, self.lock = received, lock
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_address[1]}/"

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def newest(self, name, **labels):
        """The newest of the alerts of this name and with these labels; None if none has arrived."""
        with self.lock:
            found = [alert for alert in self.received
                     if {"alertname": name, **labels}.items() <= alert["labels"].items()]
        return found[-1] if found else None


class Alerts(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.receiver = Receiver()
        self.addCleanup(self.receiver.close)
        self.node = SimulatedNode(self, self.folder, "2xH100")
        self.node.start()
        alertmanager = Alertmanager(self, self.folder, ALERTMANAGER, Path(MONITORING), self.receiver.url)
        alertmanager.start()
        self.prometheus = Prometheus(
            self, self.folder, PROMETHEUS, Path(MONITORING), [self.node.address],
            alertmanagers=[f"127.0.0.1:{alertmanager.port}"], at_once=["LowgearGpuUnhealthy", "LowgearTargetDown"])
        self.prometheus.start()
        self.prometheus.wait_for("sum(lowgear_gpu_healthy) == 2")

    def wait_for(self, status, name, **labels):
        """The alert, once it arrives with this status (`firing`, `resolved`)."""
        def arrived():
            alert = self.receiver.newest(name, **labels)
            return alert if alert and alert["status"] == status else None

        return wait_until(arrived, lambda: f"{name} {labels} is {status}; received: {self.receiver.received}")

    def test_a_lost_gpu_is_reported_and_its_return_too(self):
        self.assertEqual(self.receiver.received, [])
        self.node.simgpu("inject", "--gpu", "1", "--lost")
        lost = {"instance": self.node.address, "gpu": "1", "uuid": self.node.uuids()[1], "severity": "critical"}
        alert = self.wait_for("firing", "LowgearGpuUnhealthy", **lost)
        self.assertEqual(alert["annotations"]["summary"],
                         f"GPU 1 ({lost['uuid']}) at {self.node.address} does not respond")
        self.assertIsNone(self.receiver.newest("LowgearGpuUnhealthy", gpu="0"))
        self.node.simgpu("reset", "--gpu", "1")
        self.wait_for("resolved", "LowgearGpuUnhealthy", **lost)

    def test_an_agent_that_ends_is_reported_and_its_return_too(self):
        self.node.process.send_signal(signal.SIGTERM)
        self.node.process.wait(PATIENCE_S)
        down = {"instance": self.node.address, "job": "lowgear-agent", "severity": "warning"}
        self.wait_for("firing", "LowgearTargetDown", **down)
        # Another program may hold its port for a moment.
        wait_until(self.node.start_again, "it is ready on its port again")
        self.wait_for("resolved", "LowgearTargetDown", **down)


class Configuration(unittest.TestCase):
    @unittest.skipUnless(AMTOOL, "SKIPPED: there is no amtool")
    def test_the_configuration_is_valid(self):
        check = subprocess.run([AMTOOL, "check-config", Path(MONITORING) / "alertmanager.yml"], text=True,
                               capture_output=True, timeout=PATIENCE_S)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)


if __name__ == "__main__":
    if ALERTMANAGER is None:
        print("NO ALERT REACHES AN ALERTMANAGER: install prometheus-alertmanager")
        raise SystemExit(SKIP_CODE)
    from monitored_fleet import SimulatedNode
    from prometheus_process import PATIENCE_S, Alertmanager, Prometheus, wait_until
    unittest.main()
