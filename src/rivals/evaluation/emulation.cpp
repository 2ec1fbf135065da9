#include "rivals/evaluation/emulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/core/error.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/envpipe/envpipe_offline.h"
#include "rivals/policies/perseus/perseus_policy.h"

namespace lowgear::evaluation {

namespace {

constexpr auto kDevices = std::to_array<PublishedDevice>({
    {"a100_sxm", "A100", 83.64, 1e-3},
    {"a40", "A40", 70.38, 1e-4},
});

constexpr auto kWorkloads = std::to_array<PublishedWorkload>({
    {"A100", "gpt3-xl", {13.2, 0.1, {14.7, 15.9, 15.5, 15.0, 14.6, 14.3}}, {8.8, 0.1, {8.7, 8.5, 8.3, 8.1, 7.9, 7.7}}},
    {"A100", "bloom-3b", {11.7, 0.2, {13.6, 15.6, 15.2, 14.7, 14.3, 14.0}}, {8.9, 0.2, {8.8, 8.7, 8.4, 8.2, 8.0, 7.8}}},
    {"A100",
     "bert-huge-uncased",
     {12.9, 0.5, {14.9, 16.9, 16.4, 15.9, 15.5, 15.0}},
     {8.0, 0.0, {7.9, 7.8, 7.5, 7.3, 7.1, 6.9}}},
    {"A100", "t5-3b", {10.6, 1.3, {15.3, 18.0, 17.9, 17.4, 16.9, 16.5}}, {7.4, 3.4, {8.4, 8.2, 8.0, 7.8, 7.6, 7.4}}},
    {"A100",
     "wide-resnet101_8",
     {3.2, 2.3, {9.4, 12.7, 12.6, 12.3, 12.0, 11.6}},
     {3.7, 4.1, {4.9, 4.8, 4.7, 4.5, 4.4, 4.3}}},
    {"A40",
     "gpt3-2.7b",
     {21.1, 0.2, {24.5, 26.0, 25.9, 25.2, 24.6, 24.0}},
     {21.7, 5.6, {22.9, 22.6, 22.0, 21.4, 20.9, 20.4}}},
    {"A40",
     "bloom-3b",
     {22.4, 0.0, {25.5, 26.4, 25.9, 25.2, 24.6, 24.0}},
     {19.9, 0.0, {19.6, 19.3, 18.8, 18.3, 17.8, 17.4}}},
    {"A40",
     "bert-huge-uncased",
     {15.7, 0.0, {20.0, 22.6, 24.1, 23.4, 22.8, 22.2}},
     {16.5, 9.7, {19.2, 18.9, 18.3, 17.8, 17.4, 16.9}}},
    {"A40",
     "t5-3b",
     {28.5, 0.0, {27.9, 27.3, 26.2, 25.2, 24.3, 23.4}},
     {19.3, 0.0, {18.4, 18.0, 17.3, 16.6, 16.0, 15.4}}},
    {"A40",
     "wide-resnet101_8",
     {20.4, 0.2, {24.3, 26.2, 26.3, 25.7, 25.0, 24.4}},
     {16.5, 0.5, {16.4, 16.2, 15.8, 15.4, 15.0, 14.6}}},
});

constexpr auto kEmulations = std::to_array<PublishedEmulation>({
    {"gpt3-175b", "a100_sxm", {15.201604, 14.190355, 13.616616, 13.319138}, {27.012699, 11.977369}},
    {"gpt3-175b", "a40", {11.810657, 10.220271, 9.340778, 8.878493}, {23.575644, 7.805060}},
    {"bloom", "a100_sxm", {10.471891, 7.064365, 5.234097, 4.284563}, {29.881358, 1.031186}},
    {"bloom", "a40", {6.973716, 4.488244, 3.122653, 2.405541}, {21.090338, 0.162844}},
});

}  // namespace

std::span<const PublishedWorkload> published_workloads() { return kWorkloads; }

std::span<const PublishedEmulation> published_emulations() { return kEmulations; }

std::span<const PublishedDevice> published_devices() { return kDevices; }

double published_blocking_power_w(std::string_view gpu_or_device) {
  for (const PublishedDevice& device : kDevices) {
    if (gpu_or_device == device.device || gpu_or_device == device.gpu) return device.blocking_power_w;
  }
  throw InputError(fmt::format("GPU {}: the evaluation has A100 (a100_sxm) and A40 (a40) only", gpu_or_device));
}

namespace {

std::vector<double> blocking_power_w(const EmulationCase& emulation) {
  return std::vector<double>(static_cast<std::size_t>(emulation.profile->stages()), emulation.device.blocking_power_w);
}

/// A planning problem with what it refers to. Stays where it is.
struct Problem {
  explicit Problem(const EmulationCase& emulation)
      : schedule(schedule::one_f_one_b_schedule(emulation.profile->stages(), emulation.microbatches)),
        dag(build_dag(schedule)),
        power_w(blocking_power_w(emulation)),
        problem{&schedule, &dag, emulation.profile, power_w, emulation.progress} {}
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  ~Problem() = default;

  schedule::Schedule schedule;
  schedule::PipelineDag dag;
  std::vector<double> power_w;
  planner::PlanningProblem problem;
};

}  // namespace

EmulatedPlans plans_of_perseus(const EmulationCase& emulation) {
  const Problem problem(emulation);
  const policies::PerseusModel model(problem.problem, emulation.device.unit_s);
  const auto fastest = model.solve(model.fastest_s());
  const auto waiting = model.solve(kFigure7Factor * model.fastest_s());
  return {{fastest.time_s, fastest.energy_j}, {waiting.time_s, waiting.energy_j}};
}

EmulatedPlans plans_of_lowgear(const EmulationCase& emulation) {
  const std::array<double, 1> factors{kFigure7Factor};
  const auto plans = plans_of_lowgear(emulation, factors);
  return {plans.front(), plans.back()};
}

std::vector<simulator::PipelineFigures> plans_of_lowgear(const EmulationCase& emulation,
                                                         std::span<const double> factors) {
  const Problem problem(emulation);
  planner::PipelinePlanner planner(problem.schedule, *emulation.profile, problem.power_w, {}, {}, emulation.progress);
  const double fastest_s = planner.fastest_s();
  const plan::Plan fastest = planner.plan(fastest_s);
  std::vector<simulator::PipelineFigures> plans{{fastest.time_s, fastest.energy_j}};
  for (const double factor : factors) {
    const plan::Plan waiting = planner.plan(std::min(factor * fastest_s, planner.slowest_s()));
    plans.push_back({waiting.time_s, waiting.energy_j});
  }
  return plans;
}

std::vector<simulator::PipelineFigures> frontier_of_perseus(const EmulationCase& emulation) {
  const Problem problem(emulation);
  std::vector<simulator::PipelineFigures> plans;
  for (const auto& row : policies::PerseusModel(problem.problem, emulation.device.unit_s).frontier()) {
    plans.push_back({row.time_s, row.energy_j});
  }
  // Where no op has two options there is one plan, and no row below it.
  if (plans.empty()) plans.push_back(plans_of_perseus(emulation).fastest);
  return plans;
}

simulator::PipelineFigures plan_of_envpipe(const EmulationCase& emulation) {
  const Problem problem(emulation);
  const planner::PolicyPlan plan =
      policies::EnvPipeOfflinePolicy(emulation.device.unit_s).plan(problem.problem, std::nullopt);
  const simulator::Timeline replayed = replay_clocks(problem.problem, plan.clocks_mhz);
  return {replayed.time_s, replayed.energy_j_total};
}

double intrinsic_saving_pct(const EmulationCase& emulation, double time_s, double energy_j) {
  return simulator::saving_pct(
      simulator::max_clock_energy_j(*emulation.profile, emulation.microbatches, time_s, blocking_power_w(emulation)),
      energy_j);
}

simulator::StragglerScenario figure7_cluster(const EmulationCase& emulation, double time_s) {
  simulator::StragglerScenario scenario = straggler_scenario(emulation, time_s, kFigure7Factor);
  scenario.pipelines = kGlobalMicrobatches / emulation.microbatches;
  return scenario;
}

simulator::StragglerScenario straggler_scenario(const EmulationCase& emulation, double time_s, double factor) {
  const double baseline_j =
      simulator::max_clock_energy_j(*emulation.profile, emulation.microbatches, time_s, blocking_power_w(emulation));
  return {.pipelines = 1,
          .factor = factor,
          .blocking_power_w = emulation.device.blocking_power_w * emulation.profile->stages(),
          .baseline = {time_s, baseline_j}};
}

Emulation emulate(const EmulationCase& emulation, const EmulatedCluster& cluster, std::span<const double> factors,
                  PlansOf method, simulator::Accounting accounting) {
  if (cluster.pipelines < 1 || cluster.tensor_parallel < 1) {
    throw InputError(fmt::format("a cluster of {} pipelines with {} GPUs a stage; give at least 1 of each",
                                 cluster.pipelines, cluster.tensor_parallel));
  }
  const std::vector<simulator::PipelineFigures> plans =
      method == PlansOf::perseus ? frontier_of_perseus(emulation) : plans_of_lowgear(emulation, factors);
  Emulation result{.microbatches = emulation.microbatches,
                   .cluster = cluster,
                   .gpus = cluster.pipelines * cluster.tensor_parallel * emulation.profile->stages(),
                   .fastest = *std::ranges::min_element(plans, {}, &simulator::PipelineFigures::time_s),
                   .intrinsic_pct = 0,
                   .stragglers = {}};
  result.intrinsic_pct = intrinsic_saving_pct(emulation, result.fastest.time_s, result.fastest.energy_j);
  for (const double factor : factors) {
    simulator::StragglerScenario scenario = straggler_scenario(emulation, result.fastest.time_s, factor);
    scenario.pipelines = cluster.pipelines;
    const double saving_pct = perseus_saving_pct(scenario, plans, accounting);
    const double baseline_j = cluster.tensor_parallel * baseline_cluster_energy_j(scenario);
    result.stragglers.push_back({.factor = factor,
                                 .time_s = factor * result.fastest.time_s,
                                 .baseline_j = baseline_j,
                                 .energy_j = baseline_j * (1 - saving_pct / 100),
                                 .saving_pct = saving_pct,
                                 .extrinsic_pct = extrinsic_saving_pct(scenario, plans, accounting)});
  }
  return result;
}

}  // namespace lowgear::evaluation
