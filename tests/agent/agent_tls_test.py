"""The real agent over TLS: its metrics for Prometheus, and its share of a server's power budget."""

import http.client
import os
import socket
import ssl
import sys
import unittest
from pathlib import Path

from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "server"))
from certificates import Authority, skip_without_openssl  # noqa: E402

skip_without_openssl()

HOST = "127.0.0.1"
SAFE_W, BUDGET_W = 300, 1000


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class TlsTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder)
        self.authority.issue("node", f"IP:{HOST}")

    def context(self, ca="ca", client=None):
        context = ssl.create_default_context(cafile=self.folder / f"{ca}.pem")
        if client:
            context.load_cert_chain(self.folder / f"{client}.pem", self.folder / f"{client}.key")
        return context

    def refuses(self, why, actions=("serve", "check")):
        for action in actions:
            agent = self.start([LOWGEAR, "agent", action, "--config", str(self.config)])
            self.assertEqual(agent.wait(PATIENCE_S), 2)
            self.assertIn(why, agent.stderr.read())

    def set_environment(self, name, value):
        os.environ[name] = str(value)
        self.addCleanup(os.environ.pop, name)


class MetricsTest(TlsTest):
    client_ca = False

    def write_config(self, extra=""):
        self.port = free_port()
        super().write_config(extra)
        more = (f'sockets:\n  metrics_address: "{HOST}"\n  metrics_port: {self.port}\n'
                f'  metrics_tls_certificate: "{self.folder}/node.pem"\n  metrics_tls_key: "{self.folder}/node.key"\n')
        if self.client_ca:
            more += f'  metrics_tls_client_ca: "{self.folder}/ca.pem"\n'
        self.config.write_text(self.config.read_text().replace("sockets:\n", more, 1))

    def get(self, path, context=None):
        connection = http.client.HTTPSConnection(HOST, self.port, timeout=PATIENCE_S, context=context or self.context())
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


class Metrics(MetricsTest):
    def test_are_read_by_those_who_trust_its_authority(self):
        self.start_agent()
        status, text = self.get("/metrics")
        self.assertEqual(status, 200)
        self.assertEqual(text.count("\nlowgear_gpu_healthy{"), 2)
        self.assertEqual(self.get("/healthz")[0], 200)
        self.assertEqual(self.get("/v1/gpus")[0], 404, "the port has nothing else")
        Authority(self.folder, "stranger")
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.get("/metrics", self.context("stranger"))
        plain = http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_S)
        self.addCleanup(plain.close)
        plain.request("GET", "/metrics")
        answer = plain.getresponse()
        self.assertEqual(answer.status, 400)
        self.assertNotIn("lowgear_gpu", answer.read().decode())

    def test_a_certificate_is_replaced_without_a_restart(self):
        agent = self.start_agent()

        def serial():
            with socket.create_connection((HOST, self.port)) as connection:
                with self.context().wrap_socket(connection, server_hostname=HOST) as stream:
                    return stream.getpeercert()["serialNumber"]
        before = serial()
        self.authority.issue("node", f"IP:{HOST}")
        wait_until(lambda: serial() != before, "the new certificate is shown")
        self.assertIsNone(agent.poll())

    def test_a_wrong_key_is_refused_at_the_start(self):
        (self.folder / "node.key").chmod(0o644)
        self.refuses("node.key: others may read it")


class MetricsForSome(MetricsTest):
    client_ca = True

    def test_are_read_by_those_who_show_a_certificate(self):
        self.start_agent()
        self.authority.issue("prometheus")
        status, text = self.get("/metrics", self.context(client="prometheus"))
        self.assertEqual(status, 200)
        self.assertIn("lowgear_gpu_healthy", text)
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            self.get("/metrics", self.context())


class PowerShare(TlsTest):
    def setUp(self):
        super().setUp()
        token = self.folder / "token"
        token.touch(0o600)
        token.write_text("a-token-of-the-test\n")
        tokens = self.folder / "tokens"
        tokens.touch(0o600)
        tokens.write_text("node nodes=* a-token-of-the-test\n")

    def start_server(self):
        """Returns once it has a budget."""
        config = self.folder / "server.yaml"
        config.touch(0o600)
        config.write_text(f'state: "{self.folder}/state"\nlisten: {{unix: "{self.folder}/server.sock", '
                          f'tls: ["{HOST}:0"], token_file: "{self.folder}/tokens"}}\n'
                          f'tls: {{certificate: "{self.folder}/node.pem", key: "{self.folder}/node.key"}}\n'
                          "allow: [{role: admin, everybody: true}]\n")
        server = self.start([LOWGEAR, "serve", "--config", str(config)])
        line = server.stdout.readline()
        self.assertIn("https://", line)
        self.address = "https://" + line.rpartition("https://")[2].strip().rstrip("/")
        connection = http.client.HTTPConnection("server")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.folder / "server.sock"))
        connection.request("PUT", "/v1/budgets/cluster", f'{{"watts": {BUDGET_W}}}')
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def configure(self, more=""):
        self.write_config(f'power_share:\n  server: "{self.address}"\n  safe_w: {SAFE_W}\n  host: node-1\n'
                          f'  token_file: "{self.folder}/token"\n{more}')

    def limits_w(self):
        return [gpu["power_limit_w"] for gpu in self.machine()]

    def expect_share(self):
        self.start_agent()
        wait_until(lambda: self.limits_w() == [BUDGET_W / 2] * 2, "the share is held")

    def test_of_a_server_whose_authority_the_configuration_names(self):
        self.start_server()
        self.configure(f'  ca_file: "{self.folder}/ca.pem"\n')
        self.expect_share()

    def test_of_a_server_whose_authority_the_environment_names(self):
        self.start_server()
        self.set_environment("LOWGEAR_SERVER_CA_FILE", self.folder / "ca.pem")
        self.configure()
        self.expect_share()

    def test_of_no_server_that_is_not_trusted(self):
        self.start_server()
        self.configure()
        agent = self.start_agent()
        wait_until(lambda: self.limits_w() == [SAFE_W] * 2, "what is safe")
        reason = next(line for line in agent.stderr if "no share of power from the server" in line)
        self.assertIn("TLS failed", reason)

    def test_a_file_without_authorities_is_refused_at_the_start(self):
        self.address = f"https://{HOST}:9"
        self.configure(f'  ca_file: "{self.folder}/none.pem"\n')
        self.refuses("none.pem")

    def test_a_check_reads_the_token(self):
        self.address = f"https://{HOST}:9"
        self.configure(f'  ca_file: "{self.folder}/ca.pem"\n')
        (self.folder / "token").unlink(missing_ok=True)
        self.refuses(f"{self.folder}/token: cannot be read", actions=["check"])


if __name__ == "__main__":
    unittest.main()
