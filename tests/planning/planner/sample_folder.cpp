#include "planning/planner/sample_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "planning/planner/frontier/certificate.h"
#include "planning/planner/frontier/sandwich.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {
namespace {

/// Every op at the clock that is `steps_down` below its highest, or its lowest.
std::vector<int> clocks_below_highest(const SampleRun& run, const schedule::PipelineDag& dag, std::size_t steps_down) {
  std::vector<int> clocks_mhz;
  for (const schedule::ComputeOp& op : dag.ops) {
    const auto measured = run.profile.measurements(op.stage, op.kind);
    clocks_mhz.push_back(measured[std::min(steps_down, measured.size() - 1)].clock_mhz);
  }
  return clocks_mhz;
}

plan::Plan plan_of(const SampleRun& run, const schedule::PipelineDag& dag, const Frontier& frontier,
                   std::vector<int> clocks_mhz) {
  const plan::OpChoices choices = fastest_settings(dag, run.profile, std::move(clocks_mhz));
  const simulator::Timeline timeline = simulator::replay(
      dag, simulator::costs_with_switch_latency(dag, run.profile, choices, run.late_by_s), run.blocking_power_w);
  plan::Plan plan;
  plan.policy = "lowgear";
  plan.schedule = run.schedule.name;
  plan.microbatches = dag.microbatches;
  plan.deadline_s = timeline.time_s * 1.01;
  plan.time_s = timeline.time_s;
  plan.energy_j = timeline.energy_j_total;
  plan.lower_bound_j = frontier.lower_bound_j_at(ps_from_s(plan.time_s));
  plan.ranks = planned_ops(dag, timeline, choices);
  plan.switches = count_switches(plan.ranks);
  return plan;
}

std::string run_json(const SampleRun& run) {
  return fmt::format(
      R"({{"format": "lowgear.run/1", "version": "0.1.0", "policy": "lowgear", "profile": "sample.csv", "stages": {},
  "microbatches": {}, "schedule": "{}", "blocking_power_w": [{}], "frontier_method": "{}", "epsilon": {},
  "granularity": "per_op", "late_by_s": {}}}
)",
      run.schedule.rank_count(), run.schedule.microbatches, run.schedule.name, fmt::join(run.blocking_power_w, ", "),
      run.sandwich_epsilon > 0 ? "sandwich" : "exact", run.sandwich_epsilon, run.late_by_s);
}

std::string frontier_csv(const Frontier& frontier) {
  std::string text = "time_s,energy_j\n";
  for (const FrontierVertex& vertex : frontier.vertices()) {
    fmt::format_to(std::back_inserter(text), "{},{}\n", s_from_ps(vertex.time_ps), frontier.energy_j(vertex));
  }
  return text;
}

Frontier solve(const SampleRun& run, const schedule::PipelineDag& dag, CertificateRecorder& recorder) {
  const ProblemInstance instance = make_planning_model(dag, run.profile, run.blocking_power_w).instance;
  FrontierObserver* const observer = &recorder;
  const std::span<FrontierObserver* const> observers(&observer, 1);
  if (run.sandwich_epsilon > 0) return solve_sandwich(instance, run.sandwich_epsilon, observers).frontier;
  return solve_frontier(instance, observers);
}

}  // namespace

profile::StageProfile sample_profile(int stages, int clocks) {
  profile::StageProfile profile(stages);
  for (int stage = 0; stage < stages; ++stage) {
    for (int step = 0; step < clocks; ++step) {
      const int clock_mhz = 1410 - 60 * step;
      const double relative = clock_mhz / 1410.0;
      const double time_s = (0.010 + 0.040 / relative) * (1 + 0.07 * ((stage * 5) % 7));
      const double power_w = 120 + 280 * relative * relative * relative * (1 + 0.02 * stage);
      profile.add(stage, OpKind::forward, {clock_mhz, time_s, power_w * time_s});
      profile.add(stage, OpKind::backward, {clock_mhz, 2.1 * time_s, 2.05 * power_w * time_s});
      profile.add(stage, OpKind::input_gradient, {clock_mhz, 1.2 * time_s, 1.15 * power_w * time_s});
      profile.add(stage, OpKind::weight_gradient, {clock_mhz, 0.9 * time_s, 0.9 * power_w * time_s});
    }
  }
  return profile;
}

SampleRun sample_run() {
  SampleRun run;
  run.schedule = schedule::one_f_one_b_schedule(3, 4);
  run.profile = sample_profile(3, 6);
  run.blocking_power_w = {80, 83.64, 75.5};
  return run;
}

PlanFolder sample_folder(const SampleRun& run) {
  const schedule::PipelineDag dag = build_dag(run.schedule);
  CertificateRecorder recorder;
  const Frontier frontier = solve(run, dag, recorder);
  PlanFolder folder;
  folder.run = {"run.json", run_json(run)};
  folder.profile = {"profile.csv", profile::write_profile_file({.profile = run.profile})};
  folder.schedule = {"schedule.csv", write_torch_csv(run.schedule)};
  folder.frontier = {"frontier.csv", frontier_csv(frontier)};
  folder.certificate = {"certificate.txt", recorder.text()};
  folder.plans_table = {"plans.csv", "plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches\n"};
  for (const std::size_t steps_down : {0, 2}) {
    std::vector<int> clocks_mhz = clocks_below_highest(run, dag, steps_down);
    if (steps_down > 0) clocks_mhz.back() = clocks_below_highest(run, dag, 0).back();
    const plan::Plan plan = plan_of(run, dag, frontier, clocks_mhz);
    fmt::format_to(std::back_inserter(folder.plans_table.text), "{},{},{},{},{},{},{}\n", folder.plans.size(),
                   plan.deadline_s, plan.time_s, plan.energy_j, *plan.lower_bound_j, *plan.gap_pct(), plan.switches);
    folder.plans.push_back({fmt::format("plans/{:05}.json", folder.plans.size()), write_plan(plan)});
  }
  return folder;
}

}  // namespace lowgear::planner
