/// What a free order saves: energy at 1F1B's T_min against 1F1B with planned clocks, with both readings of 1F1B's
/// memory, and how long the search takes.
#include <fmt/format.h>

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "measurement.h"
#include "pipelines.h"
#include "planning/joint/orders/order_search.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"
#include "rivals/policies/envpipe/envpipe.h"
#include "rivals/policies/envpipe/envpipe_offline.h"

namespace lowgear::bench {
namespace {

/// User and system time of this process.
double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

joint::JointProblem problem_of(const GivenProfile& given, int microbatches, joint::MemoryLimit memory) {
  return {.profile = with_split_backward(given.read(), 0.5),
          .blocking_power_w = std::vector<double>(kGivenStages, given.blocking_power_w),
          .microbatches = microbatches,
          .memory = memory};
}

plan::Plan plan_on(const joint::JointProblem& problem, const schedule::Schedule& order, double deadline_s) {
  planner::PipelinePlanner planner(order, problem.profile_of(order), problem.blocking_power_w, {});
  return planner.plan(deadline_s);
}

/// Energy of a plan as the simulator replays it.
double replayed_j(const joint::JointProblem& problem, const schedule::Schedule& order, const plan::Plan& plan) {
  const schedule::PipelineDag dag = build_dag(order);
  const auto costs = simulator::costs_at_clocks(dag, problem.profile_of(order), clocks_for(plan, dag));
  return replay(dag, costs, problem.blocking_power_w).energy_j_total;
}

void study_case(const GivenProfile& given, int microbatches, joint::MemoryLimit memory) {
  const joint::JointProblem problem = problem_of(given, microbatches, memory);
  const schedule::Schedule reference = schedule::one_f_one_b_schedule(kGivenStages, microbatches);
  planner::PipelinePlanner fixed(reference, problem.profile, problem.blocking_power_w, {});
  const double deadline_s = fixed.fastest_s();
  const double fixed_j = fixed.plan(deadline_s).energy_j;
  const double begin_s = cpu_s();
  joint::OrderSearch search(problem, deadline_s);
  const double rated_s = cpu_s();
  const joint::RatedOrder first = search.orders()[search.best_at(deadline_s)];
  search.improve_at(deadline_s, joint::solves_for(problem));
  const joint::RatedOrder& best = search.orders()[search.best_at(deadline_s)];
  const double searched_s = cpu_s();
  const plan::Plan plan = plan_on(problem, best.order, deadline_s);
  const double joint_j = replayed_j(problem, best.order, plan);
  const double planned_s = cpu_s();
  const double saved = 1 - joint_j / fixed_j;
  fmt::print("| {} | {} | {} | {:.6g} | {:.1f} | {} ({:.1f}) | {} | {:.1f} | {:.2f} % | {:.2f} + {:.2f} + {:.2f} |\n",
             given.name, microbatches, to_string(memory), deadline_s, fixed_j, first.order.name,
             first.curve.energy_j_at(deadline_s), best.order.name, joint_j, 100 * saved, rated_s - begin_s,
             searched_s - rated_s, planned_s - searched_s);
  if (microbatches != 24) return;
  print_target(fmt::format("Free order at 1F1B's T_min, {}, M = 24, memory {}: less energy than 1F1B + clocks",
                           given.name, to_string(memory)),
               fmt::format("{:.2f} %", 100 * saved), "≥ 15 %", saved >= 0.15);
}

/// EnvPipe's plan against a free order that fits the memory which EnvPipe's order uses, by rank, in the same time.
std::string against(const GivenProfile& given, int microbatches, const planner::Policy& policy) {
  const Pipeline pipeline(given, microbatches);
  const planner::PolicyPlan envpipe = policy.plan(pipeline.problem(), std::nullopt);
  const schedule::Schedule& order = envpipe.schedule ? *envpipe.schedule : pipeline.schedule();
  const schedule::PipelineDag dag = build_dag(order);
  const auto costs = simulator::costs_at_clocks(dag, pipeline.profile(), envpipe.clocks_mhz);
  const simulator::Timeline theirs = replay(dag, costs, pipeline.blocking_power_w());
  const joint::JointProblem problem = problem_of(given, microbatches, {peak_in_flight_activations(order)});
  joint::OrderSearch search(problem, theirs.time_s);
  search.improve_at(theirs.time_s, joint::solves_for(problem));
  const joint::RatedOrder& best = search.orders()[search.best_at(theirs.time_s)];
  const plan::Plan plan = plan_on(problem, best.order, theirs.time_s);
  const double ours_j = replayed_j(problem, best.order, plan);
  const double less_pct = 100 * (1 - ours_j / theirs.energy_j_total);
  print_target(
      fmt::format("Free order in the memory and time of {}, {}, M = {}", policy.name(), given.name, microbatches),
      fmt::format("{:.2f} % less", less_pct), "never more",
      ours_j <= theirs.energy_j_total && plan.time_s <= theirs.time_s * (1 + kTimeTolerance));
  return fmt::format("{:.1f} J, {:.1f} J, {:.2f} %", theirs.energy_j_total, ours_j, less_pct);
}

void study_envpipe() {
  fmt::print(
      "\n| profile | M | against `envpipe-offline`: its energy, ours, less | against `envpipe`: its energy, ours, less "
      "|\n|---|---|---|---|\n");
  for (const GivenProfile* given : kGivenProfiles) {
    for (const int microbatches : {12, 24, 48, 96}) {
      const std::string offline = against(*given, microbatches, policies::EnvPipeOfflinePolicy(given->perseus_unit_s));
      const std::string online =
          against(*given, microbatches, policies::EnvPipePolicy({.extra_activations = {microbatches}}));
      fmt::print("| {} | {} | {} | {} |\n", given->name, microbatches, offline, online);
    }
  }
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  using namespace lowgear::bench;
  if (!require_given_data("joint_order_study")) return 0;
  fmt::print(
      "| profile | M | memory | deadline (s) | 1F1B + clocks (J) | best first order (J, continuous) | best order | its "
      "plan, replayed (J) | less | rating + search + plan (s of CPU) |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int microbatches : {24, 96}) {
    for (const GivenProfile* given : kGivenProfiles) {
      study_case(*given, microbatches, {});
      study_case(*given, microbatches, {{kGivenStages}});
    }
  }
  study_envpipe();
  return 0;
}
