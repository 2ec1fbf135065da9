"""The real agent and the real client library on simulated GPUs: what is promised when things go well and when they do
not. The simulated machine says what is really locked."""

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until


class FollowsPlans(AgentTest):
    def test_clocks_follow_the_units(self):
        self.start_agent()
        client, said = self.start_client([1200, 1500, 1800])
        self.assertEqual(said, "ok")
        seen = set()
        wait_until(lambda: seen.add(json.dumps(self.locked())) or len(seen - {"null"}) == 3, "every clock was locked")
        self.assertIsNone(self.locked(1), "another GPU is left alone")
        self.kill(client)
        self.expect_default()

    def test_a_client_that_ends_gives_the_gpu_back(self):
        self.start_agent()
        client, _ = self.start_client([1200])
        wait_until(lambda: self.locked() is not None, "the clock is locked")
        status = self.lowgear("agent", "status", "--config", str(self.config)).stdout
        self.assertRegex(status, r"lease \d+: GPU [^,]+, user [^,]+, rank 0, ", "it names no job")
        client.stdin.close()
        self.assertEqual(client.wait(PATIENCE_S), 0)
        self.expect_default()

    @unittest.skipUnless(os.geteuid() == 0, "SKIPPED: only root assigns GPUs")
    def test_status_shows_the_job_that_a_gpu_is_assigned_to(self):
        uuid = self.machine()[0]["uuid"]
        self.start_agent()
        self.assertNotIn("assigned", self.lowgear("agent", "status", "--config", str(self.config)).stdout)
        self.assertEqual(self.http("PUT", f"/v1/gpus/{uuid}/assignment", {"uid": 2001, "job": "12"})[0], 200)
        self.assertIn(f"assigned: GPU {uuid} to job 12 of user id 2001; only this user and root can lease it\n",
                      self.lowgear("agent", "status", "--config", str(self.config)).stdout)

    def test_status_finds_an_agent_at_another_path_without_its_configuration(self):
        self.start_agent()
        uuid = self.machine()[0]["uuid"]
        for name, socket in (("LOWGEAR_AGENT_HTTP_SOCKET", "agent.sock"), ("LOWGEAR_AGENT_SOCKET", "lease.sock")):
            with mock.patch.dict(os.environ, {name: str(self.folder / socket)}):
                self.assertIn(uuid, self.lowgear("agent", "status").stdout)
        for name, socket, said in (
                ("LOWGEAR_AGENT_HTTP_SOCKET", "none.sock", "LOWGEAR_AGENT_HTTP_SOCKET: there is no {folder}/none.sock"),
                ("LOWGEAR_AGENT_SOCKET", "no/lease.sock",
                 "LOWGEAR_AGENT_SOCKET is {folder}/no/lease.sock: beside it, there is no {folder}/no/agent.sock")):
            with mock.patch.dict(os.environ, {name: str(self.folder / socket)}):
                self.assertIn(said.format(folder=self.folder), self.lowgear("agent", "status", code=1).stderr)

    @unittest.skipIf(Path("/etc/lowgear/agent.yaml").exists(), "SKIPPED: this machine has a configuration")
    def test_restore_asks_an_agent_at_another_path_without_its_configuration(self):
        self.start_agent()
        self.assertEqual(self.start_client([1200], gpu=0)[1], "ok")
        wait_until(lambda: self.locked() is not None, "the clock is locked")
        with mock.patch.dict(os.environ, {"LOWGEAR_AGENT_SOCKET": str(self.folder / "lease.sock")}):
            preview = self.lowgear("agent", "restore", "--dry-run").stdout
            self.assertIn(self.machine()[0]["uuid"], preview)
            self.assertIn("would be asked to end every lease", preview)
            self.assertIsNotNone(self.locked(), "a dry run writes nothing")
            self.assertIn("has ended every lease", self.lowgear("agent", "restore").stderr)
        self.assertIsNone(self.locked())

    def test_two_clients_have_a_gpu_each_and_a_third_none(self):
        self.start_agent()
        self.assertEqual(self.start_client([1200], gpu=0)[1], "ok")
        self.assertEqual(self.start_client([1500], gpu=1)[1], "ok")
        self.assertIn("lease", self.start_client([1800], gpu=0)[1])
        wait_until(lambda: self.locked(0) and self.locked(1), "both are locked")
        self.assertIn("1200", json.dumps(self.locked(0)))
        self.assertIn("1500", json.dumps(self.locked(1)))

    def test_a_clock_that_the_gpu_does_not_have(self):
        self.start_agent()
        self.assertIn("1201 MHz", self.start_client([1201], gpu=0)[1])
        self.assertEqual(self.start_client([1201], gpu=1, NEAREST_BELOW="1")[1], "ok")
        wait_until(lambda: self.locked(1) is not None, "the nearest clock is locked")
        self.assertIn("1200", json.dumps(self.locked(1)))
        self.assertIsNone(self.locked(0))

    def test_a_plan_for_another_model(self):
        self.start_agent()
        said = self.start_client([1200], gpu=0, plan_members={"gpu": "NVIDIA A100-SXM4-80GB"})[1]
        self.assertIn('is for "NVIDIA A100-SXM4-80GB", and this GPU is "NVIDIA H100', said)
        self.assertEqual(self.start_client([1200], gpu=1, plan_members={"gpu": self.machine()[1]["name"]})[1], "ok")
        wait_until(lambda: self.locked(1) is not None, "the plan for this model is followed")
        self.assertIsNone(self.locked(0))

    def test_a_foreign_writer_is_noticed(self):
        self.start_agent()
        self.start_client([1200])
        wait_until(lambda: self.locked() is not None, "the clock is locked")
        load = self.start([LOWGEAR, "simgpu", "run", "--gpu", "0", "--time", "30"])
        self.lowgear("simgpu", "reset", "--gpu", "0")
        wait_until(lambda: self.http("GET", "/v1/gpus")[1]["gpus"][0]["clocks"]["state"] == "foreign", "it is noticed")
        self.assertIn("another program", self.http("GET", "/v1/gpus")[1]["gpus"][0]["problem"])
        self.kill(load)

    def test_a_foreign_power_limit_is_noticed(self):
        agent = self.start_agent()
        self.assertEqual(self.http("POST", f"/v1/gpus/{self.machine()[0]['uuid']}/power_limit",
                                   {"power_limit_w": 300})[0], 200)
        self.lowgear("simgpu", "reset", "--gpu", "0")
        gpu = lambda: self.http("GET", "/v1/gpus")[1]["gpus"][0]
        wait_until(lambda: gpu()["clocks"]["state"] == "foreign", "it is noticed")
        self.assertIn("power limit is 700 W though 300 W were set", gpu()["problem"])
        self.kill(agent, signal.SIGTERM)


class Restores(AgentTest):
    suspend_after_s = 0.5

    def lock(self):
        client, said = self.start_client([1200, 1500])
        self.assertEqual(said, "ok")
        wait_until(lambda: self.locked() is not None, "the clock is locked")
        return client

    def test_when_the_agent_is_asked_to_end(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            agent = self.start_agent()
            client = self.lock()
            self.kill(agent, number)
            said = agent.stderr.read()
            self.assertEqual(agent.returncode, 0, said)
            self.assertIn("stopped; every lease has ended, and every GPU is restored\n", said)
            self.assertIsNone(self.locked())
            self.kill(client)

    def test_at_the_next_start_after_the_agent_was_killed(self):
        agent = self.start_agent()
        client = self.lock()
        self.kill(agent)
        self.kill(client)
        self.assertIsNotNone(self.locked(), "no agent could restore it")
        self.start_agent()
        self.assertIsNone(self.locked())

    def test_later_when_the_driver_refuses_at_the_next_start(self):
        agent = self.start_agent()
        client = self.lock()
        self.kill(agent)
        self.kill(client)
        self.lowgear("simgpu", "inject", "--gpu", "0", "--call", "DeviceResetGpuLockedClocks", "--return-code", "999",
                     "--count", "5")
        self.start_agent()
        self.assertIsNotNone(self.locked())
        self.assertEqual(self.http("GET", "/v1/gpus")[1]["gpus"][0]["clocks"]["state"], "failed")
        self.expect_default()
        wait_until(lambda: self.http("GET", "/v1/gpus")[1]["gpus"][0]["clocks"]["state"] == "restored", "it says so")

    def test_by_the_kill_switch_without_an_agent(self):
        agent = self.start_agent()
        client = self.lock()
        self.kill(agent)
        self.kill(client)
        preview = self.lowgear("agent", "restore", "--dry-run", "--config", str(self.config)).stdout
        self.assertIn(self.machine()[0]["uuid"] + ": would reset its clocks", preview)
        self.assertIn("power limit to 700 W", preview)
        self.assertNotIn(self.machine()[1]["uuid"], preview)
        self.assertIsNotNone(self.locked(), "a dry run writes nothing")
        said = self.lowgear("agent", "restore", "--config", str(self.config)).stderr
        self.assertIn(self.machine()[0]["uuid"] + ": restored", said)
        self.assertIsNone(self.locked())
        self.assertIn("nothing was changed", self.lowgear("agent", "restore", "--config", str(self.config)).stderr)
        self.assertIn("nothing would be changed",
                      self.lowgear("agent", "restore", "--dry-run", "--config", str(self.config)).stdout)

    def test_whatever_became_of_the_configuration(self):
        agent = self.start_agent()
        client = self.lock()
        self.kill(agent)
        self.kill(client)
        self.config.write_text("nonsense")
        self.lowgear("agent", "restore", "--config", str(self.config), code=2)
        self.lowgear("agent", "restore", "--journal", str(self.folder / "journal"))
        self.assertIsNone(self.locked())

    def test_later_when_the_gpu_does_not_answer_at_the_next_start(self):
        agent = self.start_agent()
        client = self.lock()
        self.kill(agent)
        self.kill(client)
        uuid = self.machine()[0]["uuid"]
        self.controlled = [gpu["uuid"] for gpu in self.machine()]
        self.write_config()
        self.lowgear("simgpu", "inject", "--gpu", "0", "--call", "DeviceGetUUID", "--return-code", "15", "--count", "4")
        agent = self.start_agent()
        self.assertIsNotNone(self.locked())
        health = self.http("GET", "/healthz")[1]
        self.assertEqual(health["status"], "degraded")
        self.assertIn(uuid, health["problems"][0])
        self.assertIn(uuid, self.lowgear("agent", "status", "--config", str(self.config)).stdout)
        if os.geteuid() == 0:
            refused = self.lowgear("agent", "restore", "--config", str(self.config), code=1)
            self.assertIn(uuid, refused.stderr)
            self.assertNotIn("restored every GPU", refused.stderr)
            self.assertIn(f"1 GPUs were not restored: GPU {uuid}: was left changed and does not respond", refused.stderr)
        self.expect_default()
        wait_until(lambda: not self.http("GET", "/v1/gpus")[1]["unattended"][0]["left_changed"], "it says so")
        if os.geteuid() == 0:
            self.lowgear("agent", "restore", "--config", str(self.config))
        self.kill(agent, signal.SIGTERM)
        said = agent.stderr.read()
        self.assertLess(said.index(f"{uuid}: was left changed; restoring it"), said.index(f"{uuid}: restored"))

    def test_though_a_gpu_of_the_configuration_is_missed(self):
        agent = self.start_agent()
        client = self.lock()
        self.kill(agent)
        self.kill(client)
        self.controlled = ["all", "GPU-gone"]
        self.write_config()
        agent = self.start_agent()
        self.assertIsNone(self.locked(), "the others are restored all the same")
        self.assertEqual(self.http("GET", "/v1/gpus")[1]["unattended"][0]["gpu"], "GPU-gone")
        self.kill(agent, signal.SIGTERM)
        self.assertIn("GPU GPU-gone did not respond", agent.stderr.read())

    def test_by_the_kill_switch_with_an_agent(self):
        self.start_agent()
        client = self.lock()
        if os.geteuid() != 0:
            self.skipTest("the kill switch is for root")
        client.send_signal(signal.SIGSTOP)
        self.lowgear("agent", "restore", "--dry-run", "--config", str(self.config))
        self.assertEqual(len(self.http("GET", "/v1/leases")[1]["leases"]), 1, "a dry run ends no lease")
        self.lowgear("agent", "restore", "--config", str(self.config))
        self.expect_default()

    def test_by_the_kill_switch_with_an_agent_and_without_its_configuration(self):
        self.start_agent()
        client = self.lock()
        if os.geteuid() != 0:
            self.skipTest("the kill switch is for root")
        client.send_signal(signal.SIGSTOP)
        said = self.lowgear("agent", "restore", "--journal", str(self.folder / "journal")).stderr
        self.assertIn("the running agent has", said)
        self.expect_default()
        self.assertEqual(self.http("GET", "/v1/leases")[1]["leases"], [])

    def test_when_training_hangs_and_continues(self):
        self.start_agent()
        client = self.lock()
        client.stdin.write("pause\n")
        client.stdin.flush()
        self.expect_default()
        client.stdin.write("go\n")
        client.stdin.flush()
        wait_until(lambda: self.locked() is not None, "the clocks follow again")

    def test_the_client_takes_its_lease_again(self):
        agent = self.start_agent()
        self.lock()
        self.kill(agent)
        self.start_agent()
        wait_until(lambda: self.locked() is not None, "the same client's clocks are followed again")

    def test_what_a_request_over_http_changed(self):
        self.start_agent()
        program = (
            "import http.client, socket, sys, time\n"
            "connection = http.client.HTTPConnection('x'); connection.sock = socket.socket(socket.AF_UNIX)\n"
            f"connection.sock.connect('{self.folder}/agent.sock')\n"
            "connection.request('POST', '/gpu/set_gpu_locked_clocks?gpu_ids=0&block=true&min_clock_mhz=900&max_clock_mhz=1200')\n"
            "print(connection.getresponse().status, flush=True)\n"
            "connection.close(); time.sleep(60)\n"
        )
        zeus = self.start([sys.executable, "-c", program])
        self.assertEqual(zeus.stdout.readline().strip(), "200")
        self.assertIn("900", json.dumps(self.locked()))
        self.kill(zeus)
        self.expect_default()


class Refuses(AgentTest):
    def test_a_second_agent(self):
        self.start_agent()
        second = self.lowgear("agent", "--config", str(self.config), code=2)
        self.assertIn("another agent", second.stderr)

    def test_a_second_agent_with_a_journal_of_its_own(self):
        agent = self.start_agent()
        other = self.folder / "other"
        other.mkdir(mode=0o700)
        config = other / "agent.yaml"
        config.write_text(self.config.read_text().replace(str(self.folder), str(other)))
        config.chmod(0o600)
        (other / "machine").symlink_to(self.folder / "machine")
        os.environ["LOWGEAR_SIMGPU"] = str(other / "machine")
        second = self.lowgear("agent", "--config", str(config), code=2)
        self.assertIn(f"process {agent.pid}", second.stderr)
        self.assertIn("end that one first", second.stderr)
        self.assertFalse((other / "journal").exists())
        self.lowgear("simgpu", "create", "--state", str(other / "machine2"), "--gpus", self.gpus, "--any-user")
        os.environ["LOWGEAR_SIMGPU"] = str(other / "machine2")
        third = self.start([LOWGEAR, "agent", "--config", str(config)])
        wait_until(lambda: third.poll() is not None or (other / "agent.sock").exists(), "it serves another machine")
        self.assertIsNone(third.poll())
        self.kill(third, signal.SIGTERM)
        self.kill(agent)
        os.environ["LOWGEAR_SIMGPU"] = str(self.folder / "machine")
        fourth = self.start([LOWGEAR, "agent", "--config", str(config)])
        wait_until(lambda: fourth.poll() is not None or (other / "agent.sock").exists(), "it follows one that was killed")
        self.assertIsNone(fourth.poll())

    def test_options_that_mean_nothing(self):
        for words in (("serve", "--journal", "x"), ("status", "--dry-run"), ("check", "--journal", "x"),
                      ("restore", "--json"), ("restore", "--journal", "x", "--config", str(self.config))):
            self.lowgear("agent", *words, code=2)

    def test_a_journal_that_is_not_there(self):
        for words in ((), ("--dry-run",)):
            refused = self.lowgear("agent", "restore", "--journal", str(self.folder / "typo"), *words, code=2)
            self.assertIn("there is no journal", refused.stderr)
            self.assertFalse((self.folder / "typo").exists())

    def test_a_configuration_that_others_may_change(self):
        self.config.chmod(0o666)
        self.assertIn("chmod go-w", self.lowgear("agent", "--config", str(self.config), code=2).stderr)
        self.config.chmod(0o600)
        link = self.folder / "link.yaml"
        link.symlink_to(self.config)
        self.assertIn("symbolic link", self.lowgear("agent", "--config", str(link), code=2).stderr)

    def test_a_journal_that_others_may_change(self):
        (self.folder / "journal").mkdir(mode=0o777)
        (self.folder / "journal").chmod(0o777)
        self.assertIn("chmod go-w", self.lowgear("agent", "--config", str(self.config), code=2).stderr)

    def test_a_configuration_that_is_not_there(self):
        self.lowgear("agent", "--config", str(self.folder / "none.yaml"), code=2)


class ClosedByDefault(AgentTest):
    controlled = []

    def test_no_gpu_that_is_not_named_is_changed(self):
        self.start_agent()
        self.assertIn("GPU-", self.start_client([1200])[1])
        self.assertEqual(self.machine()[0]["writes"], 0)


class AllowsARange(AgentTest):
    allow = "everybody: true, min_clock_mhz: 1000, max_clock_mhz: 1500"

    def test_no_clock_outside_it(self):
        self.start_agent()
        self.assertIn("1000 to 1500", self.start_client([1800])[1])
        status, answer = self.http("POST", "/v1/gpus/" + self.machine()[1]["uuid"] + "/clocks",
                                   {"min_mhz": 345, "max_mhz": 1200})
        self.assertEqual(status, 400, answer)
        status, answer = self.http("POST", "/v1/gpus/" + self.machine()[1]["uuid"] + "/power_limit",
                                   {"power_limit_w": 500})
        self.assertGreaterEqual(status, 400, answer)
        self.assertEqual([gpu["writes"] for gpu in self.machine()], [0, 0])


@unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
class KeepsOthersOut(AgentTest):
    allow = "user: root"

    def test_another_user(self):
        self.folder.chmod(0o755)
        os.chmod(self.folder / "machine", 0o666)
        self.start_agent()
        self.assertEqual(self.start_client([1200], gpu=0)[1], "ok")
        result = subprocess.run(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", "-c",
             "import http.client, socket\n"
             "c = http.client.HTTPConnection('x'); c.sock = socket.socket(socket.AF_UNIX)\n"
             f"c.sock.connect('{self.folder}/agent.sock')\n"
             "c.request('POST', '/gpu/set_gpu_locked_clocks?gpu_ids=1&block=true&min_clock_mhz=900&max_clock_mhz=1200')\n"
             "print(c.getresponse().status)"],
            capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertIn(result.stdout.strip(), ("403", "400"), result.stderr)
        self.assertIsNone(self.locked(1))


class DryRun(AgentTest):
    controlled = ["0000:01:00.0"]
    allow = "everybody: true, power: true, min_clock_mhz: 900, max_power_w: 500"

    def preview(self, *words, **options):
        return self.lowgear("agent", "--dry-run", *words, **options).stdout

    def test_says_what_it_would_do_to_which_gpu_and_ends(self):
        said = self.preview("--config", str(self.config)).splitlines()
        uuids = [gpu["uuid"] for gpu in self.machine()]
        self.assertEqual(said[0], "simulated GPUs")
        self.assertEqual(said[1], f"GPU 0: NVIDIA H100 80GB HBM3, {uuids[0]}, 0000:01:00.0")
        self.assertIn("for everybody: would set SM clocks of 900 to 1980 MHz, a power limit of 200 to 500 W", said[2])
        self.assertEqual(said[3], f"GPU 1: NVIDIA H100 80GB HBM3, {uuids[1]}, 0000:02:00.0")
        self.assertIn("would only read it: no entry of gpu in the configuration names it", said[4])
        self.assertIn(str(self.folder / "agent.sock"), said[5])
        self.assertEqual(said[6], "Nothing was done.")
        self.assertEqual(self.machine()[0]["writes"], 0)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"machine", "agent.yaml"})

    def test_says_what_it_would_restore_first(self):
        agent = self.start_agent()
        client, said = self.start_client([1200])
        self.assertEqual(said, "ok")
        wait_until(self.locked, "the clock is locked")
        self.kill(agent)
        self.kill(client)
        writes = self.machine()[0]["writes"]
        said = self.preview("--config", str(self.config))
        self.assertIn(f"GPU {self.machine()[0]['uuid']}: would reset its clocks to the driver's default", said)
        self.assertEqual(self.machine()[0]["writes"], writes)

    def test_gpus_that_are_not_there_are_named(self):
        self.controlled = ["0000:01:00.0", "GPU-none"]
        self.write_config()
        self.assertIn("GPU-none", self.preview("--config", str(self.config)))

    @unittest.skipIf(Path("/etc/lowgear/agent.yaml").exists(), "this machine has a configuration")
    def test_needs_no_configuration(self):
        said = self.preview()
        self.assertIn("/etc/lowgear/agent.yaml does not exist", said)
        self.assertEqual(said.count("would only read it"), 2)
        self.assertIn("no configuration", self.preview())
        self.lowgear("agent", "--dry-run", "--config", str(self.folder / "none.yaml"), code=2)

    def test_writes_nothing_and_says_what_it_would(self):
        agent = self.start_agent("--no-writes")
        client, said = self.start_client([1200])
        self.assertEqual(said, "ok")
        wait_until(lambda: self.http("GET", "/v1/gpus")[1]["gpus"][0]["clocks"]["requested_max_mhz"] == 1200, "it asks")
        self.kill(client)
        self.kill(agent, signal.SIGTERM)
        said = agent.stderr.read()
        self.assertIn("would lock SM clocks to 1200-1200 MHz", said)
        self.assertIn("stopped; every lease has ended\n", said)
        self.assertEqual(self.machine()[0]["writes"], 0)
        self.assertFalse((self.folder / "journal").exists())


if __name__ == "__main__":
    unittest.main()
