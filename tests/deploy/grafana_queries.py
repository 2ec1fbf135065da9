"""Queries of dashboards as Grafana sends them to Prometheus."""

import math
import re
import time

# What Grafana computes from the scrape interval and the range of the dashboard; here for half a second and a minute.
INTERVALS = {"__rate_interval": "15s", "__range": "60s"}
RANGE_S = 60
STEP_S = 2


def interpolated(text, values):
    """With the values of variables; of several, or all, Grafana makes a regular expression."""
    names = {**INTERVALS, **values}
    return re.sub(r"\$\{?(\w+)\}?", lambda found: names[found.group(1)], text)


def escaped(value):
    """A value of a variable within a regular expression in quotes, as Grafana writes it."""
    return re.sub(r"([\\^$.*+?()\[\]{}|])", r"\\\\\1", value)


def values_of(prometheus, variable, chosen):
    """The values of a variable of the kind label_values(series, label)."""
    series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
    return prometheus.ask(f"/api/v1/label/{label}/values", {"match[]": interpolated(series, chosen)})


def has_number(series):
    values = series.get("values") or [series["value"]]
    return any(math.isfinite(float(value)) for _, value in values)


def answer(prometheus, target, chosen):
    """The series of a query that have a value."""
    expr = interpolated(target["expr"], chosen)
    if target["instant"]:
        result = prometheus.query(expr)
    else:
        now = time.time()
        result = prometheus.ask("/api/v1/query_range",
                                {"query": expr, "start": now - RANGE_S, "end": now, "step": STEP_S})["result"]
    return [series for series in result if has_number(series)]
