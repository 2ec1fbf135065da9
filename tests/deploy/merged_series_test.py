#!/usr/bin/env python3
"""merged_series_test.py PROMTOOL MONITORING: which series each expression of rules, alerts and panels merges.

promtool evaluates every expression three times for each label of the data: on series with one value of the label, with
another one, and with both. Where a value of both differs from the one alone, the expression has merged what the label
separates. It must say so: a panel by `merged` in panels.py, a rule in the table here and in its comment."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

import yaml

MONITORING = Path(sys.argv.pop())
PROMTOOL = sys.argv.pop()
sys.path.insert(0, str(MONITORING))
import panels  # noqa: E402
from grafana_queries import interpolated  # noqa: E402

AGENT = {"instance": ("n-1", "n-2"), "job": ("lowgear-agent",)}
SERVER = {"instance": ("s-1", "s-2"), "job": ("lowgear-server",)}
GPU = {**AGENT, "gpu": ("0", "1"), "uuid": ("a", "b")}
JOB = {**SERVER, "job_id": ("j-1", "j-2"), "model": ("m",)}
# Labels of metrics by the beginning of their names; the longest that fits holds. The first values are the usual ones.
LABELS = {
    "lowgear_gpu_": GPU, "lowgear_mps_": GPU, "lowgear_leases": AGENT, "lowgear_gpus_": AGENT, "lowgear_cpu_": AGENT,
    "lowgear_server_": SERVER, "lowgear_control_": SERVER, "lowgear_train_": JOB,
    "lowgear_power_budget_": {**SERVER, "budget": ("row-1", "row-2")},
    "lowgear_cpu_energy_joules_total": {**AGENT, "zone": ("package-0", "dram-0")},
    "lowgear_gpu_throttle_seconds_total": {**GPU, "reason": ("thermal", "power_cap")},
    "lowgear_gpu_clock_state": {**GPU, "state": ("foreign", "failed")},
    "lowgear_gpu_requested_clock_hertz": {**GPU, "bound": ("min", "max")},
    "lowgear_gpu_workload_power_profile": {**GPU, "profile": ("max-q", "training"), "state": ("enforced", "requested")},
    "lowgear_gpu_info": {**GPU, "name": ("H100", "H200"), "pci_address": ("0000:01", "0000:02")},
    "lowgear_mps_active_thread_ratio": {**GPU, "client": ("x", "y")},
    "lowgear_control_decisions_total": {**SERVER, "actuator": ("clock", "freezing"), "action": ("plan", "refusal"),
                                        "outcome": ("applied", "failed")},
    "lowgear_server_jobs": {**SERVER, "state": ("running", "profiling")},
    "lowgear_server_nodes": {**SERVER, "state": ("silent", "heard")},
    "lowgear_server_planned_jobs": {**SERVER, "state": ("waiting", "running")},
    "lowgear_server_plan_seconds": {**SERVER, "kind": ("quick", "full")},
    "lowgear_server_request_seconds": {**SERVER, "route": ("/v1/jobs", "/metrics")},
    "lowgear_server_requests_total": {**SERVER, "route": ("/v1/jobs", "/metrics"), "method": ("GET", "POST"),
                                      "code": ("401", "403")},
    "lowgear_train_info": {**JOB, "name": ("one",), "gpu": ("H100", "H200"), "schedule": ("1f1b", "gpipe"),
                           "state": ("running", "profiling"), "simulated": ("false", "true")},
    "lowgear_train_ranks": {**JOB, "state": ("expected", "registered")},
    "lowgear_train_rank_info": {**JOB, "rank": ("0", "1"), "host": ("h",), "uuid": ("a", "b")},
    "lowgear_train_energy_joules_total": {**JOB, "phase": ("train", "baseline")},
    "lowgear_train_step_energy_joules": {**JOB, "phase": ("train", "baseline")},
    "lowgear_train_precision_info": {**JOB, "precision": ("bf16", "fp32")},
    "lowgear_train_saved_energy_": {**JOB, "method": ("measured_baseline",)},
    "lowgear_train_problem_ranks": {**JOB, "problem": ("clocks_stuck", "gpu_shared")},
    "lowgear_train_stragglers": {**JOB, "cause": ("reported", "detected")},
    "up": {"instance": ("n-1", "n-2"), "job": ("lowgear-agent",)},
    "ALERTS": {"alertname": ("LowgearA", "LowgearB"), "alertstate": ("firing",), "severity": ("critical",),
               "instance": ("n-1", "n-2"), "uuid": ("a", "b"), "job_id": ("j-1", "j-2"), "budget": ("row-1", "row-2")},
}
# What values have to be for a rule or an alert to have a series; others are counters of different rates and gauges above 1.
VALUES = {
    "lowgear_train_info": "1x40", "lowgear_train_rank_info": "1x40", "lowgear_train_precision_info": "1x40",
    "lowgear_train_frozen_layers": "1x40", "lowgear_gpu_clock_state": "1x40", "up": "0x40", "ALERTS": "1x40",
    "lowgear_gpu_healthy": "0x40", "lowgear_train_steps_total": "7x40", "lowgear_server_disk_full": "1x40",
    "lowgear_server_tokens_stale": "1x40", "lowgear_server_audit_failing": "1x40",
    "lowgear_train_slowdown_guard_ratio": "0.01x40", "lowgear_train_saved_energy_ratio": "-99x40",
    "lowgear_power_budget_watts": "1x40",
}
HISTOGRAM = re.compile("_(bucket|sum|count)$")
BUCKETS = {"1": 0.5, "10": 0.9, "+Inf": 1}
# Rules and alerts that merge: how, and what. "agree": no series where values differ. Each also says it in its comment.
OF_JOBS = ("job_id", "instance of servers")
RULES = {
    "instance:lowgear_gpu_power_watts:sum": {"uuid": "sum"},
    "code:lowgear_server_refused_requests:rate5m": {"route": "sum", "method": "sum"},
    "job:lowgear_train_power_watts:mean5m": {"phase": "mean"},
    "training_energy_per_step": dict.fromkeys(OF_JOBS, "mean"),
    "training_energy_efficiency": dict.fromkeys(OF_JOBS, "mean"),
    "training_total_energy": dict.fromkeys(("phase", *OF_JOBS), "sum"),
    "training_power_saved": dict.fromkeys(OF_JOBS, "sum"),
    "training_active_layers": dict.fromkeys(OF_JOBS, "agree"),
    "training_precision_mode": dict.fromkeys(("precision", *OF_JOBS), "agree"),
    "training_mps_thread_percentage": {"client": "mean", "instance of agents": "agree"},
}
ALERTS = {"LowgearTokensRefused": {"route": "sum", "method": "sum"}}
# Only without the series that another alert is about.
SILENT = {"LowgearStoreRefuses"}
EVALUATED_AT = "6m"
# What needs two values to return anything.
ALL_VALUES = {"lowgear_train_ranks": ("state",)}


def labels_of(metric):
    name = HISTOGRAM.sub("", metric)
    known = [start for start in LABELS if name == start or (start.endswith("_") or start == "lowgear_leases")
             and name.startswith(start)]
    if not known:
        raise AssertionError(f"{metric}: give its labels to LABELS")
    return LABELS[max(known, key=len)]


def products(labels):
    """All combinations of values."""
    rows = [{}]
    for name, values in labels.items():
        rows = [{**row, name: value} for row in rows for value in values]
    return rows


def is_possible(labels):
    """A GPU, a job and a rank are each in one place; the second of them is on the first node, too."""
    uuid, rank = labels.get("uuid"), labels.get("rank")
    if rank and (rank == "0") != (uuid == "a"):
        return False
    return not (uuid and "gpu" in labels) or (labels["gpu"] == "0") == (uuid == "a")


def placed(labels):
    """With names that no other node or server has, where the label stands for one thing in one place."""
    changed = dict(labels)
    instance = labels.get("instance", "")
    if "gpu" in labels and "uuid" in labels or "rank" in labels:
        changed["uuid"] = f"GPU-{labels['uuid']}" + ("-2" if instance.endswith("2") else "")
    if "job_id" in labels and instance.startswith("s"):
        changed["job_id"] = labels["job_id"] + ("-2" if instance.endswith("2") else "")
    return changed


def number(*words):
    """A number from 2 to 9.9 that differs from series to series."""
    return 2 + zlib.crc32("|".join(words).encode()) % 80 / 10


def kind(name, value):
    """Programs of two kinds are different things; other labels have one."""
    return {"s": "servers", "n": "agents"}[value[0]] if name == "instance" else None


def chosen(metric, name, values, choice):
    """The values that a label has in the data: without a choice the first one."""
    for part in {kind(name, value) for value in values}:
        if (name, part) in choice:
            return choice[name, part]
    return values if name in ALL_VALUES.get(metric, ()) else values[:1]


def series_of(metric, choice):
    """The series of a metric, as promtool reads them."""
    labels = {name: chosen(metric, name, values, choice) for name, values in labels_of(metric).items()}
    if "gpu" in labels and "uuid" in labels:
        labels["gpu"] = ("0", "1")
    if "rank" in labels:
        labels["rank"] = ("0", "1")
    for row in map(placed, filter(is_possible, products(labels))):
        value = number(HISTOGRAM.sub("", metric), *(f"{key}={row[key]}" for key in sorted(row)))
        text = ",".join(f'{key}="{each}"' for key, each in row.items())
        if metric.endswith("_bucket"):
            for bound, share in BUCKETS.items():
                yield f'{metric}{{{text},le="{bound}"}}', f"0+{value * share:.6g}x40"
        elif metric in VALUES:
            yield f"{metric}{{{text}}}", VALUES[metric]
        elif metric.endswith(("_count", "_total")):
            yield f"{metric}{{{text}}}", f"0+{value:.6g}x40"
        elif metric.endswith("_sum"):
            yield f"{metric}{{{text}}}", f"0+{value * number(metric, text):.6g}x40"
        else:
            yield f"{metric}{{{text}}}", f"{value * 10:.6g}x40"


def metrics_in(expressions):
    """The names that exporters write, also of what rules record of them."""
    recorded, found = recording_rules(), set()
    for text in expressions:
        text = re.sub(r'"[^"]*"', '""', text)
        text = re.sub(r"\b(by|without|on|ignoring|group_left)\s*\([^)]*\)", "", text)
        for name in re.findall(r"(?<![:\w])[a-z_]+:\w+:\w+|(?<![:\w])training_\w+", text):
            found |= metrics_in([recorded[name]])
        found |= set(re.findall(r"(?<![:\w])(lowgear_\w+|up|ALERTS)(?![:\w(])", text))
    return found


def series_in(text):
    """promtool's list of samples, as a map from labels to value."""
    samples = re.findall(r'\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\} (\S+?)(?:,|$)', text)
    return {tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))): float(value)
            for labels, value in samples}


def test_of(expressions, choice):
    """promtool's test of these expressions by their number. It asks for a series that they do not return."""
    series = dict(one for metric in sorted(metrics_in(expressions.values())) for one in series_of(metric, choice))
    return {"interval": "15s",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": expr, "eval_time": EVALUATED_AT,
                                  "exp_samples": [{"labels": '{asked="never"}', "value": index}]}
                                 for index, expr in expressions.items()]}


def evaluate(tests):
    """For each test the series of each expression, by its number: promtool says what it got instead."""
    with tempfile.TemporaryDirectory(prefix="lowgear-merged-") as folder:
        path = Path(folder, "test.yml")
        path.write_text(json.dumps({"rule_files": [str((MONITORING / "lowgear.rules.yml").resolve())],
                                    "evaluation_interval": "30s", "tests": tests}))
        done = subprocess.run([PROMTOOL, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    found = [(int(float(index)), series_in(got))
             for index, got in re.findall(r'exp: \{asked="never"\} (\S+)\n\s+got: (.*)', text)]
    asked = [query["exp_samples"][0]["value"] for test in tests for query in test["promql_expr_test"]]
    if [index for index, _ in found] != asked:
        raise AssertionError(text[:8000])
    results, left = [], iter(found)
    for test in tests:
        results.append(dict(next(left) for _ in test["promql_expr_test"]))
    return results


def merged_value(how, one, other, both):
    """Whether a value of both is what a word makes of the two."""
    if how == "agree":
        return both is None or both == one == other
    if None in (one, other, both):
        return both in (one, other)
    near = 1e-4 * max(abs(one), abs(other), abs(both))
    if how == "sum":
        return abs(both - one - other) <= near
    if how == "max":
        return abs(both - max(one, other)) <= near
    return min(one, other) - near <= both <= max(one, other) + near


def recording_rules():
    return {rule["record"]: rule["expr"] for rule in rules_of("lowgear.rules.yml")}


def rules_of(name):
    return [rule for group in yaml.safe_load((MONITORING / name).read_text())["groups"]
            for rule in group["rules"]]


def alerts():
    """Without their thresholds, but for those between two series."""
    return {rule["alert"]: re.sub(r"\s[<>=]=?\s*-?[\d.]+(\s*\*\s*\d+)?(?!\S)", "", rule["expr"])
            if "bool" not in rule["expr"] else rule["expr"] for rule in rules_of("lowgear.alerts.yml")}


def queries(dashboards=panels.DASHBOARDS):
    """The expressions of all panels by a name, with their panel."""
    everything = {"node": ".+", "gpu": ".+", "job": ".+"}
    return {f"{dashboard.title} / {panel.title} / {index}": (interpolated(query.expr, everything), panel)
            for dashboard in dashboards for row in dashboard.rows for panel in row.panels
            for index, query in enumerate(panel.queries)}


def dimensions(expr):
    """Labels of its metrics that have several values: the name, with what its instances are, and the values."""
    found = {}
    for metric in metrics_in([expr]):
        for name, values in labels_of(metric).items():
            for part in {kind(name, value) for value in values}:
                of_part = tuple(value for value in values if kind(name, value) == part)
                if len(of_part) > 1 and name not in ("gpu", "rank"):  # which go with the UUID
                    found[name, part] = of_part
    return found


def merged_by(one, other, both):
    """The values that lose a label: of series that are there with either value of it, or change with the other."""
    for key in one.keys() | other.keys():
        values = one.get(key), other.get(key), both.get(key)
        if None not in values[:2] or values[2] not in values[:2]:
            yield values


def merges(expressions):
    """What each expression merges: (number, label, value of one, of another, of both)..., and the numbers of those that
    return nothing."""
    concerned = {}
    for index, expr in enumerate(expressions):
        for label, values in dimensions(expr).items():
            concerned.setdefault((label, values), {})[index] = expr
    results = iter(evaluate([test_of(part, choice) for (label, (one, other)), part in concerned.items()
                             for choice in ({label: (one,)}, {label: (other,)}, {label: (one, other)})]))
    found, silent = [], set(range(len(expressions)))
    for ((name, part), _), indices in concerned.items():
        one, other, both = next(results), next(results), next(results)
        for index in indices:
            silent -= {index} if one[index] or both[index] else set()
            found += [(index, f"{name} of {part}" if part else name, *values)
                      for values in merged_by(one[index], other[index], both[index])]
    return found, silent


class MergedSeries(unittest.TestCase):
    def check(self, expressions, declared, silent=()):
        """`expressions` and `declared` by name."""
        names, undeclared, used = list(expressions), set(), {}
        found, nothing = merges(list(expressions.values()))
        self.assertEqual({names[index] for index in nothing}, set(silent), "these return nothing on the data here")
        for index, label, *values in found:
            how = declared.get(names[index], {}).get(label)
            used.setdefault(names[index], set()).add(label)
            if how is None or not merged_value(how, *values):
                undeclared.add(f"{names[index]}: merges {label} ({how or 'undeclared'}): {values}")
        self.assertEqual(sorted(undeclared), [])
        return used

    def test_panels(self):
        everything = queries()
        used = self.check({name: expr for name, (expr, _) in everything.items()},
                          {name: dict.fromkeys(panel.merged[1:], *panel.merged[:1])
                           for name, (_, panel) in everything.items()})
        for _, panel in everything.values():
            merged = set().union(*(used.get(name, ()) for name, (_, one) in everything.items() if one is panel))
            self.assertEqual(set(panel.merged[1:]), merged, panel.title)
            self.assertTrue(panels.description(panel).startswith(panel.description))

    def test_rules(self):
        used = self.check(recording_rules(), RULES)
        self.assertEqual({name: set(merged) for name, merged in RULES.items()}, used)

    def test_alerts(self):
        self.check(alerts(), ALERTS, SILENT)

    def test_what_merges_without_a_word_is_found(self):
        for expr, label in (("sum by (model) (lowgear_train_layers)", "job_id"),
                            ("avg by (gpu) (lowgear_gpu_power_watts)", "instance of agents"),
                            ("max by (instance) (lowgear_gpu_temperature_celsius)", "uuid"),
                            ("sum without (phase) (rate(lowgear_train_energy_joules_total[1m]))", "phase")):
            with self.subTest(expr):
                self.assertIn(label, {name for _, name, *_ in merges([expr])[0]})
                with self.assertRaises(AssertionError):
                    self.check({"new": expr}, {"new": {"another label": "sum"}})


if __name__ == "__main__":
    unittest.main()
