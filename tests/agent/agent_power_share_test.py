"""A real agent holds its share of a real server's power budget on simulated GPUs; without the server, what is safe."""

import http.client
import json
import signal
import socket
import unittest

from agent_test_base import LOWGEAR, PATIENCE_S, AgentTest, wait_until

SAFE_W = 300
MOST_W = 700
BUDGET_W = 1000


class PowerShareTest(AgentTest):
    def setUp(self):
        super().setUp()
        self.server_socket = self.folder / "server.sock"
        self.write_config(f'power_share: {{server: "unix:{self.server_socket}", safe_w: {SAFE_W}, host: node-1}}\n')

    def start_server(self):
        server = self.start([LOWGEAR, "serve", "--state", str(self.folder / "state"), "--unix", str(self.server_socket)])
        self.assertIn("serving", server.stdout.readline())
        return server

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("server")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.server_socket))
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        self.assertEqual(answer.status, 200, content)
        return content

    def limits_w(self):
        return [gpu["power_limit_w"] for gpu in self.machine()]

    def wait_for_limits(self, watts, why):
        wait_until(lambda: self.limits_w() == [watts, watts], f"each GPU is limited to {watts} W: {why}")

    def held(self):
        return self.ask("GET", "/v1/budgets")["budgets"][0]["held"]

    def end(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

    def test_a_share_is_held_and_expires(self):
        agent = self.start_agent()
        self.wait_for_limits(SAFE_W, "there is no server")
        server = self.start_server()
        self.wait_for_limits(MOST_W, "there is no budget")
        self.ask("PUT", "/v1/budgets/cluster", {"watts": BUDGET_W})
        self.wait_for_limits(BUDGET_W / 2, "the budget is divided")
        wait_until(lambda: self.held() == {"watts": BUDGET_W, "nodes": 1, "silent_nodes": 0}, "the server shows it")
        self.end(server)
        self.wait_for_limits(SAFE_W, "the server is away")
        server = self.start_server()
        self.wait_for_limits(BUDGET_W / 2, "the server is back")
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(PATIENCE_S), 0)
        self.assertEqual(self.limits_w(), [SAFE_W, SAFE_W], "no agent, so no more than what is safe")

    def test_an_agent_that_is_killed_leaves_its_limits(self):
        self.start_server()
        self.ask("PUT", "/v1/budgets/cluster", {"watts": BUDGET_W})
        agent = self.start_agent()
        self.wait_for_limits(BUDGET_W / 2, "the budget is divided")
        self.end(agent)
        self.assertEqual(self.limits_w(), [BUDGET_W / 2] * 2)
        at_full_power = {"watts": 2 * MOST_W, "nodes": 1, "silent_nodes": 1}
        wait_until(lambda: self.held() == at_full_power, "it counts at full power")
        self.assertEqual(self.limits_w(), [BUDGET_W / 2] * 2)
        agent = self.start_agent()
        self.wait_for_limits(BUDGET_W / 2, "the next agent has its share")
        self.end(agent)
        self.ask("DELETE", "/v1/nodes/node-1")
        wait_until(lambda: self.held() is None, "the node is no more")

    def test_power_limits_are_not_for_users(self):
        self.start_server()
        self.start_agent()
        uuid = self.machine()[0]["uuid"]
        status, answer = self.http("POST", f"/v1/gpus/{uuid}/power_limit", {"power_limit_w": 400})
        self.assertEqual(status, 403, answer)
        self.assertIn("share of a power budget", json.dumps(answer))

    def test_the_end_of_a_lease_leaves_the_share(self):
        self.start_server()
        self.ask("PUT", "/v1/budgets/cluster", {"watts": BUDGET_W})
        self.start_agent()
        self.wait_for_limits(BUDGET_W / 2, "the budget is divided")
        client, answer = self.start_client([1005, 1200])
        self.assertEqual(answer, "ok")
        wait_until(lambda: self.locked() is not None, "the plan is followed")
        self.end(client)
        wait_until(lambda: self.locked() is None, "the clocks are back")
        self.assertLessEqual(max(self.limits_w()), BUDGET_W / 2)
        self.wait_for_limits(BUDGET_W / 2, "the share is held again")


if __name__ == "__main__":
    unittest.main()
