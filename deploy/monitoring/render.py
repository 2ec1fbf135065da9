#!/usr/bin/env python3
"""render.py [FOLDER]: writes files that are made from those here, into this folder or another one:

    dashboards/*.json      Grafana's dashboards, of the table in panels.py
    operator/rules.yaml    the rules and alerts for the Prometheus operator
"""

import json
import pathlib
import sys

import panels

FOLDER = pathlib.Path(__file__).resolve().parent
RULES = ("lowgear.rules.yml", "lowgear.alerts.yml")
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
GRID_WIDTH = 24
SCHEMA_VERSION = 42  # of Grafana 12 and 13
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
TAG = "lowgear"


def thresholds(panel):
    steps = [{"color": "green", "value": None}]
    steps += [{"color": color, "value": value}
              for color, value in (("yellow", panel.warning), ("red", panel.critical)) if value is not None]
    return {"mode": "absolute", "steps": steps}


def drawing(panel):
    """How a panel draws its lines."""
    return {"drawStyle": "line", "fillOpacity": 20 if panel.stacked else 0, "lineWidth": 1, "showPoints": "auto",
            "spanNulls": False, "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"}}


def column_overrides(panel):
    return [{"matcher": {"id": "byName", "options": query.column},
             "properties": [{"id": "unit", "value": query.unit}]} for query in panel.queries if query.column]


def field_config(panel):
    by_line = panel.kind == "timeseries"
    defaults = {"color": {"mode": "palette-classic" if by_line else "thresholds"}, "unit": panel.unit,
                "thresholds": thresholds(panel)}
    if by_line:
        defaults["custom"] = drawing(panel)
    optional = {"min": panel.minimum, "max": panel.maximum, "noValue": panel.without_series or None}
    defaults.update({name: value for name, value in optional.items() if value is not None})
    if panel.link:
        title, url = panel.link
        defaults["links"] = [{"title": title, "url": url, "targetBlank": False}]
    return {"defaults": defaults, "overrides": column_overrides(panel)}


def options(panel):
    newest = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    by_kind = {
        "timeseries": {"legend": {"calcs": ["lastNotNull"], "displayMode": "list", "placement": "bottom",
                                  "showLegend": True}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "stat": {"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto",
                 "reduceOptions": newest, "textMode": "auto"},
        "gauge": {"orientation": "auto", "reduceOptions": newest, "showThresholdLabels": False,
                  "showThresholdMarkers": True},
        "table": {"cellHeight": "sm", "showHeader": True},
    }
    return by_kind[panel.kind]


def ref_id(index):
    return chr(ord("A") + index)


def target(panel, index):
    query = panel.queries[index]
    as_table = panel.kind == "table"
    written = {"datasource": DATASOURCE, "editorMode": "code", "expr": query.expr,
               "format": "table" if as_table else "time_series", "instant": as_table, "range": not as_table,
               "refId": ref_id(index)}
    if not as_table:
        written["legendFormat"] = query.legend or panel.title
    return written


def transformations(panel):
    """One line of a table for each set of labels; the values of its queries in columns of their own."""
    if panel.kind != "table":
        return []
    several = len(panel.queries) > 1
    names = {query: f"Value #{ref_id(index)}" if several else "Value" for index, query in enumerate(panel.queries)}
    renamed = {name: query.column for query, name in names.items() if query.column}
    hidden = {"Time": True, **{name: True for query, name in names.items() if not query.column}}
    return [{"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden, "indexByName": {}, "renameByName": renamed}}]


def panel_json(panel, number, place):
    written = {"id": number, "type": panel.kind, "title": panel.title, "description": panels.description(panel),
               "datasource": DATASOURCE, "gridPos": place, "fieldConfig": field_config(panel),
               "options": options(panel),
               "targets": [target(panel, index) for index in range(len(panel.queries))]}
    changes = transformations(panel)
    return {**written, "transformations": changes} if changes else written


def laid_out(rows):
    """Places rows of the grid from top to bottom, and panels from left to right."""
    written, top = [], 0
    for row in rows:
        written.append({"id": len(written) + 1, "type": "row", "title": row.title, "collapsed": False,
                        "gridPos": {"h": 1, "w": GRID_WIDTH, "x": 0, "y": top}, "panels": []})
        top, left = top + 1, 0
        for panel in row.panels:
            if left + panel.width > GRID_WIDTH:
                top, left = top + row.height, 0
            place = {"h": row.height, "w": panel.width, "x": left, "y": top}
            written.append(panel_json(panel, len(written) + 1, place))
            left += panel.width
        top += row.height
    return written


def variables(dashboard):
    datasource = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus",
                  "refresh": 1, "hide": 0, "includeAll": False, "multi": False,
                  "current": {"text": "default", "value": "default"}}
    queried = [{"name": variable.name, "label": variable.label, "type": "query", "datasource": DATASOURCE,
                "query": {"query": variable.query, "refId": "Variable"}, "refresh": 2,
                "sort": 7, "hide": 0, "includeAll": True, "allValue": ".+", "multi": True,
                "current": {"text": ["All"], "value": ["$__all"]}} for variable in dashboard.variables]
    return [datasource, *queried]


def dashboard_json(dashboard):
    return {"uid": dashboard.uid, "title": dashboard.title, "description": dashboard.description, "tags": [TAG],
            "schemaVersion": SCHEMA_VERSION, "editable": True, "graphTooltip": 1, "refresh": "30s",
            "timezone": "browser", "time": {"from": "now-6h", "to": "now"},
            "templating": {"list": variables(dashboard)}, "annotations": {"list": []},
            "panels": laid_out(dashboard.rows),
            "links": [{"type": "dashboards", "title": "Lowgear", "tags": [TAG], "asDropdown": False,
                       "icon": "dashboard", "includeVars": False, "keepTime": True, "targetBlank": False,
                       "tooltip": "", "url": ""}]}


def dashboards():
    """Grafana's dashboards by file name."""
    return {f"{dashboard.uid}.json": dashboard_json(dashboard) for dashboard in panels.DASHBOARDS}


def operator_rules():
    """The rules as an object of the Prometheus operator: both files indent their list of groups by two spaces."""
    groups = "".join((FOLDER / name).read_text(encoding="utf-8").partition("\ngroups:\n")[2] for name in RULES)
    return RULE_HEAD + "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(keepends=True))


def main(folder=FOLDER):
    texts = {f"dashboards/{name}": json.dumps(written, indent=2, ensure_ascii=False) + "\n"
             for name, written in dashboards().items()}
    for name, text in {**texts, "operator/rules.yaml": operator_rules()}.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    main(*sys.argv[1:])
