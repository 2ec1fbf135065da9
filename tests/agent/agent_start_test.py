"""The real agent is told to end while it starts, and finds its journal damaged or on a disk that cannot be written."""

import json
import os
import signal
import subprocess
import time
import unittest

from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until


class StartTest(AgentTest):
    def leave_locked(self, gpus):
        """GPUs as an agent leaves them that was killed."""
        agent = self.start_agent()
        clients = [self.start_client([1200], gpu=gpu)[0] for gpu in gpus]
        for gpu in gpus:
            wait_until(lambda: self.locked(gpu) is not None, "the clock is locked")
        self.kill(agent)
        for client in clients:
            self.kill(client)

    def inject(self, call, gpu=0, **options):
        words = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]
        self.lowgear("simgpu", "inject", "--gpu", str(gpu), "--call", call, *words)

    def starting_agent(self):
        return self.start([LOWGEAR, "agent", "--config", str(self.config)])


class EndsWhileItStarts(StartTest):
    driver_timeout_s = 5

    def test_at_any_moment(self):
        self.leave_locked([0])
        journal = self.folder / "journal" / "journal"
        changed = journal.read_bytes()
        moment_s, ended_in_order = 0.0, 0
        while ended_in_order < 20:
            agent = self.starting_agent()
            time.sleep(moment_s)
            agent.send_signal(signal.SIGTERM)
            if agent.wait(PATIENCE_S) == -signal.SIGTERM:  # a signal that is lost lets it serve for ever
                moment_s += max(0.004, moment_s / 4)  # the program had not begun; when it does depends on the machine
                continue
            moment_s += 0.004
            ended_in_order += 1
            self.expect_restored_or_blocked(agent)
            journal.write_bytes(changed)  # as if it were to be restored again

    def test_while_it_opens_the_driver(self):
        self.leave_locked([0])
        self.inject("DeviceGetUUID", gpu=1, delay=0.5, count=1)
        agent = self.starting_agent()
        wait_until(lambda: self.blocks_signals(agent), "its signals are looked after")
        agent.send_signal(signal.SIGTERM)
        agent.wait(PATIENCE_S)
        self.expect_restored_or_blocked(agent)

    def test_while_the_driver_hangs_in_its_recovery(self):
        self.leave_locked([0, 1])
        self.inject("DeviceResetGpuLockedClocks", gpu=0, delay=3600, count=1)
        agent = self.starting_agent()
        wait_until(lambda: self.locked(1) is None, "the other GPU is restored")
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(PATIENCE_S), 1)
        self.assertIn("restored at the next start", agent.stderr.read())
        self.start_agent()
        self.assertIsNone(self.locked(0), "the journal has kept it")

    def expect_restored_or_blocked(self, agent):
        """On a machine that has no time for it the start takes longer than it may after a signal."""
        said = agent.stderr.read()
        if agent.returncode == 1:
            self.assertIn("stopped while the driver blocked the start", said)
        else:
            self.assertEqual(agent.returncode, 0, said)
            self.assertIsNone(self.locked(), "it has restored what it found")

    @staticmethod
    def blocks_signals(process):
        with open(f"/proc/{process.pid}/status") as status:
            blocked = next(line for line in status if line.startswith("SigBlk:"))
        return int(blocked.split()[1], 16) & 1 << (signal.SIGTERM - 1) != 0


class JournalIsDamaged(StartTest):
    allow = "everybody: true, power: true, persistence: true"

    def setUp(self):
        super().setUp()
        self.journal = self.folder / "journal" / "journal"

    def leave_changed(self, persistence):
        """Clock, power limit and persistence mode of GPU 0 are changed, and no process is left to restore them."""
        agent = self.start_agent()
        uuid = self.machine()[0]["uuid"]
        self.assertEqual(self.http("POST", f"/v1/gpus/{uuid}/clocks", {"min_mhz": 1200, "max_mhz": 1200})[0], 200)
        self.assertEqual(self.http("POST", f"/v1/gpus/{uuid}/power_limit", {"power_limit_w": 300})[0], 200)
        enabled = json.dumps(persistence)
        self.assertEqual(self.http("POST", f"/gpu/set_persistence_mode?gpu_ids=0&block=true&enabled={enabled}")[0], 200)
        self.kill(agent)
        self.assertEqual(self.machine()[0]["persistence_mode"], persistence)

    def restore(self, *words, code=0):
        return self.lowgear("agent", "restore", *(words or ("--config", str(self.config))), code=code).stderr

    def expect_restored(self, persistence):
        gpu = self.machine()[0]
        self.assertEqual((gpu["locked_sm_clocks_mhz"], gpu["power_limit_w"], gpu["persistence_mode"]),
                         (None, 700, persistence))

    def test_in_any_one_bit(self):
        self.leave_changed(persistence=False)
        whole = self.journal.read_bytes()
        for bit in range(0, 8 * len(whole), 8 * len(whole) // 20):
            self.leave_changed(persistence=False)
            whole = bytearray(self.journal.read_bytes())
            whole[bit // 8] ^= 1 << bit % 8
            self.journal.write_bytes(whole)
            said = self.restore(code=1)
            self.assertIn("the journal was damaged; every record was read", said)
            self.assertNotIn("every GPU is in its original state", said)
            self.expect_restored(persistence=True)  # as the simulated machine was made
        self.assertIn("nothing was changed", self.restore())

    def test_lost_from_anywhere_to_its_end(self):
        self.leave_changed(persistence=False)
        whole = len(self.journal.read_bytes())
        for size in range(0, whole, whole // 12):
            for end in (b"", bytes(whole - size)):
                before = self.machine()[0]["persistence_mode"]
                self.leave_changed(persistence=not before)
                self.journal.write_bytes(self.journal.read_bytes()[:size] + end)
                said = self.restore(code=1)
                self.assertIn("the journal was damaged", said)
                self.assertNotIn("every GPU is in its original state", said)
                # Half of it says everything; else the driver's default is set.
                self.expect_restored(persistence=before and 2 * size >= whole)
        self.assertIn("nothing was changed", self.restore())

    def test_by_the_loss_of_its_file(self):
        self.leave_changed(persistence=True)
        self.journal.unlink()
        self.assertIn("the journal was damaged", self.restore(code=1))
        self.expect_restored(persistence=False)

    def test_is_restored_by_the_next_agent(self):
        self.leave_changed(persistence=True)
        self.journal.write_bytes(b"")
        agent = self.start_agent()
        self.expect_restored(persistence=False)
        self.kill(agent, signal.SIGTERM)
        self.assertIn("the journal was damaged", agent.stderr.read())
        self.assertIn("nothing was changed", self.restore())

    def test_throughout(self):
        for words in ((), ("--journal", str(self.folder / "journal"))):
            self.leave_changed(persistence=True)
            self.journal.write_bytes(bytes(byte ^ 1 for byte in self.journal.read_bytes()))
            said = self.restore(*words, code=1)
            self.assertIn("the GPUs in it and their original states are not known", said)
            self.assertIn("persistence mode to off", said)
            self.expect_restored(persistence=False)  # the driver's default


def can_mount():
    return subprocess.run(["unshare", "--mount", "--map-root-user", "true"], capture_output=True).returncode == 0


@unittest.skipUnless(can_mount(), "SKIPPED: nothing can be mounted here (unshare --mount --map-root-user fails)")
class JournalCannotBeWritten(StartTest):
    def on_a_read_only_disk(self, *words):
        journal = self.folder / "journal"
        mount = f'mount --bind "{journal}" "{journal}" && mount -o remount,bind,ro "{journal}" && exec "$@"'
        return subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh", LOWGEAR, *words],
                              capture_output=True, text=True, timeout=PATIENCE_S)

    def test_restores_and_says_what_to_mend(self):
        for words in (["agent"], ["agent", "restore"]):
            self.leave_locked([0])
            ended = self.on_a_read_only_disk(*words, "--config", str(self.config))
            self.assertIn(ended.returncode, (1, 2), ended.stderr)
            self.assertIn(f"{self.machine()[0]['uuid']}: restored", ended.stderr)
            self.assertIn("mount -o remount,rw", ended.stderr)
            self.assertIsNone(self.locked())

    def test_without_a_lock_in_it(self):
        self.leave_locked([0])
        os.remove(self.folder / "journal" / "lock")
        ended = self.on_a_read_only_disk("agent", "--config", str(self.config))
        self.assertIn("mount -o remount,rw", ended.stderr)
        self.assertIsNone(self.locked())


if __name__ == "__main__":
    unittest.main()
