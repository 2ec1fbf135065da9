#include "report/evaluation/emulated_savings.h"

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/envpipe/envpipe_offline.h"
#include "planning/planner/policies/perseus.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::evaluation {
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
        problem{&schedule, &dag, emulation.profile, power_w} {}
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
  const planner::PerseusModel model(problem.problem, emulation.device.unit_s);
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
  planner::PipelinePlanner planner(problem.schedule, *emulation.profile, problem.power_w, {});
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
  for (const auto& row : planner::PerseusModel(problem.problem, emulation.device.unit_s).frontier()) {
    plans.push_back({row.time_s, row.energy_j});
  }
  // Where no op has two options there is one plan, and no row below it.
  if (plans.empty()) plans.push_back(plans_of_perseus(emulation).fastest);
  return plans;
}

simulator::PipelineFigures plan_of_envpipe(const EmulationCase& emulation) {
  const Problem problem(emulation);
  const planner::PolicyPlan plan =
      planner::EnvPipeOfflinePolicy(emulation.device.unit_s).plan(problem.problem, std::nullopt);
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

}  // namespace lowgear::evaluation
