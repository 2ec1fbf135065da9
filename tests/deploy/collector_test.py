#!/usr/bin/env python3
"""collector_test.py PROMTOOL MONITORING: the configuration for a collector of OpenTelemetry. Debian has no collector:
Prometheus judges what it scrapes, and its parts have to fit together."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

MONITORING = Path(sys.argv.pop())
PROMTOOL = sys.argv.pop()
FILES = "/etc/otelcol/"


def part(*keys, file="opentelemetry-collector.yml"):
    found = yaml.safe_load((MONITORING / file).read_text())
    for key in keys:
        found = found[key]
    return found


class Collector(unittest.TestCase):
    def check(self, config):
        """By promtool, which wants to find the files that are named."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("lowgear-token", "lowgear-ca.pem"):
                Path(folder, name).touch()
            file = Path(folder, "prometheus.yml")
            file.write_text(yaml.safe_dump(config).replace(FILES, f"{folder}/"))
            return subprocess.run([PROMTOOL, "check", "config", file], text=True, capture_output=True)

    def test_prometheus_accepts_what_it_scrapes(self):
        config = part("receivers", "prometheus", "config")
        accepted = self.check(config)
        self.assertEqual(accepted.returncode, 0, accepted.stdout + accepted.stderr)
        config["scrape_configs"][0]["credential_file"] = f"{FILES}lowgear-token"
        self.assertIn("credential_file", self.check(config).stderr)

    def test_it_scrapes_the_jobs_that_dashboards_and_alerts_know(self):
        scraped = part("receivers", "prometheus", "config", "scrape_configs")
        known = part("scrape_configs", file="prometheus.yml")
        self.assertEqual([job["job_name"] for job in scraped], [job["job_name"] for job in known])

    def test_each_part_is_in_the_pipeline(self):
        [pipeline] = part("service", "pipelines").values()
        for kind in ("receivers", "processors", "exporters"):
            self.assertEqual(pipeline[kind], list(part(kind)))


if __name__ == "__main__":
    unittest.main()
