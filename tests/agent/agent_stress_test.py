"""The real agent when those who talk to it misbehave and when the machine runs out of something, while a training
process follows its plan: it stays up, answers, and restores."""

import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import threading
import unittest

from agent_test_base import LOWGEAR, AgentTest, wait_until

CLIENTS = 64


class WhileAPlanIsFollowed(AgentTest):
    """A client runs units at three clocks for the whole test; the simulated GPU counts what is written to it."""

    def follow(self):
        client, said = self.start_client([1200, 1500, 1800], unit_s=0.005)
        self.assertEqual(said, "ok")
        self.expect_clocks_to_follow()
        return client

    def expect_clocks_to_follow(self):
        before = self.machine()[0]["writes"]
        wait_until(lambda: self.machine()[0]["writes"] > before + 10, "the clocks go on following")

    def connect(self, name):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.folder / name))  # waits while the agent's backlog is full
        return connection

    def expect_all_is_well(self, agent, client):
        self.expect_clocks_to_follow()
        self.assertEqual(self.http("GET", "/v1/gpus")[0], 200)
        self.assertIsNone(agent.poll())
        self.kill(client)
        self.expect_default()

    def test_sixty_four_clients_at_once(self):
        agent = self.start_agent()
        client = self.follow()
        failures = []

        def ask(number):
            try:
                for path in ("/v1/gpus", "/v1/leases", "/metrics", "/healthz") * 10:
                    if self.http("GET", path)[0] != 200:
                        raise AssertionError(path)
            except Exception as error:  # reported by the test's own thread
                failures.append(f"client {number}: {error!r}")

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        self.expect_clocks_to_follow()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.expect_all_is_well(agent, client)

    def test_malformed_frames_and_requests(self):
        agent = self.start_agent()
        client = self.follow()
        chance = random.Random(3)
        hello = b"1FGL" + (1).to_bytes(4, "little")
        for number in range(CLIENTS * 4):
            noise = chance.randbytes(chance.randrange(1, 4096))
            frames = (noise, hello + noise, hello + (0xFFFFFFFF).to_bytes(4, "little"), b"1FGL", b"")
            requests = (noise, b"GET " + noise, b"POST /v1/gpus HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
                        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000, b"")
            for name, messages in (("lease.sock", frames), ("agent.sock", requests)):
                with self.connect(name) as connection:
                    try:
                        connection.sendall(messages[number % len(messages)])
                    except OSError:
                        pass  # refused while we still talk
        self.expect_all_is_well(agent, client)

    def test_readers_that_never_read(self):
        agent = self.start_agent()
        client = self.follow()
        slow = [self.connect("agent.sock") for _ in range(CLIENTS)]
        for number, connection in enumerate(slow):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            path = "/v1/power?stream=1" if number % 2 else "/metrics"
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * (1 if number % 2 else 50))
        self.expect_all_is_well(agent, client)
        for connection in slow:
            connection.close()

    def test_no_file_descriptors_left(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
        try:
            agent = self.start_agent()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        client = self.follow()
        crowd = []
        for number in range(200):
            connection = self.connect("agent.sock" if number % 2 else "lease.sock")
            connection.setblocking(False)
            crowd.append(connection)
        descriptors = f"/proc/{agent.pid}/fd"
        wait_until(lambda: len(os.listdir(descriptors)) >= 50, "the agent has hardly a descriptor left")
        self.expect_clocks_to_follow()
        self.kill(client)
        self.expect_default()  # with everybody still connected
        for connection in crowd:
            connection.close()
        wait_until(self.answers, "the agent answers again")
        self.expect_all_is_well(agent, self.follow())


def may_mount():
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return os.geteuid() == 0 and shutil.which("unshare") and subprocess.run(command, capture_output=True).returncode == 0


@unittest.skipUnless(may_mount(), "a disk of our own needs the right to mount")
class FullDisk(AgentTest):
    """The agent's journal on a disk of 64 KiB, in a mount namespace of the agent's own."""

    def start_agent(self, *options):
        self.journal = self.folder / "journal"
        self.journal.mkdir(mode=0o700)
        agent = self.start(["unshare", "--mount", "sh", "-c",
                            f"mount -t tmpfs -o size=64k,mode=0700 none {self.journal} && "
                            f"exec {LOWGEAR} agent --config {self.config}"])
        wait_until(lambda: agent.poll() is not None or self.answers(), "the agent answers")
        self.assertIsNone(agent.poll(), agent.poll() is not None and agent.stderr.read())
        self.filler = f"/proc/{agent.pid}/root{self.journal}/filler"
        return agent

    def fill(self):
        try:
            with open(self.filler, "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
        except OSError:
            pass  # full now

    def gpu(self):
        return self.http("GET", "/v1/gpus")[1]["gpus"][0]

    def test_no_clock_is_written_that_the_journal_cannot_hold(self):
        self.start_agent()
        self.fill()
        client, said = self.start_client([1200])
        self.assertEqual(said, "ok")
        wait_until(lambda: "No space left" in (self.gpu()["problem"] or ""), "the agent says what is wrong")
        self.assertEqual(self.machine()[0]["writes"], 0)
        os.remove(self.filler)
        wait_until(lambda: self.locked() is not None, "the clocks follow once there is space")
        self.kill(client)
        self.expect_default()

    def test_what_was_changed_before_is_restored(self):
        agent = self.start_agent()
        client, said = self.start_client([1200])
        self.assertEqual(said, "ok")
        wait_until(lambda: self.locked() is not None, "the clock is locked")
        self.fill()
        self.kill(client)
        self.expect_default()
        self.assertEqual(self.http("GET", "/healthz")[0], 200)
        os.remove(self.filler)
        self.kill(agent, signal.SIGTERM)
        self.assertIsNone(self.locked())


if __name__ == "__main__":
    unittest.main()
