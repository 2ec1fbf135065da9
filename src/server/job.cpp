#include "server/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "adapt/switch_boundary.h"
#include "core/error.h"
#include "plan/uniform_plan.h"
#include "profile/few_clock_fit.h"

namespace lowgear {
namespace {

constexpr auto kStates = std::to_array<std::string_view>(
    {"registering", "baseline", "profiling", "planning", "running", "observing", "finished", "failed"});

/// In which all ranks get a new plan: a round trip, and a server that is busy with 10,000 of them.
constexpr double kDeliveryBudgetS = 0.1;
/// Shortest iteration that is reckoned with: reports of no time at all must not put plans off for ever.
constexpr double kShortestIterationS = 1e-3;
/// Time of an iteration as long as none has been reported.
constexpr double kUnknownIterationS = 0.05;
/// After which a plan is made with what is known: where training itself is uneven, no measurement makes it certain.
constexpr int kMaxProfileRounds = 6;
constexpr int kBaselineIterations = 5;
constexpr int kBaselineSettle = 1;
/// Iterations that present figures are means of.
constexpr std::size_t kRecentIterations = 20;

/// Steps by which the guard takes back what a plan may be slower than the fastest.
constexpr std::array<double, 4> kGuardShares{1.0, 2.0 / 3, 1.0 / 3, 0.0};

double variance_of_mean(int count, double sum, double sum_of_squares) {
  if (count < 2) return 0;
  const double mean = sum / count;
  return std::max(0.0, (sum_of_squares - count * mean * mean) / (count - 1) / count);
}

bool same_clocks(const Plan& a, const Plan& b) {
  return std::ranges::equal(a.ranks, b.ranks, [](const auto& left, const auto& right) {
    return std::ranges::equal(left, right, {}, &PlannedOp::clock_mhz, &PlannedOp::clock_mhz);
  });
}

bool same_clocks(const PlanVersion& version, const JobPlan& plan) {
  if (version.plan_of_replica.size() != plan.plan_of_replica.size()) return false;
  for (std::size_t replica = 0; replica < plan.plan_of_replica.size(); ++replica) {
    const Plan& now = version.plan_of(static_cast<int>(replica));
    if (!same_clocks(now, plan.plans.at(static_cast<std::size_t>(plan.plan_of_replica[replica])))) return false;
  }
  return true;
}

}  // namespace

std::string_view name(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

void Job::Sums::add(const JobIteration& iteration) {
  ++count;
  time_s += iteration.time_s;
  time_s2 += iteration.time_s * iteration.time_s;
  if (!iteration.energy_j) return;
  ++with_energy;
  energy_j += *iteration.energy_j;
  energy_j2 += *iteration.energy_j * *iteration.energy_j;
}

Baseline Job::Sums::baseline() const {
  Baseline baseline;
  baseline.iterations = count;
  baseline.time_s = time_s / count;
  baseline.time_error_s = std::sqrt(variance_of_mean(count, time_s, time_s2));
  baseline.time_spread_s = baseline.time_error_s * std::sqrt(count);
  if (with_energy == count) {
    baseline.energy_j = energy_j / count;
    baseline.energy_error_j = std::sqrt(variance_of_mean(count, energy_j, energy_j2));
  }
  return baseline;
}

Job::Job(std::string id, JobSpec spec, double created_s)
    : id_(std::move(id)),
      spec_(std::move(spec)),
      schedule_(make_schedule(spec_)),
      rank_of_stage_(rank_of_stage(schedule_)),
      created_s_(created_s),
      ranks_(spec_.parallel),
      heard_s_(created_s),
      log_(spec_.parallel.world_size()),
      slowdown_pct_(spec_.slowdown_pct),
      guard_pct_(spec_.guard_pct) {
  changes_.summary_changed = true;
}

RankRegistration Job::register_rank(const RankSpec& rank, std::string rank_key, const Profiles& profiles,
                                    double now_s) {
  heard_s_ = now_s;
  RankRegistration registration = ranks_.add(rank, std::move(rank_key), now_s);
  if (registration.outcome != RankRegistration::Outcome::created) return registration;
  store_rank(*ranks_.find(rank.rank));
  changes_.summary_changed = true;
  if (ranks_.complete()) begin(profiles, now_s);
  return registration;
}

void Job::begin(const Profiles& profiles, double now_s) {
  if (ranks_.common_clocks().empty()) {
    return observe("no clock that every stage's ranks can be set to: no agent, or different GPUs", now_s);
  }
  const auto known = profiles.find(spec_.profile_key());
  if (known != profiles.end()) return profile_found(known->second, now_s);
  if (!spec_.profiling) return observe("there is no profile of this model yet", now_s);
  begin_profile(now_s);
}

void Job::observe(std::string reason, double now_s) {
  decide("observe", reason, now_s);
  change_state(JobState::observing, std::move(reason));
}

void Job::profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s) {
  if (model_ || is_over() || !ranks_.complete() || ranks_.common_clocks().empty()) return;
  if (state_ == JobState::profiling) return;  // its own will be of this very job
  use_profile(profile);
  decide("profile", "a profile of the same model, partition and GPU is known: nothing is profiled", now_s);
  begin_baseline(now_s);
}

void Job::use_profile(const std::shared_ptr<const MeasuredProfile>& profile) {
  model_ = std::make_shared<const PipelineModel>(PipelineModel{.schedule = schedule_,
                                                               .parallel = spec_.parallel,
                                                               .gpu = spec_.gpu,
                                                               .measured = *profile,
                                                               .clocks_mhz = ranks_.common_clocks(),
                                                               .switch_latency_s = spec_.switch_latency_ms / 1e3,
                                                               .simulated = ranks_.simulated()});
}

void Job::begin_baseline(double now_s) {
  change_state(JobState::baseline, "measures iterations at full clocks, to compare with");
  issue_uniform(PlanPurpose::baseline, ranks_.common_clocks().front(), "full clocks, to compare with", now_s);
  baseline_version_ = plan_version();
}

void Job::begin_profile(double now_s) {
  const JobProfiling& wanted = *spec_.profiling;
  const std::vector<int> clocks = ranks_.common_clocks();
  try {
    sweep_ = {};
    sweep_.want(choose_clocks(clocks, wanted.min_mhz.value_or(clocks.back()), wanted.max_mhz.value_or(clocks.front()),
                              std::min(wanted.clocks, static_cast<int>(clocks.size()))));
  } catch (const InputError& error) {
    return observe(error.what(), now_s);
  }
  change_state(JobState::profiling, "tries clocks out");
  profile_next_clock(now_s);
}

void Job::profile_next_clock(double now_s) {
  const auto clock = sweep_.clock_mhz();
  if (!clock) {
    // All that was wanted is there: is it enough?
    try {
      MeasuredProfile profile = merge_cells(sweep_.cells(), schedule_.stages);
      profile.simulated = ranks_.simulated();
      own_profile_ = std::make_shared<const MeasuredProfile>(std::move(profile));
    } catch (const InputError& error) {
      return observe(error.what(), now_s);
    }
    use_profile(own_profile_);
    return ask(PlanningTask::Kind::judge_profile, "the clocks that were wanted have been measured", false);
  }
  const std::size_t behind = sweep_.waiting_clocks_mhz().size() - 1;
  issue_uniform(PlanPurpose::profile, *clock,
                behind == 0 ? fmt::format("measures units at {} MHz", *clock)
                            : fmt::format("measures units at {} MHz, {} more behind it", *clock, behind),
                now_s);
  sweep_.begin(plan_version());
  if (baseline_version_ == 0 && *clock == ranks_.common_clocks().front()) baseline_version_ = plan_version();
}

void Job::issue_uniform(PlanPurpose purpose, int clock_mhz, std::string reason, double now_s) {
  PlanVersion version;
  version.purpose = purpose;
  version.reason = std::move(reason);
  version.iterations = kBaselineIterations;
  version.settle_iterations = kBaselineSettle;
  if (purpose == PlanPurpose::profile && spec_.profiling) {
    version.iterations = spec_.profiling->iterations;
    version.settle_iterations = spec_.profiling->settle_iterations;
  }
  Plan plan = uniform_plan(schedule_, clock_mhz, std::string(name(purpose)));
  plan.gpu_name = spec_.gpu;
  version.plans.push_back(std::move(plan));
  version.plan_of_replica.assign(static_cast<std::size_t>(spec_.parallel.dp), 0);
  issue(std::move(version), now_s);
}

void Job::issue(PlanVersion version, double now_s) {
  version.version = plan_version() + 1;
  version.from_iteration = next_boundary(now_s);
  changes_.store.plans.push_back({id_, version.version, write_plan_version(version)});
  versions_.push_back(std::make_shared<const PlanVersion>(std::move(version)));
  if (versions_.size() > kKeptVersions) versions_.pop_front();
  const PlanVersion& issued = *versions_.back();
  texts_.emplace(issued);
  late_boundary_.reset();
  decide("plan", fmt::format("{}; from iteration {}", issued.reason, issued.from_iteration), now_s);
  changes_.new_plan = true;
  changes_.summary_changed = true;
}

std::int64_t Job::next_boundary(double now_s) const {
  if (log_.latest() < 0) return 0;
  double shortest_s = kUnknownIterationS;
  if (!history_.empty()) {
    const std::size_t begin = history_.size() - std::min(history_.size(), kRecentIterations);
    shortest_s = history_[begin].time_s;
    for (std::size_t i = begin; i < history_.size(); ++i) shortest_s = std::min(shortest_s, history_[i].time_s);
    shortest_s = std::max(shortest_s, kShortestIterationS);
  }
  return switch_boundary({.latest_complete = log_.latest(),
                          .since_complete_s = std::clamp(now_s - latest_s_, 0.0, shortest_s),
                          .iteration_time_s = shortest_s},
                         kDeliveryBudgetS);
}

std::shared_ptr<const std::string> Job::plan_after(int rank, int after, double now_s) {
  heard_s_ = now_s;
  if (versions_.empty() || plan_version() <= after) return nullptr;
  const PlanVersion& newest = *versions_.back();
  const RegisteredRank& registered = *ranks_.find(rank);
  std::int64_t from = newest.from_iteration;
  if (log_.latest() >= 0 && from <= log_.latest() + 1) {
    // It has been missed: all ranks that still ask begin together again.
    if (!late_boundary_ || *late_boundary_ <= log_.latest() + 1) late_boundary_ = next_boundary(now_s);
    from = *late_boundary_;
  }
  return texts_->text(registered.spec.dp_rank, registered.spec.pp_rank, from);
}

void Job::report(const RankReports& reports, double now_s) {
  RegisteredRank& rank = *ranks_.find(reports.rank);
  rank.heard_s = heard_s_ = now_s;
  rank.gpu = reports.gpu;
  if (gpu_changes_.size() < kGpuChanges) gpu_changes_.insert(reports.rank);
  if (is_over() || reports.reports.empty()) return;
  const std::int64_t latest = log_.latest();
  const bool is_new = log_.add(reports, now_s) > 0;
  if (!is_new && !unstored_.contains(reports.rank)) return;
  unstored_.erase(reports.rank);
  changes_.store.reports.push_back({.job = id_,
                                    .rank = reports.rank,
                                    .first_iteration = reports.reports.front().iteration,
                                    .last_iteration = reports.reports.back().iteration,
                                    .document = to_json(reports).dump(),
                                    .reached = std::max<std::int64_t>(log_.latest(), 0)});
  if (!is_new) return;
  rank.last = reports.reports.back();
  if (log_.latest() > latest) latest_s_ = now_s;
  while (const auto iteration = log_.next(now_s)) {
    collect(*iteration);
    react(*iteration, now_s);
    const PlanVersion* plan = version(iteration->plan_version);
    activity_.iteration(plan == nullptr ? "none" : name(plan->purpose), iteration->time_s, iteration->energy_j);
    changes_.iterations.push_back(history_.back());
    changes_.summary_changed = true;
  }
}

/// What an iteration adds to what is known, with no decision about it.
void Job::collect(const JobIteration& iteration) {
  if (iteration.plan_version == baseline_version_ && baseline_version_ != 0 && !baseline_) {
    const PlanVersion* plan = version(baseline_version_);
    if (plan != nullptr && iteration.iteration >= plan->from_iteration + plan->settle_iterations) {
      baseline_sums_.add(iteration);
      if (baseline_sums_.count >= std::max(2, plan->iterations)) baseline_ = baseline_sums_.baseline();
    }
  }
  JobIteration kept = iteration;
  kept.reports.clear();
  history_.push_back(std::move(kept));
  if (history_.size() > kKeptIterations) history_.pop_front();
}

void Job::react(const JobIteration& iteration, double now_s) {
  if (state_ == JobState::baseline && baseline_) {
    decide("baseline", fmt::format("full clocks take {:.4g} s an iteration", baseline_->time_s), now_s);
    change_state(JobState::planning, "plans");
    ask(PlanningTask::Kind::plan, "planned from a profile that was known", false);
  }
  if (state_ != JobState::running) return;
  watch_ranks(iteration, now_s);
  watch_slowdown(iteration, now_s);
}

void Job::watch_ranks(const JobIteration& iteration, double now_s) {
  std::vector<RankIteration> measured;
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    const PlanVersion* plan = report ? version(report->plan_version) : nullptr;
    if (plan == nullptr || plan->expected_compute_s.empty() || !(report->compute_s > 0)) continue;
    const RankSpec& spec = ranks_.find(static_cast<int>(rank))->spec;
    const auto index = static_cast<std::size_t>(plan->plan_of_replica.at(static_cast<std::size_t>(spec.dp_rank)));
    measured.push_back(
        {.rank = static_cast<int>(rank),
         .compute_time_s = report->compute_s,
         .expected_time_s = plan->expected_compute_s.at(index).at(static_cast<std::size_t>(spec.pp_rank)),
         .power_throttled_share = report->throttled_power,
         .thermal_throttled_share = report->throttled_thermal});
  }
  if (measured.empty()) return;
  if (!detector_) detector_.emplace(spec_.parallel.world_size());
  std::vector<std::string> reasons;
  for (const SlowdownChange& change : detector_->observe(measured)) {
    if (!change.rank) {
      decide("drift", fmt::format("all ranks take {:.3g} times as long as profiled", change.factor), now_s);
      if (spec_.profiling && std::abs(change.factor - 1) > 0.05) return begin_profile(now_s);
      continue;
    }
    if (change.cause == SlowdownCause::none) {
      detected_slow_.erase(*change.rank);
      reasons.push_back(fmt::format("rank {} is as fast as profiled again", *change.rank));
    } else {
      detected_slow_[*change.rank] = {change.factor, std::string(name(change.cause))};
      reasons.push_back(fmt::format("rank {} takes {:.3g} times as long as profiled ({}, seen in {} iterations)",
                                    *change.rank, change.factor, name(change.cause), change.iterations));
      if (guard_ && !history_.empty() && training_version_) {
        guard_->excuse(std::max(0.0, (iteration.time_s - training_version_->time_s) * change.iterations));
      }
    }
    decide("straggler", reasons.back(), now_s);
  }
  if (!reasons.empty()) replan(fmt::format("{}", fmt::join(reasons, "; ")));
}

void Job::watch_slowdown(const JobIteration& iteration, double now_s) {
  // What ran before the first plan was meant to be slow: clocks were being tried out.
  if (!guard_ || iteration.plan_version < first_training_version_) return;
  const auto decision = guard_->observe(now_s, iteration.time_s, full_clock_scale_);
  if (!decision) return;
  decide("guard", decision->reason, now_s);
  if (decision->action == GuardAction::stale_baseline) return renew_baseline(now_s);
  if (decision->action == GuardAction::full_clocks) {
    ++planning_serial_;  // whatever is being planned is too late
    return issue_uniform(PlanPurpose::train, ranks_.common_clocks().front(), "full clocks: " + decision->reason, now_s);
  }
  replan(decision->reason);
}

/// From the iterations at full clocks that have just shown the old one to be wrong.
void Job::renew_baseline(double now_s) {
  Sums sums;
  for (auto it = history_.rbegin(); it != history_.rend() && it->plan_version == plan_version(); ++it) sums.add(*it);
  if (sums.count < 2) return;
  baseline_ = sums.baseline();
  guard_->set_baseline({baseline_->time_s, baseline_->time_error_s, baseline_->time_spread_s});
  decide("baseline", fmt::format("full clocks take {:.4g} s an iteration by now", baseline_->time_s), now_s);
}

void Job::add_cells(RankCells cells, double now_s) {
  const PlanVersion* plan = version(cells.plan_version);
  if (plan == nullptr || plan->purpose != PlanPurpose::profile) {
    throw InputError(fmt::format("$.plan_version: {} is no version that was issued to profile", cells.plan_version));
  }
  require_own_stages(cells);
  ranks_.find(cells.rank)->heard_s = heard_s_ = now_s;
  const Json document = to_json(cells);
  const int rank = cells.rank;
  const int number = cells.plan_version;
  if (!sweep_.add(std::move(cells))) return;
  changes_.store.cells.push_back({id_, rank, number, document.dump()});
  if (state_ != JobState::profiling || !sweep_.clock_mhz() || number != sweep_.plan_version()) return;
  if (sweep_.posted() < ranks_.followers()) return;
  sweep_.advance();
  store_state_ = true;  // a server that is started again has to know that nobody posts for this clock any more
  profile_next_clock(now_s);
}

void Job::require_own_stages(const RankCells& cells) const {
  const int own = ranks_.find(cells.rank)->spec.pp_rank;
  const auto require = [&](std::string_view list, std::size_t index, int stage) {
    if (rank_of_stage_.at(static_cast<std::size_t>(stage)) == own) return;
    throw InputError(fmt::format("$.{}[{}].stage: stage {} is not on pp_rank {}", list, index, stage, own));
  };
  for (std::size_t i = 0; i < cells.cells.size(); ++i) require("cells", i, cells.cells[i].stage);
  for (std::size_t i = 0; i < cells.blocking.size(); ++i) require("blocking", i, cells.blocking[i].stage);
}

void Job::take_verdict(const ProfileVerdict& verdict, double now_s) {
  decide("profile", verdict.reason, now_s);
  if (!verdict.more_clocks_mhz.empty() && sweep_.rounds() < kMaxProfileRounds) {
    sweep_.want(verdict.more_clocks_mhz);
    return profile_next_clock(now_s);
  }
  changes_.store.documents.push_back({"profile/" + spec_.profile_key(), write_measured_profile(*own_profile_)});
  if (!baseline_) return begin_baseline(now_s);
  change_state(JobState::planning, "plans");
  ask(PlanningTask::Kind::plan, fmt::format("planned from a profile of {} clocks", sweep_.measured_clocks()), false);
}

void Job::ask(PlanningTask::Kind kind, std::string reason, bool quick_first) {
  changes_.planning = PlanningTask{.kind = kind,
                                   .job = id_,
                                   .serial = ++planning_serial_,
                                   .model = model_,
                                   .conditions = conditions(),
                                   .reason = std::move(reason),
                                   .quick_first = quick_first};
}

void Job::replan(const std::string& reason) {
  if (model_ && state_ == JobState::running) ask(PlanningTask::Kind::plan, reason, true);
}

std::map<int, SlowRank> Job::slow_ranks() const {
  std::map<int, SlowRank> slow = detected_slow_;
  for (const auto& [rank, known] : reported_slow_) slow[rank] = known;
  return slow;
}

PlanningConditions Job::conditions() const {
  PlanningConditions conditions;
  conditions.slowdown_pct = std::max(slowdown_pct_, signal_slowdown_pct_);
  if (guard_ && !guard_->level().is_full_clocks) {
    const auto step =
        std::min<std::size_t>(static_cast<std::size_t>(guard_->level().steps_back), kGuardShares.size() - 1);
    conditions.slowdown_pct *= kGuardShares[step];
  }
  // Of the tp ranks that share a position the slowest counts.
  std::map<std::pair<int, int>, double> slowest;
  for (const auto& [rank, slow] : slow_ranks()) {
    const RankSpec& spec = ranks_.find(rank)->spec;
    double& factor = slowest.try_emplace({spec.dp_rank, spec.pp_rank}, slow.factor).first->second;
    factor = std::max(factor, slow.factor);
  }
  for (const auto& [place, factor] : slowest) {
    conditions.slow.push_back({.replica = place.first, .rank = place.second, .factor = factor});
  }
  conditions.power = power_limit_;
  if (power_limit_) conditions.node_of_gpu = ranks_.hosts();
  return conditions;
}

void Job::planned(PlanningAnswer answer, double now_s) {
  if (answer.serial != planning_serial_ || is_over()) return;
  if (!answer.error.empty()) {
    decide("failed", answer.error, now_s);
    if (state_ != JobState::running) observe(answer.error, now_s);
    return;
  }
  if (answer.verdict) take_verdict(*answer.verdict, now_s);
  if (answer.plan) issue_plan(answer, now_s);
}

void Job::issue_plan(const PlanningAnswer& answer, double now_s) {
  const JobPlan& plan = *answer.plan;
  frontier_ = plan.frontier;
  full_clock_scale_ = plan.full_clock_scale;
  if (!guard_ && baseline_ && !power_limit_) {
    guard_.emplace(IterationBaseline{baseline_->time_s, baseline_->time_error_s, baseline_->time_spread_s},
                   GuardOptions{.limit_pct = guard_limit_pct()});
  }
  if (guard_) guard_->set_plans(guard_times(plan));
  change_state(JobState::running, "follows a plan");
  if (guard_ && guard_->level().is_full_clocks) {
    decide("guard", answer.reason + "; full clocks are held all the same", now_s);
    return;
  }
  const bool same = training_version_ && training_version_ == versions_.back() && same_clocks(*training_version_, plan);
  if (same) {
    decide("plan", answer.reason + "; the plan in force is the best for it", now_s);
    return;
  }
  PlanVersion version;
  version.purpose = PlanPurpose::train;
  version.reason = plan.note.empty() ? answer.reason : answer.reason + "; " + plan.note;
  if (answer.preliminary) version.reason += "; a better one follows";
  version.time_s = plan.time_s;
  version.energy_j = plan.energy_j;
  version.plans = plan.plans;
  version.plan_of_replica = plan.plan_of_replica;
  version.expected_compute_s = plan.expected_compute_s;
  issue(std::move(version), now_s);
  training_version_ = versions_.back();
  if (first_training_version_ == 0) first_training_version_ = training_version_->version;
}

/// Planned times of the plan in force and of those that the guard would go back to.
std::vector<double> Job::guard_times(const JobPlan& plan) const {
  std::vector<double> times{plan.time_s};
  const double fastest_s = plan.fastest_time_s;
  for (const double share : kGuardShares) {
    const double time_s = fastest_s + (plan.time_s - fastest_s) * share;
    if (time_s < times.back() * (1 - 1e-9) && time_s > 0) times.push_back(time_s);
  }
  return times;
}

std::int64_t Job::set_straggler(int rank, double factor, double now_s) {
  if (factor == 1) {
    reported_slow_.erase(rank);
    detected_slow_.erase(rank);
  } else {
    reported_slow_[rank] = {factor, "reported"};
  }
  const std::string reason = factor == 1 ? fmt::format("rank {} was reported to be no straggler any more", rank)
                                         : fmt::format("rank {} was reported to be {:.3g} times slower", rank, factor);
  const std::int64_t id = decide("straggler", reason, now_s);
  changes_.summary_changed = true;
  replan(reason);
  return id;
}

std::int64_t Job::set_power_limit(const std::optional<PowerLimit>& limit, double now_s) {
  power_limit_ = limit;
  guard_.reset();  // a cap may cost time, and full clocks would break it
  const std::string reason = describe(limit);
  const std::int64_t id = decide("power_cap", reason, now_s);
  changes_.summary_changed = true;
  replan(reason);
  return id;
}

std::int64_t Job::set_settings(std::optional<double> slowdown_pct, std::optional<double> guard_pct, double now_s) {
  slowdown_pct_ = slowdown_pct.value_or(slowdown_pct_);
  guard_pct_ = guard_pct.value_or(guard_pct_);
  const std::string reason = fmt::format("plans may be {:.4g} % slower than the fastest, the guard allows {:.4g} %",
                                         slowdown_pct_, guard_pct_);
  const std::int64_t id = decide("settings", reason, now_s);
  guard_.reset();  // counts from now on, by the new limit
  changes_.summary_changed = true;
  replan(reason);
  return id;
}

void Job::set_signal(double slowdown_pct, std::string_view why, double now_s) {
  if (is_over() || slowdown_pct == signal_slowdown_pct_) return;
  signal_slowdown_pct_ = slowdown_pct;
  decide("signal", std::string(why), now_s);
  guard_.reset();
  replan(std::string(why));
}

void Job::finish_rank(int rank, double now_s) {
  if (!ranks_.finish(rank)) return;
  store_rank(*ranks_.find(rank));
  log_.finish(rank);
  if (ranks_.all_finished()) finish("all ranks have ended", now_s);
}

void Job::finish(std::string_view why, double now_s) {
  if (is_over()) return;
  finished_s_ = now_s;
  decide("finish", std::string(why), now_s);
  change_state(JobState::finished, std::string(why));
}

void Job::end_if_silent(double now_s, double silence_s) {
  if (is_over() || now_s - heard_s_ < silence_s) return;
  finish(fmt::format("no rank has been heard of for {:.0f} s", silence_s), now_s);
}

std::int64_t Job::decide(std::string_view kind, const std::string& reason, double now_s) {
  Json decision = {{"id", ++decisions_},
                   {"time_s", now_s},
                   {"kind", kind},
                   {"plan_version", plan_version() == 0 ? Json(nullptr) : Json(plan_version())},
                   {"reason", reason}};
  store_state_ = true;
  changes_.store.decisions.push_back({id_, decisions_, now_s, decision.dump()});
  changes_.decisions.push_back(std::move(decision));
  return decisions_;
}

void Job::change_state(JobState state, std::string reason) {
  state_ = state;
  reason_ = std::move(reason);
  store_state_ = true;
  changes_.summary_changed = true;
}

const PlanVersion* Job::version(int number) const {
  for (const auto& version : versions_) {
    if (version->version == number) return version.get();
  }
  return nullptr;
}

Job::Recent Job::recent() const {
  Recent recent;
  double energy_j = 0;
  int with_energy = 0;
  for (auto it = history_.rbegin(); it != history_.rend(); ++it) {
    if (recent.iterations == static_cast<int>(kRecentIterations) || it->plan_version != plan_version()) break;
    ++recent.iterations;
    recent.time_s += it->time_s;
    if (!it->energy_j) continue;
    ++with_energy;
    energy_j += *it->energy_j;
    recent.energy_error_j += it->energy_error_j * it->energy_error_j;
  }
  if (recent.iterations == 0) return recent;
  recent.time_s /= recent.iterations;
  recent.energy_error_j = std::sqrt(recent.energy_error_j) / recent.iterations;
  if (with_energy == recent.iterations) recent.energy_j = energy_j / with_energy;
  return recent;
}

std::vector<int> Job::take_gpu_changes() {
  const std::set<int> ranks = std::exchange(gpu_changes_, {});
  return {ranks.begin(), ranks.end()};
}

void Job::refused(StoreChange change) {
  store_state_ = true;
  const auto keep = [](auto& kept, auto& rows) { std::ranges::move(rows, std::back_inserter(kept)); };
  keep(refused_.ranks, change.ranks);
  keep(refused_.plans, change.plans);
  keep(refused_.cells, change.cells);
  keep(refused_.decisions, change.decisions);
  keep(refused_.documents, change.documents);
  for (const StoredReports& reports : change.reports) unstored_.insert(reports.rank);
}

void Job::retry_refused() {
  StoreChange& next = changes_.store;
  const StoreChange again = std::exchange(refused_, {});
  for (const StoredRank& rank : again.ranks) store_rank(*ranks_.find(rank.rank));
  // In front: a newer row of the same key is written behind the older one.
  next.plans.insert(next.plans.begin(), again.plans.begin(), again.plans.end());
  next.cells.insert(next.cells.begin(), again.cells.begin(), again.cells.end());
  next.decisions.insert(next.decisions.begin(), again.decisions.begin(), again.decisions.end());
  next.documents.insert(next.documents.begin(), again.documents.begin(), again.documents.end());
}

JobChanges Job::take_changes() {
  JobChanges changes = std::exchange(changes_, {});
  if (std::exchange(store_state_, false)) changes.store.jobs.push_back(stored());
  return changes;
}

}  // namespace lowgear
