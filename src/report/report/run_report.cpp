#include "report/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "planning/api/plan_replays.h"
#include "planning/api/run_folder.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/profile/example_profile.h"
#include "planning/schedule/dag.h"
#include "rivals/policies/envpipe/envpipe.h"

namespace lowgear::report {

namespace {

Certificate certificate_of(const api::RunContents& contents) {
  Certificate certificate;
  certificate.command = "lowgear verify DIR";
  if (!contents.verified) {
    certificate.statement =
        "The folder holds a certificate of the lower bound; it was not checked when this report was made.";
    return certificate;
  }
  const planner::VerifyReport& verified = *contents.verified;
  certificate.verified = verified.ok();
  certificate.statement =
      verified.ok() ? fmt::format(
                          "Checked by code that shares nothing with the solver: {} of the frontier "
                          "(times possible, flow conserved, energy within {:.3g} % of its proven bound) and {} "
                          "(replayed, deadline kept, largest proven gap {:.3g} %).",
                          counted(verified.vertices, "vertex", "vertices"), verified.epsilon * 100,
                          counted(verified.plans, "plan", "plans"), verified.max_gap_pct)
                    : fmt::format("The check failed: {}", verified.failures.front());
  return certificate;
}

std::vector<OrderRow> order_rows(const api::RunContents& contents) {
  std::vector<OrderRow> rows;
  for (const api::JointOrder& order : contents.run.joint->orders) {
    rows.push_back({.name = order.name,
                    .stages_per_rank = order.stages_per_rank,
                    .peak_activations = std::ranges::max(order.peak_activations),
                    .from_s = 0,
                    .until_s = 0,
                    .plans = {}});
  }
  const auto row_of = [&](int order) -> OrderRow& { return rows.at(static_cast<std::size_t>(order)); };
  for (std::size_t i = 0; i < contents.frontier.size(); ++i) {
    OrderRow& row = row_of(contents.order_of_point[i]);
    if (row.until_s == 0) row.from_s = contents.frontier[i].time_s;
    row.until_s = contents.frontier[i].time_s;
  }
  for (const api::PlanFigures& plan : contents.plans) row_of(plan.order.value_or(0)).plans.push_back(plan.number);
  return rows;
}

/// What only a run with a free order has: its baseline is in another order than the chosen plan.
void add_orders(const api::RunContents& contents, Data& data) {
  const api::JointRun& joint = *contents.run.joint;
  data.schedule = fmt::format("searched, here {}", contents.schedule.name);
  data.stages = static_cast<int>(contents.run.stages);
  data.baseline = {fmt::format("Every op at its highest profiled clock, in the order {}", joint.reference),
                   joint.baseline.time_s, joint.baseline.energy_j};
  if (data.late) data.late->baseline = {joint.baseline.time_s, joint.baseline.energy_j};
  data.baseline_timeline.label = fmt::format("{}, every op at its highest clock", contents.schedule.name);
  data.memory_limit = joint.memory_limit;
  if (joint.partition) {
    data.baseline.description += ", on the given partition";
    data.warnings.push_back(describe(*joint.partition, {contents.chosen.time_s, contents.chosen.energy_j}));
  }
  data.order_of_point = contents.order_of_point;
  data.orders = order_rows(contents);
}

/// The clocks that EnvPipe would start from, where a rank has one stage and all stages share clocks.
void add_envpipe_clocks(const planner::PlanningProblem& problem, std::vector<Valley>& valleys) {
  if (problem.dag->stages != problem.dag->ranks) return;
  std::vector<int> clocks_mhz;
  try {
    clocks_mhz = policies::envpipe_valley_clocks_mhz(problem, {.type = policies::EnvPipeOptions::Type::uniform});
  } catch (const InputError&) {
    return;
  }
  for (Valley& valley : valleys) valley.envpipe_clock_mhz = clocks_mhz.at(static_cast<std::size_t>(valley.stage));
}

}  // namespace

Timeline report_timeline(std::string label, const schedule::PipelineDag& dag, const simulator::Timeline& timeline,
                         const plan::OpChoicesView& choices) {
  Timeline result{std::move(label), timeline.time_s, timeline.energy_j_total, {}};
  result.ranks.resize(static_cast<std::size_t>(dag.ranks));
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    const schedule::ComputeOp& op = dag.ops[i];
    const plan::PlannedOp planned{op.stage,
                                  op.kind,
                                  op.microbatch,
                                  choices.clocks_mhz[i],
                                  timeline.start_s[i],
                                  timeline.duration_s[i],
                                  std::string(choices.setting(i))};
    result.ranks[static_cast<std::size_t>(op.rank)].push_back({planned, timeline.energy_j[i]});
  }
  return result;
}

Data build_report(const api::RunContents& contents) {
  const api::RunFile& run = contents.run;
  const schedule::PipelineDag dag = build_dag(contents.schedule);
  const planner::PlanningProblem problem{&contents.schedule, &dag, &contents.profile, run.blocking_power_w};
  const api::ReplayConditions conditions{run.late_by_s, {}};
  const plan::OpChoices fastest = planner::fastest_settings(dag, contents.profile, max_clocks_mhz(problem));
  const simulator::Timeline baseline = replay_under(problem, fastest, conditions);
  const plan::OpChoices chosen = choices_for(contents.chosen, dag);

  Data data;
  data.lowgear_version = run.version;
  data.command = run.command;
  data.profile_name = std::filesystem::path(run.profile).filename().string();
  data.schedule = run.schedule;
  data.stages = dag.stages;
  data.microbatches = dag.microbatches;
  data.blocking_power_w = run.blocking_power_w;
  data.late_by_s = run.late_by_s;
  if (contents.chosen.clock_lead_s > 0) {
    data.clock_lead_s = contents.chosen.clock_lead_s;
    const api::ReplayConditions late{data.clock_lead_s, {}};
    data.late = {.switch_latency_s = data.clock_lead_s,
                 .plan = api::figures_of(replay_under(problem, chosen, late)),
                 .baseline = api::figures_of(replay_under(problem, fastest, late))};
  }
  data.baseline = {"Every op at its highest profiled clock", baseline.time_s, baseline.energy_j_total};
  data.frontier = contents.frontier;
  data.lower_bound = contents.lower_bound;
  data.certificate = certificate_of(contents);
  data.plans = contents.plans;
  data.chosen_plan = contents.chosen_plan;
  data.policies = run.policies;
  data.chosen = report_timeline(fmt::format("{}, plan {}", contents.chosen.policy, contents.chosen_plan), dag,
                                replay_under(problem, chosen, conditions), chosen);
  data.baseline_timeline = report_timeline("Every op at its highest clock", dag, baseline, fastest);
  data.valleys = valleys_of(contents.profile);
  add_envpipe_clocks(problem, data.valleys);
  data.warnings = run.warnings;
  if (run.joint) add_orders(contents, data);
  return data;
}

Data comparison_report(const api::PolicyComparison& comparison, const api::ProfiledPipeline& pipeline,
                       planner::PipelinePlanner& planner, double late_by_s) {
  const plan::Plan plan = planner.plan(planner.fastest_s());
  const plan::OpChoices choices = choices_for(plan, pipeline.dag);
  const simulator::Timeline replayed = api::replay_under(pipeline.problem(), choices, {late_by_s, {}});
  Data data;
  data.schedule = pipeline.schedule.name;
  data.stages = pipeline.dag.stages;
  data.microbatches = pipeline.dag.microbatches;
  data.blocking_power_w = pipeline.blocking_power_w;
  data.late_by_s = late_by_s;
  data.frontier = api::frontier_points(planner.frontier());
  data.lower_bound = api::lower_bound_points(planner.frontier(), planner.method());
  data.baseline = {"Policy " + comparison.baseline.policy, comparison.baseline.time_s, comparison.baseline.energy_j};
  if (comparison.baseline.late_time_s && comparison.baseline.late_energy_j) {
    data.baseline.late = {*comparison.baseline.late_time_s, *comparison.baseline.late_energy_j};
  }
  data.is_comparison = true;
  data.certificate = {false, "The planner proved the bound as it solved; lowgear plan writes the proof to a file.", ""};
  data.plans = {api::plan_row(0, plan)};
  data.chosen_plan = 0;
  data.chosen = report_timeline("lowgear (T_min)", pipeline.dag, replayed, choices);
  data.policies = comparison.rows;
  data.warnings = comparison.skipped;
  data.warnings.insert(data.warnings.end(), pipeline.doubts.begin(), pipeline.doubts.end());
  data.warnings.insert(data.warnings.end(), comparison.findings.begin(), comparison.findings.end());
  if (is_example_profile(pipeline.profile)) data.warnings.emplace_back(profile::kExampleProfileNotice);
  return data;
}

}  // namespace lowgear::report
