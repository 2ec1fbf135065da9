#include "app/cli/plan/plan_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "app/cli/arguments/options.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/plan/plan_run.h"
#include "app/cli/terminal/progress.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/version.h"
#include "planning/api/profile_fitting.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/torch_csv.h"
#include "planning/steps/expert_loads.h"

namespace lowgear::cli {
namespace {

constexpr auto kClocksPerWords = std::to_array<std::string_view>({"unit", "replica"});
constexpr auto kPredictWords = std::to_array<std::string_view>({"last", "mean"});
constexpr auto kStepsAlone = std::to_array<const char*>(
    {"--recorded", "--fit-steps", "--predict", "--expert-ranks", "--late-steps", "--clocks-per"});
constexpr double kPerCent = 100;

/// What `plan --lengths` takes besides.
constexpr auto kTaken = std::to_array<std::string_view>(
    {"profile",        "lengths", "recorded",     "fit-steps",      "predict",   "expert-ranks",   "late-steps",
     "clocks-per",     "out",     "stages",       "microbatches",   "schedule",  "virtual-stages", "p2p",
     "blocking-power", "gpu",     "accept-units", "switch-latency", "ask-ahead", "json",           "quiet",
     "help",           "help-all"});

/// A pipeline whose steps are planned.
struct StepsPipeline {
  profile::StageProfile profile;
  schedule::Schedule schedule;
  schedule::PipelineDag dag;
  BlockingPower blocking;
  std::optional<double> switch_latency_s;
  std::vector<profile::PredictedRow> predicted;  ///< rows of the profile that no GPU measured
  bool simulated = false;                        ///< the others are of simulated GPUs
  std::vector<std::string> doubts;
};

/// Rows of its only stage for all stages.
profile::StageProfile same_for_all(const profile::StageProfile& profile, int stages) {
  profile::StageProfile all(stages);
  for (int stage = 0; stage < stages; ++stage) {
    for (const profile::StageOp& op : profile.ops()) {
      for (const profile::Measurement& row : op.measurements) all.add(stage, op.kind, row);
    }
  }
  return all;
}

StepsPipeline load_steps_pipeline(PipelineArguments arguments, int stages, int microbatches) {
  if (arguments.profile.empty()) {
    throw InputError("missing: the profile (a CSV file); for example: lowgear plan profile.csv --lengths trace.csv");
  }
  ScheduleArguments& named = arguments.schedule;
  if (is_schedule_name(named.schedule)) {
    if (!named.microbatches) named.microbatches = microbatches;
    if (!named.stages) named.stages = stages / named.chunks.value_or(1);
  }
  StepsPipeline pipeline;
  const profile::ProfileFile file = load_profile(arguments.profile, arguments.units);
  pipeline.switch_latency_s = file.switch_latency_s;
  pipeline.profile = profile::at_fastest_settings(file.profile);
  if (pipeline.profile.stages() == 1 && stages > 1) {
    pipeline.profile = same_for_all(pipeline.profile, stages);
    pipeline.doubts.push_back(fmt::format("{}: has one stage, which stands for all {}", arguments.profile, stages));
  } else if (pipeline.profile.stages() != stages) {
    throw_input_error({arguments.profile, 0, 0},
                      fmt::format("has {} stages, and the steps have {}", pipeline.profile.stages(), stages),
                      "profile those stages, or keep one stage, which then stands for all");
  }
  pipeline.schedule = without_communication(load_schedule(named, &pipeline.profile, {}));
  if (auto note = frozen_stages_note(named, pipeline.schedule)) pipeline.doubts.push_back(std::move(*note));
  pipeline.profile = api::fit_profile(std::move(pipeline.profile), pipeline.schedule, arguments.shares);
  pipeline.predicted = predicted_rows_of(file.profile, file.predicted, pipeline.profile);
  pipeline.simulated = file.simulated;
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.blocking = blocking_power_of(arguments, file, pipeline.schedule.rank_count());
  for (std::string& doubt : doubts_of(file, pipeline.blocking, arguments.gpu_name, arguments.units)) {
    pipeline.doubts.push_back(std::move(doubt));
  }
  return pipeline;
}

/// The files that state steps, read.
struct StepsInput {
  steps::Trace recorded;
  std::optional<steps::Lengths> lengths;  ///< none: those of the trace are not stated
};

/// The file, or of a folder, which is a recording, its files of expert loads.
std::vector<planner::PlanFolder::File> load_lengths(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<planner::PlanFolder::File> files;
  std::error_code error;
  if (!fs::is_directory(path, error)) return {{path, read_file(path, kMaxFileBytes)}};
  std::set<fs::path> names;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code no_file;
    if (steps::is_expert_loads_file(entry->path().filename().string()) && entry->is_regular_file(no_file))
      names.insert(entry->path());
  }
  if (error) {
    throw_input_error({path, 0, 0}, fmt::format("cannot be read: {}", error.message()),
                      "name a folder that can be read");
  }
  files.reserve(names.size());
  for (const fs::path& name : names) files.push_back({name.string(), read_file(name, kMaxFileBytes)});
  if (!files.empty()) return files;
  throw_input_error({path, 0, 0}, fmt::format("is a folder without {}*.csv", steps::kExpertLoadsFiles),
                    "name a file, or a recording of a model with experts");
}

StepsInput load_input(const StepsArguments& arguments) {
  const std::vector<planner::PlanFolder::File> files = load_lengths(arguments.lengths);
  const auto& [source, text] = files.front();
  const bool has_loads = steps::is_expert_loads(text, source);
  if (has_loads != (arguments.expert_ranks > 0)) {
    throw InputError(has_loads ? "--lengths: states loads of experts; add --expert-ranks N, the ranks that they are on"
                               : "--expert-ranks: goes with loads of experts, which --lengths does not name");
  }
  if (steps::is_trace(text, source)) {
    if (!arguments.recorded.empty()) {
      throw InputError("--recorded: goes with a file of lengths, and --lengths names a trace, which has times itself");
    }
    if (arguments.foresight != steps::Foresight::own) {
      throw InputError("--predict: predicts lengths or loads, and --lengths names a trace, which states none");
    }
    return {steps::read_trace(text, source), std::nullopt};
  }
  if (arguments.recorded.empty()) {
    throw InputError(
        "--lengths: the file states lengths alone; add --recorded FILE, times of some of its steps at full clocks, "
        "from "
        "which times by length are fitted");
  }
  steps::Trace recorded = steps::read_trace(read_file(arguments.recorded, kMaxFileBytes), arguments.recorded);
  steps::Lengths lengths = has_loads ? steps::read_expert_loads(files, arguments.expert_ranks, recorded.stages)
                                     : steps::read_lengths(text, source);
  return {std::move(recorded), std::move(lengths)};
}

/// One line for each step that runs at full clocks, up to a few.
void warn_of_faults(const steps::StepRun& run, std::vector<std::string>& warnings) {
  constexpr std::size_t kShown = 5;
  std::size_t count = 0;
  for (const steps::PlannedStep& step : run.steps) {
    if (step.fault.empty()) continue;
    if (++count <= kShown) warnings.push_back(fmt::format("step {} runs at full clocks: {}", step.number, step.fault));
  }
  if (count > kShown) {
    warnings.push_back(
        fmt::format("{} more steps run at full clocks: see the notes in {}", count - kShown, output_file::kSteps));
  }
}

/// Steps that earlier ones plan, whose own amounts cannot be replayed.
void warn_of_own_faults(const steps::StepRun& run, std::vector<std::string>& warnings) {
  const auto is_faulty = [](const steps::PlannedStep& step) { return !step.not_replayed.empty(); };
  const auto first = std::ranges::find_if(run.steps, is_faulty);
  if (first == run.steps.end()) return;
  const auto count = std::ranges::count_if(run.steps, is_faulty);
  warnings.push_back(fmt::format("step {} is not replayed: {}{}", first->number, first->not_replayed,
                                 count == 1 ? "" : fmt::format("; {} steps are not", count)));
}

/// Recorded steps that neither the fit nor a replay can use.
void warn_of_recorded(const StepsInput& input, const std::string& source, std::vector<std::string>& warnings) {
  if (!input.lengths) return;  // they run at full clocks, which is said of each
  const auto has_fault = [](const steps::Trace::Step& step) { return !step.fault.empty(); };
  const auto first = std::ranges::find_if(input.recorded.steps, has_fault);
  if (first == input.recorded.steps.end()) return;
  const auto count = std::ranges::count_if(input.recorded.steps, has_fault);
  warnings.push_back(fmt::format("{}: {} taken as not recorded: step {}: {}{}", source,
                                 count == 1 ? "a step is" : fmt::format("{} steps are", count), first->number,
                                 first->fault, count == 1 ? "" : ", and others"));
}

/// Says so where more steps are late than was asked for, and where plans end late by their own predicted times.
void warn_of_lateness(const StepsPlan& plan, std::vector<std::string>& warnings) {
  constexpr double kRounding = 1e-9;
  for (const steps::Deal deal : plan.run.deals) {
    const bool enough = plan.run.keeps_lateness.at(steps::place(deal));
    for (const auto& [which, words] :
         {std::pair(steps::Which::fitted, "fitted"), std::pair(steps::Which::held_out, "other replayed")}) {
      const steps::StepTotals sums = totals(plan.run, deal, steps::Times::replayed, which);
      if (sums.late_share <= plan.file.late_share) continue;
      warnings.push_back(
          fmt::format("{}: {} of {} {} steps end late by more than {} % ({} % asked){}", deal_words(deal),
                      sums.late_steps, sums.steps, words, kPerCent * steps::kLate, kPerCent * plan.file.late_share,
                      enough ? "" : fmt::format(": no margin up to {} % is enough", kPerCent * steps::kMaxMargin)));
    }
    int late = 0;
    double most = 0;
    for (const steps::PlannedStep& step : plan.run.steps) {
      const steps::StepPair* const pair = figures(step, deal, steps::Times::predicted);
      const double lateness = pair == nullptr ? 0 : pair->plan.time_s / pair->full_clocks.time_s - 1;
      if (lateness > kRounding) ++late;
      most = std::max(most, lateness);
    }
    if (late == 0) continue;
    warnings.push_back(
        fmt::format("{}: {} of {} steps end late by their own predicted times, at most {:.2g} %: ranks "
                    "begin a step with the clocks of the one before",
                    deal_words(deal), late, plan.run.steps.size(), kPerCent * most));
  }
}

}  // namespace

void add_steps_options(CLI::App& app, StepsArguments& arguments) {
  app.add_option(
         "--lengths", arguments.lengths,
         "Plan every step for its own lengths: a CSV of the documents' lengths in each microbatch, loads of experts "
         "(also the folder of a recording), or a trace of times at full clocks "
         "(step,dp_rank,stage,op,microbatch,duration_us)")
      ->type_name("FILE");
  app.add_option("--recorded", arguments.recorded,
                 "Trace of some of these steps at full clocks, from which times by length are fitted")
      ->type_name("FILE");
  add_whole_number(app, "--fit-steps", {1, 1'000'000}, into(arguments.fit_steps),
                   "Steps, from the first recorded one, on which times are fitted; the others show how well they are "
                   "predicted (default: half)");
  add_choice(
      app, "--predict", kPredictWords,
      [&arguments](std::size_t place) {
        arguments.foresight = place == 0 ? steps::Foresight::last : steps::Foresight::mean;
      },
      "Plan each step by the lengths or loads of earlier ones, for work that is known only afterwards: a mean in which "
      "the newest count most (last), or one of all (mean), as a plan made once has it");
  add_whole_number(app, "--expert-ranks", {1, 65'536}, into(arguments.expert_ranks),
                   "Ranks of each replica that share its experts, neighbours together (needs loads of experts)");
  add_quantity(
      app, "--late-steps", Unit::percent, {0, kPerCent}, into(arguments.late_pct),
      "Steps in per cent that may take over 0.5 % longer than at full clocks; the margin follows from the errors "
      "of predicted times (default 10)");
  add_choice(
      app, "--clocks-per", kClocksPerWords,
      [&arguments](std::size_t place) {
        arguments.clocks_per = place == 0 ? steps::ClocksPer::unit : steps::ClocksPer::replica;
      },
      "One clock for each unit of a step (unit, the default), or one for each replica and step (replica)");
  group_options(
      app, "Steps of their own lengths",
      {"--lengths", "--recorded", "--fit-steps", "--predict", "--expert-ranks", "--late-steps", "--clocks-per"});
}

bool plans_steps(const CLI::App& app) {
  if (app.get_option("--lengths")->count() == 0) {
    for (const char* const option : kStepsAlone) {
      if (app.get_option(option)->count() > 0) throw InputError(fmt::format("{}: goes with --lengths", option));
    }
    return false;
  }
  for (const CLI::Option* const option : app.get_options()) {
    if (option->count() == 0 || std::ranges::find(kTaken, option->get_single_name()) != kTaken.end()) continue;
    throw InputError(fmt::format("{}: plans of one iteration have it, and --lengths plans steps", option->get_name()));
  }
  return true;
}

StepsPlan plan_of_steps(const StepsRequest& request, Progress& progress, Console& console) {
  const StepsInput input = load_input(request.steps);
  StepsPipeline pipeline = load_steps_pipeline(request.pipeline, input.recorded.stages, input.recorded.microbatches);
  SwitchLatencyArgument latency = request.switch_latency;
  latency.complete_for_plan(pipeline.switch_latency_s);
  StagedDirectory folder(request.out, std::string(output_file::kRun));

  progress.update("fitting times", -1);
  const int fit_steps = request.steps.fit_steps;
  const steps::PredictedSteps predicted =
      input.lengths ? predict_steps(pipeline.dag, *input.lengths, input.recorded, fit_steps, request.steps.foresight)
                    : predict_steps(pipeline.dag, input.recorded, fit_steps);
  StepsPlan plan;
  plan.out = request.out;
  plan.warnings = pipeline.doubts;
  plan.simulated = pipeline.simulated;
  if (input.lengths) {
    for (const std::string& doubt : input.lengths->doubts)
      plan.warnings.push_back(fmt::format("{}: {}", request.steps.lengths, doubt));
  }
  const steps::StepRunOptions options{.clocks_per = request.steps.clocks_per,
                                      .late_by_s = latency.late_by_s(),
                                      .late_share = request.steps.late_pct / kPerCent,
                                      .runner = run_parallel,
                                      .threads = std::max(1U, std::thread::hardware_concurrency()),
                                      .clock = wall_clock()};
  plan.run = plan_steps(predicted, pipeline.dag, pipeline.profile, pipeline.blocking.by_rank_w, options, progress);
  plan.file = {.version = version(),
               .command = request.command,
               .profile = request.pipeline.profile,
               .lengths = request.steps.lengths,
               .recorded = request.steps.recorded,
               .schedule = pipeline.schedule.name,
               .steps = static_cast<int>(plan.run.steps.size()),
               .fitted_steps = static_cast<int>(std::ranges::count_if(plan.run.steps, &steps::PlannedStep::fitted)),
               .replicas = predicted.replicas,
               .ranks = pipeline.schedule.rank_count(),
               .microbatches = pipeline.schedule.microbatches,
               .foresight = request.steps.foresight,
               .expert_ranks = request.steps.expert_ranks,
               .blocking_power_w = pipeline.blocking.by_rank_w,
               .clocks_per = options.clocks_per,
               .clock_lead_s = latency.lead_s,
               .late_by_s = options.late_by_s,
               .late_share = options.late_share,
               .margins = plan.run.margins,
               .inferred = predicted.inferred,
               .prediction_error = predicted.error,
               .model = predicted.model};
  warn_of_recorded(input, request.steps.recorded, plan.warnings);
  warn_of_faults(plan.run, plan.warnings);
  warn_of_own_faults(plan.run, plan.warnings);
  warn_of_lateness(plan, plan.warnings);

  folder.write(output_file::kRun, write_steps_file(plan.file));
  folder.write(output_file::kProfile,
               profile::write_profile_file({.profile = pipeline.profile,
                                            .columns = stage_columns(pipeline.dag, pipeline.blocking.by_rank_w),
                                            .switch_latency_s = pipeline.switch_latency_s,
                                            .predicted = pipeline.predicted,
                                            .simulated = pipeline.simulated}));
  folder.write(output_file::kSchedule, write_torch_csv(pipeline.schedule));
  folder.write(output_file::kSteps, write_steps_table(plan.run));
  folder.write(output_file::kReplicas, write_replicas_table(plan.run));
  if (predicted.deals_are_given) folder.write(output_file::kAmounts, write_amounts_table(*input.lengths));
  folder.write(output_file::kReport, steps_page(plan));
  commit_over(request.out, folder, console);
  return plan;
}

}  // namespace lowgear::cli
