"""Reads what OpenTelemetry collectors read, as strictly as Protocol Buffers' JSON mapping and OTLP's rules allow: an
unknown member, a wrong type or an incomplete point is an error. Written from opentelemetry-proto 1
(metrics/v1/metrics.proto, common/v1/common.proto, resource/v1/resource.proto) and the specification of OTLP, and from
nothing of Lowgear's. And a collector of its own for tests."""

import http.server
import json
import math
import re
import threading

CUMULATIVE = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
FIXED64 = re.compile(r"0|[1-9][0-9]{0,19}")


class Invalid(AssertionError):
    pass


def require(condition, what):
    if not condition:
        raise Invalid(what)


def members(value, known, where, required=()):
    require(isinstance(value, dict), f"{where} is no object")
    require(set(value) <= set(known), f"{where} has {sorted(set(value) - set(known))}")
    require(set(required) <= set(value), f"{where} lacks {sorted(set(required) - set(value))}")
    return value


def text(value, where):
    require(isinstance(value, str), f"{where} is no text")
    return value


def fixed64(value, where):
    """64-bit integers are decimal texts in JSON."""
    require(isinstance(value, str) and FIXED64.fullmatch(value) and int(value) < 2**64, f"{where}: {value!r}")
    return int(value)


def double(value, where):
    require(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value), f"{where}: {value!r}")
    return float(value)


def attributes(values, where):
    found = {}
    for value in values:
        members(value, ("key", "value"), where, ("key", "value"))
        # Of AnyValue: the only kind that a label can be.
        members(value["value"], ("stringValue",), where, ("stringValue",))
        require(value["key"] and value["key"] not in found, f"{where}: {value['key']!r} is empty or there twice")
        found[text(value["key"], where)] = text(value["value"]["stringValue"], where)
    return found


def times(point, where, counts):
    start, time = (fixed64(point[name], where) if name in point else 0 for name in ("startTimeUnixNano", "timeUnixNano"))
    require(time > 10**18, f"{where}: no time")
    require(not counts or 10**18 < start <= time, f"{where}: starts at {start}, is of {time}")
    return start, time


def number_point(point, where, counts):
    members(point, ("attributes", "startTimeUnixNano", "timeUnixNano", "asDouble"), where, ("timeUnixNano", "asDouble"))
    times(point, where, counts)
    return double(point["asDouble"], where)


def histogram_point(point, where):
    members(point, ("attributes", "startTimeUnixNano", "timeUnixNano", "count", "sum", "bucketCounts", "explicitBounds"),
            where, ("startTimeUnixNano", "timeUnixNano", "count", "bucketCounts", "explicitBounds"))
    times(point, where, True)
    bounds = [double(bound, where) for bound in point["explicitBounds"]]
    counts = [fixed64(count, where) for count in point["bucketCounts"]]
    require(bounds == sorted(set(bounds)), f"{where}: its bounds do not ascend")
    require(len(counts) == len(bounds) + 1, f"{where}: {len(counts)} buckets, {len(bounds)} bounds")
    require(sum(counts) == fixed64(point["count"], where), f"{where}: its buckets are not its count")
    return {"count": sum(counts), "sum": double(point["sum"], where), "bounds": bounds, "counts": counts}


def metric(value, where):
    """Name, kind and points: {attributes: value}."""
    kinds = {"gauge": ("dataPoints",), "sum": ("dataPoints", "aggregationTemporality", "isMonotonic"),
             "histogram": ("dataPoints", "aggregationTemporality")}
    members(value, ("name", "description", "unit", *kinds), where, ("name",))
    name = text(value["name"], where)
    require(re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]{0,254}", name), f"{name!r} is no name of an instrument")
    for member in ("description", "unit"):
        text(value.get(member, ""), name)
    [kind] = set(value) & set(kinds)
    data = members(value[kind], kinds[kind], name, kinds[kind])
    if kind != "gauge":
        require(data["aggregationTemporality"] == CUMULATIVE and data["aggregationTemporality"] is not True, name)
    require(kind != "sum" or data["isMonotonic"] is True, name)
    points = {}
    for point in data["dataPoints"]:
        labels = tuple(sorted(attributes(point.get("attributes", []), name).items()))
        require(labels not in points, f"{name} has two points of {labels}")
        points[labels] = histogram_point(point, name) if kind == "histogram" else number_point(point, name, kind == "sum")
    return name, kind, points


def decode(body):
    """Of an ExportMetricsServiceRequest: attributes of its resource, and {name: (kind, {attributes: value})}."""
    request = members(json.loads(body), ("resourceMetrics",), "request", ("resourceMetrics",))
    [of_resource] = request["resourceMetrics"]
    members(of_resource, ("resource", "scopeMetrics", "schemaUrl"), "resourceMetrics", ("resource", "scopeMetrics"))
    members(of_resource["resource"], ("attributes",), "resource", ("attributes",))
    resource = attributes(of_resource["resource"]["attributes"], "resource")
    [of_scope] = of_resource["scopeMetrics"]
    members(of_scope, ("scope", "metrics", "schemaUrl"), "scopeMetrics", ("scope", "metrics"))
    members(of_scope["scope"], ("name", "version"), "scope", ("name", "version"))
    found = {}
    for value in of_scope["metrics"]:
        name, kind, points = metric(value, "metric")
        require(name not in found, f"{name} is there twice")
        found[name] = (kind, points)
    return resource, found


def read_exposition(text_):
    """Prometheus' text in the same form, for comparison; histograms by their buckets."""
    kinds, found = {}, {}
    for line in text_.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = {"counter": "sum"}.get(kind, kind)
        if line.startswith("#"):
            continue
        head, _, value = line.rpartition(" ")
        name, _, labels = head.partition("{")
        pairs = [(key, raw.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\"))
                 for key, raw in re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', labels)]
        base = re.sub("_(count|sum|bucket)$", "", name)
        if kinds.get(base) != "histogram":
            found.setdefault(name, (kinds[name], {}))[1][tuple(sorted(pairs))] = float(value)
            continue
        labels = tuple(sorted(pair for pair in pairs if pair[0] != "le"))
        point = found.setdefault(base, ("histogram", {}))[1].setdefault(labels, {"below": []})
        if name.endswith("_bucket"):
            point["below"].append(float(value))
        else:
            point[name.rpartition("_")[2]] = float(value)
    return found


class Collector:
    """An HTTP server that takes exports, and answers as `answer(number)` says: status, headers, body."""

    def __init__(self, test, answer=lambda number: (200, {}, "{}"), tls=None, address="127.0.0.1"):
        self.requests = []  # path, headers, body
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, headers, said = answer(len(outer.requests))
                outer.requests.append((self.path, dict(self.headers), body))
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": len(said), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(said.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://{address}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)

    def exports(self):
        """All that came, decoded."""
        return [decode(body) for _, _, body in list(self.requests)]
