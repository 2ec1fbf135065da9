"""What the real server pushes to a collector of OpenTelemetry, read by a decoder that is not Lowgear's."""

import json
import shutil
import ssl
import subprocess
import sys
import unittest
from pathlib import Path

from api_test import Ranks
from certificates import Authority
from served import ADDRESS, PATIENCE_S, ServerTest, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "report/metrics/otlp"))
from otlp_decoder import Collector, Invalid, decode, read_exposition  # noqa: E402

# Of the requests and of the exports themselves, which change between two looks.
CHANGING = ("lowgear_server_requests", "lowgear_server_request_seconds", "lowgear_server_connections", "lowgear_otlp")


class Otlp(ServerTest):
    def otlp(self, url, more="", interval_s=1):
        self.config += f'[otlp]\nurl = "{url}"\ninterval_s = {interval_s}\n{more}'

    def headers_file(self, text):
        path = self.folder / "otlp-headers"
        path.touch(0o600)
        path.write_text(text)
        return path

    def metrics_text(self):
        return self.request("GET", "/metrics", role="read").text

    def metric(self, name):
        found = read_exposition(self.metrics_text())
        return found[name][1] if name in found else {}

    def log_text(self):
        return (self.folder / "log").read_text()

    def assert_same(self, shown, exported):
        """Names, kinds, labels and values, but for what changes."""
        steady = [name for name in shown if not name.startswith(CHANGING)]
        self.assertEqual({name for name in exported if not name.startswith(CHANGING)}, set(steady))
        for name in steady:
            kind, points = shown[name]
            self.assertEqual(exported[name][0], kind, name)
            self.assertEqual(set(exported[name][1]), set(points), name)
            for labels, value in points.items():
                got = exported[name][1][labels]
                if kind != "histogram":
                    self.assertEqual(got, value, name)
                    continue
                below = [sum(got["counts"][:i + 1]) for i in range(len(got["counts"]))]
                self.assertEqual((below, got["count"], got["sum"]), (value["below"], value["count"], value["sum"]), name)

    def test_exports_are_what_metrics_shows(self):
        collector = Collector(self, address=ADDRESS)
        self.otlp(collector.url)
        self.start()
        ranks = Ranks(self)
        for rank in range(ranks.pp):
            ranks.register(rank)
        ranks.train(4)
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 60000})
        self.start_counting(collector)

        def is_steady():
            before, count = read_exposition(self.metrics_text()), len(collector.requests)
            wait_until(lambda: len(collector.requests) > count + 1, "two more exports")
            return self.try_same(before, collector.exports()[count + 1][1])
        wait_until(is_steady, "an export with the values of /metrics")
        resource, exported = collector.exports()[-1]
        self.assertEqual(resource["service.name"], "lowgear-server")
        self.assertEqual(resource["host.name"], resource["service.instance.id"])
        self.assertIn((("version", resource["service.version"]),), exported["lowgear_build_info"][1])
        self.assertEqual(exported["lowgear_train_steps_total"][0], "sum")
        self.assertEqual(exported["lowgear_train_step_seconds"][0], "histogram")
        [steps] = exported["lowgear_train_step_seconds"][1].values()
        self.assertEqual(steps["count"], 4)
        path, headers, _ = collector.requests[-1]
        self.assertEqual((path, headers["Content-Type"]), ("/v1/metrics", "application/json"))

    def start_counting(self, collector):
        wait_until(lambda: collector.requests, "an export")

    def try_same(self, shown, exported):
        try:
            self.assert_same(shown, exported)
        except AssertionError as difference:
            self.difference = difference
            return False
        return True

    def test_sums_count_from_the_start_and_never_fall(self):
        collector = Collector(self, address=ADDRESS)
        self.otlp(collector.url)
        self.start()
        wait_until(lambda: len(collector.requests) >= 3, "exports")
        starts, times, counts = set(), [], []
        for _, _, body in collector.requests:
            _, exported = decode(body)
            metrics = json.loads(body)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            [point] = next(each for each in metrics if each["name"] == "lowgear_server_store_commits_total")["sum"][
                "dataPoints"]
            starts.add(point["startTimeUnixNano"])
            times.append(int(point["timeUnixNano"]))
            counts.append(exported["lowgear_otlp_exports_total"][1][(("outcome", "sent"),)])
        self.assertEqual(len(starts), 1)
        self.assertEqual(times, sorted(set(times)))
        self.assertEqual(counts, sorted(counts))

    def test_the_last_export_has_the_values_of_the_end(self):
        collector = Collector(self, address=ADDRESS)
        self.otlp(collector.url, interval_s=300)
        self.start()
        self.start_counting(collector)
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 60000})
        self.end()
        (_, first), (_, last) = collector.exports()
        self.assertNotIn("row-1", json.dumps(str(first)))
        self.assertIn("row-1", json.dumps(str(last)))

    def test_what_can_be_repeated_is_repeated(self):
        answers = [(503, {"Retry-After": 1}, ""), (429, {}, ""), (200, {}, "{}")]
        collector = Collector(self, lambda number: answers[min(number, 2)], address=ADDRESS)
        self.otlp(collector.url)
        self.start()
        wait_until(lambda: self.metric("lowgear_otlp_exports_total").get((("outcome", "sent"),), 0) >= 1, "an export")
        self.assertEqual(self.metric("lowgear_otlp_failures_total"), {(): 2})
        bodies = [body for _, _, body in collector.requests]
        self.assertEqual(bodies[0], bodies[1])
        self.assertEqual(bodies[0], bodies[2])
        self.assertIn("metrics cannot be exported to", self.log_text())
        self.assertIn("status 503", self.log_text())
        wait_until(lambda: "are exported to" in self.log_text(), "the log says that it works again")

    def test_refusals_and_rejected_points_show(self):
        rejected = json.dumps({"partialSuccess": {"rejectedDataPoints": "5", "errorMessage": "too many labels"}})
        collector = Collector(self, lambda number: (400, {}, "") if number == 0 else (200, {}, rejected),
                              address=ADDRESS)
        self.otlp(collector.url)
        self.start()
        wait_until(lambda: self.metric("lowgear_otlp_rejected_points_total").get((), 0) >= 5, "rejected points")
        self.assertEqual(self.metric("lowgear_otlp_exports_total")[(("outcome", "dropped"),)], 1)
        self.assertEqual(self.metric("lowgear_otlp_failures_total"), {(): 1})
        self.assertIn("status 400", self.log_text())

    def test_no_collector_holds_the_server_up(self):
        collector = Collector(self, address=ADDRESS)
        collector.server.socket.close()
        self.otlp(collector.url)
        self.start()
        Ranks(self).register(0)
        wait_until(lambda: self.metric("lowgear_otlp_failures_total") != {(): 0}, "nothing listens there")
        self.assertEqual(self.end(), 0)

    def test_headers_are_secret_and_may_be_replaced(self):
        collector = Collector(self, address=ADDRESS)
        file = self.headers_file("Authorization: Bearer SECRET-1\nX-Scope-OrgID: 7\n")
        self.otlp(collector.url, f'headers_file = "{file}"\n')
        self.start()
        wait_until(lambda: collector.requests, "an export")
        _, headers, _ = collector.requests[0]
        self.assertEqual((headers["Authorization"], headers["X-Scope-OrgID"]), ("Bearer SECRET-1", "7"))
        self.headers_file("Authorization: Bearer SECRET-2\n")
        wait_until(lambda: collector.requests[-1][1]["Authorization"] == "Bearer SECRET-2", "the new header")
        self.headers_file("SECRET-3\n")
        wait_until(lambda: "otlp-headers:1" in self.log_text(), "the wrong file is reported")
        for text in (self.log_text(), self.metrics_text()):
            self.assertNotIn("SECRET", text)

    def test_a_wrong_configuration_shows_no_secret(self):
        file = self.headers_file("SECRET\n")
        self.otlp("http://127.0.0.1:9", f'headers_file = "{file}"\n')
        for more in ((), ("--check",)):
            started = subprocess.run([*self.command(), *more], capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertEqual(started.returncode, 2, more)
            self.assertIn("otlp-headers:1: expected a header", started.stderr)
            self.assertNotIn("SECRET", started.stderr + started.stdout)

    @unittest.skipUnless(shutil.which("openssl"), "there is no command openssl, which makes the certificates")
    def test_https_is_verified(self):
        authority = Authority(self.folder)
        certificate = authority.issue("collector", f"IP:{ADDRESS}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        collector = Collector(self, tls=context, address=ADDRESS)
        self.otlp(collector.url)
        self.start()
        wait_until(lambda: self.metric("lowgear_otlp_failures_total") != {(): 0}, "its authority is not known")
        self.assertEqual(collector.requests, [])
        self.end()
        self.config += f'ca_file = "{self.folder}/ca.pem"\n'
        self.start()
        wait_until(lambda: collector.requests, "an export")
        collector.exports()


class Decoder(unittest.TestCase):
    """The decoder refuses what collectors refuse."""

    POINT = {"attributes": [], "startTimeUnixNano": "1800000000000000000", "timeUnixNano": "1800000000000000001",
             "asDouble": 1.5}

    def request(self, point, **more):
        metric = {"name": "a_total", "sum": {"dataPoints": [point], "aggregationTemporality": 2, "isMonotonic": True,
                                             **more}}
        return json.dumps({"resourceMetrics": [{"resource": {"attributes": []}, "scopeMetrics": [
            {"scope": {"name": "s", "version": "1"}, "metrics": [metric]}]}]})

    def test_refusals(self):
        self.assertEqual(decode(self.request(self.POINT))[1], {"a_total": ("sum", {(): 1.5})})
        for changed in ({"timeUnixNano": 1800000000000000001}, {"timeUnixNano": "0"}, {"asDouble": "1.5"},
                        {"time_unix_nano": "1"}, {"attributes": [{"key": "", "value": {"stringValue": "x"}}]}):
            with self.assertRaises(Invalid, msg=changed):
                decode(self.request({**self.POINT, **changed}))
        for changed in ({"aggregationTemporality": "AGGREGATION_TEMPORALITY_CUMULATIVE"}, {"isMonotonic": False}):
            with self.assertRaises(Invalid, msg=changed):
                decode(self.request(self.POINT, **changed))


if __name__ == "__main__":
    unittest.main()
