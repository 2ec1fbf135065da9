"""`lowgear doctor` on simulated GPUs with the real agent: it changes a clock only when it is asked to."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "agent"))
from agent_test_base import AgentTest  # noqa: E402

TRIES = 4  # other work on the machine makes times differ


class MeasuresSwitchLatency(AgentTest):
    gpus = "1xH100"

    def setUp(self):
        super().setUp()
        self.set_environment("LOWGEAR_AGENT_SOCKET", str(self.folder / "lease.sock"))

    def set_environment(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name) if before is None else os.environ.update({name: before}))

    def writes(self):
        shown = json.loads(self.lowgear("simgpu", "show", "--state", str(self.folder / "machine"), "--json").stdout)
        return shown["gpus"][0]["writes"]

    def doctor(self, *options):
        return json.loads(self.lowgear("doctor", "--json", *options).stdout)

    def test_it_changes_no_clock_unasked(self):
        self.start_agent()
        before = self.writes()
        text = self.lowgear("doctor").stdout
        self.assertIn("switch latency not measured", text)
        self.assertIn("lowgear doctor --measure-switch-latency", text)
        self.assertIn("\nNext: train with clocks that follow a plan: lowgear train CONFIG --server ADDRESS ", text)
        self.assertIsNone(self.doctor()["switch_latencies"])
        self.assertEqual(self.writes(), before)

    def test_it_measures_through_the_agent_and_restores_the_clocks(self):
        self.start_agent()
        for _ in range(TRIES):
            measured = self.doctor("--measure-switch-latency")["switch_latencies"][0]
            if "latency_s" in measured:
                # The simulated H100: a call of about 15 ms, then the transition; a busy machine adds to it.
                self.assertGreater(measured["latency_s"], 0.005, measured)
                self.assertGreater(measured["error_s"], 0)
                self.assertGreaterEqual(measured["changes"], 10)
                break
            self.assertIn("problem", measured)
        self.assertGreater(self.writes(), 10)
        self.expect_default()

    def test_the_text_says_what_to_do_with_it(self):
        self.start_agent()
        for _ in range(TRIES):
            text = self.lowgear("doctor", "--measure-switch-latency").stdout
            if "take effect" in text:
                break
        if "take effect" not in text:  # a busy machine may spoil every try
            return self.assertIn("switch latency not measured: ", text)
        self.assertRegex(text, r"clock changes take effect [0-9.]+ \+-[0-9.]+ ms after the request \(\d+ changes\)")
        self.assertRegex(text, r"-> plan with the largest .*: lowgear plan --switch-latency [0-9.]+")

    def test_a_gpu_of_another_program_is_left_alone(self):
        self.start_agent()
        self.assertEqual(self.start_client([1200])[1], "ok")
        self.assertIn("problem", self.doctor("--measure-switch-latency")["switch_latencies"][0])

    def test_an_agent_that_writes_nothing_cannot_tell(self):
        self.start_agent("--no-writes")
        before = self.writes()
        self.assertIn("--no-writes", self.doctor("--measure-switch-latency")["switch_latencies"][0]["problem"])
        self.assertEqual(self.writes(), before)

    def test_without_an_agent_nothing_is_changed(self):
        text = self.lowgear("doctor", "--measure-switch-latency").stdout
        self.assertIn("no agent responds", text)
        self.assertIn("Next: start an agent for the simulated GPUs", text)
        self.assertIn("lowgear agent --config FILE", text)
        self.assertEqual(self.writes(), 0)


STAGE = """
class _PipelineStageBase:
    def forward_one_chunk(self, fwd_chunk_id, args): ...
    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True): ...
    def backward_weight_one_chunk(self, bwd_chunk_id): ...
"""
SCHEDULES = """
class _PipelineSchedule:
    def _maybe_compute_loss(self, stage, output): ...
class PipelineScheduleSingle(_PipelineSchedule):
    def step(self, *args): ...
class PipelineScheduleMulti(_PipelineSchedule):
    def step(self, *args): ...
"""


class NamesFrameworks(AgentTest):
    """In the Python of this test, with a package of the shape of PyTorch in the folder of the job."""

    gpus = "1xH100"

    def write_pytorch(self, stage=STAGE):
        package = self.folder / "job" / "torch" / "distributed" / "pipelining"
        package.mkdir(parents=True)
        for folder in (package, package.parent, package.parent.parent):
            (folder / "__init__.py").write_text("raise SystemExit('imported')\n")
        (package / "stage.py").write_text(stage)
        (package / "schedules.py").write_text(SCHEDULES)
        info = self.folder / "job" / "torch-2.99.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.99.0\n")

    def doctor(self, *options):
        run = subprocess.run([os.environ["LOWGEAR_BINARY"], "doctor", "--python", sys.executable, *options],
                             cwd=self.folder / "job", capture_output=True, text=True, check=True)
        return run.stdout

    def verdict(self):
        frameworks = json.loads(self.doctor("--json"))["python"]["report"]["frameworks"]
        return next(one for one in frameworks if one["name"] == "PyTorch pipelining")

    def test_versions_and_verdicts(self):
        self.write_pytorch()
        text = self.doctor()
        self.assertIn("PyTorch pipelining 2.99.0: attaches: units are marked", text)
        self.assertIn("`lowgear run -- COMMAND` attaches", text)
        self.assertEqual(len(self.verdict()["observed"]), 6)

    def test_a_refusal_names_file_version_function_and_parameter(self):
        self.write_pytorch(STAGE.replace("fwd_chunk_id", "chunk"))
        verdict = self.verdict()
        self.assertEqual(verdict["verdict"], "refused")
        for word in (str(self.folder / "job/torch/distributed/pipelining/stage.py"), "torch version 2.99.0",
                     "_PipelineStageBase.forward_one_chunk(self, chunk, args)", "no parameter fwd_chunk_id"):
            self.assertIn(word, verdict["reason"])
        self.assertIn("refused: ", self.doctor())


if __name__ == "__main__":
    unittest.main()
