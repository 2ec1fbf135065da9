#!/usr/bin/env python3
"""zeusd_client_test.py AGENT_HTTP_FIXTURE: sends what clients of the Zeus daemon 0.5 send and reads the replies as they do.

Facts, not code, from ml-energy/zeus: zeus/utils/zeusd.py (ZeusdClient: paths, parameters, members that are read, status
200 is success) and zeus/monitor/power_streaming.py (events are separated by an empty line; only `data: ` lines count).
"""

import http.client
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest
from urllib.parse import urlencode

TIMEOUT_S = 20
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


class ZeusdClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lowgear-zeusd-")
        cls.path = str(pathlib.Path(cls.folder.name) / "agent.sock")
        cls.server = subprocess.Popen([FIXTURE, cls.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert cls.server.stdout.readline() == "ready\n"

    @classmethod
    def tearDownClass(cls):
        cls.server.stdin.close()
        cls.server.stdout.close()
        code = cls.server.wait(TIMEOUT_S)
        cls.folder.cleanup()
        assert code == 0, f"the server ended with {code}"

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
        """The constructor: discovery, and no token."""
        found = self.get("/discover")
        self.assertEqual(found["gpu_ids"], [0, 1])
        self.assertEqual(found["cpu_ids"], [0, 1])
        self.assertEqual(found["dram_available"], [True, False])
        self.assertEqual(set(found["enabled_api_groups"]), {"gpu-control", "gpu-read", "cpu-read"})
        self.assertIs(found["auth_required"], False)

    def test_newer_discovery(self):
        found = self.get("/discover")
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
                         {0: (0, 0), 1: (0, None)})

    def test_get_time(self):
        self.assertGreater(self.get("/time")["timestamp_ms"], 1_700_000_000_000)

    def test_streams(self):
        for path, parameters, expected in (("/gpu/stream_power", {}, {"0": 75000, "1": 100000}),
                                           ("/gpu/stream_power", {"gpu_ids": "1"}, {"1": 100000}),
                                           ("/cpu/stream_power", {}, None)):
            connection = UnixConnection(self.path)
            response = connection.send_as_httpx("GET", path, parameters)
            self.assertEqual(response.status, 200)
            events = []
            while len(events) < 3:
                line = response.readline().decode()
                self.assertTrue(line, "the stream ended")
                if line.startswith("data: "):
                    events.append(json.loads(line[6:]))
                else:
                    self.assertEqual(line, "\n")
            for event in events:
                self.assertIsInstance(event["timestamp_ms"], int)
                if expected is not None:
                    self.assertEqual(event["power_mw"], expected)
                else:
                    self.assertEqual(set(event["power_mw"]["0"]), {"cpu_mw", "dram_mw"})
            response.close()
            connection.close()


if __name__ == "__main__":
    unittest.main()
