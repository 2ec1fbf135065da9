#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "app/cli/arguments/joint_arguments.h"
#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/plan/plan_run.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/text/plan_text.h"
#include "base/core/error.h"
#include "base/core/files/memory_files.h"
#include "base/core/units.h"
#include "planning/api/profile_fitting.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/api/run_folder.h"
#include "planning/api/work_replan.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/layers/layer_profile.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"

namespace lowgear::cli {
namespace {

/// The plan that a job follows: the one that the report of a folder shows, of a given order or of a searched one.
struct FollowedPlan {
  api::RunContents contents;                      ///< profile and schedule are those of the plan's order
  std::optional<profile::StageProfile> by_rank;   ///< one stage for each rank; empty: not known
  std::optional<profile::Partition> layers = {};  ///< as the planner has moved them, `api::ChangedLayers::counts`
};

/// The changed work with a free order.
struct FreeOrderChange {
  WorkChangeArguments work;
  std::optional<std::string> memory_limit;  ///< empty: that of the plan's own search, else `1f1b`
  std::optional<double> backward_split;     ///< share of the input gradient, where the profile has whole backwards only
  bool keep_partition = false;
};

/// `--layers` (`partition_from_layers`) for that many ranks or stages; of a plan that states its layers, those. Throws
/// InputError when it states others.
profile::Partition stated_layers(const FollowedPlan& plan, const std::string& layers, int count) {
  if (!plan.layers) return partition_from_layers(layers, count);
  const profile::Partition& stated = *plan.layers;
  const bool is_sum = layers == fmt::to_string(std::accumulate(stated.begin(), stated.end(), 0));
  if (is_sum || layers == fmt::format("{}", fmt::join(stated, ","))) return stated;
  throw InputError(fmt::format("--layers {}: the plan's layers are {}, as it has moved them; give their sum", layers,
                               fmt::join(stated, ",")));
}

void require_backwards(const JointInput& input, const profile::Partition& partition) {
  try {
    require_trained(input.problem);
  } catch (const InputError&) {
    throw InputError(fmt::format(
        "--schedule auto: with the layers {} a stage has nothing left to train, and orders are searched for "
        "pipelines that train every stage; leave out --schedule auto, or freeze fewer layers",
        fmt::join(partition, ",")));
  }
}

/// Costs of layers are those of their stage in equal parts, which they no longer are where some of them were changed.
/// A power cap and slow ranks are no part of the profile, and other policies plan other clocks.
void require_changeable(const api::RunFile& run, const std::string& folder) {
  if (!run.conditions.empty()) {
    throw InputError(
        fmt::format("{}: its plan is for {}, which a plan of changed work does not know; give the folder of a "
                    "plan without",
                    folder, fmt::join(run.conditions, " and ")));
  }
  if (run.policy != planner::kLowgearPolicy) {
    throw InputError(
        fmt::format("{}: its plan is one of the policy {}, and changed work is planned with lowgear; give the folder "
                    "of a plan without --policy",
                    folder, run.policy));
  }
  if (!run.layers || run.layers->alike) return;
  throw InputError(
      fmt::format("{}: some of its layers are frozen or scaled already ({}); give the folder of the plan before that, "
                  "and state all changes",
                  folder, run.command));
}

/// Throws InputError when `lowgear plan` has not written the folder, and as `require_changeable` does.
FollowedPlan read_followed_plan(const std::filesystem::path& folder) {
  FollowedPlan plan;
  if (is_joint_folder(folder)) {
    const planner::JointFolder files = read_joint_folder(folder);
    plan.contents = api::read_joint_contents(files);
    plan.by_rank = profile::read_profile_file(files.profile.text, files.profile.name).profile;
  } else {
    plan.contents = read_run_contents(read_plan_folder(folder), folder);
    if (plan.contents.schedule.stages == plan.contents.schedule.rank_count()) plan.by_rank = plan.contents.profile;
  }
  const api::RunFile& run = plan.contents.run;
  require_changeable(run, folder.string());
  if (run.layers) plan.layers = run.layers->counts;
  if (run.joint && run.joint->partition) plan.layers = run.joint->partition->chosen;
  return plan;
}

/// The layers of every stage of the plan's order. Throws InputError as `stated_layers` does, and when a rank has
/// several stages and layers that they cannot have equal parts of.
profile::Partition followed_partition(const FollowedPlan& plan, const std::string& layers) {
  const schedule::Schedule& order = plan.contents.schedule;
  const profile::Partition stated = stated_layers(plan, layers, order.stages);
  if (stated.size() == static_cast<std::size_t>(order.stages)) return stated;
  const int chunks = order.stages / order.rank_count();
  profile::Partition parts;
  for (const int rank : rank_of_stage(order)) {
    const int of_rank = stated.at(static_cast<std::size_t>(rank));
    if (of_rank % chunks != 0) {
      throw InputError(fmt::format(
          "the plan's order {} has {} stages on each rank, and its layers, {} by rank, are no such parts: give "
          "--schedule auto",
          order.name, chunks, fmt::join(stated, ",")));
    }
    parts.push_back(of_rank / chunks);
  }
  return parts;
}

/// What to plan jointly: the changed work on the layers of the plan, from where the search moves them on. Where those
/// leave the first rank nothing to train, which the search needs, the given partition is the balanced one instead.
/// Throws InputError when a stage would have frozen layers alone, the plan has several stages on a rank and no profile
/// by rank, and as `changed_profile` and `layer_profile_of` do.
JointInput joint_input(const FollowedPlan& plan, const FreeOrderChange& change) {
  const api::RunFile& run = plan.contents.run;
  if (!plan.by_rank) {
    throw InputError(
        fmt::format("--schedule auto: the plan's order {} has several stages on a rank, and the search needs a profile "
                    "with one for each; plan it with lowgear plan --schedule auto first",
                    plan.contents.schedule.name));
  }
  const int ranks = plan.contents.schedule.rank_count();
  profile::Partition partition = stated_layers(plan, change.work.layers, ranks);
  const profile::StageProfile measured =
      change.backward_split ? api::split_backward(*plan.by_rank, *change.backward_split) : *plan.by_rank;
  const profile::LayerProfile layers = layer_profile_of(measured, partition);
  profile::LayerProfile changed = changed_profile(layers, work_change(change.work, layers.layers.stages()));
  const std::string planned_limit = run.joint ? run.joint->memory_limit : "1f1b";

  JointInput input;
  if (!change.keep_partition && change.work.frozen_layers >= partition.front()) {
    const profile::Partition balanced = balanced_partition(changed, ranks);
    input.doubts.push_back(
        fmt::format("the plan's layers, {} by rank, leave the first rank nothing to train: orders cannot be searched "
                    "there, and the balanced layers {} count as given",
                    fmt::join(partition, ","), fmt::join(balanced, ",")));
    partition = balanced;
  }
  input.profile_name = run.profile;
  joint::JointProblem& problem = input.problem;
  problem.profile = stage_profile_of(changed, partition);
  problem.blocking_power_w = run.blocking_power_w;
  problem.simulated = plan.contents.chosen.simulated;
  problem.microbatches = change.work.microbatches.value_or(plan.contents.schedule.microbatches);
  problem.memory = joint::parse_memory_limit(change.memory_limit.value_or(planned_limit));
  require_backwards(input, partition);
  (void)most_activations(problem.memory, ranks, problem.microbatches, 1);  // says whether it is for so many ranks
  api::require_planning_memory(ranks, problem.microbatches, kMostChunks, available_memory_bytes());
  if (!change.keep_partition) input.free_layers = api::FreeLayers{std::move(changed), partition};
  return input;
}

constexpr auto kStepTimeWords = std::to_array<std::string_view>({"old", "own"});
constexpr auto kOrderWords = std::to_array<std::string_view>({"kept", "auto"});

struct ReplanArguments {
  std::string folder;
  WorkChangeArguments change;
  bool keep_partition = false;
  api::StepTime step_time = api::StepTime::old_time;
  std::optional<double> deadline_s;
  bool is_order_free = false;               ///< `--schedule auto`
  std::optional<std::string> memory_limit;  ///< of a free order
  std::optional<double> backward_split;     ///< of a free order
  std::string out;
  std::string command;
  bool json = false;
};

/// The schedule with another number of microbatches, if one was asked for.
schedule::Schedule changed_schedule(const api::RunContents& contents, std::optional<int> microbatches) {
  const schedule::Schedule& before = contents.schedule;
  if (!microbatches || *microbatches == before.microbatches) return before;
  const int chunks = before.stages / before.rank_count();
  api::require_planning_memory(before.rank_count(), *microbatches, chunks, available_memory_bytes());
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

planner::PlannerOptions options_of_run(const api::RunFile& run) {
  // The frontier's method is chosen anew: stages may differ where they did not before.
  return {.method = planner::FrontierMethod::automatic,
          .epsilon = run.epsilon,
          .granularity = run.granularity,
          .switch_latency_s = run.late_by_s};
}

api::WorkReplanRequest replan_request(const ReplanArguments& arguments, const FollowedPlan& plan) {
  const api::RunContents& contents = plan.contents;
  api::WorkReplanRequest request;
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
void take_clocks_of(const api::RunContents& contents, PlannerArguments& planner,
                    std::optional<double>& switch_latency_s) {
  planner.epsilon = contents.run.epsilon;
  planner.granularity = contents.run.granularity;
  // A plan whose clocks are requested ahead was planned as if they changed at once.
  planner.switch_latency.asks_ahead = contents.chosen.clock_lead_s > 0;
  const double latency_s = std::max(contents.run.late_by_s, contents.chosen.clock_lead_s);
  if (latency_s > 0) switch_latency_s = latency_s;
  planner.switch_latency.latency_s = latency_s;
  planner.switch_latency.source = SwitchLatencyArgument::Source::plan_before;
  planner.switch_latency.complete_for_plan({});
}

api::ChangedLayers changed_layers(const WorkChangeArguments& arguments, profile::Partition counts) {
  const int layers = std::accumulate(counts.begin(), counts.end(), 0);
  const api::WorkChange change = work_change(arguments, layers);
  const bool alike = change.frozen_layers == 0 && std::ranges::all_of(change.scales, [&](const api::LayerScale& scale) {
                       return scale.begin == 0 && scale.end == layers;
                     });
  return {.counts = std::move(counts), .alike = alike};
}

/// The new work as `lowgear plan` would write it.
void write_plan_folder(const ReplanArguments& arguments, const api::RunContents& contents,
                       const api::WorkReplan& replan, Progress& progress, Console& console) {
  const api::PlannedWork& work = replan.after;
  PlanArguments plan;
  plan.out = arguments.out;
  plan.command = arguments.command;
  plan.changed_layers = changed_layers(arguments.change, work.partition);
  plan.deadlines.deadline_s = work.plan.deadline_s;
  plan.pipeline.gpu_name = contents.chosen.gpu_name;
  PipelineInput input;
  input.file.source = contents.run.profile;
  input.pipeline = work.pipeline;
  input.pipeline.simulated = contents.chosen.simulated;
  take_clocks_of(contents, plan.planner, input.file.switch_latency_s);
  StagedDirectory folder(arguments.out, std::string(output_file::kRun));
  const int layers = std::accumulate(work.partition.begin(), work.partition.end(), 0);
  (void)make_plans(plan, std::move(input), folder, progress,
                   changed_work(replan, work_change(arguments.change, layers)));
  commit_over(arguments.out, folder, console);
}

ExitCode run_with_kept_order(const ReplanArguments& arguments, const FollowedPlan& before, Console& console) {
  if (arguments.memory_limit || arguments.backward_split) {
    throw InputError(fmt::format("{}: only a search of orders uses it: give --schedule auto",
                                 arguments.memory_limit ? "--memory-limit" : "--backward-split"));
  }
  const api::RunContents& contents = before.contents;
  std::optional<ProgressBar> progress(std::in_place);
  api::WorkReplan replan = replan_work(replan_request(arguments, before), &*progress);
  replan.before.plan = contents.chosen;  // what the job follows, whatever would be planned now
  if (!arguments.out.empty()) write_plan_folder(arguments, contents, replan, *progress, console);
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
  console.print(replan_text(replan) + simulated_text(contents.chosen.simulated));
  if (!arguments.out.empty()) {
    console.print(fmt::format("next      check the proof: lowgear verify {}\n", shell_word(arguments.out)));
  }
  return ExitCode::ok;
}

api::Deadlines deadlines_of(const ReplanArguments& arguments, const api::RunContents& contents, int microbatches) {
  if (arguments.deadline_s) return {.deadline_s = arguments.deadline_s};
  if (arguments.step_time == api::StepTime::own_fastest) return {.slowdown_pct = 0};
  return {.deadline_s = contents.chosen.deadline_s * microbatches / contents.schedule.microbatches};
}

ExitCode run_with_free_order(const ReplanArguments& arguments, const FollowedPlan& before, Console& console) {
  if (arguments.out.empty()) throw InputError("--schedule auto needs --out: the new order is written there");
  const api::RunContents& contents = before.contents;
  JointInput input = joint_input(before, {.work = arguments.change,
                                          .memory_limit = arguments.memory_limit,
                                          .backward_split = arguments.backward_split,
                                          .keep_partition = arguments.keep_partition});
  PlanArguments plan;
  plan.out = arguments.out;
  plan.command = arguments.command;
  plan.changed_layers =
      changed_layers(arguments.change, stated_layers(before, arguments.change.layers, contents.schedule.rank_count()));
  plan.deadlines = deadlines_of(arguments, contents, input.problem.microbatches);
  plan.pipeline.gpu_name = contents.chosen.gpu_name;
  take_clocks_of(contents, plan.planner, input.switch_latency_s);
  const ReplannedFrom from{.name = contents.schedule.name,
                           .microbatches = contents.schedule.microbatches,
                           .figures = {contents.chosen.time_s, contents.chosen.energy_j}};
  StagedDirectory folder(arguments.out, std::string(output_file::kRun));
  std::optional<ProgressBar> progress(std::in_place);
  const JointPlanSummary summary = make_joint_plans(plan, std::move(input), folder, *progress);
  progress.reset();
  commit_over(arguments.out, folder, console);
  say_warnings(summary.result.warnings, summary.result.findings, {}, console);
  if (arguments.json) {
    Json json = joint_plan_json(plan, summary);
    json.update(replanned_json(from, summary.result));
    console.print_json(json);
  } else {
    console.print(replanned_text(from, summary.result) + joint_plan_text(plan, summary));
  }
  return ExitCode::ok;
}

ExitCode run_replan(const ReplanArguments& arguments, Console& console) {
  std::error_code unknown;
  const bool is_written = !arguments.out.empty() && MemoryFiles::keeper_of(arguments.out) == nullptr;
  if (is_written && std::filesystem::equivalent(arguments.out, arguments.folder, unknown)) {
    throw InputError("--out: is the folder of --change, whose plan later changes start from; name another one");
  }
  const FollowedPlan before = read_followed_plan(arguments.folder);
  return arguments.is_order_free ? run_with_free_order(arguments, before, console)
                                 : run_with_kept_order(arguments, before, console);
}

}  // namespace

VerbAction declare_replan(CLI::App& app) {
  auto arguments = std::make_shared<ReplanArguments>();
  app.add_option("folder,--change", arguments->folder,
                 "Folder that lowgear plan has written for the job before any layer was frozen")
      ->type_name("DIR")
      ->required();
  add_work_change_options(app, arguments->change);
  app.add_flag("--keep-partition", arguments->keep_partition,
               "Leave the layers where they are, as for an attached job; change the clocks only");
  CLI::Option* time = add_choice(
      app, "--time", kStepTimeWords,
      [arguments](std::size_t place) {
        arguments->step_time = place == 0 ? api::StepTime::old_time : api::StepTime::own_fastest;
      },
      "Deadline of an iteration: the time per microbatch of the plan before (old, the default), or the shortest "
      "possible time (own)");
  add_quantity(app, "--deadline", Unit::second, {0, kMaxTimeS}, into(arguments->deadline_s),
               "Longest iteration time instead, in s")
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
  add_quantity(
      app, "--backward-split", Unit::share, {1e-6, 1 - 1e-6}, into(arguments->backward_split),
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
