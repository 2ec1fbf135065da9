#!/usr/bin/env python3
"""TLS of the real server, seen by clients that are not Lowgear's: OpenSSL's command and Python's ssl."""

import http.client
import json
import os
import ssl
import subprocess
import threading
import time
import unittest

from certificates import Authority, TlsServerTest, skip_without_openssl
from served import ADDRESS, LOWGEAR, PATIENCE_S, TOKENS, wait_until

skip_without_openssl()

class Tls(TlsServerTest):
    def context(self, ca="ca", client=None):
        context = ssl.create_default_context(cafile=self.folder / f"{ca}.pem")
        if client:
            context.load_cert_chain(self.folder / f"{client}.pem", self.folder / f"{client}.key")
        return context

    def get(self, path="/v1/jobs", context=None, token=TOKENS["read"], host=ADDRESS):
        connection = http.client.HTTPSConnection(host, self.port, timeout=PATIENCE_S, context=context or self.context())
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            return connection.getresponse().status
        finally:
            connection.close()

    def s_client(self, *words, send=b""):
        result = subprocess.run(["openssl", "s_client", "-connect", f"{ADDRESS}:{self.port}", "-CAfile",
                                 self.folder / "ca.pem", "-verify_return_error", *words],
                                input=send, capture_output=True, timeout=PATIENCE_S)
        return result.returncode, (result.stdout + result.stderr).decode(errors="replace")

    def log_text(self):
        return (self.folder / "log").read_text()

    def test_requests_of_other_clients_are_answered(self):
        self.start()
        self.assertEqual(self.get(), 200)
        self.assertEqual(self.get(token="nobody-knows-this-one"), 401)
        for version in ("-tls1_2", "-tls1_3"):
            code, text = self.s_client(version, "-ign_eof", send=b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            self.assertEqual(code, 0, text)
            self.assertIn("HTTP/1.1 200 OK", text)
        code, text = self.s_client("-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
        self.assertNotEqual(code, 0, "TLS 1.1 is refused")

    def test_a_keep_alive_connection_carries_many_requests(self):
        self.start()
        connection = http.client.HTTPSConnection(ADDRESS, self.port, timeout=PATIENCE_S, context=self.context())
        self.addCleanup(connection.close)
        for _ in range(20):
            connection.request("GET", "/v1/jobs", headers={"Authorization": f"Bearer {TOKENS['read']}"})
            self.assertEqual(len(json.loads(connection.getresponse().read())["jobs"]), 0)

    def test_the_report_trusts_whom_the_environment_names(self):
        self.start()
        token = self.folder / "read-token"
        token.touch(0o600)
        token.write_text(TOKENS["read"])
        command = [LOWGEAR, "runs", "report", "--month", "2001-01", "--server", f"https://{ADDRESS}:{self.port}",
                   "--token-file", str(token)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LOWGEAR_SERVER")}
        for ca, code, words in (("ca.pem", 0, "no job has completed an iteration"), ("", 1, "TLS failed")):
            more = {"LOWGEAR_SERVER_CA_FILE": str(self.folder / ca)} if ca else {}
            result = subprocess.run(command, env={**environment, **more}, capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(words, result.stdout + result.stderr)

    def test_the_certificate_says_in_metrics_when_it_expires(self):
        self.start()
        connection = http.client.HTTPSConnection(ADDRESS, self.port, timeout=PATIENCE_S, context=self.context())
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKENS['read']}"})
        [line] = [line for line in connection.getresponse().read().decode().splitlines()
                  if line.startswith("lowgear_server_certificate_expiry_seconds ")]
        self.assertAlmostEqual(float(line.split()[1]), time.time() + 2 * 86_400, delta=3_600)

    def test_a_stream_of_events_arrives(self):
        self.start()
        connection = http.client.HTTPSConnection(ADDRESS, self.port, timeout=PATIENCE_S, context=self.context())
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {TOKENS['read']}"})
        self.assertEqual(connection.getresponse().readline(), b"retry: 2000\n")

    def test_a_wrong_authority_or_name_is_noticed_by_clients(self):
        self.start()
        Authority(self.folder, "stranger")
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.get(context=self.context(ca="stranger"))
        self.assertEqual(self.get(host="localhost") if ADDRESS == "127.0.0.1" else 200, 200)
        self.assertEqual(self.get(), 200)

    def test_plain_http_on_the_port_is_answered_so(self):
        self.start()
        connection = http.client.HTTPConnection(ADDRESS, self.port, timeout=PATIENCE_S)
        self.addCleanup(connection.close)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        self.assertEqual(answer.status, 400)
        self.assertIn(b"https://", answer.read())

    def test_slow_handshakes_delay_no_other_and_end(self):
        self.config = "limits: {request_timeout_s: 2}\n"
        self.start()
        held = [self.connect() for _ in range(50)]
        for number, connection in enumerate(held):
            connection.sendall(b"\x16\x03\x01\x02\x00"[:1 + number % 5])
        self.assertEqual([self.get() for _ in range(5)], [200] * 5)
        for connection in held:
            self.assertEqual(connection.recv(1), b"", "the server ends it")

    def test_a_handshake_byte_by_byte_gains_no_time(self):
        self.config = "limits: {request_timeout_s: 1}\n"
        self.start()
        connection = self.connect()
        ended = threading.Event()

        def drip():
            try:
                for byte in b"\x16\x03\x01\x02\x00" + b"\x01" + b"\0" * 500:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.1)
            except OSError:
                pass
            ended.set()

        threading.Thread(target=drip, daemon=True).start()
        wait_until(ended.is_set, "the server ends the connection")

    def test_a_certificate_is_replaced_while_the_server_serves(self):
        self.start()
        new = Authority(self.folder, "new")
        new.issue("server", f"IP:{ADDRESS}")
        wait_until(lambda: self.serves_for("new"), "the new certificate is in use")
        self.assertFalse(self.serves_for("ca"))
        (self.folder / "server.pem").write_text("nothing")
        wait_until(lambda: "the changed certificate is refused" in self.log_text(), "it is said")
        self.assertTrue(self.serves_for("new"))
        entries = [json.loads(line) for line in (self.state / "audit.jsonl").read_text().splitlines()]
        self.assertEqual(sum(entry["event"] == "certificate" for entry in entries), 2)

    def serves_for(self, ca):
        try:
            return self.get(context=self.context(ca=ca)) == 200
        except ssl.SSLCertVerificationError:
            return False

    def test_clients_show_a_certificate(self):
        self.client_ca = f'  client_ca: "{self.folder}/ca.pem"\n'
        self.start()
        self.authority.issue("rank")
        Authority(self.folder, "stranger").issue("intruder")
        self.assertEqual(self.get(context=self.context(client="rank")), 200)
        self.assertEqual(self.get(context=self.context(client="rank"), token="nobody-knows-this-one"), 401)
        for client in (None, "intruder"):
            with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                self.get(context=self.context(client=client))

    def test_a_server_with_unusable_files_does_not_start(self):
        (self.folder / "server.key").chmod(0o644)
        self.refuses("others may read it")
        self.authority.issue("other", f"IP:{ADDRESS}")
        (self.folder / "server.key").write_bytes((self.folder / "other.key").read_bytes())
        (self.folder / "server.key").chmod(0o600)
        self.refuses("server.key: is not a key in PEM without a passphrase, or not the key of")
        self.authority.issue("server", f"IP:{ADDRESS}", days="-1")
        self.refuses("has expired on")
        self.authority.run("ec", "-in", "other.key", "-aes256", "-passout", "pass:secret", "-out", "server.key")
        self.refuses("without a passphrase")

    def refuses(self, why):
        for more in ([], ["--check"]):
            result = subprocess.run([*self.command(), *more], capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(why, result.stderr)
            self.assertNotIn("PRIVATE", result.stderr)

    def test_options_of_the_command_do_the_same(self):
        self.start([LOWGEAR, "serve", "--state", str(self.state), "--unix", str(self.folder / "socket"), "--token-file",
                    str(self.folder / "tokens"), "--listen-tls", f"{ADDRESS}:0", "--tls-certificate",
                    str(self.folder / "server.pem"), "--tls-key", str(self.folder / "server.key"), "--json"])
        self.assertEqual(self.get(), 200)


if __name__ == "__main__":
    unittest.main()
