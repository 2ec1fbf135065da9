"""The table of panels of Lowgear's dashboards, from which render.py makes Grafana's JSON.

A query keeps the labels that identify a value's origin: job_id, instance (a node or a server), uuid. The panel of a
query that merges them has `merged`, which becomes the end of its description; tests/deploy/merged_series_test.py
refuses other queries that merge.

`$node`, `$gpu` and `$job` are variables of a dashboard: regular expressions of the labels `instance`, `gpu` and
`job_id`."""

from dataclasses import dataclass

JOULES_PER_KWH = "3.6e6"
AGENTS = 'job=~"(.*/)?lowgear-agent"'  # PodMonitors of the Prometheus operator put a namespace in front
NODE = 'instance=~"$node"'
GPU = 'instance=~"$node",gpu=~"$gpu"'
JOB = 'job_id=~"$job"'
NO_MPS = "no agent shares a GPU"
NONE = "none"  # text of a panel without series, if that is its usual state


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str = ""
    column: str = ""  # in a table: name of the value's column; empty: hidden
    unit: str = ""  # of the column


@dataclass(frozen=True)
class Panel:
    title: str
    kind: str  # stat, gauge, timeseries, table
    unit: str  # an id of Grafana's list of units
    queries: tuple
    description: str
    width: int = 8  # of 24
    minimum: float | None = None
    maximum: float | None = None
    warning: float | None = None  # from this value on yellow
    critical: float | None = None  # from this value on red
    stacked: bool = False
    without_series: str = ""  # text; empty: Grafana's "No data"
    link: tuple = ()  # title and URL of a link on every value
    merged: tuple = ()  # how (a key of MERGED), then the merged labels (keys of MERGED_LABELS)


# How series are merged, in words.
MERGED = {"sum": "Sum over", "mean": "Mean over", "max": "Highest of", "share": "Share of the sums over"}
MERGED_LABELS = {"instance of agents": "nodes", "instance of servers": "servers", "uuid": "GPUs", "job_id": "jobs",
                 "zone": "CPU packages and memory", "route": "routes", "method": "methods",
                 "phase": "baseline and plans"}


def description(panel):
    """The panel's description, with the labels that its queries merge."""
    if not panel.merged:
        return panel.description
    how, *labels = panel.merged
    names = [MERGED_LABELS[label] for label in labels]
    listed = ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
    return f"{panel.description} {MERGED[how]} {listed}."


@dataclass(frozen=True)
class Row:
    title: str
    height: int  # of its panels, in grid units
    panels: tuple


@dataclass(frozen=True)
class Variable:
    name: str
    label: str
    query: str


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    description: str
    variables: tuple
    rows: tuple


def lines(title, unit, description, *queries, **more):
    """A panel of values over time; `queries`: (expression, legend)..."""
    return Panel(title, "timeseries", unit, tuple(Query(*query) for query in queries), description, **more)


def number(title, unit, description, *queries, **more):
    """A panel of the newest values; `queries`: (expression, legend)..."""
    return Panel(title, "stat", unit, tuple(Query(*query) for query in queries), description, **{"width": 4, **more})


OF_SERVERS = ("sum", "instance of servers")
OF_GPUS = ("sum", "uuid", "instance of agents")  # all selected GPUs together
NODES = Variable("node", "Node", "label_values(lowgear_gpu_info, instance)")
GPUS = Variable("gpu", "GPU", "label_values(lowgear_gpu_info{instance=~\"$node\"}, gpu)")
JOBS = Variable("job", "Job", "label_values(lowgear_train_info, job_id)")

TO_GPUS = ("GPUs of this node", "/d/lowgear-gpu?var-node=${__field.labels.instance}&${__url_time_range}")
TO_JOB = ("This job", "/d/lowgear-job?var-job=${__field.labels.job_id}&${__url_time_range}")
TO_JOB_OF_LINE = ("This job", "/d/lowgear-job?var-job=${__data.fields.job_id}&${__url_time_range}")

TO_GPU_OF_LINE = ("This GPU", "/d/lowgear-gpu?var-node=${__data.fields.instance}&var-gpu=${__data.fields.gpu}&"
                  "${__url_time_range}")


def ranks_on_gpus(jobs, gpus):
    """Power of each rank's GPU, with its node by the agents' metrics."""
    return (f"max by (job_id, rank, host, uuid) (lowgear_train_rank_info{{{jobs}}}) * on (uuid) group_left (instance, gpu) "
            f"max by (uuid, instance, gpu) (lowgear_gpu_power_watts{{{gpus}}})")


FLEET = Dashboard(
    "lowgear-fleet", "Lowgear: fleet", "All nodes and jobs: power, energy, savings, and what needs attention.",
    (NODES,), (
        Row("Now", 4, (
            number("Power", "watt", "Power of all GPUs of the selected nodes, from the driver.",
                   (f"sum(instance:lowgear_gpu_power_watts:sum{{{NODE}}})", ""), merged=OF_GPUS),
            Panel("Power, share of limits", "gauge", "percentunit", (Query(
                f"sum(lowgear_gpu_power_watts{{{NODE}}}) / sum(lowgear_gpu_power_limit_watts{{{NODE}}})"),),
                "Power of the GPUs as a share of their power limits.", 4, 0, 1,
                merged=("share", "uuid", "instance of agents")),
            number("Energy", "kwatth", "Energy of the GPUs of the selected nodes in the time range of the dashboard.",
                   (f"sum(increase(lowgear_gpu_energy_joules_total{{{NODE}}}[$__range])) / {JOULES_PER_KWH}", ""),
                   merged=OF_GPUS),
            number("Saved power", "watt", "Energy that jobs save per second of training against their measured "
                   "baselines, at full clocks. Jobs without a measured baseline do not count.",
                   ("sum(job:lowgear_train_saved_power_watts:mean5m)", ""),
                   merged=("sum", "job_id", "instance of servers")),
            number("GPUs", "short", "GPUs that respond, and all that agents see. Fewer: alert LowgearGpuUnhealthy.",
                   (f"sum(lowgear_gpu_healthy{{{NODE}}})", "respond"),
                   (f"count(lowgear_gpu_healthy{{{NODE}}})", "all"), merged=OF_GPUS),
            number("Agents", "short", "Agents that Prometheus reaches, and all of its configuration. Fewer: alert "
                   "LowgearTargetDown.",
                   (f"sum(up{{{AGENTS},{NODE}}})", "respond"), (f"count(up{{{AGENTS},{NODE}}})", "all"),
                   merged=("sum", "instance of agents")))),
        Row("Jobs and alerts", 8, (
            Panel("Jobs", "table", "short", (
                Query("max by (job_id, name, model, gpu, schedule, state, simulated) (lowgear_train_info)"),
                Query("max by (job_id) (job:lowgear_train_step_seconds:mean5m)", column="iteration", unit="s"),
                Query("max by (job_id) (job:lowgear_train_power_watts:mean5m)", column="power", unit="watt"),
                Query("max by (job_id) (lowgear_train_saved_energy_ratio)", column="saving", unit="percentunit"),
                Query("max by (job_id) (lowgear_train_slowdown_ratio)", column="slowdown", unit="percentunit")),
                "Jobs that are not over. Saving and slowdown are shares of the measured baseline at full clocks; they "
                "are empty without one. `simulated`: energies that are not of real GPUs. Power:", 16,
                link=TO_JOB_OF_LINE, merged=("mean", "phase")),
            Panel("Firing alerts", "table", "short", (
                Query('max without (alertstate, job) (ALERTS{alertname=~"Lowgear.*",alertstate="firing"})'),),
                "What to do about each: docs/monitoring.md.", 8, without_series=NONE))),
        Row("Power and energy", 8, (
            lines("Power by node", "watt", "Power of all GPUs of a node.",
                  (f"instance:lowgear_gpu_power_watts:sum{{{NODE}}}", "{{instance}}"), stacked=True, minimum=0,
                  link=TO_GPUS, merged=("sum", "uuid")),
            lines("Power by job", "watt", "Power of all GPUs of a job over its iterations, as ranks report it.",
                  ("max by (job_id, model) (job:lowgear_train_power_watts:mean5m)", "{{job_id}} {{model}}"),
                  stacked=True, minimum=0, link=TO_JOB, merged=("mean", "phase")),
            lines("CPU power by node", "watt", "Power of CPU packages and their memory (RAPL), where the agent may "
                  "read it.",
                  (f"sum by (instance) (rate(lowgear_cpu_energy_joules_total{{{NODE}}}[$__rate_interval]))",
                   "{{instance}}"), stacked=True, minimum=0, without_series="RAPL is not readable",
                  merged=("sum", "zone")))),
        Row("Power budgets", 8, (
            lines("Power budgets", "watt", "Limit of each power budget, what plans and assumptions add up to, and "
                  "what of this is assumed at full power. Above the limit: alert LowgearBudgetExceeded.",
                  ("sum by (instance, budget) (lowgear_power_budget_watts)", "{{budget}} at {{instance}} limit"),
                  ("sum by (instance, budget) (lowgear_power_budget_planned_watts)", "{{budget}} at {{instance}} planned"),
                  ("sum by (instance, budget) (lowgear_power_budget_assumed_watts)", "{{budget}} at {{instance}} assumed"),
                  minimum=0, without_series=NONE),
            lines("Use of power budgets", "percentunit", "Planned power, and the power limits that agents hold, as "
                  "shares of the limit. Held above it for long: alert LowgearBudgetHeldAboveLimit.",
                  ("budget:lowgear_power_budget_planned:ratio", "{{budget}} at {{instance}} planned"),
                  ("budget:lowgear_power_budget_held:ratio", "{{budget}} at {{instance}} held"), minimum=0,
                  without_series=NONE),
            lines("Worth of one more kW", "short", "Training that one more kW would bring, in GPUs. 0: the budget "
                  "does not limit any job.",
                  ("1000 * sum by (instance, budget) (lowgear_power_budget_gpus_per_watt)",
                   "{{budget}} at {{instance}}"), minimum=0, without_series=NONE),
            lines("Measured and held power", "watt", "What GPUs drew in the last iterations of jobs that report "
                  "energy, and the sum of the power limits that agents hold; silent nodes count at full power.",
                  ("sum by (instance, budget) (lowgear_power_budget_measured_watts)",
                   "{{budget}} at {{instance}} measured"),
                  ("sum by (instance, budget) (lowgear_power_budget_held_watts)", "{{budget}} at {{instance}} held"),
                  minimum=0, without_series=NONE),
            lines("Nodes with a share of power", "short", "Nodes whose agents ask for shares of power budgets. Silent "
                  "ones for long: alert LowgearNodeSilent.",
                  ("sum by (state) (lowgear_server_nodes)", "{{state}}"), stacked=True, minimum=0, merged=OF_SERVERS))),
        Row("Savings", 8, (
            lines("Energy saved", "percentunit", "Share of the measured baseline's energy that the last iterations of "
                  "a job saved. Below zero for long: alert LowgearJobCostsEnergy.",
                  ("max by (job_id, model) (lowgear_train_saved_energy_ratio)", "{{job_id}} {{model}}"), link=TO_JOB),
            lines("Slowdown", "percentunit", "Additional time of the last iterations of a job, as a share of the "
                  "measured baseline. Above the guard's limit: alert LowgearJobBeyondGuard.",
                  ("max by (job_id, model) (lowgear_train_slowdown_ratio)", "{{job_id}} {{model}}"), link=TO_JOB),
            lines("Jobs by state", "short", "Jobs that the server keeps, by state.",
                  ("sum by (state) (lowgear_server_jobs)", "{{state}}"), stacked=True, minimum=0, merged=OF_SERVERS))),
        Row("GPUs", 8, (
            lines("Highest temperature by node", "celsius", "The hottest GPU of each node.",
                  (f"max by (instance) (lowgear_gpu_temperature_celsius{{{NODE}}})", "{{instance}}"), link=TO_GPUS,
                  merged=("max", "uuid")),
            lines("Throttled time", "percentunit", "Share of time in which the GPUs of a node are throttled, by reason. "
                  "Thermal throttling of one GPU: alert LowgearGpuThrottled.",
                  (f"avg by (instance, reason) (instance_gpu:lowgear_gpu_throttle_seconds:rate5m{{{NODE}}})",
                   "{{instance}} {{reason}}"), minimum=0, link=TO_GPUS, merged=("mean", "uuid")),
            lines("Leases", "short", "Leases that training processes hold on GPUs; suspended: the process signals no "
                  "units. For long: alert LowgearLeaseSuspended.",
                  (f"sum(lowgear_leases{{{NODE}}})", "held"), (f"sum(lowgear_leases_suspended{{{NODE}}})", "suspended"),
                  minimum=0, merged=("sum", "instance of agents")),
            lines("MPS: shares of SMs", "percentunit", "Share of a GPU's SMs that each client of MPS may use, where an "
                  "agent shares GPUs. A share limits and reserves nothing: together they may be above 100 %.",
                  (f"lowgear_mps_active_thread_ratio{{{NODE}}}", "{{instance}} GPU {{gpu}} {{client}}"), minimum=0,
                  without_series=NO_MPS, link=TO_GPUS),
            lines("MPS: daemons", "short", "1 while the MPS daemon of a GPU responds, and its starts that failed or "
                  "ended since the agent's start.",
                  (f"lowgear_mps_daemon_running{{{NODE}}}", "{{instance}} GPU {{gpu}} responds"),
                  (f"lowgear_mps_daemon_restarts_total{{{NODE}}}", "{{instance}} GPU {{gpu}} restarts"), minimum=0,
                  without_series=NO_MPS, link=TO_GPUS))),
        Row("Server", 8, (
            lines("Decisions", "short", "Decisions about jobs since the server's start, by who decides, kind and outcome. "
                  "GET /v1/jobs/{job}/decisions gives reasons.",
                  ("sum by (actuator, action, outcome) (lowgear_control_decisions_total)",
                   "{{actuator}} {{action}} {{outcome}}"), minimum=0, merged=OF_SERVERS),
            lines("Requests", "reqps", "Requests that the server answered, by status.",
                  ("sum by (code) (rate(lowgear_server_requests_total[$__rate_interval]))", "{{code}}"), minimum=0,
                  merged=("sum", "route", "method", "instance of servers")),
            lines("Response time", "s", "99th percentile by route, without long polls. Above 1 s: alert "
                  "LowgearServerSlow.",
                  ("route:lowgear_server_request_seconds:p99_5m", "{{route}} at {{instance}}"), minimum=0),
            lines("Planning", "short", "Jobs whose plan is being computed, and jobs that wait for a thread. Waiting "
                  "for long: alert LowgearPlansWait.",
                  ("sum by (state) (lowgear_server_planned_jobs)", "{{state}}"), minimum=0, merged=OF_SERVERS),
            # All plans since the start: they are too rare for a rate, which also lacks the first plan of each series.
            lines("Planning time", "s", "95th percentile of the time to compute a plan, by kind, since the server's "
                  "start.",
                  ("histogram_quantile(0.95, sum by (instance, kind, le) (lowgear_server_plan_seconds_bucket))",
                   "{{kind}} at {{instance}}"),
                  minimum=0),
            lines("Store", "short", "Changes that the database wrote per second, and those that it refused. Refused "
                  "ones: alerts LowgearServerDiskFull, LowgearStoreRefuses.",
                  ("sum(rate(lowgear_server_store_changes_total[$__rate_interval]))", "written"),
                  ("sum(rate(lowgear_server_store_refused_changes_total[$__rate_interval]))", "refused"), minimum=0,
                  merged=OF_SERVERS),
            lines("Requests refused for their token", "reqps", "Without a valid token (401), or with one that does not "
                  "allow them (403). Many: alert LowgearTokensRefused.",
                  ("sum by (code) (code:lowgear_server_refused_requests:rate5m)", "{{code}}"), minimum=0,
                  without_series=NONE, merged=("sum", "route", "method", "instance of servers"))))))

JOB_DASHBOARD = Dashboard(
    "lowgear-job", "Lowgear: job", "One or several jobs: plan, iterations, energy, savings and stragglers.", (JOBS,), (
        Row("Now", 4, (
            number("Iteration time", "s", "Mean over five minutes.",
                   (f"job:lowgear_train_step_seconds:mean5m{{{JOB}}}", "{{job_id}}")),
            number("Energy of an iteration", "joule", "All GPUs together, mean over five minutes.",
                   (f"sum by (job_id) (job:lowgear_train_step_energy_joules:mean5m{{{JOB},phase=\"train\"}})",
                    "{{job_id}}")),
            number("Energy saved", "percentunit", "Share of the measured baseline, last iterations; empty without a "
                   "measured baseline.",
                   (f"max by (job_id) (lowgear_train_saved_energy_ratio{{{JOB}}})", "{{job_id}}")),
            Panel("Slowdown, share of guard", "gauge", "percentunit", (Query(
                f"max by (job_id) (lowgear_train_slowdown_ratio{{{JOB}}}) / "
                f"max by (job_id) (lowgear_train_slowdown_guard_ratio{{{JOB}}} > 0)", "{{job_id}}"),),
                "Slowdown against the measured baseline as a share of what the guard allows. Above 100 % for "
                "long: alert LowgearJobBeyondGuard.", 4, 0, 1, 0.8, 1),
            number("Ranks", "short", "Ranks that have registered, and ranks that the job has. Fewer for long: alert "
                   "LowgearRanksMissing.",
                   (f"sum by (job_id, state) (lowgear_train_ranks{{{JOB}}})", "{{job_id}} {{state}}")),
            number("Plan", "none", "Version of the newest plan.",
                   (f"max by (job_id) (lowgear_train_plan_version{{{JOB}}})", "{{job_id}}")))),
        Row("Iterations", 8, (
            lines("Iteration time", "s", "Mean of the iterations, the plan's, and the measured baseline at full "
                  "clocks.",
                  (f"job:lowgear_train_step_seconds:mean5m{{{JOB}}}", "{{job_id}} measured"),
                  (f"lowgear_train_planned_step_seconds{{{JOB}}}", "{{job_id}} planned"),
                  (f"lowgear_train_baseline_step_seconds{{{JOB}}}", "{{job_id}} baseline")),
            lines("Spread of iteration times", "s", "Percentiles; a wide spread is work that Lowgear cannot plan "
                  "(evaluations, input, other jobs).",
                  *((f"histogram_quantile({share}, sum by (job_id, le) "
                     f"(rate(lowgear_train_step_seconds_bucket{{{JOB}}}[$__rate_interval])))", f"{{{{job_id}}}} {name}")
                    for share, name in (("0.5", "median"), ("0.99", "99th percentile"))), minimum=0),
            lines("Iterations a minute", "cpm", "No iteration for ten minutes: alert LowgearJobStalled.",
                  (f"60 * sum by (job_id) (rate(lowgear_train_steps_total{{{JOB}}}[$__rate_interval]))", "{{job_id}}"),
                  minimum=0))),
        Row("Energy", 8, (
            lines("Energy of an iteration", "joule", "All GPUs together: mean of the iterations by what their plan "
                  "was for, the plan's, and the measured baseline.",
                  (f"job:lowgear_train_step_energy_joules:mean5m{{{JOB}}}", "{{job_id}} {{phase}}"),
                  (f"lowgear_train_planned_step_joules{{{JOB}}}", "{{job_id}} planned"),
                  (f"lowgear_train_baseline_step_joules{{{JOB}}}", "{{job_id}} baseline")),
            lines("Power", "watt", "Power of all GPUs over the iterations.",
                  (f"job:lowgear_train_power_watts:mean5m{{{JOB}}}", "{{job_id}}"), minimum=0,
                  merged=("mean", "phase")),
            lines("Energy since the server's start", "joule", "Energy of all reported iterations, by what their plan "
                  "was for.",
                  (f"sum by (job_id, phase) (lowgear_train_energy_joules_total{{{JOB}}})", "{{job_id}} {{phase}}"),
                  stacked=True, minimum=0))),
        Row("Against the measured baseline", 8, (
            lines("Energy saved, with its error", "percentunit", "The last iterations: share of the baseline's "
                  "energy, and two standard errors above and below.",
                  (f"lowgear_train_saved_energy_ratio{{{JOB}}}", "{{job_id}}"),
                  (f"lowgear_train_saved_energy_ratio{{{JOB}}} + 2 * lowgear_train_saved_energy_error_ratio{{{JOB}}}",
                   "{{job_id}} + 2 errors"),
                  (f"lowgear_train_saved_energy_ratio{{{JOB}}} - 2 * lowgear_train_saved_energy_error_ratio{{{JOB}}}",
                   "{{job_id}} - 2 errors")),
            lines("Slowdown, and what is allowed", "percentunit", "The last iterations: share of the baseline's time. "
                  "Above the guard's limit for five minutes: alert LowgearJobBeyondGuard.",
                  (f"lowgear_train_slowdown_ratio{{{JOB}}}", "{{job_id}}"),
                  (f"lowgear_train_slowdown_guard_ratio{{{JOB}}}", "{{job_id}} guard")),
            lines("Saved power", "watt", "Energy saved per second of training against the measured baseline.",
                  (f"job:lowgear_train_saved_power_watts:mean5m{{{JOB}}}", "{{job_id}}")))),
        Row("State", 8, (
            Panel("Job", "table", "short", (
                Query(f"max by (job_id, name, model, gpu, schedule, state, simulated) (lowgear_train_info{{{JOB}}})"),),
                "What the job registered with, and its state. `simulated`: its energies are not of real GPUs.", 16),
            lines("Stragglers", "short", "Ranks that are slower than their profile, by cause: reported to the server, "
                  "or detected by it. For five minutes: alert LowgearStraggler.",
                  (f"sum by (job_id, cause) (lowgear_train_stragglers{{{JOB}}})", "{{job_id}} {{cause}}"),
                  minimum=0, without_series=NONE))),
        Row("Where it runs", 8, (
            Panel("GPUs of the job", "table", "short", (Query(ranks_on_gpus(JOB, ""), column="power", unit="watt"),),
                  "The GPU of each rank, and the node whose agent has it. GPUs whose agent is not scraped are left out.",
                  24, link=TO_GPU_OF_LINE),))))

GPU_LEGEND = "{{instance}} GPU {{gpu}}"
GPU_DASHBOARD = Dashboard(
    "lowgear-gpu", "Lowgear: GPU", "GPUs of nodes: power, clocks, temperature, throttling, and what the agent does.",
    (NODES, GPUS), (
        Row("Now", 4, (
            number("Power", "watt", "Power of the selected GPUs together.",
                   (f"sum(lowgear_gpu_power_watts{{{GPU}}})", ""), merged=OF_GPUS),
            number("Energy", "kwatth", "Energy of the selected GPUs in the time range of the dashboard.",
                   (f"sum(increase(lowgear_gpu_energy_joules_total{{{GPU}}}[$__range])) / {JOULES_PER_KWH}", ""),
                   merged=OF_GPUS),
            Panel("Utilisation", "gauge", "percentunit", (Query(f"avg(lowgear_gpu_utilisation_ratio{{{GPU}}})"),),
                  "Share of time in which a kernel runs.", 4, 0, 1, merged=("mean", "uuid", "instance of agents")),
            number("Temperature", "celsius", "The hottest of the selected GPUs.",
                   (f"max(lowgear_gpu_temperature_celsius{{{GPU}}})", ""),
                   merged=("max", "uuid", "instance of agents")),
            number("Respond", "short", "GPUs that return every reading, and all.",
                   (f"sum(lowgear_gpu_healthy{{{GPU}}})", "respond"), (f"count(lowgear_gpu_healthy{{{GPU}}})", "all"),
                   merged=OF_GPUS),
            number("Controlled", "short", "GPUs whose clocks the agent may set, and GPUs of the configuration that it "
                   "does not control (alert LowgearGpuUnattended).",
                   (f"sum(lowgear_gpu_controlled{{{GPU}}})", "controlled"),
                   (f"sum(lowgear_gpus_unattended{{{NODE}}})", "unattended"), merged=OF_GPUS))),
        Row("Power and clocks", 8, (
            lines("Power", "watt", "Power and the limit in effect.",
                  (f"lowgear_gpu_power_watts{{{GPU}}}", GPU_LEGEND),
                  (f"lowgear_gpu_power_limit_watts{{{GPU}}}", GPU_LEGEND + " limit"), minimum=0),
            lines("SM clock", "hertz", "The clock, and the range that the agent requested for the plan. Outside of "
                  "the range: throttled, or set by another program (alert LowgearClocksForeign).",
                  (f"lowgear_gpu_sm_clock_hertz{{{GPU}}}", GPU_LEGEND),
                  (f"lowgear_gpu_requested_clock_hertz{{{GPU}}}", GPU_LEGEND + " requested {{bound}}"), minimum=0),
            lines("Memory clock", "hertz", "The clock of the memory.",
                  (f"lowgear_gpu_memory_clock_hertz{{{GPU}}}", GPU_LEGEND), minimum=0))),
        Row("Load and heat", 8, (
            lines("Temperature", "celsius", "Temperature of the GPU.",
                  (f"lowgear_gpu_temperature_celsius{{{GPU}}}", GPU_LEGEND)),
            lines("Utilisation", "percentunit", "Share of time in which a kernel runs, and in which memory is read or "
                  "written.",
                  (f"lowgear_gpu_utilisation_ratio{{{GPU}}}", GPU_LEGEND),
                  (f"lowgear_gpu_memory_utilisation_ratio{{{GPU}}}", GPU_LEGEND + " memory"), minimum=0, maximum=1),
            lines("Throttled time", "percentunit", "Share of time in which the GPU is throttled, by reason. `thermal` "
                  "and `hardware_slowdown` delay all ranks (alert LowgearGpuThrottled); `power_cap` is the power "
                  "limit.",
                  ("sum by (instance, gpu, uuid, reason) "
                   f"(rate(lowgear_gpu_throttle_seconds_total{{{GPU}}}[$__rate_interval]))",
                   GPU_LEGEND + " {{reason}}"), minimum=0, maximum=1))),
        Row("Agent", 8, (
            lines("Clock changes", "ops", "Setter calls of the agent: accepted by the driver, failed (alert "
                  "LowgearClockWritesFail), and units that began during one.",
                  (f"rate(lowgear_gpu_clock_writes_total{{{GPU}}}[$__rate_interval])", GPU_LEGEND),
                  (f"rate(lowgear_gpu_clock_write_errors_total{{{GPU}}}[$__rate_interval])", GPU_LEGEND + " failed"),
                  (f"rate(lowgear_gpu_late_units_total{{{GPU}}}[$__rate_interval])", GPU_LEGEND + " late units"),
                  minimum=0),
            lines("Age of readings", "s", "Time since the GPU last returned a reading. Above 10 s: alert "
                  "LowgearGpuReadingsStale.", (f"lowgear_gpu_reading_age_seconds{{{GPU}}}", GPU_LEGEND), minimum=0),
            lines("Workload power profiles", "short", "1 while the profile is enforced; only on GPUs whose driver has "
                  "such profiles (since Blackwell).",
                  (f'lowgear_gpu_workload_power_profile{{{GPU},state="enforced"}}', GPU_LEGEND + " {{profile}}"),
                  minimum=0, maximum=1, without_series="the driver has none"))),
        Row("Identity", 8, (
            Panel("GPUs", "table", "short", (
                Query(f"max by (instance, gpu, uuid, name, pci_address) (lowgear_gpu_info{{{GPU}}})"),
                Query(f"max by (instance, gpu, uuid) (lowgear_gpu_power_watts{{{GPU}}})", column="power", unit="watt"),
                Query(f"max by (instance, gpu, uuid) (lowgear_gpu_energy_joules_total{{{GPU}}})", column="energy",
                      unit="joule")),
                "Energy since the driver was loaded.", 14),
            Panel("State of the clocks", "table", "short", (
                Query(f"max by (instance, gpu, uuid, state) (lowgear_gpu_clock_state{{{GPU}}} == 1)"),),
                "`leased`: a process has a lease. `foreign`: another program sets them. `failed`: they could not be "
                "restored.", 10))),
        Row("Jobs", 8, (
            Panel("Jobs on these GPUs", "table", "short", (Query(ranks_on_gpus("", GPU), column="power", unit="watt"),),
                  "Ranks of jobs that have registered with the server; others have no line.", 24, without_series=NONE,
                  link=TO_JOB_OF_LINE),))))

DASHBOARDS = (FLEET, JOB_DASHBOARD, GPU_DASHBOARD)
