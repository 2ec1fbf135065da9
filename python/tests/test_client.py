"""The package against the real liblowgear.so: without an agent, with a small agent made here, on simulated GPUs."""

import array
import contextlib
import ctypes
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import warnings
from pathlib import Path

import lowgear

RING_BYTES_AT_WRITTEN = 64


def plan_text(clocks, stages=1):
    ops = [
        {"op": "forward", "microbatch": i, "mhz": mhz, "start_s": 0.1 * i, "duration_s": 0.1}
        for i, mhz in enumerate(clocks)
    ]
    return json.dumps(
        {
            "format": "lowgear.plan/1",
            "policy": "test",
            "schedule": "gpipe",
            "microbatches": len(clocks),
            "deadline_s": 0.1 * len(clocks),
            "time_s": 0.1 * len(clocks),
            "energy_j": 1.0,
            "switches": 0,
            "stages": [{"stage": stage, "ops": ops} for stage in range(stages)],
        }
    )


class FakeAgent:
    """Gives one client a ring and takes its plan."""

    def __init__(self, folder, ring_bytes):
        self.path = str(Path(folder) / "lease.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.plans = []
        self.memory = os.memfd_create("ring", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.memory, ring_bytes)
        self.ring = mmap.mmap(self.memory, ring_bytes)
        self.ring[0:12] = struct.pack("<III", 0x4C475231, 1, 1024)
        import fcntl

        fcntl.fcntl(self.memory, 1033, 0x0002 | 0x0004 | 0x0001)  # F_ADD_SEALS: shrink, grow, seal
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @staticmethod
    def frame(kind, payload=b""):
        return struct.pack("<III", 0x4C474631, kind, len(payload)) + payload

    @staticmethod
    def text(value):
        return struct.pack("<I", len(value)) + value

    def receive(self, connection):
        header = connection.recv(12, socket.MSG_WAITALL)
        if len(header) < 12:
            return None, b""
        _, kind, length = struct.unpack("<III", header)
        return kind, connection.recv(length, socket.MSG_WAITALL) if length else b""

    def serve(self):
        connection, _ = self.listener.accept()
        self.receive(connection)
        lease = struct.pack("<Q", 7) + self.text(b"GPU-1") + self.text(b"GPU") + struct.pack("<IIBB", 345, 1980, 1, 0)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.memory]))]
        connection.sendmsg([self.frame(2, lease)], rights)
        while True:
            kind, payload = self.receive(connection)
            if kind != 4:
                break
            self.plans.append(payload)
            connection.sendall(self.frame(5))
        connection.close()
        self.listener.close()

    def written(self):
        return struct.unpack_from("<Q", self.ring, RING_BYTES_AT_WRITTEN)[0]


class WithoutAgent(unittest.TestCase):
    def setUp(self):
        library = os.environ.get("LOWGEAR_NVML")
        os.environ["LOWGEAR_NVML"] = "/no/such/library"  # a machine without a GPU
        if library:
            self.addCleanup(os.environ.__setitem__, "LOWGEAR_NVML", library)

    def test_names_the_kinds_of_units(self):
        with lowgear.Client(agent_socket="") as client:
            for wrong in (lambda: client.unit_begin("fwd", 0, 0), lambda: client.unit_end("fwd", 0, 0),
                          lambda: client.expect([("fwd", 0, 0)])):
                with self.assertRaisesRegex(lowgear.InvalidUse, "no kind of unit 'fwd'; there are forward, backward,"):
                    wrong()

    def test_marks_and_says_what_is_missing(self):
        with lowgear.Client(agent_socket="") as client:
            with client.iteration(), client.unit("forward", 0, 0):
                pass
            status = client.status()
            self.assertEqual(status.units, 1)
            self.assertFalse(status.has_lease)
            self.assertEqual(status.mismatched, 0)

    def test_a_program_runs_unchanged_without_gpu_and_agent(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder) / "plan.json"
            plan.write_text(plan_text([1200]))
            variables = {name: text for name, text in os.environ.items() if name != "LOWGEAR_AGENT_SOCKET"}
            with unittest.mock.patch.dict(os.environ, variables, clear=True), \
                    unittest.mock.patch("lowgear._client._warned", False), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                with lowgear.Client() as client:
                    client.load_plan(plan)
                    of_eight = Path(folder) / "of_eight.json"
                    of_eight.write_text(plan_text([1200], stages=8))
                    client.load_plan(of_eight)
                    client.search_operating_point(2)
                    point = client.operating_point()
                    with client.window("epoch") as window, client.iteration(), client.unit("forward", 0, 0):
                        self.assertIn("not ended", repr(window))
                        with self.assertRaisesRegex(AttributeError, "after the with block"):
                            window.energy_j
                    with self.assertRaisesRegex(lowgear.InvalidUse, "no/such"):
                        client.load_plan("/no/such/plan.json")
                with lowgear.Client(), lowgear.measure():
                    pass
        self.assertEqual([one.category for one in said], [lowgear.LowgearWarning])
        self.assertIn("no GPU and no agent", str(said[0].message))
        self.assertEqual(said[0].filename, __file__)
        self.assertEqual((point.state, point.reason), ("off", "this machine has no GPU and no agent"))
        self.assertGreater(window.time_s, 0)
        self.assertIsNone(window.energy_j)
        self.assertIn("/no/such/library", window.problem)
        self.assertIn("energy not measured: /no/such/library", repr(window))

    def test_an_agent_that_was_named_is_missed(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder) / "plan.json"
            plan.write_text(plan_text([1200]))
            with lowgear.Client(agent_socket=f"{folder}/none") as client:
                with self.assertRaises(lowgear.AgentUnavailable):
                    client.load_plan(plan)

    def test_a_program_runs_unchanged_without_the_library(self):
        missing = lowgear._library.LibraryNotFound("liblowgear.so is not found")
        variables = {name: text for name, text in os.environ.items()
                     if name not in ("LOWGEAR_AGENT_SOCKET", "LOWGEAR_LIBRARY")}
        with unittest.mock.patch.dict(os.environ, variables, clear=True), \
                unittest.mock.patch("lowgear._library.load", side_effect=missing), \
                unittest.mock.patch("lowgear._client._warned", False):
            with unittest.mock.patch("lowgear._library._NVIDIA_DEVICE", "/no/such/device"):
                with self.assertWarnsRegex(lowgear.LowgearWarning, "liblowgear.so is not found"):
                    client = lowgear.Client(recording="not made")
                client.load_plan("/no/such/plan")
                client.on_step_begin()
                client.on_instruction_begin("forward")
                client.on_instruction_end("forward")
                client.on_step_end()
                with client.window() as window:
                    pass
                client.close()
                self.assertEqual(window.problem, "liblowgear.so is not found")
            with unittest.mock.patch("lowgear._library._NVIDIA_DEVICE", "/dev/null"):
                with self.assertRaisesRegex(lowgear.LowgearError, "is not found"):
                    lowgear.Client()

    def test_counts_what_does_not_match(self):
        with lowgear.Client(agent_socket="") as client:
            client.unit_begin("forward", 0, 0)
            client.unit_end("backward", 0, 0)
            self.assertEqual(client.status().mismatched, 1)

    def test_refuses_nonsense(self):
        with lowgear.Client(agent_socket="") as client:
            with self.assertRaises(lowgear.InvalidUse):
                client.unit_begin("sideways", 0, 0)
            with self.assertRaises(lowgear.InvalidUse):
                client.unit_begin("forward", 70000, 0)
            with self.assertRaises(lowgear.InvalidUse):
                client.load_plan("/no/such/plan")
        with self.assertRaises(lowgear.InvalidUse):
            lowgear.Client(agent_socket="", rank=5, world_size=2)

    def test_numbers_iterations_as_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            with lowgear.Client(agent_socket="", recording=folder) as client:
                client.iteration_begin_at(500)
                client.iteration_end()
                with client.iteration(), client.unit("forward", 0, 0):
                    pass
                with self.assertRaises(lowgear.InvalidUse):
                    client.iteration_begin_at(10**12)
            rows = (Path(folder) / "rank-00000" / "units.csv").read_text().splitlines()
            self.assertEqual(rows[1].split(",")[0], "501")

    def test_an_iteration_that_raises_counts_nowhere(self):
        with tempfile.TemporaryDirectory() as folder:
            with lowgear.Client(agent_socket="", recording=folder) as client:
                for raises in (False, True, False):
                    with contextlib.suppress(ZeroDivisionError), client.iteration():
                        1 / (not raises)
            rows = (Path(folder) / "rank-00000" / "iterations.csv").read_text().splitlines()
            self.assertEqual([row.split(",")[0] for row in rows[1:]], ["0", "2"], "each has a number of its own")

    def test_counts_microbatches_that_are_not_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with lowgear.Client(agent_socket="", recording=folder) as client:
                with client.iteration():
                    for kind, microbatch in (("forward", None), ("forward", client.NEXT), ("forward_backward", None)):
                        with client.unit(kind, 2, microbatch):
                            pass
            rows = (Path(folder) / "rank-00000" / "units.csv").read_text().splitlines()
            self.assertEqual([row.split(",")[1:4] for row in rows[1:]],
                             [["2", "forward", "0"], ["2", "forward", "1"], ["2", "forward_backward", "0"]])

    def test_lets_two_units_overlap(self):
        with lowgear.Client(agent_socket="") as client:
            with client.iteration(), client.unit("forward", 0, 1):
                client.unit_begin("backward", 0, 0)
            client.unit_end("backward", 0, 0)
            self.assertEqual((client.status().units, client.status().mismatched), (2, 0))

    def test_refuses_plans_when_the_schedule_differs(self):
        with lowgear.Client(agent_socket="") as client:
            client.expect([("forward", 0, 0), ("backward", 0, 0)])
            for kinds in (("forward", "backward"), ("backward", "forward")):
                with client.iteration():
                    for kind in kinds:
                        with client.unit(kind, 0, 0):
                            pass
            status = client.status()
            self.assertEqual(status.differing_iterations, 1)
            self.assertEqual(status.difference,
                             "iteration 1, unit 0: expected forward 0 of stage 0, got backward 0 of stage 0")
            self.assertFalse(status.following)
            self.assertIn("the schedule differs: iteration 1", status.not_following)
            with self.assertRaises(lowgear.Refused):
                client.follow_again()
            client.expect(None)
            with self.assertRaises(lowgear.InvalidUse):
                client.expect([("forward", 70000, 0)])

    def test_counts_differences_alone(self):
        with lowgear.Client(agent_socket="") as client:
            client.expect([("forward", 0, 0)], refuse=False)
            with client.iteration():
                pass
            self.assertEqual(client.status().differing_iterations, 1)
            self.assertTrue(client.status().following)

    def test_refuses_and_stops_following(self):
        with lowgear.Client(agent_socket="") as client:
            client.stop_following()
            self.assertFalse(client.status().following)
            client.follow_again()
            self.assertTrue(client.status().following)
            client.refuse("stage.py: forward_one_chunk has no argument fwd_chunk_id (2.20)")
            self.assertIn("fwd_chunk_id", client.status().not_following)
            with self.assertRaisesRegex(lowgear.Refused, "for good"):
                client.follow_again()
            with tempfile.NamedTemporaryFile("w") as plan:
                plan.write(plan_text([1200]))
                plan.flush()
                with self.assertRaisesRegex(lowgear.Refused, "fwd_chunk_id"):
                    client.load_plan(plan.name)

    @staticmethod
    def wait_until_the_server_failed(client):
        """A thread of the client's calls the server; only after its first failure does close() warn."""
        while not client.status().server_problem:
            time.sleep(0.01)

    def test_reports_decisions_and_work(self):
        made = {"from_iteration": 12, "configuration": "6 of 24 blocks frozen", "reason": "it saves 3 %"}
        with tempfile.TemporaryDirectory() as folder:
            address = f"unix:{folder}/no.sock"
            client = lowgear.Client(agent_socket="", server=address, job_spec={"run": "r"})
            client.report_decision("freezing", "adopt", **made)
            client.report_work(24, 6, "bf16")
            self.assertEqual((client.status().decisions_waiting, client.status().decisions_lost), (1, 0))
            with self.assertRaisesRegex(lowgear.InvalidUse, "technique"):
                client.report_decision("Not a word", "adopt", **made)
            with self.assertRaisesRegex(lowgear.InvalidUse, "25 of 24 layers"):
                client.report_work(24, 25)
            self.wait_until_the_server_failed(client)
            with self.assertWarnsRegex(RuntimeWarning, "no server: .*no.sock"):
                client.close()

    def test_marks_are_the_hosts_without_a_driver(self):
        with unittest.mock.patch.dict(os.environ, {"LOWGEAR_CUDA": "/no/such/libcuda.so"}):
            with lowgear.Client(agent_socket="") as client:
                client.use_stream(0)
                with client.iteration(), client.unit("forward", 0, 0):
                    pass
                status = client.status()
                self.assertEqual(status.units, 1)
                self.assertFalse(status.stream_marks)
                self.assertIn("/no/such/libcuda.so", status.stream_problem)
                client.use_stream(None)
                self.assertEqual(client.status().stream_problem, "")

    @unittest.skipUnless(os.environ.get("LOWGEAR_FAKE_CUDA"), "needs the stand-in for libcuda (LOWGEAR_FAKE_CUDA)")
    def test_marks_count_when_the_gpu_comes_to_them(self):
        path = os.environ["LOWGEAR_FAKE_CUDA"]
        cuda = ctypes.CDLL(path)
        cuda.fake_cuda_reset()
        with unittest.mock.patch.dict(os.environ, {"LOWGEAR_CUDA": path}):
            with lowgear.Client(agent_socket="") as client:
                client.use_stream(0)  # the default stream, as PyTorch names it
                with client.iteration(), client.unit("forward", 0, 0):
                    pass
                self.assertTrue(client.status().stream_marks, client.status().stream_problem)
                self.assertEqual(client.status().units, 0)
                self.assertEqual(cuda.fake_cuda_waiting(), 4)
                cuda.fake_cuda_work(4)
                while client.status().units == 0:
                    time.sleep(0.001)
                self.assertEqual(client.status().units, 1)

    def test_searches_no_operating_point_without_a_gpu_or_an_agent(self):
        with lowgear.Client(agent_socket="") as client:
            self.assertEqual(client.operating_point().state, "off")
            with self.assertRaisesRegex(lowgear.InvalidUse, "no agent is used"):
                client.search_operating_point(2)
            with self.assertRaisesRegex(lowgear.InvalidUse, "there are clock, power-limit"):
                client.search_operating_point(2, points="watts")
            self.assertTrue(client.status().following, "a search that cannot begin changes nothing")
            point = client.operating_point()
        self.assertEqual((point.state, point.value, point.energy_pct, point.reason), ("off", None, None, ""))

    def test_leaves_the_search_to_the_first_rank(self):
        with lowgear.Client(agent_socket="", rank=1, world_size=2) as client:
            client.search_operating_point(2)
            self.assertEqual(client.operating_point().state, "elsewhere")
            self.assertIn("operating point", client.status().not_following)

    def test_refuses_a_search_next_to_a_server(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with lowgear.Client(agent_socket="", rank=0, world_size=1, server="unix:/no/such/server",
                                job_spec={"run": "r"}) as client:
                with self.assertRaisesRegex(lowgear.InvalidUse, "a server plans this job"):
                    client.search_operating_point(2)

    def test_closes_twice(self):
        client = lowgear.Client(agent_socket="")
        client.close()
        client.close()

    def test_warns_in_the_end_that_no_server_answers(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{probe.getsockname()[1]}"  # bound and not listening: nothing is behind it
            client = lowgear.Client(agent_socket="", server=address, job_spec={"run": "r"})
            self.wait_until_the_server_failed(client)
            with self.assertWarnsRegex(RuntimeWarning, f"no server: {address}: cannot be reached"):
                client.close()

    def test_records(self):
        with tempfile.TemporaryDirectory() as folder:
            with lowgear.Client(agent_socket="", recording=folder, rank=3, world_size=4, pp_rank=3) as client:
                for _ in range(2):
                    client.on_step_begin()
                    for name in ("forward", "forward", "backward"):
                        client.on_instruction_begin(name)
                        client.on_instruction_end(name)
                    client.on_step_end()
            rank = Path(folder) / "rank-00003"
            self.assertEqual(json.loads((rank / "recording.json").read_text())["iterations"], 2)
            rows = (rank / "units.csv").read_text().splitlines()
            self.assertEqual(rows[0], "iteration,stage,instruction,microbatch,start_s,end_s,frequency,settling")
            self.assertEqual([row.split(",")[:4] for row in rows[1:4]],
                             [["0", "3", "forward", "0"], ["0", "3", "forward", "1"], ["0", "3", "backward", "0"]])
            with self.assertRaises(lowgear.InvalidUse):
                lowgear.Client(agent_socket="", recording=folder, rank=3, world_size=4)

    def test_takes_the_global_rank_for_no_stage(self):
        with lowgear.Client(agent_socket="", rank=3, world_size=8) as client:
            with self.assertRaisesRegex(lowgear.InvalidUse, "rank 3 of 8.*pass pp_rank"):
                client.on_instruction_begin("forward")
            self.assertEqual(client.status().stage, -1)
            client.on_instruction_begin("forward", stage=1)
            client.on_instruction_end("forward")
            self.assertEqual(client.status().units, 1)

    def test_holds_its_pipeline_rank_for_instructions(self):
        cases = [({"pp_rank": 1}, {}), ({"rank_order": "tp2-dp1-pp"}, {}), ({}, {"LOWGEAR_PP_RANK": "1"}),
                 ({}, {"LOWGEAR_RANK_ORDER": "tp2-dp1-pp"}),
                 ({"rank_order": "megatron", "job_spec": {"parallel": {"pp": 4, "tp": 2}}}, {})]
        for arguments, variables in cases:
            with self.subTest(arguments=arguments, variables=variables):
                with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, variables):
                    with lowgear.Client(agent_socket="", recording=folder, rank=3, world_size=8, **arguments) as client:
                        self.assertEqual((client.status().pp_rank, client.status().stage), (1, 1))
                        with client.iteration():
                            client.on_instruction_begin("forward")
                            client.on_instruction_end("forward")
                    rows = (Path(folder) / "rank-00003" / "units.csv").read_text().splitlines()
                    self.assertEqual(rows[1].split(",")[:4], ["0", "1", "forward", "0"])

    def test_counts_the_microbatches_of_each_stage(self):
        with tempfile.TemporaryDirectory() as folder:
            with lowgear.Client(agent_socket="", recording=folder) as client:
                client.on_step_begin()
                for stage in (0, 2, 0):
                    client.on_instruction_begin("forward", stage=stage)
                    client.on_instruction_end("forward")
                client.on_step_end()
            rows = (Path(folder) / "rank-00000" / "units.csv").read_text().splitlines()
            self.assertEqual([row.split(",")[1:4] for row in rows[1:4]],
                             [["0", "forward", "0"], ["2", "forward", "0"], ["0", "forward", "1"]])

    def test_refuses_a_plan_whose_rank_is_not_certain(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder) / "plan.json"
            plan.write_text(plan_text([1200], stages=2))
            with lowgear.Client(agent_socket="", rank=3, world_size=8) as client:
                with self.assertRaisesRegex(lowgear.InvalidUse, "plan.json: .*rank 3 of 8.*pass pp_rank"):
                    client.load_plan(plan)
                with self.assertRaises(lowgear.AgentUnavailable):
                    client.load_plan(plan, plan_rank=1)
                self.assertEqual(client.status().stage, 1)
            with self.assertRaisesRegex(lowgear.InvalidUse, "there is no axis"):
                lowgear.Client(agent_socket="", rank_order="pipe-data")

    def test_a_child_leaves_the_parents_client_alone(self):
        with lowgear.Client(agent_socket="") as client:
            child = os.fork()
            if child == 0:
                client.unit_begin("forward", 0, 0)
                client.unit_end("forward", 0, 0)
                client.close()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(client.status().units, 0)


class TestArguments(unittest.TestCase):
    def test_an_unknown_keyword_names_the_closest(self):
        with self.assertRaisesRegex(lowgear.UnknownParameter, "^there is no option gpus; did you mean gpu\\?$"):
            lowgear.measure(gpus="GPU-1")
        with self.assertRaisesRegex(lowgear.UnknownParameter, "no option sideways; there are name, gpu, synchronize$"):
            lowgear.measure(sideways=1)
        with self.assertRaisesRegex(lowgear.UnknownParameter, "no option recordings; did you mean recording"):
            lowgear.Client(recordings="run")

    def test_a_block_is_named_by_a_text(self):
        with self.assertRaisesRegex(TypeError, "^name: expected a text that names the block, not 3; leave it out"):
            with lowgear.measure(3):
                pass

    def test_a_gpu_is_named_by_its_uuid_and_waited_for_or_not(self):
        for gpu in (0, 1, "", ["GPU-1"]):
            with self.subTest(gpu), self.assertRaisesRegex(lowgear.InvalidUse, "^gpu: expected the UUID of a GPU"):
                with lowgear.measure(gpu=gpu):
                    pass
        with self.assertRaisesRegex(lowgear.InvalidUse, "^synchronize: expected True or False, not 'no'$"):
            lowgear.measure(synchronize="no")

    def test_options_of_a_client_are_texts(self):
        for name in ("gpu", "job", "recording", "server"):
            with self.subTest(name), self.assertRaisesRegex(lowgear.InvalidUse, f"^{name}: expected a text, not 0$"):
                lowgear.Client(**{name: 0})

    def test_ranks_of_a_client_are_whole_numbers(self):
        for value in ("0", 0.5, None, True, 2**32):
            with self.subTest(value), self.assertRaisesRegex(lowgear.InvalidUse, "^rank: expected a whole number, not "):
                lowgear.Client(rank=value)
        with self.assertRaisesRegex(lowgear.InvalidUse, "^job_spec: .* is not JSON serializable; give numbers, texts"):
            lowgear.Client(job_spec={"model": {1}})


@unittest.skipUnless(os.environ.get("LOWGEAR_NVML"), "needs the simulated NVML library (LOWGEAR_NVML)")
class OnSimulatedGpus(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        os.environ["LOWGEAR_SIMGPU"] = str(Path(self.folder.name) / "machine")
        os.environ["LOWGEAR_SIMGPU_GPUS"] = "2xH100"

    def tearDown(self):
        self.folder.cleanup()

    def test_measures_a_window(self):
        with lowgear.Client(agent_socket="", local_rank=1) as client:
            with client.window("idle") as window:
                pass
            self.assertTrue(window.measurement.simulated)
            self.assertTrue(client.status().simulated)
            self.assertGreaterEqual(window.measurement.energy_j, 0)

    def test_measures_a_block(self):
        synchronized = []
        cuda = types.SimpleNamespace(is_initialized=lambda: True, synchronize=lambda: synchronized.append(1))
        with unittest.mock.patch.dict(lowgear._measure._Meter.opened, clear=True), \
                unittest.mock.patch.dict("sys.modules", torch=types.SimpleNamespace(cuda=cuda)), \
                unittest.mock.patch.dict(os.environ, LOWGEAR_RECORDING="/no/such/folder", LOWGEAR_SEARCH="2"):
            with lowgear.measure("epoch") as energy, lowgear.measure(synchronize=False) as inner:
                time.sleep(0.3)
            self.assertEqual(len(lowgear._measure._Meter.opened), 1, "one client serves all blocks")
            self.assertEqual(os.environ["LOWGEAR_SEARCH"], "2")
            with self.assertRaises(lowgear.InvalidUse), lowgear.measure(gpu="GPU-none"):
                pass
            with self.assertRaises(KeyError), lowgear.measure() as failed:
                raise KeyError
            block = lowgear.measure(synchronize=False)
            with block:
                pass
            with self.assertRaisesRegex(lowgear.InvalidUse, "has measured a block already"), block:
                pass
            for meter in lowgear._measure._Meter.opened.values():
                meter.close()
        self.assertEqual(len(synchronized), 5)
        self.assertTrue(energy.simulated)
        self.assertGreater(energy.energy_j, 0)
        self.assertGreater(energy.energy_uncertainty_j, 0)
        self.assertEqual((energy.energy_source, energy.problem), ("counter", ""))
        self.assertGreaterEqual(energy.time_s, inner.time_s)
        self.assertRegex(repr(energy), r"^<Window 'epoch': .* J \+- .* J in .* s \(simulated, by counter\)>$")
        self.assertIsNotNone(failed.measurement)

    def test_python_ends_the_threads_of_a_client_that_is_left_open(self):
        """Else they read the library's data while C frees them."""
        script = ("import atexit, os\n"
                  "atexit.register(lambda: print(len(os.listdir('/proc/self/task'))))\n"  # runs last
                  "import lowgear\n"
                  "with lowgear.measure(): pass\n"
                  "client = lowgear.Client(agent_socket='', local_rank=0)\n"
                  "print(len(os.listdir('/proc/self/task')) > 1)\n")
        variables = dict(os.environ, PYTHONPATH=str(Path(lowgear.__file__).parent.parent))
        run = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "True\n1\n", ""))

    def test_a_window_of_a_closed_client_measures_no_energy(self):
        with lowgear.Client(agent_socket="", local_rank=0) as client:
            with client.window() as window:
                client.close()
        for window in (window, self.window_of(client)):
            self.assertIsNone(window.energy_j)
            self.assertGreater(window.time_s, 0)
            self.assertIn("the client is closed", window.problem)

    def window_of(self, client):
        with client.window() as window:
            pass
        return window

    def test_a_childs_window_of_its_parents_client_measures_nothing(self):
        with lowgear.Client(agent_socket="", local_rank=0) as client:
            child = os.fork()
            if child == 0:
                with client.window() as window:
                    pass
                os._exit(0 if window.energy_j is None and "parent process" in window.problem else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_tells_the_agent_what_begins(self):
        agent = FakeAgent(self.folder.name, 1024 * 16 + 192)
        plan = Path(self.folder.name) / "plan.json"
        plan.write_text(plan_text([1200, 1500]))
        with lowgear.Client(agent_socket=agent.path, local_rank=0) as client:
            self.assertTrue(client.status().has_lease, client.status().problem)
            client.load_plan(plan)
            self.assertTrue(client.status().has_plan)
            with client.iteration():
                for microbatch in range(2):
                    with client.unit("forward", 0, microbatch):
                        pass
            self.assertEqual(agent.written(), 6)
        self.assertEqual(len(agent.plans), 1)

    def test_refuses_a_gpu_that_is_not_there(self):
        with self.assertRaises(lowgear.InvalidUse):
            lowgear.Client(agent_socket="", gpu="GPU-none")
        with self.assertRaises(lowgear.InvalidUse):
            lowgear.Client(agent_socket="", local_rank=9)

    def test_says_that_no_agent_answers(self):
        with lowgear.Client(agent_socket=self.folder.name + "/none", local_rank=0) as client:
            self.assertIn("no agent responds", client.status().problem)
            plan = Path(self.folder.name) / "plan.json"
            plan.write_text(plan_text([1200]))
            with self.assertRaises(lowgear.AgentUnavailable):
                client.load_plan(plan)


if __name__ == "__main__":
    unittest.main()
