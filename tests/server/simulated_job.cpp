#include "server/simulated_job.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "planning/plan/plan_json.h"
#include "planning/profile/example_profile.h"
#include "planning/simulator/replay.h"
#include "server/planning/planning_service.h"

namespace lowgear::server {
namespace {

/// Rows of one kind take the place of those of the same key.
template <typename Row, typename Key>
void put(std::vector<Row>& rows, Row row, Key key) {
  std::erase_if(rows, [&](const Row& other) { return key(other) == key(row); });
  rows.push_back(std::move(row));
}

}  // namespace

protocol::JobSpec small_job(int pp, int dp, int microbatches) {
  protocol::JobSpec spec;
  spec.run = "run-1";
  spec.name = "small";
  spec.framework = "test";
  spec.model = "model";
  spec.partition = "uniform";
  spec.gpu = "A100";
  spec.parallel = {.pp = pp, .dp = dp, .tp = 1, .chunks = 1};
  spec.schedule = "1f1b";
  spec.microbatches = microbatches;
  spec.profiling.emplace();
  return spec;
}

SimulatedJob::SimulatedJob(protocol::JobSpec spec, std::string id, protocol::JobPolicy servers)
    : spec_(std::move(spec)),
      schedule_(make_schedule(spec_)),
      dag_(build_dag(schedule_)),
      truth_(modelled_profile(profile::ExampleGpu{}, profile::TransformerModel{.stages = spec_.parallel.pp})),
      factors_(static_cast<std::size_t>(spec_.parallel.world_size()), 1.0),
      has_agent_(factors_.size(), true),
      job_(std::make_unique<Job>(std::move(id), spec_, now_s_, servers)),
      followed_(factors_.size()),
      measured_(factors_.size()),
      pending_(factors_.size()) {
  deaf.assign(factors_.size(), false);
  refusals.assign(factors_.size(), "");
  hides_waits.assign(factors_.size(), false);
  measures_nothing.assign(factors_.size(), false);
}

protocol::RankSpec SimulatedJob::rank_spec(int rank) const {
  protocol::RankSpec spec;
  spec.rank = rank;
  spec.tp_rank = 0;
  spec.dp_rank = rank % spec_.parallel.dp;
  spec.pp_rank = rank / spec_.parallel.dp;
  spec.instance = "process-" + std::to_string(rank);
  spec.host = "node-" + std::to_string(rank / 4);
  spec.gpu = spec_.gpu;
  spec.simulated = gpus_are_simulated;
  spec.follows_plans = has_agent_.at(static_cast<std::size_t>(rank));
  for (const profile::Measurement& row : truth_.measurements(0, OpKind::forward))
    spec.clocks_mhz.push_back(row.clock_mhz);
  return spec;
}

void SimulatedJob::lose_agent(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  has_agent_.at(index) = false;
  followed_[index] = {};
  pending_[index].reset();
}

void SimulatedJob::register_all() {
  for (int rank = 0; rank < spec_.parallel.world_size(); ++rank) {
    (void)job_->register_rank(rank_spec(rank), "key-" + std::to_string(rank), profiles_, now_s_);
    settle();
  }
}

void SimulatedJob::remember(StoreChange change) {
  for (StoredJob& row : change.jobs) put(stored_.jobs, std::move(row), [](const auto& r) { return r.id; });
  for (StoredRank& row : change.ranks) put(stored_.ranks, std::move(row), [](const auto& r) { return r.rank; });
  for (StoredPlan& row : change.plans) put(stored_.plans, std::move(row), [](const auto& r) { return r.version; });
  for (StoredReports& row : change.reports) stored_.reports.push_back(std::move(row));
  for (StoredCells& row : change.cells) stored_.cells.push_back(std::move(row));
  for (StoredDocument& row : change.documents) {
    put(stored_.documents, std::move(row), [](const auto& r) { return r.key; });
  }
}

void SimulatedJob::take_changes() {
  JobChanges changes = job_->take_changes();
  for (Json& decision : changes.decisions) decisions_.push_back(std::move(decision));
  remember(std::move(changes.store));
  if (changes.planning) tasks_.push_back(*std::move(changes.planning));
}

void SimulatedJob::plan(const PlanningTask& task) {
  if (model_ != task.model) {
    planner_ = std::make_unique<MeasuredJob>(task.model);
    model_ = task.model;
  }
  job_->planned(answer_task(*planner_, task, [this](PlanningAnswer first) { job_->planned(std::move(first), now_s_); }),
                now_s_);
}

void SimulatedJob::settle() {
  take_changes();
  while (!tasks_.empty() && !(plans_wait && tasks_.front().kind == PlanningTask::Kind::plan)) {
    const PlanningTask task = std::move(tasks_.front());
    tasks_.pop_front();
    plan(task);
    take_changes();
  }
}

void SimulatedJob::restart_server() {
  const StoredJob stored = stored_.jobs.at(0);
  tasks_.clear();
  job_ = Job::restore(stored, stored_, profiles_, now_s_);
  settle();
}

void SimulatedJob::restart_server(StoreContents stored) {
  stored_ = std::move(stored);
  restart_server();
}

void SimulatedJob::ask_for_plans() {
  for (std::size_t rank = 0; rank < followed_.size(); ++rank) {
    if (!refusals[rank].empty()) {
      followed_[rank] = {};
      pending_[rank].reset();
      continue;
    }
    if (deaf[rank] || !has_agent_[rank]) continue;
    const int known = pending_[rank] ? pending_[rank]->envelope["version"].get<int>() : followed_[rank].version;
    const auto text = job_->plan_after(static_cast<int>(rank), known, now_s_);
    if (!text) continue;
    Pending pending;
    pending.envelope = Json::parse(*text);
    pending.plan = plan::read_plan(pending.envelope["plan"].dump(), "plan");
    pending_[rank] = std::move(pending);
  }
}

/// As the client does: a plan whose boundary has passed is dropped whole, to be offered again.
void SimulatedJob::begin_plans() {
  for (std::size_t rank = 0; rank < followed_.size(); ++rank) {
    if (!pending_[rank]) continue;
    const auto from = pending_[rank]->envelope["from_iteration"].get<std::int64_t>();
    if (from > iteration_) continue;
    if (from < iteration_ && from != 0) {
      pending_[rank].reset();
      continue;
    }
    Followed next;
    next.version = pending_[rank]->envelope["version"].get<int>();
    next.plan = std::move(pending_[rank]->plan);
    next.envelope = std::move(pending_[rank]->envelope);
    next.trials = plan::read_clock_trials(JsonView(next.envelope, "plan").at("trials"));
    if (!followed_[rank].trials.empty()) post_cells(static_cast<int>(rank));  // the trials were stopped
    followed_[rank] = std::move(next);
    pending_[rank].reset();
  }
}

std::optional<int> SimulatedJob::trial_mhz(std::size_t rank, std::int64_t iteration) const {
  for (const plan::ClockTrial& trial : followed_.at(rank).trials) {
    if (iteration >= trial.first_iteration && iteration < trial.end_iteration()) return trial.clock_mhz;
  }
  return std::nullopt;
}

std::vector<int> SimulatedJob::clocks_of_replica(int dp_rank) const {
  std::vector<int> clocks;
  for (std::size_t op = 0; op < dag_.ops.size(); ++op) {
    const int pp_rank = dag_.ops[op].rank;
    const auto rank = static_cast<std::size_t>(pp_rank * spec_.parallel.dp + dp_rank);
    const plan::Plan& plan = followed_[rank].plan;
    if (plan.ranks.empty()) {
      clocks.push_back(truth_.at_max_clock(dag_.ops[op].stage, dag_.ops[op].kind).clock_mhz);
      continue;
    }
    if (const auto tried_mhz = trial_mhz(rank, iteration_)) {
      clocks.push_back(*tried_mhz);
      continue;
    }
    const std::size_t position = op - static_cast<std::size_t>(dag_.rank_begin[static_cast<std::size_t>(pp_rank)]);
    clocks.push_back(plan.ranks.at(0).at(position).clock_mhz);
  }
  return clocks;
}

namespace {

std::vector<double> waits_of(const schedule::PipelineDag& dag, const simulator::Timeline& timeline) {
  std::vector<double> waits_s;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const bool first = dag.rank_begin[static_cast<std::size_t>(dag.ops[op].rank)] == static_cast<int>(op);
    const double free_s = first ? 0 : timeline.start_s[op - 1] + timeline.duration_s[op - 1];
    waits_s.push_back(std::max(0.0, timeline.start_s[op] - free_s));
  }
  return waits_s;
}

}  // namespace

double SimulatedJob::slowdown_at(int clock_mhz) const {
  const double full_mhz = truth_.at_max_clock(0, OpKind::forward).clock_mhz;
  return std::pow(full_mhz / clock_mhz, steepness);
}

void SimulatedJob::train_once() {
  struct Replica {
    simulator::Timeline timeline;
  };
  std::vector<Replica> replicas;
  time_s_ = 0;
  energy_j_ = 0;
  const std::vector<double> blocking(static_cast<std::size_t>(spec_.parallel.pp), blocking_w_);
  for (int dp = 0; dp < spec_.parallel.dp; ++dp) {
    const std::vector<int> clocks_mhz = clocks_of_replica(dp);
    std::vector<simulator::OpCost> costs = simulator::costs_at_clocks(dag_, truth_, clocks_mhz);
    for (std::size_t op = 0; op < costs.size(); ++op) {
      const double factor =
          factors_[static_cast<std::size_t>(dag_.ops[op].rank * spec_.parallel.dp + dp)] * slowdown_at(clocks_mhz[op]);
      costs[op].time_s *= factor;
      costs[op].energy_j *= factor;
    }
    replicas.push_back({replay(dag_, costs, blocking)});
    time_s_ = std::max(time_s_, replicas.back().timeline.time_s);
  }
  waits_s_ = waits_of(dag_, replicas.front().timeline);
  now_s_ += time_s_;
  for (int rank = 0; rank < spec_.parallel.world_size(); ++rank) {
    const int pp = rank / spec_.parallel.dp;
    const simulator::Timeline& timeline = replicas[static_cast<std::size_t>(rank % spec_.parallel.dp)].timeline;
    double energy_j = 0;
    for (int op = dag_.rank_begin[static_cast<std::size_t>(pp)]; op < dag_.rank_begin[static_cast<std::size_t>(pp) + 1];
         ++op) {
      energy_j += timeline.energy_j[static_cast<std::size_t>(op)];
    }
    const double busy_s = timeline.busy_s[static_cast<std::size_t>(pp)];
    energy_j += blocking_w_ * (time_s_ - busy_s);
    energy_j_ += energy_j;
    protocol::RankReports reports;
    reports.rank = rank;
    reports.refusal = refusals[static_cast<std::size_t>(rank)];
    reports.reports.push_back({.iteration = iteration_,
                               .plan_version = followed_[static_cast<std::size_t>(rank)].version,
                               .time_s = time_s_,
                               .compute_s = busy_s,
                               .energy_j = energy_j,
                               .begin_s = now_s_ - time_s_});
    if (spec_.envpipe && !hides_waits[static_cast<std::size_t>(rank)]) {
      const auto begin = static_cast<std::size_t>(dag_.rank_begin[static_cast<std::size_t>(pp)]);
      const auto end = static_cast<std::size_t>(dag_.rank_begin[static_cast<std::size_t>(pp) + 1]);
      reports.reports.back().wait_s.assign(waits_s_.begin() + static_cast<std::ptrdiff_t>(begin),
                                           waits_s_.begin() + static_cast<std::ptrdiff_t>(end));
    }
    job_->report(reports, now_s_);
    settle();
  }
  ++iteration_;
}

/// After an iteration: what its units took is known.
void SimulatedJob::measure(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  const Followed& followed = followed_[index];
  if (followed.trials.empty()) return;
  Measured& measured = measured_[index];
  const int sweep = followed.envelope["sweep"].get<int>();
  if (measured.sweep != sweep) measured = {.sweep = sweep, .clocks_mhz = {}};
  measured.clocks_mhz.insert(trial_mhz(index, iteration_ - 1).value_or(followed.plan.ranks.at(0).at(0).clock_mhz));
  if (iteration_ >= followed.trials.back().end_iteration()) post_cells(rank);
}

void SimulatedJob::post_cells(int rank) {
  Followed& followed = followed_[static_cast<std::size_t>(rank)];
  followed.trials.clear();
  if (measures_nothing[static_cast<std::size_t>(rank)]) return;
  protocol::RankCells cells{.rank = rank, .plan_version = followed.version, .cells = {}, .blocking = {}};
  const int stage = rank / spec_.parallel.dp;
  for (const int clock_mhz : measured_[static_cast<std::size_t>(rank)].clocks_mhz) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const profile::Measurement& row = truth_.at_clock(stage, kind, clock_mhz);
      const double factor = factors_[static_cast<std::size_t>(rank)] * slowdown_at(clock_mhz);
      cells.cells.push_back({.stage = stage,
                             .kind = kind,
                             .clock_mhz = clock_mhz,
                             .units = 30,
                             .time_s = factor * row.time_s,
                             .time_error_s = factor * row.time_s * 1e-4,
                             .energy_j = factor * row.energy_j * energy_scale,
                             .energy_error_j = factor * row.energy_j * energy_error});
    }
  }
  cells.blocking.push_back({.stage = stage, .power_w = blocking_w_, .error_w = 0.5});
  job_->add_cells(cells, now_s_);
  settle();
}

void SimulatedJob::run(int iterations) {
  for (int i = 0; i < iterations; ++i) {
    ask_for_plans();
    begin_plans();
    train_once();
    for (int rank = 0; rank < spec_.parallel.world_size(); ++rank) measure(rank);
  }
}

bool SimulatedJob::run_until(JobState state, int iterations) {
  for (int i = 0; i < iterations && record().state() != state; ++i) run(1);
  return record().state() == state;
}

void SimulatedJob::train() {
  register_all();
  if (!run_until(JobState::running)) throw std::runtime_error("the job does not follow a plan in time");
}

std::vector<std::string> SimulatedJob::reasons(std::string_view kind) const {
  std::vector<std::string> reasons;
  for (const Json& decision : decisions_) {
    if (decision["kind"] == kind) reasons.push_back(decision["reason"].get<std::string>());
  }
  return reasons;
}

}  // namespace lowgear::server
