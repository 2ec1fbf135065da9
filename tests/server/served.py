"""`lowgear serve` in a folder of its own, and requests to it whose answers are checked against its own document."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from openapi_checker import OpenApi

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from waiting import PATIENCE_S, wait_until  # noqa: E402: the tests are no package

LOWGEAR = os.environ.get("LOWGEAR_BINARY", "lowgear")
TOKENS = {role: f"{role}-token-for-tests-only" for role in ("read", "train", "admin", "node")}
TOKEN_LINES = "".join(f"{role}{' nodes=*' if role == 'node' else ''} {token}\n" for role, token in TOKENS.items())
OPENAPI = Path(__file__).resolve().parents[2] / "src/server/http/openapi.json"


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.media = response.headers.get("Content-Type", "")
        payload = response.read()
        self.text = payload.decode()
        self.json = json.loads(payload) if self.media.startswith("application/json") and payload else None

    @property
    def code(self):
        """Of an error."""
        return self.json["error"]["code"]


# Each process has a loopback address of its own: a server that starts again on its port must find it free, whatever other
# tests listen on meanwhile.
ADDRESS = "127.{}.{}.{}".format(1 + (os.getpid() >> 16 & 0x3f), os.getpid() >> 8 & 0xff, os.getpid() & 0xff)


class ServerTest(unittest.TestCase):
    """A server for each test, on a loopback port and a Unix socket."""

    top = ""  # of the configuration, before its sections
    config = ""  # more of it, after listen
    wrapper = ()  # what the server is started by

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"
        self.port = 0
        self.openapi = OpenApi(json.loads(OPENAPI.read_text()))
        tokens = self.folder / "tokens"
        tokens.touch(0o600)
        tokens.write_text(TOKEN_LINES)

    def write_config(self, name="server.yaml"):
        path = self.folder / name
        path.touch(0o600)
        path.write_text(f'state: "{self.state}"\n{self.top}listen: {{unix: "{self.folder}/socket", tcp: ["{ADDRESS}:'
                        f'{self.port}"], token_file: "{self.folder}/tokens"}}\n{self.config}')
        return path

    def command(self):
        return [*self.wrapper, LOWGEAR, "serve", "--config", str(self.write_config()), "--json"]

    def start(self, command=None):
        """Starts the server, on the same port when it has had one, and waits until it answers."""
        self.log = open(self.folder / "log", "ab")
        self.addCleanup(self.log.close)
        self.process = subprocess.Popen(command or self.command(), stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.addCleanup(self.end)
        self.addCleanup(self.process.stdout.close)
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            self.assertTrue(line, (self.folder / "log").read_text())
            text += line
        [url] = json.loads(text)["tcp"]
        self.port = int(url.rstrip("/").rpartition(":")[2])
        return self.process

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def request(self, method, path, body=None, role="admin", key=None, headers=(), checked=True):
        """One request over TCP. `body` is made JSON unless it is bytes."""
        head = {"Content-Type": "application/json", "Host": f"127.0.0.1:{self.port}", **dict(headers)}
        if role:
            head["Authorization"] = f"Bearer {TOKENS.get(role, role)}"
        if key:
            head["Lowgear-Rank-Key"] = key
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(ADDRESS, self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, data, head)
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        if checked:
            self.openapi.check(method, path.partition("?")[0], answer.status, answer.media,
                               answer.text if answer.json is None else answer.json)
        return answer

    def ok(self, *arguments, **options):
        """JSON of a request that has to succeed."""
        answer = self.request(*arguments, **options)
        self.assertLess(answer.status, 300, answer.text)
        return answer.json

    def refused(self, status, code, *arguments, **options):
        answer = self.request(*arguments, **options)
        self.assertEqual((answer.status, answer.code), (status, code), answer.text)
        self.assertNotIn("\n", answer.json["error"]["message"])
        return answer

    def connect(self, timeout=PATIENCE_S):
        connection = socket.create_connection((ADDRESS, self.port), timeout)
        self.addCleanup(connection.close)
        return connection


class Events(threading.Thread):
    """Reads a stream of events until it ends."""

    def __init__(self, test, path="/v1/events"):
        super().__init__(daemon=True)
        self.events, self.ended = [], False
        self.connection = http.client.HTTPConnection(ADDRESS, test.port, timeout=PATIENCE_S)
        self.connection.request("GET", path, headers={"Authorization": f"Bearer {TOKENS['read']}"})
        self.answer = self.connection.getresponse()
        test.addCleanup(self.connection.close)
        self.start()

    def run(self):
        name = None
        try:
            for line in self.answer:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    self.events.append((name, json.loads(text.removeprefix("data: "))))
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass  # closed
        self.ended = True

    def of(self, name):
        return [data for event, data in self.events if event == name]
