#include "planning/api/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "planning/api/plan_replays.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::api {

namespace {

int count_at(const CsvTable& table, std::size_t row, std::size_t column) {
  constexpr long long kMost = 1'000'000'000;
  const long long value = table.integer(row, column);
  if (value < 0 || value > kMost) throw_input_error(table.where(row, column), fmt::format("{} is out of range", value));
  return static_cast<int>(value);
}

void require_rows(const CsvTable& table) {
  if (table.rows() == 0) throw_input_error({table.source(), 0, 0}, "has no rows", "plan again");
}

std::string text_of(std::optional<double> value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace

std::string write_frontier_table(std::span<const simulator::PipelineFigures> points) {
  std::string out = "time_s,energy_j\n";
  for (const simulator::PipelineFigures& point : points) {
    fmt::format_to(std::back_inserter(out), "{},{}\n", point.time_s, point.energy_j);
  }
  return out;
}

std::vector<simulator::PipelineFigures> read_frontier_table(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  require_rows(table);
  const std::size_t time = table.column("time_s");
  const std::size_t energy = table.column("energy_j");
  std::vector<simulator::PipelineFigures> points;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    points.push_back({table.number(row, time), table.number(row, energy)});
  }
  return points;
}

PlanFigures plan_row(int number, const plan::Plan& plan) {
  return {number, plan.deadline_s, plan.time_s, plan.energy_j, plan.lower_bound_j, plan.switches};
}

std::string write_plans_table(std::span<const PlanFigures> plans) {
  const bool with_orders = std::ranges::any_of(plans, [](const PlanFigures& plan) { return plan.order.has_value(); });
  std::string out = "plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches";
  out += with_orders ? ",order,joint_bound_j\n" : "\n";
  for (const PlanFigures& plan : plans) {
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{}{}\n", plan.number, plan.deadline_s, plan.time_s,
                   plan.energy_j, text_of(plan.lower_bound_j),
                   text_of(plan::gap_pct(plan.energy_j, plan.lower_bound_j)), plan.switches,
                   with_orders ? fmt::format(",{},{}", plan.order.value_or(0), text_of(plan.joint_bound_j)) : "");
  }
  return out;
}

std::vector<PlanFigures> read_plans_table(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  require_rows(table);
  const std::size_t number = table.column("plan");
  const std::size_t deadline = table.column("deadline_s");
  const std::size_t time = table.column("time_s");
  const std::size_t energy = table.column("energy_j");
  const std::size_t bound = table.column("lower_bound_j");
  const std::size_t switches = table.column("switches");
  const auto order = table.has_column("order") ? std::optional(table.column("order")) : std::nullopt;
  const auto joint_bound =
      table.has_column("joint_bound_j") ? std::optional(table.column("joint_bound_j")) : std::nullopt;
  std::vector<PlanFigures> plans;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PlanFigures plan;
    plan.number = count_at(table, row, number);
    plan.deadline_s = table.number(row, deadline);
    plan.time_s = table.number(row, time);
    plan.energy_j = table.number(row, energy);
    if (!table.text(row, bound).empty()) plan.lower_bound_j = table.number(row, bound);
    plan.switches = count_at(table, row, switches);
    if (order) plan.order = count_at(table, row, *order);
    if (joint_bound && !table.text(row, *joint_bound).empty()) plan.joint_bound_j = table.number(row, *joint_bound);
    plans.push_back(plan);
  }
  return plans;
}

bool keeps_time(double time_s, double baseline_time_s) {
  constexpr double kRounding = 1e-9;
  return time_s <= baseline_time_s * (1 + kRounding);
}

int plan_to_show(std::span<const PlanFigures> plans, double baseline_time_s) {
  int number = plans.front().number;
  for (const PlanFigures& plan : plans) {
    if (keeps_time(plan.time_s, baseline_time_s)) number = plan.number;
  }
  return number;
}

namespace {

/// Iteration time with everything at its highest clock.
double baseline_time_s(const RunContents& contents) {
  const schedule::PipelineDag dag = build_dag(contents.schedule);
  const planner::PlanningProblem problem{&contents.schedule, &dag, &contents.profile, contents.run.blocking_power_w};
  return replay_under(problem, max_clocks_mhz(problem), {contents.run.late_by_s, {}}).time_s;
}

}  // namespace

RunContents read_run_contents(const planner::PlanFolder& files,
                              const std::optional<planner::PlanFolder::File>& lower_bound) {
  RunContents contents;
  contents.run = read_run(files.run.text, files.run.name);
  contents.profile = profile::read_profile_file(files.profile.text, files.profile.name).profile;
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
  contents.profile = profile::read_profile_file(order.profile.text, order.profile.name).profile;
  contents.schedule = schedule::read_torch_csv(order.schedule.text, order.schedule.name);
  contents.schedule.name = contents.run.joint->orders[number].name;
  return contents;
}

}  // namespace lowgear::api
