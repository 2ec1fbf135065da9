"""A job's life over HTTP with the real server: every answer and every event is what the OpenAPI document says, and
docs/server-api.md names the same routes."""

import json
import re
import subprocess
import unittest

from served import LOWGEAR, OPENAPI, PATIENCE_S, Events, ServerTest, wait_until
from training_ranks import TrainingRanks, unit_time_s

API_PAGE = OPENAPI.parents[3] / "docs" / "server-api.md"
EVENT_SCHEMAS = {"job": "Summary", "iteration": "IterationEvent", "decision": "DecisionEvent", "gpu": "GpuEvent",
                 **dict.fromkeys(("job_registered", "plans_refused", "job_ended"), "JobEvent")}
JOB_EVENTS = ["job_registered", "plans_refused", "plans_followed", "job_ended"]
FLEET_EVENTS = {"budget_exceeded", "agent_silent", "budget_kept", "agent_heard"}


class Ranks(TrainingRanks):
    """Ranks whose requests and answers are checked."""

    def __init__(self, test, **options):
        self.test = test
        super().__init__("", "", **options)

    def call(self, method, path, body=None, key=None):
        if body is not None:
            self.test.assertTrue(self.test.openapi.takes(method, path.partition("?")[0], body), body)
        return self.test.ok(method, path, body, role="train", key=key)

    def show(self, part=""):
        return self.test.ok("GET", f"/v1/jobs/{self.job}{part}", role="read")

    def summary(self):
        return self.show()["job"]

    def decide(self, what, body):
        return self.test.ok("POST", f"/v1/jobs/{self.job}/{what}", body)["decision"]

    def train_until(self, condition, what):
        """Trains as long as it takes: the server plans meanwhile, in its own time."""
        wait_until(lambda: condition() or self.train(1), lambda: f"{what}; {self.summary()}", pause_s=0)

    def train_to_state(self, state):
        self.train_until(lambda: self.summary()["state"] == state, state)

    def reasons(self, kind):
        return [each["reason"] for each in self.show("/decisions")["decisions"] if each["kind"] == kind]


class Life(ServerTest):
    def show_all(self, ranks):
        """Every document that people see, in whatever state the job is."""
        for part in ("", "/frontier", "/timeline", "/iterations", "/decisions?after=2&limit=3",
                     "/iterations?after=1&limit=2"):
            ranks.show(part)
        for path in ("/v1/jobs", "/v1/budgets", "/v1/signals", "/healthz", "/openapi.json", "/metrics",
                     "/v1/exports/usage.csv", "/v1/exports/jobs.csv", "/v1/exports/decisions.csv",
                     "/v1/exports/budgets.csv"):
            self.ok("GET", path, role="read")

    def test_from_registration_to_the_end(self):
        self.start()
        events = Events(self)
        ranks = Ranks(self)
        self.show_all(ranks)
        for rank in range(ranks.pp):
            ranks.register(rank)
        self.show_all(ranks)
        self.assertEqual(ranks.summary()["state"], "baseline")
        ranks.train_to_state("running")
        of_this_job = Events(self, f"/v1/jobs/{ranks.job}/events")
        ranks.train_until(lambda: (ranks.summary()["saved_pct"] or 0) > 0, "something is saved")
        self.show_all(ranks)

        before = ranks.summary()["plan_version"]
        ranks.decide("straggler", {"rank": 2, "factor": 1.3})
        ranks.train_until(lambda: ranks.summary()["plan_version"] > before, "a plan for the straggler")
        self.show_all(ranks)
        self.check_profile(ranks)
        ranks.decide("straggler", {"rank": 2, "factor": 1})
        ranks.decide("power_cap", {"scope": "gpu", "watts": 250, "swing_w": None})
        ranks.train_until(lambda: "250" in str(ranks.show("/decisions")), "the cap is kept")
        self.show_all(ranks)
        ranks.decide("power_cap", {"watts": None})
        ranks.decide("settings", {"slowdown_pct": 10, "guard_pct": 20})
        self.ok("PUT", "/v1/signals/carbon", {"unit": "gCO2/kWh", "points": [[0, 500], [4e9, 500]],
                                              "rules": [{"above": 400, "slowdown_pct": 15}]})
        ranks.train_until(lambda: any("carbon" in reason for reason in ranks.reasons("signal")), "a signal is followed")
        ranks.train(5)
        self.show_all(ranks)
        self.ok("DELETE", "/v1/signals/carbon")
        self.assertEqual(self.ok("GET", "/v1/signals")["signals"], [])
        ranks.decide("settings", {"slowdown_pct": 0, "guard_pct": 20})
        ranks.train(5)
        planned = lambda: ranks.summary()["planned_energy_j"] / ranks.summary()["planned_time_s"]
        planned_w = planned()
        self.ok("PUT", "/v1/budgets/row", {"watts": 0.93 * planned_w})
        ranks.train_until(lambda: any("budget" in reason for reason in ranks.reasons("budget")), "a budget is followed")
        ranks.train_until(lambda: planned() <= 0.94 * planned_w, "the plan draws what the budget allows")
        shown = self.ok("GET", "/v1/budgets")["budgets"]
        self.assertEqual([(budget["name"], budget["kept"]) for budget in shown], [("row", True)])
        self.assertEqual([job["job"] for job in self.ok("GET", "/v1/budgets")["jobs"]], [ranks.job])
        self.show_all(ranks)
        self.ok("DELETE", "/v1/budgets/row")
        self.assertEqual(self.ok("GET", "/v1/budgets")["budgets"], [])
        self.hold_a_budget()

        ranks.call("POST", f"/v1/jobs/{ranks.job}/reports",
                   {"rank": 1, "reports": [], "refusal": "the schedule differs"}, ranks.keys[1])
        self.show_all(ranks)
        shown = self.ok("GET", f"/v1/jobs/{ranks.job}")["ranks"]
        self.assertEqual([(rank["follows_plans"], rank["refusal"]) for rank in shown[:2]],
                         [(True, None), (False, "the schedule differs")])
        self.assertEqual(ranks.reasons("refusal"), ["rank 1 follows no plans: the schedule differs"])

        self.report_decisions(ranks)

        for rank in range(ranks.pp):
            self.assertEqual(ranks.summary()["state"], "running")
            ranks.call("POST", f"/v1/jobs/{ranks.job}/finish", {"rank": rank}, ranks.keys[rank])
        self.assertEqual(ranks.summary()["state"], "finished")
        self.show_all(ranks)
        wait_until(lambda: any(job["state"] == "finished" for job in events.of("job")), "the last event")
        self.check_events(events, ranks)
        self.assertTrue(of_this_job.of("iteration"))
        self.assertEqual({data["job"] for _, data in of_this_job.events}, {ranks.job})

    def check_profile(self, ranks):
        """The times of units, as its next start would be planned by."""
        target = "/v1/profile?model=llama%2024x2048&partition=uniform&gpu=Simulated%20GPU&microbatch_size=2&pp="
        profile = self.ok("GET", f"{target}{ranks.pp}&simulated=1", role="train")
        for cell in profile["cells"]:
            self.assertAlmostEqual(cell["time_s"], unit_time_s(cell["instruction"], cell["clock_mhz"]), delta=1e-4)
        self.assertEqual({cell["stage"] for cell in profile["blocking"]}, set(range(ranks.pp)))
        for other in (f"{target}{ranks.pp}", f"{target}{ranks.pp + 1}&simulated=1"):
            self.refused(404, "not_found", "GET", other)
        self.refused(400, "invalid_argument", "GET", "/v1/profile?model=m")

    def hold_a_budget(self):
        """As the agent of a node does that no job is on."""
        self.ok("PUT", "/v1/budgets/far", {"watts": 300, "hosts": ["node-9"], "peak_pct": 10, "stagger_pct": 50, "stagger_apply": True,
                                           "runs": [{"run": "a", "weight": 2, "floor_w": 50}, {"run": "b"}]})
        node = {"safe_w": 100, "gpus": [{"uuid": "GPU-9", "limit_w": 100, "least_w": 50, "most_w": 400}]}

        def shares():
            return self.ok("POST", "/v1/nodes/node-9/power?wait_s=0.2", node, role="node")["shares"]

        wait_until(lambda: shares() == [{"uuid": "GPU-9", "watts": 300}], "the budget is divided")
        wait_until(lambda: self.ok("GET", "/v1/budgets")["budgets"][0]["held"]
                   == {"watts": 300, "nodes": 1, "silent_nodes": 0}, "the server shows what is held")
        self.assertEqual(self.ok("DELETE", "/v1/nodes/node-9"), {"node": "node-9"})
        self.ok("DELETE", "/v1/budgets/far")

    def report_decisions(self, ranks):
        path = f"/v1/jobs/{ranks.job}/decisions"
        made = {"from_iteration": 1200, "technique": "freezing", "change": "adopt",
                "configuration": "6 of 24 blocks frozen", "reason": "energy -3.1 % ± 0.4 %"}
        body = {"rank": 0, "work": {"layers": 24, "frozen_layers": 6, "precision": "bf16"},
                "decisions": [{"number": 1, "age_s": 0.75, **made}, {"number": 5, "age_s": 0.25, **made}]}
        for _ in range(2):
            self.assertEqual(ranks.call("POST", path, body, ranks.keys[0]), {"accepted": 2})
        ranks.call("POST", path, {"rank": 1, "decisions": []}, ranks.keys[1])
        shown = [each for each in ranks.show("/decisions")["decisions"] if each["kind"] == "technique"]
        self.assertEqual([{name: each[name] for name in made} for each in shown], [made, made])
        self.assertAlmostEqual(shown[1]["time_s"] - shown[0]["time_s"], 0.5, delta=0.001)
        self.assertEqual(ranks.summary()["work"], body["work"])
        self.assertEqual(ranks.show("/decisions?after=3")["dropped"], 0)
        metrics = self.request("GET", "/metrics", role="read").text
        labels = f'job_id="{ranks.job}",model="{ranks.summary()["model"]}"'
        self.assertIn(f"lowgear_train_frozen_layers{{{labels}}} 6\n", metrics)
        self.assertIn('lowgear_control_decisions_total{actuator="freezing",action="adopt",outcome="reported"} 2\n',
                      metrics)

    def check_events(self, events, ranks):
        for name, data in events.events:
            self.openapi.require(data, EVENT_SCHEMAS[name])
        self.assertEqual({name for name, _ in events.events}, set(EVENT_SCHEMAS))
        # What was streamed is what is there to be read.
        self.assertEqual([each["iteration"] for each in events.of("iteration")], list(range(ranks.iteration)))
        decisions = ranks.show("/decisions")["decisions"]
        self.assertEqual([each["id"] for each in events.of("decision")], [each["id"] for each in decisions])

    def test_the_same_again_changes_nothing(self):
        self.start()
        ranks = Ranks(self)
        for rank in range(ranks.pp):
            ranks.register(rank)
        ranks.train(3)
        key = ranks.keys[0]
        spec = self.ok("GET", f"/v1/jobs/{ranks.job}")["spec"]
        self.assertEqual(self.request("POST", "/v1/jobs", spec).json,
                         {"job": ranks.job, "created": False, "state": "baseline"})
        ranks.register(0)
        self.assertEqual(ranks.keys.pop(), key)
        report = {"plan_version": 0, "time_s": 1, "compute_s": 1}
        body = {"rank": 0, "reports": [{"iteration": iteration, **report} for iteration in (0, 1, 2)]}
        self.assertEqual(ranks.call("POST", f"/v1/jobs/{ranks.job}/reports", body, key)["last_iteration"], 2)
        self.assertEqual(len(ranks.show("/iterations")["iterations"]), 3)
        for what, wanted in (("straggler", {"rank": 1, "factor": 1.2}), ("power_cap", {"scope": "job", "watts": 900}),
                             ("settings", {"slowdown_pct": 3}), ("straggler", {"rank": 1, "factor": 1})):
            self.assertEqual(ranks.decide(what, wanted), ranks.decide(what, wanted))
        self.ok("DELETE", f"/v1/jobs/{ranks.job}")
        self.ok("DELETE", f"/v1/jobs/{ranks.job}")
        self.assertEqual(len(ranks.reasons("finish")), 1)


class EventsOfOperators(ServerTest):
    def happened(self, names, schema):
        events = [data for name, data in self.events.events if name in names]
        for event in events:
            self.openapi.require(event, schema)
        return events

    def test_of_jobs(self):
        self.start()
        self.events = Events(self)
        ranks = Ranks(self, run="run-a", user="ada")
        for rank in range(ranks.pp):
            ranks.register(rank)
        for refusal in ({"refusal": "the model was rebuilt"}, {}):
            ranks.call("POST", f"/v1/jobs/{ranks.job}/reports", {"rank": 1, "reports": [], **refusal}, ranks.keys[1])
        self.ok("DELETE", f"/v1/jobs/{ranks.job}")
        wait_until(lambda: self.events.of("job_ended"), "the job's end")
        events = self.happened(JOB_EVENTS, "JobEvent")
        self.assertEqual([event["event"] for event in events], JOB_EVENTS)
        self.assertEqual({(event["job"], event["run"], event["user"]) for event in events}, {(ranks.job, "run-a", "ada")})
        self.assertEqual(events[1]["reason"], "rank 1 follows no plans: the model was rebuilt")
        self.assertEqual(events[3]["reason"],
                         "finished by request; no plan was followed at the end: "
                         "rank 1 follows no plans: the model was rebuilt; nor does another rank of its stage")

    def test_of_budgets_and_agents(self):
        self.start()
        self.events = Events(self)
        share = {"safe_w": 200, "gpus": [{"uuid": "GPU-9", "limit_w": 200, "least_w": 100, "most_w": 400}]}
        self.ok("POST", "/v1/nodes/node-9/power", share, role="node")
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 100, "other_w": 300})
        wait_until(lambda: len(self.happened(FLEET_EVENTS, "FleetEvent")) >= 2,
                   "the budget cannot be kept, and the agent does not ask again")
        self.assertEqual({event["event"] for event in self.happened(FLEET_EVENTS, "FleetEvent")},
                         {"budget_exceeded", "agent_silent"})
        self.ok("PUT", "/v1/budgets/row-1", {"watts": 1000, "other_w": 300})

        def is_heard():
            self.ok("POST", "/v1/nodes/node-9/power", share, role="node")
            return len(self.happened(FLEET_EVENTS, "FleetEvent")) >= 4
        wait_until(is_heard, "both are well again")
        events = {event["event"]: event for event in self.happened(FLEET_EVENTS, "FleetEvent")}
        self.assertEqual(set(events), FLEET_EVENTS)
        self.assertEqual((events["budget_kept"]["budget"], events["agent_silent"]["node"]), ("row-1", "node-9"))
        self.assertIn("add up to", events["budget_exceeded"]["reason"])


class Policies(ServerTest):
    top = "policy: perseus\n"

    def planner_of(self, ranks):
        for rank in range(ranks.pp):
            ranks.register(rank)
        ranks.train_to_state("running")
        planner = ranks.show("/timeline")["plan"]["policy"]
        self.assertEqual(ranks.summary()["policy"], planner)
        return planner

    def test_the_configurations_is_that_of_jobs_which_state_none(self):
        self.start()
        silent = Ranks(self, pp=2)
        self.assertEqual(self.planner_of(silent), "perseus")
        self.assertNotIn("policy", silent.show()["spec"])
        self.assertEqual(self.planner_of(Ranks(self, pp=2, run="run-2", policy="lowgear")), "lowgear")
        # A server with another configuration: jobs that there are keep theirs.
        self.top = ""
        self.end()
        self.start()
        self.assertEqual(silent.summary()["policy"], "perseus")
        self.assertEqual(self.planner_of(Ranks(self, pp=2, run="run-3")), "lowgear")

    def test_a_check_names_it_and_refuses_another(self):
        def check(*more):
            command = [LOWGEAR, "serve", "--config", str(self.write_config()), "--check", *more]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

        self.assertIn("policy of jobs that state none: perseus", check().stdout)
        self.assertEqual(json.loads(check("--json").stdout)["policy"], "perseus")
        self.top = "policy: zeus\n"
        refused = check()
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(refused.stderr,
                         r'(?m)server\.yaml:2:9: policy: there is no policy "zeus"; there are lowgear, perseus, envpipe$')


class Documents(ServerTest):
    def test_the_page_and_the_document_name_the_same_routes(self):
        rows = set()
        for method, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?]*)(?:\?[^`]*)?`", API_PAGE.read_text()):
            rows.add((method.lower(), path))
        document = {(method, path) for path, item in self.openapi.document["paths"].items() for method in item}
        self.assertEqual(document - rows - {("get", "/openapi.json")}, set())
        self.assertEqual(rows - document, set())

    def test_the_page_and_the_document_ask_for_the_same_scopes(self):
        for cells in re.findall(r"^\| (`.*) \| (\w+) \|", API_PAGE.read_text(), re.MULTILINE):
            for method, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^`?]*)(?:\?[^`]*)?`", cells[0]):
                operation = self.openapi.document["paths"][path][method.lower()]
                scope = {"all": "anybody", "rank": "jobs"}.get(cells[1], cells[1])
                self.assertEqual(operation["x-lowgear-scope"], scope, path)
                self.assertEqual(cells[1] == "rank", {"rankKey": []} in operation["security"], path)

    def test_examples_are_what_their_schemas_say(self):
        for name, schema in self.openapi.document["components"]["schemas"].items():
            for example in schema.get("examples", []):
                self.openapi.require(example, name)

    def test_the_server_hands_out_this_document(self):
        self.start()
        self.assertEqual(self.ok("GET", "/openapi.json", role=None), self.openapi.document)

    def test_the_checker_finds_what_is_wrong(self):
        for value in ({"rank": "0"}, {"rank": -1}, {"rank": 0, "more": 1}, {}, [], {"rank": True}, {"rank": 0, "failure": 1}, {"rank": 0.5}):
            self.assertTrue(self.openapi.problems(value, {"$ref": "#/components/schemas/RankEnd"}), value)
        with self.assertRaises(AssertionError):
            self.openapi.check("GET", "/v1/jobs", 418, "application/json", {})


if __name__ == "__main__":
    unittest.main()
