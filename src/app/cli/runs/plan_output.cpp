#include "app/cli/runs/plan_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/cli/runs/plan_tables.h"
#include "app/cli/runs/replayed_plan.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/plan/plan_json.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;

PlanFolder::File read_part(const fs::path& folder, std::string_view name) {
  return {(folder / name).string(), read_file(folder / name)};
}

/// Numbers of the plans that the table lists.
std::vector<int> plan_numbers(const PlanFolder::File& table) {
  std::vector<int> numbers;
  for (const ReportPlan& plan : read_plans_table(table.text, table.name)) numbers.push_back(plan.number);
  return numbers;
}

/// Iteration time with everything at its highest clock.
double baseline_time_s(const RunContents& contents) {
  const PipelineDag dag = build_dag(contents.schedule);
  const PlanningProblem problem{&contents.schedule, &dag, &contents.profile, contents.run.blocking_power_w};
  return replay_under(problem, max_clocks_mhz(problem), {contents.run.switch_latency_s, {}}).time_s;
}

ReportCertificate certificate_of(const RunContents& contents) {
  ReportCertificate certificate;
  certificate.command = "lowgear verify DIR";
  if (!contents.verified) {
    certificate.statement =
        "The folder holds a certificate of the lower bound; it was not checked when this report was made.";
    return certificate;
  }
  const VerifyReport& verified = *contents.verified;
  certificate.verified = verified.ok();
  certificate.statement =
      verified.ok() ? fmt::format(
                          "Checked with code that shares nothing with the solver: {} vertices of the frontier "
                          "(times possible, flow conserved, energy within {:.3g} % of its proven bound) and {} "
                          "plans (replayed, deadline kept, largest proven gap {:.3g} %).",
                          verified.vertices, verified.epsilon * 100, verified.plans, verified.max_gap_pct)
                    : fmt::format("The check failed: {}", verified.failures.front());
  return certificate;
}

}  // namespace

std::string output_file::plan(int number) { return fmt::format("plans/{:05}.json", number); }
std::string output_file::perseus_plan(int number) { return fmt::format("freqs_pipeline_{:05}.py", number); }

/// Throws when the folder holds another number of plans than its table lists: a table cut short would go unnoticed.
void require_listed_plans(const fs::path& folder, std::size_t listed) {
  std::size_t found = 0;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder / fs::path(output_file::plan(0)).parent_path(), error)) {
    found += entry.path().extension() == ".json" ? 1 : 0;
  }
  if (found != listed) {
    throw_input_error({(folder / output_file::kPlans).string(), 0, 0},
                      fmt::format("lists {} plans, and the folder holds {}", listed, found), "plan again");
  }
}

PlanFolder read_plan_folder(const fs::path& folder) {
  if (!fs::is_regular_file(folder / output_file::kRun)) {
    throw_input_error({folder.string(), 0, 0}, fmt::format("holds no {}", output_file::kRun),
                      "name a folder that lowgear plan has written");
  }
  const bool has_own_frontier = fs::exists(folder / output_file::kExactFrontier);
  PlanFolder files;
  files.run = read_part(folder, output_file::kRun);
  files.profile = read_part(folder, output_file::kProfile);
  files.schedule = read_part(folder, output_file::kSchedule);
  files.frontier = read_part(folder, has_own_frontier ? output_file::kExactFrontier : output_file::kFrontier);
  files.plans_table = read_part(folder, output_file::kPlans);
  files.certificate = read_part(folder, output_file::kCertificate);
  for (const int number : plan_numbers(files.plans_table)) {
    files.plans.push_back(read_part(folder, output_file::plan(number)));
  }
  require_listed_plans(folder, files.plans.size());
  return files;
}

bool keeps_time(double time_s, double baseline_time_s) {
  constexpr double kRounding = 1e-9;
  return time_s <= baseline_time_s * (1 + kRounding);
}

int plan_to_show(std::span<const ReportPlan> plans, double baseline_time_s) {
  int number = plans.front().number;
  for (const ReportPlan& plan : plans) {
    if (keeps_time(plan.time_s, baseline_time_s)) number = plan.number;
  }
  return number;
}

RunContents read_run_contents(const PlanFolder& files, const fs::path& folder) {
  RunContents contents;
  contents.run = read_run(files.run.text, files.run.name);
  contents.profile = read_stage_profile(files.profile.text, files.profile.name);
  contents.schedule = read_torch_csv(files.schedule.text, files.schedule.name);
  contents.schedule.name = contents.run.schedule;
  if (contents.schedule.rank_count() != contents.run.stages) {
    throw_input_error(
        {files.schedule.name, 0, 0},
        fmt::format("has {} ranks, and run.json says {}", contents.schedule.rank_count(), contents.run.stages),
        "plan again");
  }
  contents.frontier = read_frontier_table(files.frontier.text, files.frontier.name);
  if (fs::exists(folder / output_file::kLowerBound)) {
    const PlanFolder::File bound = read_part(folder, output_file::kLowerBound);
    contents.lower_bound = read_frontier_table(bound.text, bound.name);
  }
  contents.plans = read_plans_table(files.plans_table.text, files.plans_table.name);
  contents.chosen_plan = plan_to_show(contents.plans, baseline_time_s(contents));
  const auto place = std::ranges::find(contents.plans, contents.chosen_plan, &ReportPlan::number);
  const PlanFolder::File& chosen = files.plans.at(static_cast<std::size_t>(place - contents.plans.begin()));
  contents.chosen = read_plan(chosen.text, chosen.name);
  return contents;
}

ReportData build_report(const RunContents& contents) {
  const RunFile& run = contents.run;
  const PipelineDag dag = build_dag(contents.schedule);
  const PlanningProblem problem{&contents.schedule, &dag, &contents.profile, run.blocking_power_w};
  const ReplayConditions conditions{run.switch_latency_s, {}};
  const std::vector<int> fastest = max_clocks_mhz(problem);
  const Timeline baseline = replay_under(problem, fastest, conditions);
  const std::vector<int> chosen = clocks_for(contents.chosen, dag);

  ReportData data;
  data.lowgear_version = run.version;
  data.command = run.command;
  data.profile_name = fs::path(run.profile).filename().string();
  data.schedule = run.schedule;
  data.stages = dag.stages;
  data.microbatches = dag.microbatches;
  data.blocking_power_w = run.blocking_power_w;
  data.switch_latency_s = run.switch_latency_s;
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
  data.warnings = run.warnings;
  return data;
}

}  // namespace lowgear
