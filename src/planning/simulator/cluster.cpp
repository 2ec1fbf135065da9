#include "planning/simulator/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>

#include "base/core/error.h"
#include "planning/simulator/replay.h"

namespace lowgear::simulator {

namespace {

/// Times of plans and of the straggler come through different arithmetic; a plan that is longer by less than this
/// relative amount is as long.
constexpr double kTimeTolerance = 1e-9;

/// T': when the straggler is done.
double straggler_time_s(const StragglerScenario& scenario) { return scenario.factor * scenario.baseline.time_s; }

/// One pipeline runs `straggler`, the others run `others`.
PipelineFigures with_one_straggler(const StragglerScenario& scenario, const PipelineFigures& straggler,
                                   const PipelineFigures& others) {
  std::vector<PipelineGroup> groups = {{straggler, 1}};
  if (scenario.pipelines > 1) {
    groups.push_back({others, scenario.pipelines - 1});
  }
  return synchronise(groups, scenario.blocking_power_w);
}

/// A pipeline that takes `factor` times as long at the same power.
PipelineFigures slowed(const PipelineFigures& figures, double factor) {
  return {figures.time_s * factor, figures.energy_j * factor};
}

void check(const StragglerScenario& scenario) {
  if (scenario.pipelines < 1) {
    throw InputError(fmt::format("cluster of {} pipelines: it must have at least 1", scenario.pipelines));
  }
  if (!(scenario.factor >= 1) || !(scenario.factor <= kMaxSlowdownFactor)) {
    throw InputError(fmt::format("straggler factor {}: it must be from 1 to {}", scenario.factor, kMaxSlowdownFactor));
  }
  if (!(scenario.blocking_power_w >= 0)) {
    throw InputError(fmt::format("cluster: blocking power {} W; it must be 0 or more", scenario.blocking_power_w));
  }
  if (!(scenario.baseline.time_s > 0) || !(scenario.baseline.energy_j > 0)) {
    throw InputError("cluster: the baseline's time and energy must be above 0");
  }
}

const PipelineFigures& fastest(std::span<const PipelineFigures> frontier) {
  if (frontier.empty()) {
    throw InputError("cluster: the frontier has no plans");
  }
  return *std::min_element(frontier.begin(), frontier.end(), [](const PipelineFigures& a, const PipelineFigures& b) {
    return a.time_s < b.time_s || (a.time_s == b.time_s && a.energy_j < b.energy_j);
  });
}

/// The straggler at the frontier's fastest plan, the others at their best until it is done.
double planned_cluster_energy_j(const StragglerScenario& scenario, std::span<const PipelineFigures> frontier,
                                Accounting accounting) {
  const PipelineFigures straggler = slowed(fastest(frontier), scenario.factor);
  const PipelineFigures& others = plan_until(frontier, straggler_time_s(scenario), accounting);
  return with_one_straggler(scenario, straggler, others).energy_j;
}

}  // namespace

PipelineFigures synchronise(std::span<const PipelineGroup> groups, double blocking_power_w) {
  if (groups.empty()) {
    throw InputError("cluster: it has no pipelines");
  }
  PipelineFigures cluster;
  for (const PipelineGroup& group : groups) {
    cluster.time_s = std::max(cluster.time_s, group.figures.time_s);
  }
  for (const PipelineGroup& group : groups) {
    if (group.count < 1) {
      throw InputError(fmt::format("cluster: a group of {} pipelines; it must have at least 1", group.count));
    }
    const double waiting_j = blocking_power_w * (cluster.time_s - group.figures.time_s);
    cluster.energy_j += group.count * (group.figures.energy_j + waiting_j);
  }
  return cluster;
}

ClusterTimeline replay_cluster(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                               std::span<const PipelineRun> runs, std::span<const double> blocking_power_w,
                               Progress* progress) {
  const TimingGraph graph(dag);
  ClusterTimeline cluster;
  std::vector<PipelineGroup> groups;
  for (const PipelineRun& run : runs) {
    if (progress != nullptr)
      progress->update("replaying", static_cast<double>(cluster.pipelines.size()) / static_cast<double>(runs.size()));
    const std::vector<double> work = slowed_work(dag, run.slowdowns);
    const std::vector<OpCost> costs =
        costs_at_clocks(dag, profile, {run.clocks_mhz, run.settings}, {.work = work, .clocks_before_mhz = {}});
    cluster.pipelines.push_back(replay(dag, graph, costs, blocking_power_w));
    groups.push_back({{cluster.pipelines.back().time_s, cluster.pipelines.back().energy_j_total}, 1});
  }
  const double pipeline_blocking_w = std::accumulate(blocking_power_w.begin(), blocking_power_w.end(), 0.0);
  const PipelineFigures total = synchronise(groups, pipeline_blocking_w);
  cluster.time_s = total.time_s;
  cluster.energy_j_total = total.energy_j;
  return cluster;
}

double max_clock_energy_j(const profile::StageProfile& profile, int microbatches, double iteration_time_s,
                          std::span<const double> blocking_power_w) {
  assert(blocking_power_w.size() == static_cast<std::size_t>(profile.stages()));
  double energy_j = 0;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    const profile::Measurement& forward = profile.at_max_clock(stage, OpKind::forward);
    const profile::Measurement& backward = profile.at_max_clock(stage, OpKind::backward);
    const double waiting_s = iteration_time_s - microbatches * (forward.time_s + backward.time_s);
    energy_j += microbatches * (forward.energy_j + backward.energy_j) +
                blocking_power_w[static_cast<std::size_t>(stage)] * waiting_s;
  }
  return energy_j;
}

double saving_pct(double baseline_j, double energy_j) { return (baseline_j - energy_j) / baseline_j * 100.0; }

const PipelineFigures& plan_until(std::span<const PipelineFigures> plans, double iteration_time_s,
                                  Accounting accounting) {
  const double limit_s = iteration_time_s * (1 + kTimeTolerance);
  const auto better = [accounting](const PipelineFigures& a, const PipelineFigures& b) {
    if (accounting == Accounting::corrected && a.time_s != b.time_s) {
      return a.time_s > b.time_s;
    }
    return a.energy_j < b.energy_j;
  };
  const PipelineFigures* best = nullptr;
  for (const PipelineFigures& plan : plans) {
    if (plan.time_s <= limit_s && (best == nullptr || better(plan, *best))) {
      best = &plan;
    }
  }
  if (best == nullptr) {
    throw InputError(fmt::format("cluster: no plan takes at most {} s; give a longer time", iteration_time_s));
  }
  return *best;
}

double baseline_cluster_energy_j(const StragglerScenario& scenario) {
  check(scenario);
  return with_one_straggler(scenario, slowed(scenario.baseline, scenario.factor), scenario.baseline).energy_j;
}

double perseus_saving_pct(const StragglerScenario& scenario, std::span<const PipelineFigures> frontier,
                          Accounting accounting) {
  return saving_pct(baseline_cluster_energy_j(scenario), planned_cluster_energy_j(scenario, frontier, accounting));
}

double extrinsic_saving_pct(const StragglerScenario& scenario, std::span<const PipelineFigures> frontier,
                            Accounting accounting) {
  check(scenario);
  const PipelineFigures& plan = fastest(frontier);
  const double all_fastest_j = with_one_straggler(scenario, slowed(plan, scenario.factor), plan).energy_j;
  return saving_pct(all_fastest_j, planned_cluster_energy_j(scenario, frontier, accounting));
}

double fixed_plan_saving_pct(const StragglerScenario& scenario, const PipelineFigures& plan, Accounting accounting) {
  const double baseline_j = baseline_cluster_energy_j(scenario);
  if (accounting == Accounting::corrected) {
    return saving_pct(baseline_j, with_one_straggler(scenario, slowed(plan, scenario.factor), plan).energy_j);
  }
  const double waiting_s = straggler_time_s(scenario) - scenario.baseline.time_s;
  const double energy_j = plan.energy_j * (scenario.factor + (scenario.pipelines - 1)) +
                          scenario.blocking_power_w * waiting_s * (scenario.pipelines + 1);
  return saving_pct(baseline_j, energy_j);
}

}  // namespace lowgear::simulator
