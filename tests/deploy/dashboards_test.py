#!/usr/bin/env python3
"""dashboards_test.py PROJECT: the dashboards and alerts of deploy/monitoring, as they stand: what Grafana would
refuse or show wrongly, names that do not fit together, alerts without a test or a page."""

import copy
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from dashboard_schema import dashboard_faults

PROJECT = Path(sys.argv.pop())
MONITORING = PROJECT / "deploy/monitoring"
sys.path.insert(0, str(MONITORING))
import render  # noqa: E402


def dashboards():
    return sorted(render.dashboards().values(), key=lambda dashboard: dashboard["uid"])


def alerts():
    return re.findall(r"- alert: (\w+)", (MONITORING / "lowgear.alerts.yml").read_text())


class Dashboards(unittest.TestCase):
    def test_the_files_are_written_where_it_is_wanted(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", MONITORING / "render.py", folder], check=True)
            written = {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}
            self.assertEqual(written, {f"dashboards/{one['uid']}.json" for one in dashboards()} | {"operator/rules.yaml"})
            for one in dashboards():
                self.assertEqual(json.loads(Path(folder, f"dashboards/{one['uid']}.json").read_text()), one)

    def test_nothing_is_in_them_that_grafana_does_not_know(self):
        self.assertEqual([one["uid"] for one in dashboards()], ["lowgear-fleet", "lowgear-gpu", "lowgear-job"])
        for dashboard in dashboards():
            self.assertEqual(dashboard_faults(dashboard), [])

    def test_links_lead_to_dashboards_and_their_variables(self):
        variables = {one["uid"]: {variable["name"] for variable in one["templating"]["list"]} for one in dashboards()}
        links = re.findall(r'"/d/([\w-]+)\?var-(\w+)=', " ".join(json.dumps(one) for one in dashboards()))
        self.assertGreater(len(links), 3)
        for uid, variable in links:
            self.assertIn(variable, variables.get(uid, ()), uid)

    def test_recorded_names_in_queries_are_recorded(self):
        recorded = set(re.findall(r"- record: (\S+)", (MONITORING / "lowgear.rules.yml").read_text()))
        for dashboard in dashboards():
            for panel in dashboard["panels"]:
                for target in panel.get("targets", ()):
                    self.assertLessEqual(set(re.findall(r"\w+:lowgear_\w+:\w+", target["expr"])), recorded)

    def test_alerts_that_panels_name_exist(self):
        for dashboard in dashboards():
            for panel in dashboard["panels"]:
                named = set(re.findall(r"\bLowgear[A-Z]\w+", panel.get("description", "")))
                self.assertLessEqual(named, set(alerts()), panel["title"])


class PlantedFaults(unittest.TestCase):
    """The check finds what EADT's dashboards had, and what a slip of the hand makes."""

    def expect(self, text, change):
        dashboard = copy.deepcopy(dashboards()[0])
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        change(dashboard, panels)
        self.assertTrue(any(text in fault for fault in dashboard_faults(dashboard)), dashboard_faults(dashboard))

    def test_are_found(self):
        defaults = lambda panel: panel["fieldConfig"]["defaults"]
        faults = {
            "unknown type graph": lambda _, panels: panels[0].update(type="graph"),
            "unknown key gridPoss": lambda _, panels: panels[0].update(gridPoss={}),
            "unknown key lineWdith": lambda _, panels: defaults(panels[8])["custom"].update(lineWdith=1),
            "lacks gridPos": lambda _, panels: panels[0].pop("gridPos"),
            "'perKwh'": lambda _, panels: defaults(panels[0]).update(unit="perKwh"),
            "datasource is no object": lambda _, panels: panels[0].update(datasource="Prometheus"),
            "uid is 'lowgear'": lambda _, panels: panels[0]["targets"][0]["datasource"].update(uid="lowgear"),
            "two panels have the id": lambda _, panels: panels[1].update(id=panels[0]["id"]),
            "overlaps": lambda _, panels: panels[1]["gridPos"].update(x=panels[0]["gridPos"]["x"]),
            "outside of the grid": lambda _, panels: panels[0]["gridPos"].update(x=23),
            "unknown variable nod": lambda _, panels: panels[0]["targets"][0].update(expr='up{instance=~"$nod"}'),
            "asks nothing": lambda _, panels: panels[0].update(targets=[]),
            "A twice": lambda _, panels: panels[4]["targets"][1].update(refId="A"),
            "schemaVersion is 16": lambda dashboard, _: dashboard.update(schemaVersion=16),
            "no query uses the variable": lambda dashboard, _: dashboard["templating"]["list"].append(
                {**dashboard["templating"]["list"][1], "name": "rack"}),
            "h is '4'": lambda _, panels: panels[0]["gridPos"].update(h="4"),
        }
        for text, change in faults.items():
            with self.subTest(text):
                self.expect(text, change)


class Provisioning(unittest.TestCase):
    def test_finds_the_dashboards_where_they_are_installed(self):
        provider = (MONITORING / "grafana-dashboards.yaml").read_text()
        self.assertIn("path: /usr/share/lowgear/monitoring/dashboards\n", provider)

    def test_has_the_scrape_interval_of_prometheus(self):
        scraped = re.search(r"scrape_interval: (\w+)", (MONITORING / "prometheus.yml").read_text()).group(1)
        source = (MONITORING / "grafana-datasource.yaml").read_text()
        self.assertIn(f"timeInterval: {scraped}\n", source)
        self.assertIn("type: prometheus\n", source)


class Alerts(unittest.TestCase):
    def test_each_has_a_test_that_it_fires_and_one_that_it_does_not(self):
        tests = (PROJECT / "tests/deploy/lowgear.test.yml").read_text()
        for alert in alerts():
            silent = rf"alertname: {alert}, exp_alerts: \[\]"
            fires = rf"alertname: {alert}\n +exp_alerts:\n +- exp_labels"
            self.assertTrue(re.search(silent, tests), f"{alert} has no case in which it is silent")
            self.assertTrue(re.search(fires, tests), f"{alert} has no case in which it fires")

    def test_each_is_on_the_page_that_says_what_to_do(self):
        page = (PROJECT / "docs/monitoring.md").read_text()
        described = re.findall(r"^\| `(Lowgear\w+)` \| \w+ \| \S.* \| \S.* \|$", page, re.MULTILINE)
        self.assertEqual(sorted(described), sorted(alerts()))

    def test_alertmanager_names_alerts_that_exist(self):
        named = set(re.findall(r"Lowgear[A-Z]\w+", (MONITORING / "alertmanager.yml").read_text()))
        self.assertTrue(named)
        self.assertLessEqual(named, set(alerts()))


if __name__ == "__main__":
    unittest.main()
