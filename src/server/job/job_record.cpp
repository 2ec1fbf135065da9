#include "server/job/job_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lowgear::server {

std::string_view name(ServerEvent event) {
  constexpr std::array<std::string_view, 11> kNames = {
      "decision",        "job_registered", "job_ended",    "job_lost",    "plans_refused",  "plans_followed",
      "budget_exceeded", "budget_kept",    "agent_silent", "agent_heard", "agent_forgotten"};
  return kNames[static_cast<std::size_t>(event)];
}

namespace {

constexpr auto kStates = std::to_array<std::string_view>(
    {"registering", "baseline", "profiling", "planning", "running", "observing", "finished"});

}  // namespace

std::string_view name(JobState state) { return kStates[static_cast<std::size_t>(state)]; }

JobRecord::JobRecord(std::string job_id, protocol::JobSpec job_spec, double created_s, protocol::JobPolicy servers)
    : id(std::move(job_id)),
      spec(std::move(job_spec)),
      policy(spec.policy.value_or(servers)),
      ranks(spec.parallel),
      history(spec.parallel.world_size()),
      watch(spec.parallel.world_size()),
      targets(spec) {
  status.created_s = status.heard_s = created_s;
}

std::string profile_key(const JobRecord& job) { return job.spec.profile_key(job.ranks.simulated()); }

SlowRanks slow_ranks(const JobRecord& job) {
  SlowRanks slow = job.watch.slow();
  for (const auto& [rank, known] : job.targets.slow()) slow[rank] = known;
  return slow;
}

namespace {

/// A rank that has missed a plan gets it again, for a later iteration.
constexpr std::int64_t kUnfollowedIterations = 5;

}  // namespace

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
  IterationMeans means = means_of(job.history.recent(job.plan_version()));
  if (means.iterations > 0 || job.plans.newest() == nullptr || ranks_not_following(job).empty()) return means;
  return means_of(job.history.recent_since(job.plans.newest()->from_iteration));
}

std::optional<Comparison> comparison_of(const JobRecord& job) {
  const IterationMeans now = present_means(job);
  const PlanVersion* newest = job.plans.newest();
  const std::optional<IterationMeans>& baseline = job.baseline.result();
  const bool trains = newest != nullptr && newest->purpose == protocol::PlanPurpose::train && now.iterations > 0;
  if (!trains || !baseline) return std::nullopt;
  Comparison comparison;
  const double time_ratio = now.time_s / baseline->time_s;
  comparison.slowdown = time_ratio - 1;
  // A single iteration has no scatter; it is as uncertain as one of the baseline.
  const bool is_single = now.iterations == 1;
  const double time_error_s = is_single ? baseline->time_spread_s : now.time_error_s;
  comparison.slowdown_error =
      time_ratio * std::hypot(time_error_s / now.time_s, baseline->time_error_s / baseline->time_s);
  if (now.energy_j && baseline->energy_j && !job.ranks.shares_with_other_jobs()) {
    const double ratio = *now.energy_j / *baseline->energy_j;
    const double single_j = is_single ? baseline->energy_error_j * std::sqrt(baseline->iterations) : 0;
    const double energy_error_j = std::max(now.energy_error_j, single_j);
    comparison.saved = 1 - ratio;
    comparison.saved_error =
        ratio * std::hypot(energy_error_j / *now.energy_j, baseline->energy_error_j / *baseline->energy_j);
  }
  return comparison;
}

}  // namespace lowgear::server
