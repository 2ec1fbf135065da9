#!/usr/bin/env python3
"""Writes monitoring/rules.yaml, the PrometheusRule of deploy/prometheus: run it after a change of the rules there.

    deploy/kubernetes/make_rules.py            writes the file
    deploy/kubernetes/make_rules.py --print    prints it
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = ("lowgear.rules.yml", "lowgear.alerts.yml")
HEAD = """\
# Made by make_rules.py from deploy/prometheus: change the rules there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: lowgear
  labels:
    release: kube-prometheus-stack
spec:
  groups:
"""


def groups_of(path):
    """The lines below `groups:`, as they are: both files indent a list of groups by two spaces."""
    lines = path.read_text().splitlines()
    start = lines.index("groups:")
    return ["  " + line if line else "" for line in lines[start + 1:]]


def rules():
    folder = HERE.parent / "prometheus"
    return HEAD + "".join("\n".join(groups_of(folder / name)) + "\n" for name in SOURCES)


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(rules())
    elif len(sys.argv) > 1:
        sys.exit(__doc__)
    else:
        (HERE / "monitoring/rules.yaml").write_text(rules())
