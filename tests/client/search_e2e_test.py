"""Loops that know nothing, or little, of Lowgear under `lowgear run --search`: the program, the library, the agent and
simulated GPUs. What a point saves is so much that a busy machine does not hide it."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.with_name("agent")))
from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until  # noqa: E402

JOB = str(HERE / "searched_job.py")
STAND_INS = HERE.parents[1] / "python" / "tests" / "job_torch"
FULL_MHZ, LOW_MHZ = 1980, 1305
SEARCH = ["--search", "slowdown=60%", "--search-block", "0.8"]
CLOCKS = ["--points", f"clock={FULL_MHZ},{LOW_MHZ}"]


class Searches(AgentTest):
    def setUp(self):
        super().setUp()
        self.agent = self.start_agent()
        self.stop = self.folder / "stop"
        self.log = self.folder / "job.log"
        self.environment = {**os.environ, "LOWGEAR_AGENT_SOCKET": str(self.folder / "lease.sock")}

    def start_job(self, kind, *what, options=(), ranks=1, python_path=(), **more):
        paths = [str(path) for path in python_path] + [os.environ["PYTHONPATH"]]
        environment = {**self.environment, "PYTHONPATH": os.pathsep.join(paths), **more}
        command = [sys.executable, JOB, kind, str(ranks), str(self.stop), *what]
        if options:
            command = [LOWGEAR, "run", *options, "--", *command]
        with open(self.log, "a", encoding="utf-8") as log:
            job = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=log)
        self.processes.append(job)
        return job

    def said(self, text, job):
        """Waits for a line of the job's standard error that has this text."""
        while True:
            lines = [line for line in self.log.read_text().splitlines() if text in line]
            if lines:
                return lines[0]
            self.assertIsNone(job.poll(), self.log.read_text())
            time.sleep(0.1)

    def end(self, job):
        """What the job prints."""
        self.stop.touch()
        output, _ = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 0, self.log.read_text())
        return output

    def locked(self, gpu=0):
        clocks = super().locked(gpu)
        return clocks and clocks["min"] if isinstance(clocks, dict) else clocks

    def searching(self):
        """Waits until the first block has begun."""
        self.until(lambda: self.locked() is not None, "the first point is set")

    def until(self, condition, what):
        wait_until(condition, lambda: f"{what}; {self.log.read_text()}")

    def test_find_the_clock_of_an_optimizer_loop(self):
        record = self.folder / "search.jsonl"
        job = self.start_job("optimizer", "pauses", options=[*SEARCH, *CLOCKS, "--search-record", str(record)],
                             python_path=[STAND_INS])
        line = self.said(f"lowgear: operating point {LOW_MHZ} MHz: ", job)
        self.assertIn("trying cost", line)
        self.assertIn(str(LOW_MHZ), str(self.locked()))
        self.end(job)
        self.expect_default()
        lines = [line for line in self.log.read_text().splitlines() if "lowgear: searching" not in line]
        self.assertEqual(len(lines), 2, "that it is attached, and what was found")
        last = [json.loads(text) for text in record.read_text().splitlines()][-1]
        self.assertEqual(last["decisions"][-1]["change"], "adopt")

    def test_find_the_clock_of_a_loop_with_marks(self):
        job = self.start_job("marks", "pauses", options=[*SEARCH, *CLOCKS])
        self.said("operating point 1305 MHz: ", job)
        found = json.loads(self.end(job))
        self.assertEqual((found["state"], found["points"], found["value"]), ("found", "clock", LOW_MHZ))
        # 0.03 s * (1980 / 1305 - 1) of 0.04 s.
        self.assertAlmostEqual(found["slowdown_pct"], 38.8, delta=max(8, found["slowdown_error_pct"]))
        self.assertLess(found["energy_pct"] + found["energy_error_pct"], 0)
        self.assertGreater(found["cost_time_s"], 0)
        self.expect_default()

    def test_decide_for_both_ranks_of_a_job(self):
        job = self.start_job("optimizer", options=[*SEARCH, *CLOCKS], ranks=2, python_path=[STAND_INS])
        self.said("operating point 1305 MHz: ", job)
        self.assertEqual(self.locked(0), self.locked(1))
        self.assertIn(str(LOW_MHZ), str(self.locked(1)))
        self.end(job)
        self.expect_default(0)
        self.expect_default(1)

    def test_are_one_call_for_a_power_limit(self):
        arguments = {"slowdown_pct": 60, "points": "power-limit", "values": [700, 450], "block_s": 0.8,
                     "record": str(self.folder / "search.jsonl")}
        job = self.start_job("calls", json.dumps(arguments))
        self.until(lambda: self.machine()[0]["power_limit_w"] == 450, "the second point is tried")
        output, _ = job.communicate(timeout=PATIENCE_S)
        found = json.loads(output)
        record = (self.folder / "search.jsonl").read_text()
        self.assertEqual((found["state"], found["value"]), ("found", 450), f"{found} {record}")
        self.assertEqual(found["points"], "power-limit")
        self.expect_default()

    def test_end_with_the_job_and_say_so(self):
        job = self.start_job("marks", options=[*SEARCH[:2], *CLOCKS])
        self.searching()
        self.end(job)
        self.assertIn("the job ended before the search of its operating point had", self.log.read_text())
        self.expect_default()

    def test_leave_nothing_after_an_interrupt_or_a_kill(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=number):
                job = self.start_job("marks", options=[*SEARCH[:2], *CLOCKS])
                self.searching()
                self.kill(job, number)
                self.expect_default()

    def test_continue_after_the_agent_was_killed(self):
        job = self.start_job("marks", options=[*SEARCH, *CLOCKS])
        self.searching()
        time.sleep(2)
        self.kill(self.agent)
        time.sleep(2)
        self.start_agent()
        self.said("operating point 1305 MHz: ", job)
        self.end(job)
        self.expect_default()

    def test_leave_a_gpu_that_another_process_holds(self):
        holder, said = self.start_client([1500])
        self.assertEqual(said, "ok")
        job = self.start_job("marks", options=[*SEARCH, *CLOCKS])
        self.said("holds this GPU", job)
        found = json.loads(self.end(job))
        self.assertEqual(found["state"], "cut_off", "it has waited long enough")
        self.assertIn(str(holder.pid), found["reason"])

    def test_are_refused_for_a_limit_that_the_user_may_not_set(self):
        self.kill(self.agent)
        self.config.write_text(self.config.read_text().replace(", power: true", ""))
        self.start_agent()
        job = self.start_job("marks", options=[*SEARCH, "--points", "power-limit"])
        line = self.said("no operating point was found", job)
        self.assertIn("power: true", line)
        self.assertEqual(json.loads(self.end(job))["state"], "cut_off")

    def test_need_an_agent_and_one_node(self):
        job = self.start_job("marks", options=[*SEARCH, *CLOCKS], LOWGEAR_AGENT_SOCKET="")
        self.assertIn("no agent is used", self.said("no operating point is searched", job))
        self.end(job)
        self.stop.unlink()
        self.log.write_text("")
        job = self.start_job("marks", options=[*SEARCH, *CLOCKS], RANK="0", WORLD_SIZE="16", LOCAL_WORLD_SIZE="8")
        self.assertIn("16 ranks", self.said("no operating point is searched", job))
        self.end(job)


if __name__ == "__main__":
    unittest.main()
