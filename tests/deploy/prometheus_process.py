"""A real Prometheus with the configuration and rules of deploy/monitoring, for tests, and an Alertmanager next to it."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package

INTERVAL = "500ms"  # of scrapes and rules
STARTS = 5


def get(port, path, parameters=None, host="127.0.0.1", headers=()):
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path + ("?" + urlencode(parameters) if parameters else ""), headers=dict(headers))
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()
    finally:
        connection.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def replace_once(text, old, new):
    assert text.count(old) == 1, f"{old} is {text.count(old)} times in the configuration"
    return text.replace(old, new)


class Listener:
    """A program that listens on a loopback port of its own."""

    def __init__(self, test, folder, name, command):
        """`command`: the words of the command, of a port."""
        self.test, self.folder, self.name, self.command = test, folder, name, command
        self.port, self.process = None, None

    def start(self):
        """Until it is ready. Another process may take the free port first: then on another one."""
        for _ in range(STARTS):
            self.port = free_port()
            if self.start_again():
                return
        raise AssertionError((self.folder / f"{self.name}.log").read_text())

    def start_again(self):
        """On the same port; whether it is ready then, or has ended."""
        with open(self.folder / f"{self.name}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen([str(word) for word in self.command(self.port)], stdout=log, stderr=log)
        self.process = process
        self.test.addCleanup(process.wait, PATIENCE_S)
        self.test.addCleanup(process.kill)
        return wait_until(lambda: process.poll() is not None or self.is_ready(), "it is ready") and process.poll() is None

    def is_ready(self):
        try:
            return get(self.port, "/-/ready")[0] == 200
        except OSError:
            return False


class Alertmanager(Listener):
    """With deploy/monitoring/alertmanager.yml, whose receiver is `webhook_url`, and which waits for nothing."""

    def __init__(self, test, folder, program, monitoring, webhook_url):
        config = (monitoring / "alertmanager.yml").read_text()
        config = replace_once(config, "http://127.0.0.1:9095/", webhook_url)
        config = replace_once(config, "group_wait: 30s", "group_wait: 0s")
        config = replace_once(config, "group_interval: 5m", "group_interval: 1s")
        (folder / "alertmanager.yml").write_text(config)
        super().__init__(test, folder, "alertmanager", lambda port: [
            program, f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/alertmanager",
            f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="])


class Prometheus(Listener):
    """Scrapes `agents` and `servers`, addresses, every half second. `at_once`: alerts that need not last to fire."""

    def __init__(self, test, folder, program, monitoring, agents, servers=(), alertmanagers=(), at_once=()):
        for name in ("lowgear.rules.yml", "lowgear.alerts.yml"):
            shutil.copy(monitoring / name, folder)
        alerts = (folder / "lowgear.alerts.yml").read_text()
        for alert in at_once:
            alerts, count = re.subn(rf"(- alert: {alert}\n(?: +(?!for:)\S.*\n)*? +for:) \d+m", r"\1 0s", alerts)
            assert count == 1, f"{alert} does not wait in the rules"
        (folder / "lowgear.alerts.yml").write_text(alerts)
        config = (monitoring / "prometheus.yml").read_text()
        for shipped, real in (("9400", agents), ("7787", servers), ("9093", alertmanagers)):
            config = replace_once(config, f'["127.0.0.1:{shipped}"]', json.dumps(list(real)))
        config = re.sub(r"_interval: \d+s", f"_interval: {INTERVAL}", config)
        (folder / "prometheus.yml").write_text(config)
        super().__init__(test, folder, "prometheus", lambda port: [
            program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}"])

    def ask(self, path, parameters=None):
        reply = json.loads(get(self.port, path, parameters)[2])
        if reply["status"] != "success":
            raise AssertionError(f"{path} {parameters}: {reply}")
        return reply["data"]

    def query(self, expression):
        return self.ask("/api/v1/query", {"query": expression})["result"]

    def wait_for(self, expression):
        return wait_until(lambda: self.query(expression),
                          lambda: f"a series for {expression}; targets: {self.ask('/api/v1/targets')}")

    def rules(self):
        return [rule for group in self.ask("/api/v1/rules")["groups"] for rule in group["rules"]]
