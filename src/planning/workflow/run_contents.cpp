#include "planning/workflow/run_contents.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/torch_csv.h"
#include "planning/workflow/replayed_plan.h"

namespace lowgear::workflow {
namespace {

/// Iteration time with everything at its highest clock.
double baseline_time_s(const RunContents& contents) {
  const schedule::PipelineDag dag = build_dag(contents.schedule);
  const planner::PlanningProblem problem{&contents.schedule, &dag, &contents.profile, contents.run.blocking_power_w};
  return replay_under(problem, max_clocks_mhz(problem), {contents.run.switch_latency_s, {}}).time_s;
}

}  // namespace

RunContents read_run_contents(const planner::PlanFolder& files,
                              const std::optional<planner::PlanFolder::File>& lower_bound) {
  RunContents contents;
  contents.run = read_run(files.run.text, files.run.name);
  contents.profile = profile::read_stage_profile(files.profile.text, files.profile.name);
  contents.schedule = schedule::read_torch_csv(files.schedule.text, files.schedule.name);
  contents.schedule.name = contents.run.schedule;
  if (contents.schedule.rank_count() != contents.run.stages) {
    throw_input_error(
        {files.schedule.name, 0, 0},
        fmt::format("has {} ranks, and run.json says {}", contents.schedule.rank_count(), contents.run.stages),
        "plan again");
  }
  contents.frontier = read_frontier_table(files.frontier.text, files.frontier.name);
  if (lower_bound) contents.lower_bound = read_frontier_table(lower_bound->text, lower_bound->name);
  contents.plans = read_plans_table(files.plans_table.text, files.plans_table.name);
  contents.chosen_plan = plan_to_show(contents.plans, baseline_time_s(contents));
  const auto place = std::ranges::find(contents.plans, contents.chosen_plan, &PlanFigures::number);
  const planner::PlanFolder::File& chosen = files.plans.at(static_cast<std::size_t>(place - contents.plans.begin()));
  contents.chosen = plan::read_plan(chosen.text, chosen.name);
  return contents;
}

RunContents read_joint_contents(const planner::JointFolder& files) {
  RunContents contents;
  contents.run = read_run(files.run.text, files.run.name);
  if (!contents.run.joint || contents.run.joint->orders.size() != files.orders.size()) {
    throw_input_error({files.run.name, 0, 0}, "does not list the orders of the folder", "plan again");
  }
  for (const JointPoint& point : read_joint_frontier(files.frontier.text, files.frontier.name)) {
    contents.frontier.push_back({point.time_s, point.energy_j});
    contents.order_of_point.push_back(point.order);
  }
  contents.lower_bound = read_frontier_table(files.lower_bound.text, files.lower_bound.name);
  contents.plans = read_plans_table(files.plans_table.text, files.plans_table.name);
  contents.chosen_plan = plan_to_show(contents.plans, contents.run.joint->baseline.time_s);
  const auto place = std::ranges::find(contents.plans, contents.chosen_plan, &PlanFigures::number);
  const planner::PlanFolder::File& chosen = files.plans.at(static_cast<std::size_t>(place - contents.plans.begin()));
  contents.chosen = plan::read_plan(chosen.text, chosen.name);
  const auto number = static_cast<std::size_t>(place->order.value_or(0));
  if (number >= files.orders.size()) {
    throw_input_error({files.plans_table.name, 0, 0}, fmt::format("names an order {}", number), "plan again");
  }
  const planner::PlanFolder& order = files.orders[number];
  contents.profile = profile::read_stage_profile(order.profile.text, order.profile.name);
  contents.schedule = schedule::read_torch_csv(order.schedule.text, order.schedule.name);
  contents.schedule.name = contents.run.joint->orders[number].name;
  return contents;
}

}  // namespace lowgear::workflow
