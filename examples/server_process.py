"""`lowgear serve` as a process of an example, and its answers."""

import http.client
import json
import signal
import socket
import subprocess

from simulated_machine import PATIENCE_S


class Server:
    """A running `lowgear serve`, and its answers."""

    def __init__(self, lowgear, folder, port, log):
        self.log = log
        self.socket = str(folder / "server.sock")
        config = folder / "server.yaml"
        config.write_text(
            f'state: "{folder}/server"\nlisten: {{unix: "{self.socket}", tcp: ["127.0.0.1:{port}"], loopback_read: true}}\n'
        )
        config.chmod(0o600)
        self.process = subprocess.Popen([lowgear, "serve", "--config", str(config), "--json"], stdout=subprocess.PIPE,
                                        stderr=open(log, "w", encoding="utf-8"), text=True, process_group=0)
        text = ""
        for line in self.process.stdout:
            text += line
            if line.startswith("}"):
                break
        else:
            raise SystemExit("the server did not start: " + log.read_text())
        self.url = json.loads(text)["tcp"][0]

    def get(self, path):
        return self.request("GET", path)

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("server")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(self.socket)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        if response.status >= 400:
            raise SystemExit(f"the server refuses {method} {path}: {answer}")
        return answer

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE_S)
