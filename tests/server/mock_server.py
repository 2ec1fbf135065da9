"""A server that is none: it speaks docs/server-api.md with made-up figures, for tests of the dashboard only.

Nothing it says was measured or planned by anything. Figures follow from the number of the iteration, so that every run
sees the same. By hand: python3 mock_server.py --scenario thousand --port 7787
"""

import argparse
import json
import math
import os
import queue
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
ASSET_FOLDERS = [ROOT / "dashboard", ROOT / "src/report/report/page", ROOT / "src/report/report/page/styles"]
D3 = Path(os.environ.get("LOWGEAR_D3_JS", "/usr/share/javascript/d3/d3.min.js"))
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
# Where the story of a made-up job turns.
BASELINE_UNTIL, PROFILE_UNTIL = 6, 40
# The iteration that stalls in a job that plans its own steps.
STALLED = 88


def content_security_policy():
    """The policy that the real server sends, out of its header."""
    header = (ROOT / "src/server/http/dashboard_files.h").read_text()
    declared = re.search(r"kDashboardPolicy =(.*?);\n\n", header, re.S)
    return "".join(re.findall(r'"([^"]*)"', declared.group(1)))


def asset(path):
    """Content and type of a file of the page; None when there is none."""
    if path == "/":
        path = "/assets/index.html"
    name = path.removeprefix("/assets/")
    if not path.startswith("/assets/") or "/" in name:
        return None
    file = D3 if name == "d3.min.js" else next((f / name for f in ASSET_FOLDERS if (f / name).is_file()), None)
    return file and (file.read_bytes(), CONTENT_TYPES[file.suffix])


def wave(*numbers):
    """Between -1 and 1, the same for the same numbers, without a pattern that one sees."""
    return math.sin(12.9898 * sum((i + 1.7) * n for i, n in enumerate(numbers))) % 2 - 1


def has_stalled(iteration):
    """Against its prediction, by the server's rule."""
    predicted_s = iteration.get("predicted_time_s")
    return predicted_s is not None and iteration["units_time_s"] > 2 * predicted_s


class MockJob:
    def __init__(self, job="j-1", pp=4, dp=1, tp=1, simulated=True, iterations=60, state=None, name="llama-1b",
        created_s=None, policy="lowgear"):
        self.lock = threading.RLock()
        self.id, self.name, self.state_override = job, name, state
        self.parallel = {"pp": pp, "dp": dp, "tp": tp, "chunks": 1}
        self.world = pp * dp * tp
        self.simulated, self.created_s = simulated, created_s or time.time() - 2.4 * iterations
        self.registered, self.reason = self.world, None
        self.retry_s = None  # of a job whose planning failed
        self.policy = policy
        self.model = "llama 24x2048"
        self.settings = {"slowdown_pct": 0, "guard_pct": 2}
        self.stragglers, self.problems, self.power_cap, self.silent = [], [], None, set()
        self.refusals = {}  # why ranks follow no plans
        self.failures = {}  # what ended ranks
        self.work, self.dropped_decisions = None, 0
        self.decisions, self.version, self.from_iteration, self.iterations = [], 0, 0, []
        self.purpose = None
        self.finished_s = None
        self.heard_s = [time.time()] * self.world
        if policy == "steps":
            self.decide("observe", "the job plans its own steps")
        elif state != "registering":
            self.decide("registered", f"all {self.world} ranks are there", 1)
        for _ in range(iterations):
            self.iterate()

    # --- what happens -------------------------------------------------------------------------------------------------

    def decide(self, kind, reason, version=None, **training):
        """`training`: what only decisions of training programs have."""
        with self.lock:
            if version:
                self.version, self.from_iteration = version, len(self.iterations)
            number = len(self.decisions) + 1
            decision = {"job": self.id, "id": number, "time_s": self.created_s + 2.4 * len(self.iterations),
                "kind": kind,
                        "plan_version": self.version, "reason": reason, **training}
            if version:
                purposes = {"registered": "baseline", "profile": "profile"}
                self.purpose = decision.setdefault("purpose", purposes.get(kind, "train"))
            self.decisions.append(decision)
            return decision

    def iterate(self):
        """One more iteration; returns it, and decisions that came with it."""
        with self.lock:
            number, decisions = len(self.iterations), []
            if self.policy == "steps":
                return self.step(number), decisions
            if number == BASELINE_UNTIL:
                decisions.append(self.decide("profile", "baseline taken over 5 iterations; trying out 6 clocks", 2))
            if number == PROFILE_UNTIL:
                decisions.append(self.decide("plan",
                    "planned from a profile of 6 clocks: 14.6 % less energy at +0.4 % time", 3))
            planned_time, planned_energy = self.planned(number)
            time_s = planned_time * (1.004 + 0.004 * wave(number))
            energy = planned_energy * (1.001 + 0.006 * wave(number, 3))
            iteration = {"job": self.id, "iteration": number, "time_s": time_s, "energy_j": energy,
                "power_w": energy / time_s,
                         "plan_version": self.version,
                         "trial_mhz": 1410 - 60 * (1 + (number - BASELINE_UNTIL) // 6)
                         if BASELINE_UNTIL <= number < PROFILE_UNTIL else None,
                         "planned_time_s": planned_time,
                "planned_energy_j": planned_energy}
            self.add(iteration)
            return iteration, decisions

    def step(self, number):
        """An iteration of a job that plans its own steps: of its own length, and at full clocks without a prediction where
        the length is beyond the fit."""
        length = math.exp(0.4 * wave(number * number % 97))
        predicted = None if number % 17 == 16 else 2.4 * length
        units = 2.4 * length * (1 - 0.004 + 0.012 * wave(number * number % 89)) * (2.5 if number == STALLED else 1)
        iteration = {"job": self.id, "iteration": number, "time_s": units + 0.11, "energy_j": 1302.6 * self.world * length,
                     "power_w": 1302.6 * self.world * length / (units + 0.11), "plan_version": 0, "trial_mhz": None,
                     "planned_time_s": None, "planned_energy_j": None, "units_time_s": units,
                     "predicted_time_s": predicted, "full_clocks": predicted is None}
        self.add(iteration)
        return iteration

    def add(self, iteration):
        self.iterations.append(iteration)
        now = time.time()
        for rank in range(self.world):
            if rank not in self.silent:
                self.heard_s[rank] = now

    def prediction(self):
        predicted = [i for i in self.iterations if i.get("predicted_time_s")]
        errors = [i["predicted_time_s"] / i["units_time_s"] - 1 for i in predicted if not has_stalled(i)]
        return predicted and {"iterations": len(errors), "stalled_iterations": len(predicted) - len(errors),
                              "mean_error_pct": 100 * sum(errors) / len(errors) if errors else None,
                              "rms_error_pct": 100 * math.sqrt(sum(e * e for e in errors) / len(errors))
                              if errors else None} or None

    def planned(self, number):
        if number < BASELINE_UNTIL:
            return 2.40, 1525.0 * self.world
        if number < PROFILE_UNTIL:
            step = (number - BASELINE_UNTIL) // 6
            return 2.40 * (1 + 0.045 * step), 1525.0 * self.world * (1 - 0.045 * step)
        if self.stragglers:
            factor = self.stragglers[0]["factor"]
            return 2.41 * factor, 1302.6 * self.world * (1 - 0.4 * (factor - 1))
        return 2.41, 1302.6 * self.world

    # --- what is answered ---------------------------------------------------------------------------------------------

    def state(self):
        if self.state_override:
            return self.state_override
        number = len(self.iterations)
        if self.policy == "steps":
            return "observing"
        return "baseline" if number <= BASELINE_UNTIL else "profiling" if number <= PROFILE_UNTIL else "running"

    def summary(self):
        with self.lock:
            number = len(self.iterations)
            stalled = sum(map(has_stalled, self.iterations[-20:]))
            recent = [i for i in self.iterations[-20:] if not has_stalled(i)] or self.iterations[-20:]
            is_planned = self.policy != "steps"
            has_baseline = is_planned and number > BASELINE_UNTIL
            trains = is_planned and number > PROFILE_UNTIL
            measured = [i["energy_j"] for i in recent if i["energy_j"] is not None]
            energy = sum(measured) / len(measured) if 2 * len(measured) > len(recent) else None
            time_s = sum(i["time_s"] for i in recent) / len(recent) if recent else None
            planned_time, planned_energy = self.planned(number - 1) if number and is_planned else (None, None)
            baseline = {"time_s": 2.40, "time_error_s": 0.003, "energy_j": 1525.0 * self.world,
                        "energy_error_j": 2.2 * self.world, "iterations": 5} if has_baseline else None
            summary = {
                "job": self.id, "run": f"slurm-{4700 + len(self.id)}", "name": self.name, "framework": "lowgear",
                "state": self.state(), "reason": self.reason, "simulated": self.simulated,
                "gpu": "NVIDIA A100-SXM4-80GB", "model": self.model, "parallel": self.parallel, "schedule": "1f1b",
                "microbatches": 8, "created_s": self.created_s, "finished_s": self.finished_s, "ranks": self.world,
                "registered": self.registered, "work": self.work, "iteration": number - 1 if number else None,
                "plan_version": self.version,
                "purpose": self.purpose if self.purpose == "full_clocks" else "train" if trains else "profile" if has_baseline else "baseline" if self.version else None,
                "from_iteration": self.from_iteration, "profiling": self.profiling(),
                "time_s": time_s, "energy_j": energy, "planned_time_s": planned_time,
                "planned_energy_j": planned_energy,
                "baseline": baseline, "saved_pct": 100 * (1 - energy / baseline["energy_j"]) if trains and energy else None,
                "saved_error_pct": 0.3 if trains and energy else None,
                "slowdown_pct": 100 * (time_s / 2.40 - 1) if trains else None,
                "slowdown_error_pct": 0.2 if trains else None,
                "stalled_iterations": stalled, "unmeasured_iterations": len(recent) - len(measured), "policy": self.policy, "prediction": self.prediction(),
                "stragglers": self.stragglers, "problems": self.problems, "power_cap": self.power_cap,
                "settings": self.settings,
                "guard_limit_pct": self.settings["guard_pct"] + self.settings["slowdown_pct"],
                "has_failed": self.retry_s is not None, "retry_s": self.retry_s,
            }
            if any(problem["kind"] == "figures_invalid" for problem in self.problems):
                summary.update(dict.fromkeys(
                    ("time_s", "energy_j", "planned_time_s", "planned_energy_j", "baseline", "prediction", "saved_pct",
                     "saved_error_pct", "slowdown_pct", "slowdown_error_pct")), stalled_iterations=0)
            return summary

    def profiling(self):
        number = len(self.iterations)
        if self.state() != "profiling":
            return None
        clock = min(6, 1 + max(0, number - BASELINE_UNTIL) // 6)
        return {"clock": clock, "clocks": 6, "round": 1, "remaining_iterations": max(0, PROFILE_UNTIL - number)}

    def gpu(self, rank, number):
        clock = 1410 if number < BASELINE_UNTIL else 1380 - 15 * (rank % 9)
        return {"power_w": 318 - 4 * (rank % 9) + 14 * wave(rank, number), "sm_clock_mhz": clock,
                "sm_clock_min_mhz": clock - 345, "sm_clock_max_mhz": 1410,
                "temperature_c": round(58 + 8 * wave(rank) + 2 * wave(number))}

    def factor(self, rank):
        return next((s["factor"] for s in self.stragglers if s["rank"] == rank), 1 + 0.006 * wave(rank))

    def rank(self, rank):
        pp, dp = self.parallel["pp"], self.parallel["dp"]
        number = len(self.iterations) - 1
        report = None
        if number >= 0:
            report = {"iteration": number, "plan_version": self.version, "time_s": self.iterations[-1]["time_s"],
                      "compute_s": 1.93 * self.factor(rank), "energy_j": self.iterations[-1]["energy_j"] / self.world,
                      "throttled_power": 0.07 if rank % 97 == 13 else 0.0,
                      "throttled_thermal": 0.12 if rank % 211 == 17 else 0.0}
        return {"rank": rank, "pp_rank": rank % pp, "dp_rank": rank // pp % dp, "tp_rank": rank // (pp * dp),
                "host": f"node-{rank // 8 + 1}", "gpu_uuid": f"GPU-{rank:08x}", "gpu": "NVIDIA A100-SXM4-80GB",
                "simulated": self.simulated, "power_limit_w": 400, "follows_plans": rank not in self.refusals,
                "refusal": self.refusals.get(rank), "finished": bool(self.finished_s) or rank in self.failures, "failure": self.failures.get(rank),
                # Late, so that a page which is slow to load takes no other rank for silent.
                "heard_s": self.heard_s[rank] + (-900 if rank in self.silent else 3600),
                "last_iteration": number if report else None,
                "gpu_now": self.gpu(rank, number) if report else {"power_w": None, "sm_clock_mhz": None,
                    "sm_clock_min_mhz": None, "sm_clock_max_mhz": None, "temperature_c": None},
                "report": report,
                "factor": self.factor(rank) if report and self.policy != "steps" else None}

    def gpu_events(self):
        number = len(self.iterations) - 1
        return [{"job": self.id, "rank": rank, "gpu_uuid": f"GPU-{rank:08x}", **self.gpu(rank, number),
                 "energy_j": self.iterations[-1]["energy_j"] / self.world}
                for rank in range(self.world) if rank not in self.silent]

    def frontier(self):
        summary, pp = self.summary(), self.parallel["pp"]
        if summary["purpose"] not in ("train", "full_clocks"):
            return {"job": self.id, "vertices": [], "operating_point": None, "measured": None}
        vertices = [[2.40 + 0.02 * i, pp * (1080 + 230 * math.exp(-i / 9))] for i in range(40)]
        return {"job": self.id, "vertices": vertices, "operating_point": {"time_s": 2.41, "energy_j": pp * 1302.6},
                "measured": None}  # older than the summary: the page takes that one's figures

    def timeline(self):
        if self.summary()["purpose"] not in ("train", "full_clocks"):
            return {"job": self.id, "plan_version": None, "plan": None}
        pp, forward_s, backward_s = self.parallel["pp"], 0.07, 0.14
        stages, microbatches = [], 8
        for stage in range(pp):
            # Not 1F1B to the letter: every op where it fits after its neighbours, for something to draw.
            ops = [("forward", m, stage * forward_s + m * (forward_s + backward_s)) for m in range(microbatches)]
            first_s = (2 * pp - stage) * forward_s + (pp - 1 - stage) * 0.07
            ops += [("backward", m, first_s + m * (forward_s + backward_s)) for m in range(microbatches)]
            ops.sort(key=lambda op: op[2])
            end, placed = 0.0, []
            for kind, microbatch, start in ops:
                start, length = max(start, end), forward_s if kind == "forward" else backward_s
                end = start + length
                placed.append({"op": kind, "microbatch": microbatch, "mhz": 1380 - 45 * ((stage * 3 + microbatch) % 7),
                               "start_s": start, "duration_s": length})
            stages.append({"stage": stage, "ops": placed})
        plan = {"format": "lowgear.plan/1", "policy": "lowgear", "schedule": "1f1b", "microbatches": microbatches,
                "deadline_s": 2.41, "time_s": max(s["ops"][-1]["start_s"] + backward_s for s in stages),
                "energy_j": pp * 1302.6, "switches": 12, "stages": stages}
        return {"job": self.id, "plan_version": self.version, "plan": plan}


def scenario(name):
    """Jobs of a scenario."""
    if name == "empty":
        return []
    if name == "one":
        return [MockJob()]
    if name == "hundred":
        states = ["finished", "running", "finished", "observing", "registering", "profiling"]
        names = ["llama-1b", "gpt2-xl", "llama-7b-long-context-continued-pretraining"]
        jobs = []
        for i in range(100):
            state = states[i % 6 if i < 12 else 0]
            job = MockJob(f"j-{i}", simulated=i % 3 == 0,
                iterations=0 if state == "registering" else 20 if state == "profiling" else 60,
                          state=state, name=f"{names[i % 3]}-{i}",
                          created_s=1.79e9 - 3600 * i)
            job.finished_s = job.created_s + 1800 if state == "finished" else None
            jobs.append(job)
        return jobs
    if name == "thousand":
        job = MockJob(pp=16, dp=64, simulated=False, name="llama-70b")
        job.stragglers = [{"rank": 300, "factor": 1.2, "cause": "reported"}]
        job.silent = {77, 78}
        job.decide("straggler", "rank 300 is reported slower by a factor of 1.2; the other ranks have time to spare", 4)
        return [job]
    raise ValueError(name)


def mock_budget(name, watts, planned_w, gpus_per_kw=0.0, held=None):
    return {"name": name, "watts": watts, "watts_now": watts, "planned_w": planned_w, "assumed_w": 0.1 * planned_w,
            "kept": planned_w <= watts, "gpus_per_kw": gpus_per_kw, "unknown_hosts": [], "measured_w": None, "measured_gpus": 0, "held": held}


class MockServer:
    """Serves the page and the jobs on a loopback port; can stop and come back on the same one."""

    def __init__(self, jobs, token=None, port=0):
        self.jobs = {job.id: job for job in jobs}
        self.token, self.port = token, port
        self.one_time_token, self.job_tokens = None, True
        self.listeners, self.lock = [], threading.Lock()
        self.budgets = []  # as GET /v1/budgets shows them
        self.policy = content_security_policy()
        self.requests = []
        self.httpd = None

    def start(self):
        mock = self

        class Handler(MockHandler):
            server_state = mock

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 64

            def handle_error(self, request, client_address):
                pass  # A browser that hangs up is no news.

        self.httpd = Server(("127.0.0.1", self.port), Handler)
        self.port = self.httpd.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        return self

    def stop(self):
        self.httpd.shutdown()
        self.httpd.server_close()
        with self.lock:
            for listener in self.listeners:
                listener.put(None)
            self.listeners = []
        self.thread.join()

    def send(self, event, data):
        text = f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
        with self.lock:
            for listener in self.listeners:
                if listener.job in (None, data["job"]):
                    listener.put(text)

    def iterate(self, job):
        """One more iteration of a job, with all events that come of it."""
        iteration, decisions = job.iterate()
        self.send("iteration", iteration)
        for decision in decisions:
            self.send("decision", decision)
        for gpu in job.gpu_events():
            self.send("gpu", gpu)
        self.send("job", job.summary())

    def decide(self, job, kind, reason, **training):
        self.send("decision", job.decide(kind, reason, None if training else job.version + 1, **training))
        self.send("job", job.summary())


class MockHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state = None

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        mock = self.server_state
        path = urlsplit(self.path).path
        mock.requests.append(path)
        found = asset(path)
        if found:
            self.answer(200, found[0], found[1], {"Content-Security-Policy": mock.policy,
                "X-Content-Type-Options": "nosniff"})
        elif path == "/healthz":
            self.answer_json(200, {"status": "ok"})
        elif mock.token and self.headers.get("Authorization") != f"Bearer {mock.token}":
            self.refuse(401, "unauthorized", "this server wants a token: Authorization: Bearer TOKEN")
        elif path == "/v1/jobs":
            self.answer_json(200, {"jobs": [job.summary() for job in mock.jobs.values()],
                "server": {"unix": "/run/lowgear-server/server.sock", "job_tokens": mock.job_tokens}})
        elif path == "/v1/budgets":
            shares = [{"job": job.id, "planned_w": 1000.0 * (i + 1)} for i, job in enumerate(mock.jobs.values())]
            self.answer_json(200, {"budgets": mock.budgets, "jobs": shares if mock.budgets else []})
        elif path == "/v1/events":
            self.stream(None)
        else:
            self.answer_job(path)

    def do_POST(self):
        """Exchanges the one-time token, once, for the token."""
        mock = self.server_state
        mock.requests.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/sessions" or body["token"] != mock.one_time_token:
            self.refuse(401, "no_token", "this address was used")
            return
        mock.one_time_token = None
        self.answer_json(200, {"token": mock.token, "valid_s": 1})

    def answer_job(self, path):
        parts = [unquote(part) for part in path.split("/")[1:]]
        job = self.server_state.jobs.get(parts[2]) if parts[:2] == ["v1", "jobs"] and len(parts) in (3, 4) else None
        if not job:
            self.refuse(404, "not_found", "there is no such job")
            return
        query = {name: int(values[0]) for name, values in parse_qs(urlsplit(self.path).query).items()}
        after, limit = query.get("after", -1), query.get("limit", 100)
        what = parts[3] if len(parts) == 4 else ""
        if what == "events":
            self.stream(job.id)
        elif what in ("iterations", "decisions"):
            key = "iteration" if what == "iterations" else "id"
            page = {what: [item for item in getattr(job, what) if item[key] > after][:limit]}
            if what == "decisions":
                page["dropped"] = job.dropped_decisions if after <= 0 else 0
            self.answer_json(200, page)
        elif what in ("frontier", "timeline"):
            self.answer_json(200, getattr(job, what)())
        else:
            ranks = [job.rank(rank) for rank in range(job.registered)]
            self.answer_json(200, {"job": job.summary(), "spec": {}, "ranks": ranks})

    def stream(self, job):
        listener = queue.Queue()
        listener.job = job
        with self.server_state.lock:
            self.server_state.listeners.append(listener)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b": hello\n\n")
        self.close_connection = True
        while (text := listener.get()) is not None:
            self.wfile.write(text)

    def refuse(self, status, code, message):
        self.answer_json(status, {"error": {"message": message, "code": code}})

    def answer_json(self, status, document):
        self.answer(status, json.dumps(document).encode(), "application/json", {})

    def answer(self, status, body, content_type, headers):
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="one", choices=["empty", "one", "hundred", "thousand"])
    parser.add_argument("--port", type=int, default=7787)
    parser.add_argument("--token")
    parser.add_argument("--seconds", type=float, default=600, help="ends by itself after so long")
    options = parser.parse_args()
    server = MockServer(scenario(options.scenario), options.token, options.port).start()
    print(f"made-up figures on {server.url}", flush=True)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        time.sleep(1)
        for job in list(server.jobs.values())[:2]:
            server.iterate(job)
    server.stop()


if __name__ == "__main__":
    main()
