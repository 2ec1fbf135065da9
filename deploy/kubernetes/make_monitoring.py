#!/usr/bin/env python3
"""Writes what manifests hold of other folders of deploy: run it after a change of rules, alerts or dashboards there.

    deploy/kubernetes/make_monitoring.py            writes the files
    deploy/kubernetes/make_monitoring.py --check    writes nothing; fails when a file is not what it would write

monitoring/rules.yaml is the PrometheusRule for the Prometheus operator, monitoring/rule-files has the same rules for a
Prometheus without it, monitoring/dashboards is what the sidecar of Grafana picks up. kustomize reads no file outside of
its own folder, so the contents are copied.
"""

import sys
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).resolve().parent / "monitoring"
RULES = ("lowgear.rules.yml", "lowgear.alerts.yml")
MADE = "# Made by make_monitoring.py from deploy/{}: change the files there.\n"
RULE_HEAD = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: lowgear
  labels:
    release: kube-prometheus-stack
spec:
  groups:
"""
MAP_HEAD = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
"""
SIDECAR = """\
  labels:
    grafana_dashboard: "1"
  annotations:
    grafana_folder: Lowgear
"""


def indented(text, spaces):
    return "".join(" " * spaces + line + "\n" if line else "\n" for line in text.splitlines())


def groups_of(path):
    """What is below `groups:`, as it is: both files indent a list of groups by two spaces."""
    return indented(path.read_text(encoding="utf-8").partition("\ngroups:\n")[2], 2)


def config_map(name, files, labels=""):
    """Files as they are: a block of YAML that begins with `|` keeps every line."""
    data = "".join(f"  {path.name}: |\n{indented(path.read_text(encoding='utf-8'), 4)}" for path in files)
    return f"{MAP_HEAD.format(name=name)}{labels}data:\n{data}"


def texts():
    """The files, by path."""
    rules = [DEPLOY / "prometheus" / name for name in RULES]
    # One each: `kubectl apply` keeps a copy of an object in an annotation, which has at most 256 KiB.
    dashboards = [config_map(f"{path.stem}-dashboard", [path], SIDECAR)
                  for path in sorted((DEPLOY / "grafana/dashboards").glob("*.json"))]
    return {
        FOLDER / "rules.yaml": MADE.format("prometheus") + RULE_HEAD + "".join(map(groups_of, rules)),
        FOLDER / "rule-files/rules.yaml": MADE.format("prometheus") + config_map("lowgear-rules", rules),
        FOLDER / "dashboards/dashboards.yaml": MADE.format("grafana") + "---\n".join(dashboards),
    }


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    for path, text in texts().items():
        if not arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is not what deploy/prometheus and deploy/grafana say; run {Path(__file__).name}")


if __name__ == "__main__":
    main(sys.argv[1:])
