#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/cli/arguments/command_line.h"
#include "app/cli/arguments/joint_arguments.h"
#include "app/cli/arguments/options.h"
#include "app/cli/arguments/work_change_arguments.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/runs/joint_plan_run.h"
#include "app/cli/runs/plan_output.h"
#include "app/cli/runs/plan_run.h"
#include "app/cli/runs/replan_input.h"
#include "app/cli/terminal/memory.h"
#include "app/cli/terminal/progress_bar.h"
#include "app/cli/text/plan/joint_plan_text.h"
#include "app/cli/text/replan_text.h"
#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/schedule/generators.h"
#include "planning/workflow/planning_memory.h"
#include "planning/workflow/work_replan.h"

namespace lowgear::cli {
namespace {

constexpr auto kStepTimeWords = std::to_array<std::string_view>({"old", "own"});
constexpr auto kOrderWords = std::to_array<std::string_view>({"kept", "auto"});

struct ReplanArguments {
  std::string folder;
  WorkChangeArguments change;
  bool keep_partition = false;
  workflow::StepTime step_time = workflow::StepTime::old_time;
  std::optional<double> deadline_s;
  bool is_order_free = false;               ///< `--schedule auto`
  std::optional<std::string> memory_limit;  ///< of a free order
  std::optional<double> backward_split;     ///< of a free order
  std::string out;
  std::string command;
  bool json = false;
};

/// The schedule with another number of microbatches, if one was asked for.
schedule::Schedule changed_schedule(const workflow::RunContents& contents, std::optional<int> microbatches) {
  const schedule::Schedule& before = contents.schedule;
  if (!microbatches || *microbatches == before.microbatches) return before;
  const int chunks = before.stages / before.rank_count();
  workflow::require_planning_memory(before.rank_count(), *microbatches, chunks, available_memory_bytes());
  try {
    return schedule::make_schedule({.name = before.name,
                                    .ranks = before.rank_count(),
                                    .microbatches = *microbatches,
                                    .chunks = chunks,
                                    .envpipe_stages = {}});
  } catch (const InputError& error) {
    throw InputError(fmt::format("--microbatches: the order {} cannot be made for {}: {}; plan it with lowgear plan",
                                 before.name, *microbatches, error.what()));
  }
}

planner::PlannerOptions options_of_run(const workflow::RunFile& run) {
  // The frontier's method is chosen anew: stages may differ where they did not before.
  return {.method = planner::FrontierMethod::automatic,
          .epsilon = run.epsilon,
          .granularity = run.granularity,
          .switch_latency_s = run.switch_latency_s};
}

workflow::WorkReplanRequest replan_request(const ReplanArguments& arguments, const FollowedPlan& plan) {
  const workflow::RunContents& contents = plan.contents;
  workflow::WorkReplanRequest request;
  request.partition = followed_partition(plan, arguments.change.layers);
  request.profile = profile::layer_profile_of(contents.profile, request.partition);
  request.blocking_power_w = contents.run.blocking_power_w;
  request.before.schedule = contents.schedule;
  request.deadline_s = contents.chosen.deadline_s;
  request.after = {work_change(arguments.change, request.profile.layers.stages()),
                   changed_schedule(contents, arguments.change.microbatches)};
  request.keep_partition = arguments.keep_partition;
  request.step_time = arguments.step_time;
  request.after_deadline_s = arguments.deadline_s;
  request.planner = options_of_run(contents.run);
  return request;
}

/// How a plan of the new work asks for its clocks: as the plan before.
void take_clocks_of(const workflow::RunContents& contents, PlannerArguments& planner,
                    std::optional<double>& switch_latency_s) {
  planner.epsilon = contents.run.epsilon;
  planner.granularity = contents.run.granularity;
  // A plan that asks for clocks ahead was planned as if they changed at once.
  planner.switch_latency.ask_ahead = contents.chosen.clock_lead_s > 0;
  const double latency_s = std::max(contents.run.switch_latency_s, contents.chosen.clock_lead_s);
  if (latency_s > 0) switch_latency_s = latency_s;
  planner.switch_latency.complete_from(switch_latency_s);
}

/// The new work as `lowgear plan` would write it.
void write_plan_folder(const ReplanArguments& arguments, const workflow::RunContents& contents,
                       const workflow::PlannedWork& work, Progress& progress) {
  PlanArguments plan;
  plan.out = arguments.out;
  plan.command = arguments.command;
  plan.deadlines.deadline_s = work.plan.deadline_s;
  plan.pipeline.gpu_name = contents.chosen.gpu_name;
  PipelineInput input;
  input.profile_name = contents.run.profile;
  input.pipeline = work.pipeline;
  take_clocks_of(contents, plan.planner, input.switch_latency_s);
  StagedDirectory folder(arguments.out, std::string(output_file::kRun));
  (void)make_plans(plan, std::move(input), folder, progress);
  folder.commit();
}

ExitCode run_with_kept_order(const ReplanArguments& arguments, const FollowedPlan& before, Console& console) {
  if (arguments.memory_limit || arguments.backward_split) {
    throw InputError(fmt::format("{}: only a search of orders uses it: give --schedule auto",
                                 arguments.memory_limit ? "--memory-limit" : "--backward-split"));
  }
  const workflow::RunContents& contents = before.contents;
  std::optional<ProgressBar> progress(std::in_place);
  const workflow::WorkReplan replan = replan_work(replan_request(arguments, before), &*progress);
  if (!arguments.out.empty()) write_plan_folder(arguments, contents, replan.after, *progress);
  progress.reset();
  for (const std::string& warning : contents.run.warnings) console.note(warning);
  if (replan.after.finding) console.warn(*replan.after.finding);
  if (arguments.json) {
    Json json = replan_json(replan);
    json["warnings"] = contents.run.warnings;
    if (replan.after.finding) json["warnings"].push_back(*replan.after.finding);
    if (!arguments.out.empty()) json["out"] = arguments.out;
    console.print_json(json);
    return ExitCode::ok;
  }
  console.print(replan_text(replan));
  if (!arguments.out.empty()) {
    console.print(fmt::format("next      check the proof: lowgear verify {}\n", shell_word(arguments.out)));
  }
  return ExitCode::ok;
}

workflow::Deadlines deadlines_of(const ReplanArguments& arguments, const workflow::RunContents& contents,
                                 int microbatches) {
  if (arguments.deadline_s) return {.deadline_s = arguments.deadline_s};
  if (arguments.step_time == workflow::StepTime::own_fastest) return {.slowdown_pct = 0};
  return {.deadline_s = contents.chosen.deadline_s * microbatches / contents.schedule.microbatches};
}

ExitCode run_with_free_order(const ReplanArguments& arguments, const FollowedPlan& before, Console& console) {
  if (arguments.out.empty()) throw InputError("--schedule auto needs --out: the new order is written there");
  const workflow::RunContents& contents = before.contents;
  JointInput input = joint_input(before, {.work = arguments.change,
                                          .memory_limit = arguments.memory_limit,
                                          .backward_split = arguments.backward_split,
                                          .keep_partition = arguments.keep_partition});
  PlanArguments plan;
  plan.out = arguments.out;
  plan.command = arguments.command;
  plan.deadlines = deadlines_of(arguments, contents, input.problem.microbatches);
  plan.pipeline.gpu_name = contents.chosen.gpu_name;
  take_clocks_of(contents, plan.planner, input.switch_latency_s);
  const ReplannedFrom from{.name = contents.schedule.name,
                           .microbatches = contents.schedule.microbatches,
                           .figures = {contents.chosen.time_s, contents.chosen.energy_j}};
  StagedDirectory folder(arguments.out, std::string(output_file::kRun));
  std::optional<ProgressBar> progress(std::in_place);
  const JointPlanSummary summary = make_joint_plans(plan, std::move(input), folder, *progress);
  folder.commit();
  progress.reset();
  for (const std::string& warning : summary.result.warnings) {
    if (warning == summary.result.finding) {
      console.warn(warning);
    } else {
      console.note(warning);
    }
  }
  if (arguments.json) {
    Json json = joint_plan_json(arguments.out, summary);
    json.update(replanned_json(from, summary.result));
    console.print_json(json);
  } else {
    console.print(replanned_text(from, summary.result) + joint_plan_text(arguments.out, summary.result));
  }
  return ExitCode::ok;
}

ExitCode run_replan(const ReplanArguments& arguments, Console& console) {
  const FollowedPlan before = read_followed_plan(arguments.folder);
  return arguments.is_order_free ? run_with_free_order(arguments, before, console)
                                 : run_with_kept_order(arguments, before, console);
}

}  // namespace

VerbAction declare_replan(CLI::App& app) {
  auto arguments = std::make_shared<ReplanArguments>();
  app.add_option("folder", arguments->folder, "Folder that lowgear plan has written, for the work with nothing frozen")
      ->type_name("DIR")
      ->required();
  add_work_change_options(app, arguments->change);
  app.add_flag("--keep-partition", arguments->keep_partition,
               "Leave the layers where they are, as for an attached job; change the clocks only");
  CLI::Option* time = add_choice(
      app, "--time", kStepTimeWords,
      [arguments](std::size_t place) {
        arguments->step_time = place == 0 ? workflow::StepTime::old_time : workflow::StepTime::own_fastest;
      },
      "How long an iteration may take: as long per microbatch as the plan before (old, the default), or as short as "
      "possible (own)");
  add_number(app, "--deadline", {0, kMaxTimeS}, into(arguments->deadline_s), "Longest iteration time instead, in s")
      ->type_name("SECONDS")
      ->excludes(time);
  add_choice(
      app, "--schedule", kOrderWords, [arguments](std::size_t place) { arguments->is_order_free = place == 1; },
      "The order of the new plan: as before (kept, the default), or searched together with partition and clocks "
      "(auto), "
      "as by lowgear plan --schedule auto: for a job that starts anew from its checkpoint. Needs --out");
  add_memory_limit_option(app, arguments->memory_limit);
  app.get_option("--memory-limit")
      ->description(
          "With --schedule auto: activations that fit into the memory of each rank, as 1f1b or microbatches (8, or "
          "8,8,6,4); default: as the plan before was searched with, else 1f1b");
  add_number(app, "--backward-split", {1e-6, 1 - 1e-6}, into(arguments->backward_split),
             "With --schedule auto: share of a backward pass' time and energy that its input gradient takes, where the "
             "profile has whole ones only");
  app.add_option("--out", arguments->out, "Also write the new plan to this folder, as lowgear plan does")
      ->type_name("DIR");
  add_json_flag(app, arguments->json);
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    return run_replan(*arguments, console);
  };
}

}  // namespace lowgear::cli
