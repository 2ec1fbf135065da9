#include "planning/workflow/replan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "base/core/error.h"
#include "planning/simulator/timing_graph.h"

namespace lowgear::workflow {
namespace {

constexpr int kMaxReplicas = 65536;
constexpr double kMaxAllowancePct = 1000;

void check(const schedule::PipelineDag& dag, int replicas, const RankSlowdown& slowdown) {
  if (slowdown.replica < 0 || slowdown.replica >= replicas) {
    throw InputError(
        fmt::format("slowdown of replica {}: the job has replicas 0 to {}", slowdown.replica, replicas - 1));
  }
  if (slowdown.rank < 0 || slowdown.rank >= dag.ranks) {
    throw InputError(fmt::format("slowdown of rank {}: the pipeline has ranks 0 to {}", slowdown.rank, dag.ranks - 1));
  }
  if (!(slowdown.factor > 0) || !(slowdown.factor <= simulator::kMaxSlowdownFactor)) {
    throw InputError(fmt::format("slowdown by a factor of {}: it must be above 0 and at most {}", slowdown.factor,
                                 simulator::kMaxSlowdownFactor));
  }
}

/// Factor by rank of a replica.
using Factors = std::map<int, double>;

std::vector<simulator::StageSlowdown> stage_slowdowns(const schedule::PipelineDag& dag, const Factors& factors) {
  std::vector<simulator::StageSlowdown> slowdowns;
  for (const schedule::ComputeOp& op : dag.ops) {
    const auto found = factors.find(op.rank);
    if (found == factors.end()) continue;
    if (std::ranges::find(slowdowns, op.stage, &simulator::StageSlowdown::stage) == slowdowns.end()) {
      slowdowns.push_back({op.stage, found->second});
    }
  }
  std::ranges::sort(slowdowns, {}, &simulator::StageSlowdown::stage);
  return slowdowns;
}

double fastest_time_s(const schedule::PipelineDag& dag, const simulator::TimingGraph& graph,
                      const profile::StageProfile& profile) {
  std::vector<double> duration_s;
  for (const schedule::ComputeOp& op : dag.ops) {
    // at_max_clock says what is missing; noise or a power cap may make another clock the fastest.
    double time_s = profile.at_max_clock(op.stage, op.kind).time_s;
    for (const profile::Measurement& row : profile.measurements(op.stage, op.kind))
      time_s = std::min(time_s, row.time_s);
    duration_s.push_back(time_s);
  }
  std::vector<double> start_s(duration_s.size());
  return graph.start_times(duration_s, start_s);
}

}  // namespace

profile::StageProfile slowed_profile(const profile::StageProfile& profile,
                                     std::span<const simulator::StageSlowdown> slowdowns) {
  std::vector<double> factor(static_cast<std::size_t>(profile.stages()), 1.0);
  for (const simulator::StageSlowdown& slowdown : slowdowns) {
    if (slowdown.stage < 0 || slowdown.stage >= profile.stages()) {
      throw InputError(
          fmt::format("slowdown of stage {}: the profile has stages 0 to {}", slowdown.stage, profile.stages() - 1));
    }
    factor[static_cast<std::size_t>(slowdown.stage)] *= slowdown.factor;
  }
  profile::StageProfile slowed(profile.stages());
  for (const auto& [stage, kind, rows] : profile.ops()) {
    for (profile::Measurement row : rows) {
      row.time_s *= factor[static_cast<std::size_t>(stage)];
      row.energy_j *= factor[static_cast<std::size_t>(stage)];
      slowed.add(stage, kind, row);
    }
  }
  return slowed;
}

Replan replan(const schedule::PipelineDag& dag, const profile::StageProfile& profile, int replicas,
              std::span<const RankSlowdown> slowdowns, double allowed_slowdown_pct) {
  if (replicas < 1 || replicas > kMaxReplicas) {
    throw InputError(fmt::format("{} replicas: a job has 1 to {}", replicas, kMaxReplicas));
  }
  if (!(allowed_slowdown_pct >= 0) || !(allowed_slowdown_pct <= kMaxAllowancePct)) {
    throw InputError(
        fmt::format("allowed slowdown of {} %: it must be from 0 to {} %", allowed_slowdown_pct, kMaxAllowancePct));
  }
  std::map<int, Factors> slow_replicas;
  for (const RankSlowdown& slowdown : slowdowns) {
    check(dag, replicas, slowdown);
    slow_replicas[slowdown.replica].try_emplace(slowdown.rank, 1.0).first->second *= slowdown.factor;
  }
  std::map<Factors, std::vector<int>> groups;
  for (int replica = 0; replica < replicas; ++replica) {
    Factors factors;
    if (const auto found = slow_replicas.find(replica); found != slow_replicas.end()) {
      std::ranges::copy_if(found->second, std::inserter(factors, factors.end()),
                           [](const auto& entry) { return entry.second != 1; });
    }
    groups[factors].push_back(replica);
  }
  const simulator::TimingGraph graph(dag);
  Replan result;
  for (auto& [factors, members] : groups) {
    ReplicaGroup group{std::move(members), stage_slowdowns(dag, factors), {}, 0};
    group.profile = slowed_profile(profile, group.slowdowns);
    group.fastest_time_s = fastest_time_s(dag, graph, group.profile);
    result.fastest_time_s = std::max(result.fastest_time_s, group.fastest_time_s);
    result.groups.push_back(std::move(group));
  }
  std::ranges::sort(result.groups, {}, [](const ReplicaGroup& group) { return group.replicas.front(); });
  result.deadline_s = result.fastest_time_s * (1 + allowed_slowdown_pct / 100);
  return result;
}

simulator::PipelineFigures job_figures(const Replan& replan, std::span<const plan::Plan> plans,
                                       double blocking_power_w) {
  if (plans.size() != replan.groups.size()) {
    throw InputError(
        fmt::format("{} plans for {} groups of replicas; give one for each", plans.size(), replan.groups.size()));
  }
  std::vector<simulator::PipelineGroup> pipelines;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    pipelines.push_back({{plans[i].time_s, plans[i].energy_j}, static_cast<int>(replan.groups[i].replicas.size())});
  }
  return synchronise(pipelines, blocking_power_w);
}

}  // namespace lowgear::workflow
