#!/usr/bin/env python3
"""zeusd_client_test.py AGENT_HTTP_FIXTURE: sends what clients of the Zeus daemon send and reads the replies as they do.

Facts, not code, from ml-energy/zeus: zeus/utils/zeusd.py (ZeusdClient: paths, parameters, members that are read, status
200 is success) and zeus/monitor/power_streaming.py (events are separated by an empty line; only `data: ` lines count) of
Zeus 0.15, of 0.16, and of master on 2026-08-20. zeus_test.py has the real client.
"""

import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest
from urllib.parse import urlencode

TIMEOUT_S = None  # ctest has the limit
FIXTURE = sys.argv.pop(1)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, with the headers that httpx sends."""

    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def send_as_httpx(self, method, path, parameters=None):
        query = "?" + urlencode(parameters) if parameters else ""
        headers = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive",
                   "User-Agent": "python-httpx/0.28.1"}
        if method == "POST":
            headers["Content-Length"] = "0"
        self.request(method, path + query, headers=headers)
        return self.getresponse()


@contextlib.contextmanager
def fixture(*options):
    """The socket of a server of its own."""
    with tempfile.TemporaryDirectory(prefix="lowgear-zeusd-") as folder:
        path = str(pathlib.Path(folder) / "agent.sock")
        server = subprocess.Popen([FIXTURE, path, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline() == "ready\n"
        yield path
        server.stdin.close()
        server.stdout.close()
        code = server.wait(TIMEOUT_S)
        assert code == 0, f"the server ended with {code}"


def read_events(socket_path, path, parameters, count):
    """The first events of a stream."""
    connection = UnixConnection(socket_path)
    response = connection.send_as_httpx("GET", path, parameters)
    assert response.status == 200, response.status
    events = []
    while len(events) < count:
        line = response.readline().decode()
        assert line, "the stream ended"
        if line.startswith("data: "):
            events.append(json.loads(line[6:]))
        else:
            assert line == "\n", line
    response.close()
    connection.close()
    return events


class ZeusdClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = cls.enterClassContext(fixture())

    def setUp(self):
        self.connection = UnixConnection(self.path)
        self.addCleanup(self.connection.close)

    def get(self, path, **parameters):
        response = self.connection.send_as_httpx("GET", path, parameters)
        text = response.read()
        self.assertEqual(response.status, 200, text)
        return json.loads(text)

    def post(self, path, **parameters):
        response = self.connection.send_as_httpx("POST", path, parameters)
        text = response.read()
        self.assertEqual(response.status, 200, text)
        self.assertEqual(text, b"")

    def test_connecting(self):
        """The constructor in 0.15: discovery, and no token."""
        found = self.get("/discover")
        self.assertEqual(found["gpu_ids"], [0, 1])
        self.assertEqual(found["cpu_ids"], [0, 1])
        self.assertEqual(found["dram_available"], [True, False])
        self.assertEqual(set(found["enabled_api_groups"]), {"gpu-control", "gpu-read", "cpu-read"})
        self.assertIs(found["auth_required"], False)

    def test_newer_discovery(self):
        """In 0.16: name; since then also the address, and whether there is an energy counter."""
        found = self.get("/discover")
        self.assertEqual(found["gpus"][1], {"id": 1, "name": "NVIDIA H100 80GB HBM3", "pci_address": "0000:00:07.0",
                                            "cumulative_energy_available": True})
        self.assertEqual([gpu["id"] for gpu in found["gpus"]], [0, 1])
        self.assertEqual(found["cpus"], [{"id": 0, "dram_available": True}, {"id": 1, "dram_available": False}])

    def test_get_gpu_energy(self):
        reply = self.get("/gpu/get_cumulative_energy", gpu_ids="0,1")
        self.assertEqual({int(k): v["energy_mj"] for k, v in reply.items()}, {0: 123456, 1: 124456})

    def test_get_gpu_power(self):
        for parameters in ({}, {"gpu_ids": "0,1"}):
            reply = self.get("/gpu/get_power", **parameters)
            self.assertIsInstance(reply["timestamp_ms"], int)
            self.assertEqual({int(k): v for k, v in reply["power_mw"].items()}, {0: 75000, 1: 100000})

    def test_power_limits_and_persistence(self):
        self.assertEqual(self.get("/gpu/get_power_limit", gpu_ids="0"), {"0": {"power_limit_mw": 650000}})
        self.assertEqual(self.get("/gpu/get_power_limit_constraints", gpu_ids="0"),
                         {"0": {"min_power_limit_mw": 200000, "max_power_limit_mw": 700000}})
        self.assertEqual(self.get("/gpu/get_persistence_mode"), {"0": {"enabled": True}, "1": {"enabled": False}})

    def test_setters_on_one_connection(self):
        for block in ("true", "false"):
            self.post("/gpu/set_power_limit", gpu_ids="0,1", power_limit_mw="400000", block=block)
            self.post("/gpu/set_persistence_mode", gpu_ids="0", enabled="true", block=block)
            self.post("/gpu/set_gpu_locked_clocks", gpu_ids="0", min_clock_mhz="900", max_clock_mhz="1200", block=block)
            self.post("/gpu/reset_gpu_locked_clocks", gpu_ids="0", block=block)
            self.post("/gpu/set_mem_locked_clocks", gpu_ids="0", min_clock_mhz="1593", max_clock_mhz="2619", block=block)
            self.post("/gpu/reset_mem_locked_clocks", gpu_ids="0", block=block)
            self.post("/gpu/reset_locked_clocks", gpu_ids="0,1", block=block)

    def test_errors_are_told(self):
        response = self.connection.send_as_httpx(
            "POST", "/gpu/set_power_limit", {"gpu_ids": "9", "power_limit_mw": "400000", "block": "true"})
        self.assertEqual(response.status, 400)
        self.assertIn("9", json.loads(response.read())["error"]["message"])

    def test_get_cpu_energy(self):
        reply = self.get("/cpu/get_cumulative_energy", cpu_ids="0,1", cpu="true", dram="true")
        self.assertEqual({int(k): (v.get("cpu_energy_uj"), v.get("dram_energy_uj")) for k, v in reply.items()},
                         {0: (1000000, 500000), 1: (2000000, None)})

    def test_get_cpu_power(self):
        reply = self.get("/cpu/get_power")
        self.assertIsInstance(reply["timestamp_ms"], int)
        self.assertEqual({int(k): (v["cpu_mw"], v.get("dram_mw")) for k, v in reply["power_mw"].items()},
                         {0: (None, None), 1: (None, None)}, "the counters of the fixture stand still")

    def test_get_time(self):
        self.assertGreater(self.get("/time")["timestamp_ms"], 1_700_000_000_000)

    def test_streams(self):
        """Since 0.16: one event a device."""
        for path, parameters, expected in (("/gpu/stream_power", {}, {0: 75000, 1: 100000}),
                                           ("/gpu/stream_power", {"gpu_ids": "1"}, {1: 100000})):
            seen = {}
            for event in read_events(self.path, path, parameters, 4):
                self.assertIsInstance(event["timestamp_ms"], int)
                seen[event["gpu_id"]] = event["power_mw"]
            self.assertEqual(seen, expected)
        events = read_events(self.path, "/cpu/stream_power", {}, 4)
        self.assertEqual({event["cpu_id"] for event in events}, {0, 1})
        for event in events:
            self.assertEqual(set(event), {"timestamp_ms", "cpu_id", "cpu_mw", "dram_mw"})


class OlderStreams(unittest.TestCase):
    def test_snapshots(self):
        """Up to 0.15: one event for all devices, where the configuration says so."""
        with fixture("snapshot") as path:
            for event in read_events(path, "/gpu/stream_power", {}, 3):
                self.assertIsInstance(event["timestamp_ms"], int)
                self.assertEqual(event["power_mw"], {"0": 75000, "1": 100000})
            for event in read_events(path, "/cpu/stream_power", {}, 3):
                self.assertEqual(set(event["power_mw"]["0"]), {"cpu_mw", "dram_mw"})


if __name__ == "__main__":
    unittest.main()
