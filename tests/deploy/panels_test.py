#!/usr/bin/env python3
"""panels_test.py METRICS_FIXTURE PROMETHEUS MONITORING: every query of every dashboard, asked of a real
Prometheus with the rules of deploy/monitoring, which scrapes a real agent on simulated GPUs and a real server. With
LOWGEAR_PICTURES=FOLDER it then also draws the dashboards there, by Chromium, after a minute."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from drawn_dashboard import page, size_px
from grafana_queries import answer, escaped, values_of
from monitored_fleet import ControlPlane, ReportingJob, SimulatedNode
from prometheus_process import PATIENCE_S, Prometheus, get, wait_until

MONITORING, PROMETHEUS, FIXTURE = (sys.argv.pop() for _ in range(3))
sys.path.insert(0, MONITORING)
import render  # noqa: E402
# Panels without series while all is well; the test makes the event.
NEED_AN_EVENT = {"Stragglers", "Firing alerts", "Power budgets", "Use of power budgets", "Worth of one more kW",
                 "Measured and held power", "Requests refused for their token"}
EMPTY_BEFORE = NEED_AN_EVENT - {"Firing alerts"}  # a busy machine may well have one
# Panels of counters that a machine may lack (RAPL): of the node whose agent has stand-ins for them.
OF_THE_OTHER_NODE = {"CPU power by node"}
CLOCKS_MHZ = [1980, 1605, 1200, 1410]
BUDGET_W = 1500
LIMIT_W = 250  # far below what the load draws


class Panels(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="lg-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.node = SimulatedNode(self, self.folder, "H100+power,H100")
        self.node.start()
        self.server = ControlPlane(self, self.folder)
        self.other_node = self.start_fixture()
        self.prometheus = Prometheus(self, self.folder, PROMETHEUS, Path(MONITORING),
                                     [self.node.address, self.other_node], [self.server.address],
                                     at_once=["LowgearStraggler"])
        self.prometheus.start()
        for gpu in (0, 1):
            self.node.load(gpu)
        self.node.train_by_plan(0, CLOCKS_MHZ)
        self.node.share(1, 50)
        self.job = ReportingJob(self, self.server.url, self.node.uuids())
        self.job.wait_for_savings()
        self.dashboards = list(render.dashboards().values())
        self.assertEqual(len(self.dashboards), 3)

    def start_fixture(self):
        """The HTTP side of an agent, on stand-ins for GPUs and CPUs; its address."""
        fixture = subprocess.Popen([FIXTURE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(fixture.wait, PATIENCE_S)
        self.addCleanup(fixture.stdout.close)
        self.addCleanup(fixture.stdin.close)
        return f"127.0.0.1:{fixture.stdout.readline().split()[0]}"

    def panels(self):
        """Each panel that asks something: its dashboard and itself."""
        return [(dashboard, panel) for dashboard in self.dashboards for panel in dashboard["panels"]
                if panel["type"] != "row"]

    def chosen(self, panel):
        """Values of variables: one node, one GPU, one job, escaped as Grafana does."""
        node = self.other_node if panel["title"] in OF_THE_OTHER_NODE else self.node.address
        return {"node": escaped(node), "gpu": "0", "job": escaped(self.job.ranks.job)}

    def empty(self, panel):
        """The queries of a panel that return nothing."""
        return [target["expr"] for target in panel["targets"]
                if not answer(self.prometheus, target, self.chosen(panel))]

    def wait_for_data(self, panels):
        left = [(f"{dashboard['title']} / {panel['title']}", panel) for dashboard, panel in panels]

        def all_have_data():
            nonlocal left
            left = [(name, panel) for name, panel in left if self.empty(panel)]
            return not left

        wait_until(all_have_data, lambda: "\n".join(f"data of {name}: {self.empty(panel)}" for name, panel in left))

    def series(self, title, labels):
        """Newest values of the lines of a panel that have these labels."""
        found = []
        for _, panel in self.panels():
            for target in panel["targets"] if panel["title"] == title else ():
                found += [float(series["values"][-1][1]) for series in answer(self.prometheus, target, {
                    **self.chosen(panel), "gpu": ".+"}) if labels.items() <= series["metric"].items()]
        return found

    def table(self, title, labels):
        """Lines of the tables of this title that have these labels, of all GPUs."""
        return [line for _, panel in self.panels() if panel["title"] == title for target in panel["targets"]
                for line in answer(self.prometheus, target, {**self.chosen(panel), "gpu": ".+"})
                if labels.items() <= line["metric"].items()]

    def check_variables(self):
        expected = {"node": {self.node.address, self.other_node}, "gpu": {"0", "1"}, "job": {self.job.ranks.job}}
        for dashboard in self.dashboards:
            chosen = {}
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    name = variable["name"]
                    self.assertEqual(set(values_of(self.prometheus, variable, chosen)), expected[name])
                    chosen[name] = variable["allValue"]

    def make_events(self):
        """A slow rank, a rank that refuses plans, a cap on the job's power, a budget, an agent that holds it, a request
        with a wrong token, a GPU whose power is limited."""
        self.job.post("straggler", {"rank": 2, "factor": 1.2})
        self.job.refuse(1, "the model was rebuilt")
        self.job.post("power_cap", {"scope": "gpu", "watts": 300})
        self.job.ranks.call("PUT", "/v1/budgets/cluster", {"watts": BUDGET_W})
        self.job.ranks.call("POST", "/v1/nodes/node-9/power", {"safe_w": 200, "gpus": [
            {"uuid": "GPU-9", "limit_w": 200, "least_w": 100, "most_w": 400}]})
        self.assertEqual(get(int(self.server.address.rpartition(":")[2]), "/v1/jobs/none/decisions?x=1",
                             headers={"Authorization": "Bearer none"})[0], 401)
        self.node.set_power_limit(1, LIMIT_W)

    def check_events(self):
        """What the events did shows where the dashboards should show it."""
        for rank in ("0", "1"):
            for title in ("GPUs of the job", "Jobs on these GPUs"):
                place = {"job_id": self.job.ranks.job, "rank": rank, "host": "node-1", "instance": self.node.address,
                         "gpu": rank}
                self.assertEqual(len(self.table(title, place)), 1, f"{title} links rank {rank} to its node")
        for title, labels in (("Decisions", {"action": "straggler"}), ("Decisions", {"action": "refusal"}),
                              ("Decisions", {"action": "power_cap"}),
                              ("Throttled time", {"reason": "power_cap", "gpu": "1"})):
            wait_until(lambda: any(value > 0 for value in self.series(title, labels)),
                       lambda: f"{title} shows {labels}: {self.series(title, labels)}")

    def draw(self, folder):
        time.sleep(60)
        for dashboard in self.dashboards:
            answers = {panel["id"]: [answer(self.prometheus, target, {**self.chosen(panel), "gpu": ".+"})
                                     for target in panel.get("targets", ())] for panel in dashboard["panels"]}
            source = Path(folder) / f"{dashboard['uid']}.html"
            source.write_text(page(dashboard, answers), encoding="utf-8")
            width, height = size_px(dashboard)
            subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                            f"--user-data-dir={self.folder}/chromium", f"--window-size={width},{height}",
                            f"--screenshot={source.with_suffix('.png')}", source.as_uri()],
                           check=True, capture_output=True, timeout=PATIENCE_S)

    def test_every_panel_has_data(self):
        panels = self.panels()
        self.assertLessEqual(NEED_AN_EVENT | OF_THE_OTHER_NODE, {panel["title"] for _, panel in panels})
        self.wait_for_data([one for one in panels if one[1]["title"] not in NEED_AN_EVENT])
        self.check_variables()
        nothing = {"title": "", "targets": [{"expr": 'lowgear_no_such_metric{gpu=~"$gpu"}', "instant": False}]}
        self.assertTrue(self.empty(nothing), "the check can fail")
        for _, panel in panels:
            if panel["title"] in EMPTY_BEFORE:
                self.assertEqual(len(self.empty(panel)), len(panel["targets"]), panel["title"])
        self.make_events()
        self.wait_for_data([one for one in panels if one[1]["title"] in NEED_AN_EVENT])
        self.check_events()
        names = [rule["name"] for rule in self.prometheus.rules() if rule["type"] == "recording"]
        for name in names:
            if not re.match("training_(active_layers|precision_mode)$", name):
                self.prometheus.wait_for(name)
        self.assertEqual([rule["lastError"] for rule in self.prometheus.rules() if rule.get("lastError")], [])
        if os.environ.get("LOWGEAR_PICTURES"):
            self.draw(os.environ["LOWGEAR_PICTURES"])


if __name__ == "__main__":
    unittest.main()
