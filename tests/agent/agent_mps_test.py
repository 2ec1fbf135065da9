"""The real agent with MPS daemons of simulated GPUs: shares, and what happens when something dies or is refused."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
import unittest
from pathlib import Path

from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until

DAEMON = os.environ["LOWGEAR_MPS_CONTROL"]

# Asks for shares over HTTP as another user, says status and message, and lives until its standard input ends.
HOLDER = """
import http.client, json, os, socket, sys
if int(sys.argv[2]):
    os.setgroups([int(group) for group in sys.argv[3].split(",") if group])
    os.setresgid(*[int(sys.argv[2])] * 3)
    os.setresuid(*[int(sys.argv[2])] * 3)
for request in sys.argv[4:]:
    gpu, body = request.split(" ", 1)
    connection = http.client.HTTPConnection("agent")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(sys.argv[1])
    connection.request("POST", f"/v1/gpus/{gpu}/shares", body)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    print(json.dumps([answer.status, content]), flush=True)
sys.stdin.read()
"""
ALICE = 4801


def runs(pid):
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class MpsTest(AgentTest):
    program = DAEMON
    mps = ""

    def setUp(self):
        super().setUp()
        self.uuids = [gpu["uuid"] for gpu in self.machine()]
        self.mps_folder = self.folder / "mps"
        self.write_mps()

    def tearDown(self):
        for process in self.processes:
            process.kill()  # an agent that is killed leaves its daemons
            process.wait()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                mine = f"CUDA_MPS_PIPE_DIRECTORY={self.folder}/".encode() in (path / "environ").read_bytes()
            except OSError:
                continue
            if mine:
                os.kill(int(path.name), signal.SIGKILL)
        super().tearDown()

    def write_mps(self, gpus=None, group=None):
        names = json.dumps(self.uuids[:1] if gpus is None else gpus)
        self.write_config(f'mps: {{gpus: {names}, group: "{group or self.group_name()}", folder: "{self.mps_folder}", '
                          f'program: "{self.program}"{self.mps}}}\n')

    def group_name(self):
        import grp

        return grp.getgrgid(os.getgid()).gr_name

    def script(self, text):
        path = self.folder / "nvidia-cuda-mps-control"
        path.write_text(text)
        path.chmod(0o755)
        return path

    def daemon(self, gpu=0):
        status, answer = self.http("GET", "/v1/mps")
        self.assertEqual(status, 200, answer)
        return answer["daemons"][gpu]

    def start_running(self, *options):
        agent = self.start_agent(*options)
        wait_until(lambda: self.daemon()["state"] == "running", "the daemon runs")
        return agent

    def share(self, percent=50, gpu=None, **members):
        """A process that holds a share; with what the agent said."""
        return self.share_as(0, [], percent, gpu, **members)

    def share_as(self, uid, groups, percent=50, gpu=None, **members):
        body = json.dumps({"percent": percent, **members})
        holder = self.start([sys.executable, "-c", HOLDER, str(self.folder / "agent.sock"), str(uid),
                             ",".join(map(str, groups)), f"{gpu or self.uuids[0]} {body}"], stdin=subprocess.PIPE)
        return holder, *json.loads(holder.stdout.readline())

    def given(self, *arguments, **members):
        holder, status, answer = self.share(*arguments, **members)
        self.assertEqual(status, 200, answer)
        return holder, answer

    def refused(self, *arguments, status=409, **members):
        _, found, answer = self.share(*arguments, **members)
        self.assertEqual(found, status, answer)
        return answer["error"]["message"]

    def let_go(self, holder):
        holder.stdin.close()
        holder.wait(PATIENCE_S)

    def shares(self):
        return self.http("GET", "/v1/mps")[1]["shares"]

    def sharing(self, gpu=0):
        return self.machine()[gpu]["sharing"]

    def expect_nothing_left(self, pid):
        wait_until(lambda: not runs(pid), "the daemon has ended")
        self.assertFalse((self.mps_folder / self.uuids[0]).exists())
        self.assertEqual(self.sharing(), "time-slicing")


class Shares(MpsTest):
    def test_daemon_of_the_named_gpu_alone_with_directories_for_the_group(self):
        agent = self.start_running()
        daemon = self.daemon()
        self.assertEqual((self.sharing(0), self.sharing(1)), ("mps", "time-slicing"))
        pipe = Path(daemon["pipe_directory"])
        for folder in (pipe.parent, pipe, pipe.parent / "log"):
            self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o750)
            self.assertEqual((folder.stat().st_uid, folder.stat().st_gid), (os.getuid(), os.getgid()))
        self.kill(agent, signal.SIGTERM)
        self.assertEqual(agent.returncode, 0)
        self.expect_nothing_left(daemon["pid"])

    def test_variables_of_the_job_and_metric(self):
        self.start_running()
        holder, answer = self.given(40, client="tune", job="j1", rank=3)
        pipe = self.daemon()["pipe_directory"]
        self.assertEqual(answer["environment"], {
            "CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_LOG_DIRECTORY": str(Path(pipe).parent / "log"),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40", "CUDA_VISIBLE_DEVICES": self.uuids[0]})
        self.assertEqual((answer["sum_percent"], answer["reserved"]), (40, False))
        text = self.http("GET", "/metrics")[1]
        labels = f'gpu="0",uuid="{self.uuids[0]}"'
        self.assertIn(f'lowgear_mps_active_thread_ratio{{{labels},client="tune"}} 0.4\n', text)
        self.assertIn(f"lowgear_mps_daemon_running{{{labels}}} 1\n", text)
        self.let_go(holder)
        wait_until(lambda: not self.shares(), "the share ends with its process")
        self.assertNotIn('client="tune"', self.http("GET", "/metrics")[1])

    def test_shares_of_a_gpu_sum_to_100_at_most(self):
        self.start_running()
        first, _ = self.given(60)
        self.assertIn("60 % of GPU", self.refused(50))
        self.assertIn("reserve nothing", self.refused(50))
        _, answer = self.given(40)
        self.assertEqual(answer["sum_percent"], 100)
        self.let_go(first)
        wait_until(lambda: len(self.shares()) == 1, "the share ends")
        self.given(50)

    def test_two_ranks_of_a_communicator_need_two_gpus(self):
        self.write_mps(gpus=self.uuids)
        self.start_running()
        wait_until(lambda: self.daemon(1)["state"] == "running", "the second daemon runs")
        self.given(50, job="llama", rank=0)
        self.assertIn("NCCL refuses two ranks of a communicator", self.refused(50, job="llama", rank=1))
        self.given(50, gpu=self.uuids[1], job="llama", rank=1)
        self.given(50, job="other")

    def test_a_rank_that_holds_the_lease_counts(self):
        self.start_running()
        client, said = self.start_client([1200], LOWGEAR_JOB="llama", RANK="0", WORLD_SIZE="2")
        self.assertEqual(said, "ok")
        wait_until(lambda: self.http("GET", "/v1/leases")[1]["leases"], "the lease is there")
        self.assertIn("rank 0 of job", self.refused(50, job="llama", rank=1))
        self.given(50, job="other", rank=1)

    def test_a_share_can_be_closed(self):
        self.start_running()
        _, answer = self.given(100, client="a")
        self.assertIn("100 % of GPU", self.refused(1))
        number = answer["share"]["id"]
        self.assertEqual(self.http("DELETE", f"/v1/shares/{number}")[1]["closed"], number)
        self.assertEqual(self.http("DELETE", f"/v1/shares/{number}")[0], 404)
        self.given(100, client="a")

    def test_invalid_requests(self):
        self.start_running()
        for body in ({}, {"percent": 0}, {"percent": 101}, {"percent": 50, "other": 1}, {"percent": 50, "client": "a\nb"},
                     {"percent": 50, "rank": -1}, {"percent": 50, "job": "x" * 200}):
            self.assertEqual(self.http("POST", f"/v1/gpus/{self.uuids[0]}/shares", body)[0], 400, body)
        self.assertIn("mps.gpus", self.refused(50, gpu=self.uuids[1], status=404))
        self.assertEqual(self.shares(), [])

    def test_run_starts_a_command_with_its_share(self):
        self.start_running()
        words = [LOWGEAR, "run", "--agent", str(self.folder / "agent.sock"), "--share"]
        code = "import os, sys; print(os.environ['CUDA_MPS_ACTIVE_THREAD_PERCENTAGE'], flush=True); sys.stdin.read()"
        job = self.start([*words, "0:30%", "--", sys.executable, "-c", code], stdin=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), "30\n")
        [share] = self.shares()
        self.assertEqual((share["percent"], share["pid"], share["gpu_uuid"]), (30, job.pid, self.uuids[0]))
        self.assertIn(f"python3-{job.pid}" if "python3" in sys.executable else str(job.pid), share["client"])
        refused = subprocess.run([*words, "0:80%", "--", "true"], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("30 % of GPU", refused.stderr)
        absent = subprocess.run([*words, "7:80%", "--", "true"], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertIn("shows no GPU 7", absent.stderr)
        self.let_go(job)
        wait_until(lambda: not self.shares(), "the share ends with the command")
        status = self.lowgear("agent", "status", "--config", str(self.config)).stdout
        self.assertIn(f"MPS daemon of {self.uuids[0]}: running, 0 % given", status)


class Refuses(MpsTest):
    def expect_refusal(self, *words):
        self.start_agent()
        daemon = self.daemon()
        for word in words:
            self.assertIn(word, daemon["problem"])
        self.assertIn(daemon["state"], ("refused", "waiting"))
        self.assertEqual(self.sharing(), "time-slicing")
        self.assertEqual(self.http("GET", "/healthz")[0], 200)
        return daemon

    def test_without_the_section_there_are_no_shares(self):
        self.write_config()
        self.start_agent()
        self.assertEqual(self.http("GET", "/v1/mps")[0], 404)
        self.assertIn("mps.gpus", self.refused(50, status=404))
        self.assertFalse(self.mps_folder.exists())

    def test_a_program_that_is_not_there(self):
        self.program = str(self.folder / "absent")
        self.write_mps()
        self.expect_refusal("absent", "comes with NVIDIA's driver")
        self.assertIn("absent", self.refused(50, status=501))

    def test_a_program_that_others_may_write_to(self):
        self.program = str(self.script("#!/bin/sh\n"))
        os.chmod(self.program, 0o777)
        self.write_mps()
        self.expect_refusal("others may write to it")

    def test_a_folder_that_others_may_write_to(self):
        self.mps_folder.mkdir()
        self.mps_folder.chmod(0o777)
        self.expect_refusal("others may write to it")

    def test_a_folder_that_cannot_be_made(self):
        self.mps_folder = self.folder / "no" / "such" / "folder"
        self.write_mps()
        self.expect_refusal("cannot be made")

    def test_a_gpu_that_is_not_there(self):
        self.write_mps(gpus=["GPU-99999999-9999-9999-9999-999999999999"])
        self.expect_refusal("there is no such GPU")

    def test_a_dry_run(self):
        agent = self.start_agent("--no-writes")
        self.assertIn("dry run", self.daemon()["problem"])
        self.assertFalse(self.mps_folder.exists() and list(self.mps_folder.iterdir()))
        shown = self.lowgear("agent", "--dry-run", "--config", str(self.config)).stdout
        self.assertIn(f"would run {DAEMON} for GPU {self.uuids[0]}", shown)
        self.kill(agent, signal.SIGTERM)

    def test_a_daemon_that_does_not_start_is_tried_again_later(self):
        count = self.folder / "count"
        self.program = str(self.script(f'#!/bin/sh\n[ "$1" = -f ] && echo x >> {count} && echo starts >&2 && echo no device >&2\nexit 3\n'))
        self.write_mps()
        agent = self.start_agent()
        wait_until(lambda: self.daemon()["restarts"] >= 2, "it was tried again")
        self.assertIn("it ended with 3: no device", self.daemon()["problem"])
        self.assertIn("no device", self.refused(50, status=500))
        tried = len(count.read_text().splitlines())
        self.assertLess(tried, 8)  # each time later
        self.assertIn("lowgear_mps_daemon_running", self.http("GET", "/metrics")[1])
        self.kill(agent, signal.SIGTERM)
        self.assertFalse((self.mps_folder / self.uuids[0]).exists())


class Survives(MpsTest):
    mps = ", grace_s: 1"

    def test_a_daemon_that_is_killed(self):
        self.start_running()
        first = self.daemon()["pid"]
        os.kill(first, signal.SIGKILL)

        def another_runs():
            daemon = self.daemon()  # once: it may end between two looks
            return daemon["state"] == "running" and daemon["pid"] != first

        wait_until(another_runs, "another one runs")
        self.assertEqual(self.daemon()["restarts"], 1)
        self.assertEqual(self.sharing(), "mps")
        self.given(50)

    def test_an_agent_that_is_killed_leaves_no_daemon_to_the_next_one(self):
        agent = self.start_running()
        first = self.daemon()["pid"]
        self.kill(agent)
        self.assertTrue(runs(first))  # and with it the jobs that use it
        foreign = self.mps_folder / "GPU-of-an-earlier-configuration"
        foreign.mkdir()
        agent = self.start_running()
        self.assertFalse(runs(first))
        self.assertFalse(foreign.exists())
        self.assertNotEqual(self.daemon()["pid"], first)
        self.given(50)
        second = self.daemon()["pid"]
        self.kill(agent, signal.SIGTERM)
        self.expect_nothing_left(second)

    def test_the_agent_ends_with_a_client_at_work(self):
        agent = self.start_running()
        load = self.start([LOWGEAR, "simgpu", "run", "--gpu", "0", "--time", "60", "--busy", "0.2", "--load", "0.2"])
        wait_until(lambda: self.machine()[0]["context_pids"], "the client has a context")
        self.given(50, client="tune")
        pid = self.daemon()["pid"]
        began_s = time.monotonic()
        self.kill(agent, signal.SIGTERM)
        self.assertGreater(time.monotonic() - began_s, 0.9)  # its grace
        self.assertEqual(agent.returncode, 0)
        self.assertIn("of share 1 (tune)", agent.stderr.read())
        self.expect_nothing_left(pid)
        self.kill(load)

    def test_the_agent_ends_although_the_daemon_hangs(self):
        agent = self.start_running()
        pid = self.daemon()["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.kill(agent, signal.SIGTERM)
        self.assertEqual(agent.returncode, 0)
        wait_until(lambda: not runs(pid), "the daemon was killed")
        self.assertFalse((self.mps_folder / self.uuids[0]).exists())


class Hangs(MpsTest):
    mps = ", answer_s: 3, grace_s: 1"

    def test_a_daemon_that_hangs_is_replaced(self):
        self.start_running()
        first = self.daemon()["pid"]
        os.kill(first, signal.SIGSTOP)
        wait_until(lambda: self.daemon()["state"] != "running" or self.daemon()["pid"] != first, "it was noticed")
        self.assertFalse(runs(first))
        wait_until(lambda: self.daemon()["state"] == "running", "another one runs")


@unittest.skipUnless(os.geteuid() == 0, "only root can act as two users")
class TwoUsers(MpsTest):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        import grp

        known = {group.gr_gid for group in grp.getgrall()}
        if not {1, 2} <= known:
            self.skipTest("the groups 1 and 2 (daemon, bin) are not there")
        self.write_mps(group=grp.getgrgid(1).gr_name)

    def test_the_group_alone_may_share_and_reach_the_pipes(self):
        self.start_running()
        _, status, answer = self.share_as(ALICE, [2])
        self.assertEqual(status, 403, answer)
        self.assertIn("mps.group", answer["error"]["message"])
        _, status, answer = self.share_as(ALICE, [1])
        # In a group by the system's database, not by what a process says of itself.
        self.assertEqual(status, 403, answer)
        pipe = self.daemon()["pipe_directory"]
        self.assertEqual(os.stat(pipe).st_gid, 1)
        listing = ["ls", pipe]
        for groups, code in (([1], 0), ([2], 2)):
            done = subprocess.run(listing, capture_output=True, user=ALICE, group=ALICE, extra_groups=groups)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_one_user_at_a_time(self):
        self.start_running()
        holder = self.start([sys.executable, "-c", HOLDER.replace("os.setresgid(*[int(sys.argv[2])] * 3)", "os.setresgid(1, 1, 1)"),
                             str(self.folder / "agent.sock"), str(ALICE), "",
                             f'{self.uuids[0]} {json.dumps({"percent": 30})}'], stdin=subprocess.PIPE)
        status, answer = json.loads(holder.stdout.readline())
        self.assertEqual((status, answer.get("share", {}).get("uid")), (200, ALICE), answer)
        message = self.refused(30)
        self.assertIn("serves one user at a time", message)
        self.assertEqual(self.http("DELETE", "/v1/shares/1")[0], 200)  # root may
        self.let_go(holder)
        self.given(30)


if __name__ == "__main__":
    unittest.main()
