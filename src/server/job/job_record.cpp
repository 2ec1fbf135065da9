#include "server/job/job_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "rivals/policies/published_policies.h"

namespace lowgear::server {
namespace {

constexpr auto kStates = std::to_array<std::string_view>(
    {"registering", "baseline", "profiling", "planning", "running", "observing", "finished"});

}  // namespace

std::string_view name(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

JobRecord::JobRecord(std::string job_id, protocol::JobSpec job_spec, double created_s, protocol::JobPolicy servers)
    : id(std::move(job_id)),
      spec(std::move(job_spec)),
      policy(spec.policy.value_or(servers)),
      layout(spec),
      ranks(spec.parallel),
      history(spec.parallel.world_size()),
      watch(spec.parallel.world_size()),
      targets(spec) {
  status.created_s = status.heard_s = created_s;
}

void JobRecord::finish_reports(int rank) {
  if (ranks.find(rank)->failure.empty()) history.finish(rank);
}

void JobRecord::count_gpu_once(int rank) {
  for (const int other : ranks.with_gpu_of(rank)) history.count_elsewhere(other, ranks.counts_elsewhere(other));
}

void JobRecord::count_usage(const JobIteration& iteration, double now_s, std::vector<StoredUsage>& rows) {
  usage::UsageRow names;
  names.job = id;
  names.run = spec.run;
  names.name = spec.name;
  names.user = spec.user.value_or("");
  names.gpu = spec.gpu;
  names.simulated = ranks.simulated();
  // The energy of jobs that share a GPU says nothing about the savings of one of them.
  const bool is_doubtful = !invalid.empty() || ranks.shares_with_other_jobs();
  // Full clocks in place of a plan save nothing, and their scatter around the baseline is no loss.
  const PlanVersion* newest = plans.newest();
  const bool has_plan = newest != nullptr && newest->purpose != protocol::PlanPurpose::full_clocks;
  const bool compares = has_plan && !is_doubtful && may_state_saving(*this, iteration);
  usage.add(iteration, names, compares ? baseline.result() : std::nullopt, is_doubtful, now_s, rows);
}

void JobRecord::collect(const JobIteration& iteration) {
  const PlanVersion* plan = plans.find(baseline.plan_version());
  if (invalid.empty()) {
    baseline.add(iteration, plan);
  } else {
    baseline.skip(iteration, plan);
  }
  history.keep(iteration, plans.due_version(iteration.iteration));
}

std::string profile_key(const JobRecord& job) { return job.spec.profile_key(job.ranks.simulated()); }

SlowRanks slow_ranks(const JobRecord& job) {
  SlowRanks slow = job.watch.profile().slow();
  for (const auto& [rank, known] : job.targets.slow()) slow[rank] = known;
  return slow;
}

namespace {

/// Of a profile from which nothing is planned yet; empty where energies are not those of the job's GPUs alone.
std::optional<FullClockIteration> full_clocks_to_agree_with(const JobRecord& job) {
  const bool is_due =
      job.state() == JobState::profiling || (job.state() == JobState::planning && job.profiling.own() == nullptr);
  const std::optional<IterationMeans>& baseline = job.baseline.result();
  if (!is_due || !baseline || !baseline->energy_j || !job.invalid.empty()) return std::nullopt;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    if (job.ranks.counts_elsewhere(rank)) return std::nullopt;
  }
  if (job.ranks.shares_with_other_jobs()) return std::nullopt;
  return FullClockIteration{
      .time_s = baseline->time_s, .energy_j = *baseline->energy_j, .energy_error_j = baseline->energy_error_j};
}

}  // namespace

PlanningConditions planning_conditions(const JobRecord& job) {
  PlanningConditions conditions;
  api::PlanRequest& request = conditions.request;
  request.slowdown_pct = job.targets.allowed_slowdown_pct();
  // A guard by another limit does not count: the next plan is given a new one, or none under a cap.
  if (!job.targets.is_capped() && job.watch.guard().has_limit(job.targets.guard_limit_pct())) {
    *request.slowdown_pct *= job.watch.guard().allowed_share();
  }
  // Of the tp ranks that share a position the slowest counts.
  std::map<std::pair<int, int>, double> slowest;
  for (const auto& [rank, slow] : slow_ranks(job)) {
    const protocol::RankSpec& spec = job.ranks.find(rank)->spec;
    double& factor = slowest.try_emplace({spec.dp_rank, spec.pp_rank}, slow.factor).first->second;
    factor = std::max(factor, slow.factor);
  }
  for (const auto& [place, factor] : slowest) {
    request.slow.push_back({.replica = place.first, .rank = place.second, .factor = factor});
  }
  conditions.full_clocks = full_clocks_to_agree_with(job);
  request.power_cap = job.targets.power_cap();
  if (request.power_cap) request.node_of_gpu = job.ranks.hosts();
  request.policy = name(job.policy);
  // EnvPipe keeps the order in which the ranks run.
  request.policies = policies::published_policies({.envpipe = {.order = policies::EnvPipeOptions::Order::given}});
  if (job.order.is_due()) conditions.early_forwards = early_forwards(job.spec);
  if (job.spec.envpipe) {
    conditions.envpipe = EnvPipeRequest{.settings = *job.spec.envpipe, .state = job.envpipe.state(), .receive_s = {}};
  }
  return conditions;
}

std::shared_ptr<const PipelineModel> pipeline_model(const JobRecord& job, const MeasuredProfile& profile) {
  return std::make_shared<const PipelineModel>(PipelineModel{.schedule = job.layout.schedule(),
                                                             .parallel = job.spec.parallel,
                                                             .gpu = job.spec.gpu,
                                                             .measured = profile,
                                                             .clocks_mhz = job.ranks.common_clocks(),
                                                             .switch_latency_s = job.spec.switch_latency_ms / 1e3});
}

namespace {

/// A rank that has missed a plan gets it again, for a later iteration.
constexpr std::int64_t kUnfollowedIterations = 5;

}  // namespace

bool should_follow_plan(const JobRecord& job) {
  if (job.state() == JobState::profiling) return true;
  const bool may_train =
      job.state() == JobState::baseline || job.state() == JobState::planning || job.state() == JobState::running;
  return may_train && job.plans.training() != nullptr;
}

std::vector<int> ranks_not_following(const JobRecord& job) {
  std::vector<int> ranks;
  if (job.history.kept().empty()) return ranks;
  const std::int64_t newest = job.history.kept().back().iteration;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const std::int64_t since = job.history.unfollowed_since(rank);
    if (since < 0 || newest - since + 1 < kUnfollowedIterations) continue;
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && registered->spec.follows_plans && !registered->finished) ranks.push_back(rank);
  }
  return ranks;
}

IterationMeans present_means(const JobRecord& job) {
  if (!job.invalid.empty()) return {};
  if (job.plans_itself()) return means_by_predictions(job.history.recent(job.plan_version()));
  IterationMeans means = means_of(job.history.recent(job.plan_version()));
  if (means.iterations > 0 || job.plans.newest() == nullptr) return means;
  const std::vector<JobIteration> due = job.history.recent_since(job.plans.newest()->from_iteration);
  const bool was_followed = std::ranges::count(due, job.plan_version(), &JobIteration::plan_version) > 0;
  return (job.is_over() ? was_followed : !ranks_not_following(job).empty()) ? means_of(due) : means;
}

namespace {

/// The clocks that baselines are measured at.
bool holds_full_clocks(const PlanVersion& plan, const JobRecord& job) {
  const std::vector<int> clocks_mhz = job.ranks.common_clocks();
  return !clocks_mhz.empty() && plan.only_mhz == clocks_mhz.front();
}

}  // namespace

const IterationMeans* stated_baseline(const JobRecord& job) {
  const std::optional<IterationMeans>& baseline = job.baseline.result();
  return baseline && !baseline->is_uncertain() && job.invalid.empty() ? &*baseline : nullptr;
}

namespace {

/// Times only.
Comparison compare(const IterationMeans& now, const IterationMeans& baseline) {
  Comparison comparison;
  const double time_ratio = now.time_s / baseline.time_s;
  comparison.slowdown = time_ratio - 1;
  // A single iteration has no scatter; it is as uncertain as one of the baseline.
  const double time_error_s = now.iterations == 1 ? baseline.time_spread_s : now.time_error_s;
  comparison.slowdown_error =
      time_ratio * std::hypot(time_error_s / now.time_s, baseline.time_error_s / baseline.time_s);
  comparison.is_uncertain = now.is_uncertain();
  comparison.is_shared = now.is_shared || baseline.is_shared;
  return comparison;
}

}  // namespace

bool may_state_saving(const JobRecord& job, const JobIteration& iteration) {
  const IterationMeans* const baseline = stated_baseline(job);
  if (baseline == nullptr || !compare(means_of({&iteration, 1}), *baseline).may_state_saving()) return false;
  const std::optional<Comparison> compared = comparison_of(job);
  return !compared || compared->may_state_saving();
}

std::optional<Comparison> comparison_of(const JobRecord& job) {
  const IterationMeans now = present_means(job);
  const PlanVersion* newest = job.plans.newest();
  const IterationMeans* const baseline = stated_baseline(job);
  const bool trains = newest != nullptr && protocol::is_for_training(newest->purpose) && now.iterations > 0;
  if (!trains || baseline == nullptr) return std::nullopt;
  Comparison comparison = compare(now, *baseline);
  comparison.has_baselines_clocks = newest->only_mhz && holds_full_clocks(*newest, job);
  comparison.is_shared = comparison.is_shared || job.ranks.shares_with_other_jobs();
  if (comparison.may_state_saving() && now.energy_j && baseline->energy_j) {
    const double ratio = *now.energy_j / *baseline->energy_j;
    const double single_j = now.iterations == 1 ? baseline->energy_error_j * std::sqrt(baseline->iterations) : 0;
    const double energy_error_j = std::max(now.energy_error_j, single_j);
    comparison.saved = 1 - ratio;
    comparison.saved_error =
        ratio * std::hypot(energy_error_j / *now.energy_j, baseline->energy_error_j / *baseline->energy_j);
  }
  return comparison;
}

}  // namespace lowgear::server
