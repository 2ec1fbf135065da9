#include "server/job/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/core/version.h"

namespace lowgear::server {

namespace {

/// From a tenth of a millisecond to some minutes.
std::vector<double> latency_bounds() { return metrics::geometric_bounds(1e-4, 4, 11); }

metrics::Histogram& histogram_of(std::map<std::string, metrics::Histogram, std::less<>>& histograms,
                                 std::string_view name, const std::vector<double>& bounds) {
  const auto found = histograms.find(name);
  if (found != histograms.end()) return found->second;
  return histograms.emplace(std::string(name), metrics::Histogram(bounds)).first->second;
}

metrics::MetricLabels job_labels(const JobSnapshot& job) { return {{"job_id", job.job}, {"model", job.model}}; }

void add_server(const Snapshot& snapshot, metrics::Exposition& exposition) {
  exposition.gauge("build_info", "Version of the server; always 1.").add({{"version", version()}}, 1.0);
  exposition.gauge("server_draining", "1 while the server is shutting down.").add({}, snapshot.draining ? 1.0 : 0.0);
  metrics::MetricFamily& jobs = exposition.gauge("server_jobs", "Jobs by state.");
  for (const auto& [state, count] : snapshot.jobs) jobs.add({{"state", state}}, static_cast<double>(count));
  exposition.gauge("server_connections", "Open HTTP connections.").add({}, static_cast<double>(snapshot.connections));
  exposition.gauge("server_event_streams", "Clients of event streams.").add({}, static_cast<double>(snapshot.streams));
  exposition.gauge("server_waiting_ranks", "Ranks that wait for a newer plan.")
      .add({}, static_cast<double>(snapshot.waiting_for_plans));
  metrics::MetricFamily& planned =
      exposition.gauge("server_planned_jobs", "Jobs whose plan is being computed, and jobs that wait for that.");
  planned.add({{"state", "running"}}, static_cast<double>(snapshot.planned_for));
  planned.add({{"state", "waiting"}}, static_cast<double>(snapshot.waiting_planning));
  metrics::MetricFamily& nodes = exposition.gauge("server_nodes", "Nodes whose agents hold shares of power budgets.");
  nodes.add({{"state", "heard"}}, static_cast<double>(snapshot.heard_nodes));
  nodes.add({{"state", "silent"}}, static_cast<double>(snapshot.silent_nodes));
  exposition.gauge("server_perseus_jobs", "Jobs of clients of the Perseus protocol.")
      .add({}, static_cast<double>(snapshot.perseus_jobs));
  exposition.gauge("server_perseus_waiting_ranks", "Ranks of these jobs that wait for a schedule.")
      .add({}, static_cast<double>(snapshot.perseus_waiting));
}

void add_store(const Snapshot::Store& store, metrics::Exposition& exposition) {
  exposition.counter("server_store_changes", "Changes that are on disk.").add({}, static_cast<double>(store.changes));
  exposition.counter("server_store_commits", "Commits that wrote them to disk.")
      .add({}, static_cast<double>(store.commits));
  exposition.counter("server_store_refused_changes", "Changes that were not written.")
      .add({}, static_cast<double>(store.refused));
  exposition.gauge("server_store_queued_bytes", "Size of the changes that wait to be written.")
      .add({}, static_cast<double>(store.queued_bytes));
  exposition.gauge("server_disk_full", "1 while the disk is full: new jobs are refused.")
      .add({}, store.disk_full ? 1.0 : 0.0);
}

void add_access(const Snapshot& snapshot, metrics::Exposition& exposition) {
  exposition.gauge("server_tokens_stale", "1 while the changed token file is refused: the previous tokens are valid.")
      .add({}, snapshot.stale_tokens ? 1.0 : 0.0);
  exposition.gauge("server_certificate_expiry_seconds", "When the certificate expires, in seconds since 1970.")
      .add({}, snapshot.certificate_expires_s);
  if (!snapshot.audit) return;
  exposition.counter("server_audit_lines", "Lines of the audit log that are on disk.")
      .add({}, static_cast<double>(snapshot.audit->lines));
  exposition.counter("server_audit_lost_lines", "Lines that could not be written.")
      .add({}, static_cast<double>(snapshot.audit->lost));
  exposition.gauge("server_audit_failing", "1 while the audit log cannot be written: its lines wait.")
      .add({}, snapshot.audit->failing ? 1.0 : 0.0);
}

void add_activity(const Activity& activity, metrics::Exposition& exposition) {
  metrics::MetricFamily& requests = exposition.counter("server_requests", "Answered requests.");
  for (const auto& [key, count] : activity.requests()) {
    const auto& [method, route, status] = key;
    requests.add({{"method", method}, {"route", route}, {"code", std::to_string(status)}}, static_cast<double>(count));
  }
  metrics::MetricFamily& seconds =
      exposition.histogram("server_request_seconds", "Time from a request to its response, without long polls.");
  for (const auto& [route, histogram] : activity.request_seconds()) seconds.add({{"route", route}}, histogram);
  metrics::MetricFamily& planning = exposition.histogram("server_plan_seconds", "Time to compute a plan.");
  for (const auto& [kind, histogram] : activity.plan_seconds()) planning.add({{"kind", kind}}, histogram);
  metrics::MetricFamily& decisions = exposition.counter("control_decisions", "Decisions about jobs.");
  for (const auto& [key, count] : activity.decisions()) {
    const auto& [actuator, action, outcome] = key;
    decisions.add({{"actuator", actuator}, {"action", action}, {"outcome", outcome}}, static_cast<double>(count));
  }
}

/// Metrics of the jobs' plans.
void add_plans(const std::vector<JobSnapshot>& jobs, metrics::Exposition& exposition) {
  metrics::MetricFamily& info = exposition.gauge("train_info", "Properties of the job; always 1.");
  metrics::MetricFamily& ranks =
      exposition.gauge("train_ranks", "Ranks of the job, and how many of them have registered.");
  metrics::MetricFamily& version = exposition.gauge("train_plan_version", "Newest plan of the job.");
  metrics::MetricFamily& planned_s = exposition.gauge("train_planned_step_seconds", "Iteration time of the plan.");
  metrics::MetricFamily& planned_j = exposition.gauge("train_planned_step_joules", "Energy per iteration of the plan.");
  metrics::MetricFamily& stragglers =
      exposition.gauge("train_stragglers", "Ranks that are slower than profiled, by cause.");
  metrics::MetricFamily& problems =
      exposition.gauge("train_problem_ranks", "Ranks that a problem of the job concerns, by problem.");
  for (const JobSnapshot& job : jobs) {
    const metrics::MetricLabels labels = job_labels(job);
    for (const auto& [problem, count] : job.problems) {
      problems.add(metrics::with(labels, "problem", problem), static_cast<double>(count));
    }
    info.add({{"job_id", job.job},
              {"model", job.model},
              {"name", job.name},
              {"gpu", job.gpu},
              {"schedule", job.schedule},
              {"state", job.state},
              {"simulated", job.simulated ? "true" : "false"}},
             1.0);
    ranks.add(metrics::with(labels, "state", "expected"), static_cast<double>(job.ranks));
    ranks.add(metrics::with(labels, "state", "registered"), static_cast<double>(job.registered));
    version.add(labels, static_cast<double>(job.plan_version));
    planned_s.add(labels, job.planned_step_s);
    planned_j.add(labels, job.planned_step_j);
    for (const auto& [cause, count] : job.stragglers) {
      stragglers.add(metrics::with(labels, "cause", cause), static_cast<double>(count));
    }
  }
}

/// Which GPUs jobs have: agents' metrics have the same UUIDs.
void add_places(const std::vector<JobSnapshot>& jobs, metrics::Exposition& exposition) {
  metrics::MetricFamily& places = exposition.gauge("train_rank_info", "Where a rank of the job runs; always 1.");
  for (const JobSnapshot& job : jobs) {
    for (const JobSnapshot::Place& place : job.places) {
      places.add({{"job_id", job.job},
                  {"model", job.model},
                  {"rank", fmt::to_string(place.rank)},
                  {"host", place.host},
                  {"uuid", place.gpu_uuid}},
                 1.0);
    }
  }
}

/// Metrics of the jobs' work.
void add_work(const std::vector<JobSnapshot>& jobs, metrics::Exposition& exposition) {
  metrics::MetricFamily& layers = exposition.gauge("train_layers", "Layers of the model.");
  metrics::MetricFamily& frozen = exposition.gauge("train_frozen_layers", "Layers that are not trained at present.");
  metrics::MetricFamily& precision =
      exposition.gauge("train_precision_info", "Number format in which the job mostly computes; always 1.");
  for (const JobSnapshot& job : jobs) {
    if (!job.work) continue;
    const metrics::MetricLabels labels = job_labels(job);
    layers.add(labels, static_cast<double>(job.work->layers));
    frozen.add(labels, static_cast<double>(job.work->frozen_layers));
    precision.add(metrics::with(labels, "precision", job.work->precision), 1.0);
  }
}

void add_iterations(const std::vector<JobSnapshot>& jobs, metrics::Exposition& exposition) {
  metrics::MetricFamily& steps = exposition.counter("train_steps", "Iterations that all ranks have reported.");
  metrics::MetricFamily& energy = exposition.counter("train_energy_joules", "Energy of all GPUs over them, by phase.");
  metrics::MetricFamily& left_out = exposition.counter(
      "train_energies_left_out", "Energies that ranks have reported and that do not count, by reason.");
  metrics::MetricFamily& seconds = exposition.histogram("train_step_seconds", "Iteration times.");
  metrics::MetricFamily& joules =
      exposition.histogram("train_step_energy_joules", "Energy of an iteration, all GPUs together.");
  for (const JobSnapshot& job : jobs) {
    if (job.activity == nullptr) continue;
    const metrics::MetricLabels labels = job_labels(job);
    steps.add(labels, static_cast<double>(job.activity->steps()));
    for (const auto& [why, count] : job.activity->energies_left_out()) {
      left_out.add(metrics::with(labels, "reason", why), static_cast<double>(count));
    }
    seconds.add(labels, job.activity->step_seconds());
    for (const auto& [phase, histogram] : job.activity->step_joules()) {
      energy.add(metrics::with(labels, "phase", phase), histogram.sum());
      joules.add(metrics::with(labels, "phase", phase), histogram);
    }
  }
}

/// Against what was measured at full clocks.
void add_savings(const std::vector<JobSnapshot>& jobs, metrics::Exposition& exposition) {
  metrics::MetricFamily& baseline_s =
      exposition.gauge("train_baseline_step_seconds", "Measured iteration time at full clocks.");
  metrics::MetricFamily& baseline_j =
      exposition.gauge("train_baseline_step_joules", "Measured energy of an iteration at full clocks.");
  metrics::MetricFamily& saved = exposition.gauge(
      "train_saved_energy_ratio", "Energy saved in the last iterations, as a share of the measured baseline.");
  metrics::MetricFamily& error = exposition.gauge("train_saved_energy_error_ratio", "Standard error of that share.");
  metrics::MetricFamily& slowdown = exposition.gauge(
      "train_slowdown_ratio", "Additional time of the last iterations, as a share of the measured baseline.");
  metrics::MetricFamily& slowdown_error =
      exposition.gauge("train_slowdown_error_ratio", "Standard error of that share.");
  metrics::MetricFamily& guard =
      exposition.gauge("train_slowdown_guard_ratio", "Slowdown above which plans are withdrawn.");
  for (const JobSnapshot& job : jobs) {
    const metrics::MetricLabels labels = job_labels(job);
    guard.add(labels, job.slowdown_allowed_ratio);
    if (!job.baseline) continue;
    baseline_s.add(labels, job.baseline->step_s);
    baseline_j.add(labels, job.baseline->step_j);
    slowdown.add(labels, job.slowdown_ratio);
    slowdown_error.add(labels, job.slowdown_error_ratio);
    // A share without its error would be taken for certain.
    if (!job.saved_error_ratio) continue;
    const metrics::MetricLabels method = metrics::with(labels, "method", "measured_baseline");
    saved.add(method, job.saved_ratio);
    error.add(method, job.saved_error_ratio);
  }
}

void add_guards(const std::vector<JobSnapshot>& jobs, metrics::Exposition& exposition) {
  metrics::MetricFamily& decisions =
      exposition.counter("train_guard_decisions", "Decisions of the slowdown guard, by action.");
  for (const JobSnapshot& job : jobs) {
    if (job.activity == nullptr) continue;
    for (const auto& [action, count] : job.activity->guard_decisions()) {
      decisions.add(metrics::with(job_labels(job), "action", action), static_cast<double>(count));
    }
  }
}

void add_budgets(const std::vector<BudgetSnapshot>& budgets, metrics::Exposition& exposition) {
  metrics::MetricFamily& watts = exposition.gauge("power_budget_watts", "Limit of a power budget at present.");
  metrics::MetricFamily& planned =
      exposition.gauge("power_budget_planned_watts", "Mean power of all jobs by their plans, and what is assumed.");
  metrics::MetricFamily& assumed = exposition.gauge("power_budget_assumed_watts",
                                                    "Of this, GPUs that cannot be planned for, at their power limits.");
  metrics::MetricFamily& price =
      exposition.gauge("power_budget_gpus_per_watt", "Training that one more watt would bring, in GPUs.");
  metrics::MetricFamily& measured = exposition.gauge(
      "power_budget_measured_watts", "Power that GPUs drew in the last iterations of jobs that report energy.");
  metrics::MetricFamily& gpus =
      exposition.gauge("power_budget_measured_gpus", "GPUs of the jobs whose power is measured.");
  metrics::MetricFamily& held = exposition.gauge(
      "power_budget_held_watts", "Sum of the power limits that agents hold, silent ones at full power.");
  metrics::MetricFamily& nodes = exposition.gauge("power_budget_nodes", "Nodes whose agents hold the budget.");
  for (const BudgetSnapshot& budget : budgets) {
    const metrics::MetricLabels labels{{"budget", budget.name}};
    watts.add(labels, budget.watts);
    planned.add(labels, budget.planned_w);
    assumed.add(labels, budget.assumed_w);
    price.add(labels, budget.price_per_w);
    measured.add(labels, budget.measured_w);
    gpus.add(labels, budget.measured_gpus);
    if (!budget.held) continue;
    held.add(labels, budget.held->watts);
    nodes.add(metrics::with(labels, "state", "silent"), static_cast<double>(budget.held->silent_nodes));
    nodes.add(metrics::with(labels, "state", "heard"),
              static_cast<double>(budget.held->nodes - budget.held->silent_nodes));
  }
}

}  // namespace

void Activity::request(std::string_view method, std::string_view route, int status, std::optional<double> seconds) {
  ++requests_[{std::string(method), std::string(route), status}];
  if (seconds) histogram_of(request_seconds_, route, latency_bounds()).observe(*seconds);
}

void Activity::plan(std::string_view kind, double seconds) {
  histogram_of(plan_seconds_, kind, latency_bounds()).observe(seconds);
}

void Activity::decision(std::string_view kind, std::string_view outcome) {
  ++decisions_[{"clock", std::string(kind), std::string(outcome)}];
}

void Activity::reported_decision(std::string_view technique, std::string_view change) {
  const std::pair<std::string, std::string> named(technique, change);
  if (reported_.size() < kMaxReported) reported_.insert(named);
  const auto& [actuator, action] =
      reported_.contains(named) ? named : std::pair<std::string, std::string>("other", "other");
  ++decisions_[{actuator, action, "reported"}];
}

void JobActivity::iteration(std::string_view phase, double time_s, std::optional<double> energy_j) {
  step_seconds_.observe(time_s);
  if (energy_j) histogram_of(step_joules_, phase, metrics::geometric_bounds(1, 4, 12)).observe(*energy_j);
}

metrics::Exposition server_metrics(const Snapshot& snapshot) {
  metrics::Exposition exposition;
  add_server(snapshot, exposition);
  add_store(snapshot.store, exposition);
  add_access(snapshot, exposition);
  if (snapshot.activity != nullptr) add_activity(*snapshot.activity, exposition);
  add_plans(snapshot.running, exposition);
  add_places(snapshot.running, exposition);
  add_work(snapshot.running, exposition);
  add_iterations(snapshot.running, exposition);
  add_savings(snapshot.running, exposition);
  add_guards(snapshot.running, exposition);
  add_budgets(snapshot.budgets, exposition);
  return exposition;
}

namespace {

constexpr double kPeriodS = 60;
constexpr double kMostRowsAPeriod = 100;

StoredBudgetUse row_of(const BudgetSnapshot& budget, double now_s) {
  StoredBudgetUse row{.time_s = static_cast<std::int64_t>(std::floor(now_s)),
                      .budget = budget.name,
                      .limit_w = budget.watts,
                      .planned_w = budget.planned_w,
                      .assumed_w = budget.assumed_w,
                      .measured_w = budget.measured_w,
                      .measured_gpus = std::llround(budget.measured_gpus),
                      .held_w = std::nullopt,
                      .kept = budget.kept()};
  if (budget.held) row.held_w = budget.held->watts;
  return row;
}

}  // namespace

std::vector<StoredBudgetUse> BudgetHistory::due(std::span<const BudgetSnapshot> budgets, double now_s) {
  const double period_s = kPeriodS * std::max(1.0, static_cast<double>(budgets.size()) / kMostRowsAPeriod);
  std::map<std::string, Last> known = std::exchange(last_, {});
  std::vector<StoredBudgetUse> rows;
  for (const BudgetSnapshot& budget : budgets) {
    const auto before = known.find(budget.name);
    const bool is_due = before == known.end() || now_s - before->second.time_s >= period_s ||
                        before->second.limit_w != budget.watts || before->second.kept != budget.kept();
    if (is_due) rows.push_back(row_of(budget, now_s));
    last_[budget.name] = is_due ? Last{now_s, budget.watts, budget.kept()} : before->second;
  }
  return rows;
}

}  // namespace lowgear::server
