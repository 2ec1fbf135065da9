"""What a dashboard of Grafana may contain, as far as deploy/monitoring/render.py uses it: anything else is a fault.

Keys and kinds follow the types of @grafana/schema 13 (schema version 42), units the list of Grafana's formats
(packages/grafana-data/src/valueFormats/categories.ts)."""

import re

SCHEMA_VERSION = 42
GRID_WIDTH = 24
UNITS = {"none", "short", "percentunit", "watt", "kwatth", "joule", "celsius", "hertz", "s", "ops", "reqps", "cpm"}
COLORS = {"green", "yellow", "red"}
# Variables that Grafana has in every query, and in links.
BUILT_IN = {"__rate_interval", "__range"}
BUILT_IN_OF_LINKS = {"__url_time_range", "__field", "__data"}
NUMBER = (int, float)


class Optional:
    """A key that may be absent."""

    def __init__(self, kind):
        self.kind = kind


class OneOf:
    def __init__(self, *values):
        self.values = values


class ListOf:
    def __init__(self, kind):
        self.kind = kind


class MapOf:
    """Any keys, to values of one kind."""

    def __init__(self, kind):
        self.kind = kind


DATASOURCE = {"type": OneOf("prometheus"), "uid": OneOf("${datasource}")}
GRID = {"h": int, "w": int, "x": int, "y": int}
REDUCTION = {"calcs": ListOf(OneOf("lastNotNull")), "fields": OneOf(""), "values": bool}
OPTIONS = {
    "timeseries": {"legend": {"calcs": ListOf(OneOf("lastNotNull")), "displayMode": OneOf("list", "table"),
                              "placement": OneOf("bottom", "right"), "showLegend": bool},
                   "tooltip": {"mode": OneOf("single", "multi"), "sort": OneOf("none", "asc", "desc")}},
    "stat": {"colorMode": OneOf("none", "value", "background"), "graphMode": OneOf("none", "area"),
             "justifyMode": OneOf("auto", "center"), "orientation": OneOf("auto", "horizontal", "vertical"),
             "reduceOptions": REDUCTION, "textMode": OneOf("auto", "value", "value_and_name", "name", "none")},
    "gauge": {"orientation": OneOf("auto", "horizontal", "vertical"), "reduceOptions": REDUCTION,
              "showThresholdLabels": bool, "showThresholdMarkers": bool},
    "table": {"cellHeight": OneOf("sm", "md", "lg"), "showHeader": bool},
}
DRAWING = {"drawStyle": OneOf("line", "bars", "points"), "fillOpacity": int, "lineWidth": int,
           "showPoints": OneOf("auto", "never", "always"), "spanNulls": bool,
           "stacking": {"group": str, "mode": OneOf("none", "normal", "percent")}}
THRESHOLDS = {"mode": OneOf("absolute", "percentage"),
              "steps": ListOf({"color": OneOf(*COLORS), "value": (*NUMBER, type(None))})}
LINK = {"title": str, "url": str, "targetBlank": bool}
OVERRIDE = {"matcher": {"id": OneOf("byName"), "options": str},
            "properties": ListOf({"id": OneOf("unit"), "value": OneOf(*sorted(UNITS))})}
TARGET = {"datasource": DATASOURCE, "editorMode": OneOf("code"), "expr": str, "format": OneOf("table", "time_series"),
          "instant": bool, "range": bool, "refId": str, "legendFormat": Optional(str)}
ROW = {"id": int, "type": OneOf("row"), "title": str, "collapsed": OneOf(False), "gridPos": GRID, "panels": ListOf({})}
VARIABLES = {
    "datasource": {"name": OneOf("datasource"), "label": str, "type": OneOf("datasource"), "query": OneOf("prometheus"),
                   "refresh": OneOf(1), "hide": OneOf(0), "includeAll": bool, "multi": bool,
                   "current": {"text": OneOf("default"), "value": OneOf("default")}},
    "query": {"name": str, "label": str, "type": OneOf("query"), "datasource": DATASOURCE,
              "query": {"query": str, "refId": str}, "refresh": OneOf(1, 2), "sort": OneOf(*range(9)), "hide": OneOf(0),
              "includeAll": bool, "allValue": str, "multi": bool,
              "current": {"text": ListOf(str), "value": ListOf(str)}},
}
DASHBOARD = {
    "uid": str, "title": str, "description": str, "tags": ListOf(str), "schemaVersion": OneOf(SCHEMA_VERSION),
    "editable": bool, "graphTooltip": OneOf(0, 1, 2), "refresh": str, "timezone": OneOf("browser", "utc"),
    "time": {"from": str, "to": str}, "templating": {"list": ListOf(MapOf(object))},
    "annotations": {"list": ListOf({})}, "panels": ListOf(MapOf(object)),
    "links": ListOf({"type": OneOf("dashboards"), "title": str, "tags": ListOf(str), "asDropdown": bool, "icon": str,
                     "includeVars": bool, "keepTime": bool, "targetBlank": bool, "tooltip": str, "url": str}),
}


def field_config(kind):
    defaults = {"color": {"mode": OneOf("palette-classic", "thresholds")}, "unit": OneOf(*sorted(UNITS)),
                "thresholds": THRESHOLDS, "min": Optional(NUMBER), "max": Optional(NUMBER), "noValue": Optional(str),
                "links": Optional(ListOf(LINK))}
    if kind == "timeseries":
        defaults["custom"] = DRAWING
    return {"defaults": defaults, "overrides": ListOf(OVERRIDE)}


def panel_schema(kind):
    schema = {"id": int, "type": OneOf(kind), "title": str, "description": str, "datasource": DATASOURCE,
              "gridPos": GRID, "fieldConfig": field_config(kind), "options": OPTIONS[kind], "targets": ListOf(TARGET)}
    if kind == "table":
        schema["transformations"] = ListOf({"id": OneOf("merge", "organize"), "options": MapOf(object)})
    return schema


def members(value, schema, where):
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    found = [f"{where} has an unknown key {key}" for key in value if key not in schema]
    for key, kind in schema.items():
        if key in value:
            found += faults(value[key], kind.kind if isinstance(kind, Optional) else kind, f"{where}.{key}")
        elif not isinstance(kind, Optional):
            found.append(f"{where} lacks {key}")
    return found


def faults(value, schema, where):
    """What of a value differs from its schema: texts."""
    if isinstance(schema, dict):
        return members(value, schema, where)
    if isinstance(schema, ListOf):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [fault for index, one in enumerate(value) for fault in faults(one, schema.kind, f"{where}[{index}]")]
    if isinstance(schema, MapOf):
        if not isinstance(value, dict):
            return [f"{where} is no object"]
        return [fault for key, one in value.items() for fault in faults(one, schema.kind, f"{where}.{key}")]
    if isinstance(schema, OneOf):
        known = any(value == one and type(value) is type(one) for one in schema.values)
        return [] if known else [f"{where} is {value!r}, none of {list(schema.values)}"]
    if isinstance(value, bool) and schema not in (bool, object):
        return [f"{where} is {value!r}"]
    return [] if isinstance(value, schema) else [f"{where} is {value!r}"]


def place_faults(panels):
    """Panels that overlap, or are outside of the grid."""
    found, taken = [], {}
    for panel in panels:
        place = panel["gridPos"]
        if place["w"] < 1 or place["h"] < 1 or place["x"] < 0 or place["y"] < 0 or place["x"] + place["w"] > GRID_WIDTH:
            found.append(f"{panel['title']} is outside of the grid")
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel)
                if other is not panel:
                    return [*found, f"{panel['title']} overlaps {other['title']}"]
    return found


def variables_in(text):
    return set(re.findall(r"\$\{?(\w+)", text))


def repeated(values):
    return sorted({value for value in values if values.count(value) > 1}, key=str)


def panel_faults(panel, known):
    where = f"panel {panel.get('title')}"
    kind = panel.get("type")
    if kind == "row":
        return faults(panel, ROW, where)
    if kind not in OPTIONS:
        return [f"{where} is of the unknown type {kind}"]
    found = faults(panel, panel_schema(kind), where)
    if found:
        return found
    if not panel["targets"]:
        found.append(f"{where} asks nothing")
    found += [f"{where} has {ref} twice" for ref in repeated([target["refId"] for target in panel["targets"]])]
    for target in panel["targets"]:
        unknown = variables_in(target["expr"]) - known - BUILT_IN
        found += [f"{where} uses an unknown variable {name}" for name in unknown]
        if target["instant"] == target["range"]:
            found.append(f"{where} asks for an instant and a range")
        if (target["format"] == "table") != (kind == "table"):
            found.append(f"{where} has the format {target['format']}")
    for link in panel["fieldConfig"]["defaults"].get("links", []):
        found += [f"{where} links by an unknown variable {name}"
                  for name in variables_in(link["url"]) - known - BUILT_IN_OF_LINKS]
    return found


def variable_faults(variables):
    found, known = [], set()
    for variable in variables:
        where = f"variable {variable.get('name')}"
        schema = VARIABLES.get(variable.get("type"))
        if schema is None:
            found.append(f"{where} is of the unknown type {variable.get('type')}")
            continue
        found += faults(variable, schema, where)
        if variable["type"] == "query":
            later = variables_in(str(variable.get("query"))) - known
            found += [f"{where} uses {name}, which comes later" for name in later]
        known.add(variable.get("name"))
    return found


def dashboard_faults(dashboard):
    """All that is wrong with a dashboard: texts. Places and references only once keys and kinds are right."""
    found = faults(dashboard, DASHBOARD, "dashboard")
    if found:
        return found
    variables, panels = dashboard["templating"]["list"], dashboard["panels"]
    known = {variable.get("name") for variable in variables}
    found = variable_faults(variables)
    for panel in panels:
        found += panel_faults(panel, known)
    if found:
        return found
    found = [f"two panels have the id {number}" for number in repeated([panel["id"] for panel in panels])]
    found += [f"two panels are called {title}" for title in
              repeated([(panel["title"], panel["type"]) for panel in panels])]
    used = {name for panel in panels for target in panel.get("targets", []) for name in variables_in(target["expr"])}
    used |= {name for variable in variables for name in variables_in(str(variable.get("query")))} | {"datasource"}
    found += [f"no query uses the variable {name}" for name in sorted(known - used)]
    return found + place_faults(panels)
