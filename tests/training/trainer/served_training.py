"""A test's own machine with a real server, too."""

import http.client
import json
import socket

from agent_training import AgentTraining


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("server")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class ServedTraining(AgentTraining):
    def setUp(self):
        super().setUp()
        self.socket = str(self.folder / "server.sock")

    def start_server(self):
        server = self.start("serve", "--state", str(self.folder / "state"), "--unix", self.socket)
        self.addCleanup(lambda: server.poll() is None and self.end(server))
        self.wait_until(self.answers, "the server responds")
        return server

    def answers(self):
        try:
            return self.get("/healthz")["status"] == "ok"
        except OSError:
            return False

    def get(self, path):
        connection = UnixConnection(self.socket)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def decisions(self):
        """Kind and reason of each decision of the only job."""
        jobs = self.get("/v1/jobs")["jobs"]
        decisions = self.get(f"/v1/jobs/{jobs[0]['job']}/decisions")["decisions"] if jobs else []
        return [(each["kind"], each["reason"]) for each in decisions]

    def reasons(self, kind):
        return [reason for each, reason in self.decisions() if each == kind]
