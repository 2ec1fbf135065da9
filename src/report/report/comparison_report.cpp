#include "report/report/comparison_report.h"

#include "planning/profile/example_profile.h"
#include "planning/workflow/frontier_curve.h"
#include "planning/workflow/plan_tables.h"
#include "planning/workflow/replayed_plan.h"
#include "report/report/run_report.h"

namespace lowgear::report {

Data comparison_report(const workflow::PolicyComparison& comparison, const workflow::ProfiledPipeline& pipeline,
                       planner::PipelinePlanner& planner, double switch_latency_s) {
  const plan::Plan plan = planner.plan(planner.fastest_s());
  const plan::OpChoices choices = choices_for(plan, pipeline.dag);
  const simulator::Timeline replayed = workflow::replay_under(pipeline.problem(), choices, {switch_latency_s, {}});
  Data data;
  data.schedule = pipeline.schedule.name;
  data.stages = pipeline.dag.stages;
  data.microbatches = pipeline.dag.microbatches;
  data.blocking_power_w = pipeline.blocking_power_w;
  data.switch_latency_s = switch_latency_s;
  data.frontier = workflow::frontier_points(planner.frontier());
  data.lower_bound = workflow::lower_bound_points(planner.frontier(), planner.method());
  data.baseline = {"Policy " + comparison.baseline.policy, comparison.baseline.time_s, comparison.baseline.energy_j};
  data.certificate = {false, "Proven by the planner as it solved; lowgear plan writes the proof down.", ""};
  data.plans = {workflow::plan_row(0, plan)};
  data.chosen_plan = 0;
  data.chosen = report_timeline("lowgear, fastest", pipeline.dag, replayed, choices);
  data.policies = comparison.rows;
  data.warnings = comparison.skipped;
  data.warnings.insert(data.warnings.end(), pipeline.doubts.begin(), pipeline.doubts.end());
  data.warnings.insert(data.warnings.end(), comparison.findings.begin(), comparison.findings.end());
  if (is_example_profile(pipeline.profile)) data.warnings.emplace_back(profile::kExampleProfileNotice);
  return data;
}

}  // namespace lowgear::report
