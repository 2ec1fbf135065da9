#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/arguments/profile_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/terminal/table.h"
#include "app/cli/text/plan_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/memory_files.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/text.h"
#include "planning/api/plan_replays.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/recorded_energy.h"
#include "planning/profile/recording_check.h"
#include "planning/profile/switch_latency.h"
#include "planning/schedule/communication.h"
#include "report/report/chrome_trace.h"
#include "report/report/measured_timeline.h"
#include "report/report/run_report.h"
#include "rivals/formats/perseus_plan.h"

namespace lowgear::cli {
namespace {

struct SimulateArguments {
  PipelineArguments pipeline;
  std::string plan;
  std::vector<simulator::StageSlowdown> slow_stages;
  SwitchLatencyArgument switch_latency;
  int pipelines = 1;
  std::optional<double> slow_pipeline;
  std::string trace;
  std::vector<std::string> measured;  ///< recordings
  std::optional<int> iteration;       ///< of them, for the trace
  bool json = false;
};

/// A plan on the pipeline it is for.
struct PlannedPipeline {
  PipelineInput input;
  plan::OpChoices choices;
  std::optional<plan::Plan> plan;  ///< absent for plans of Perseus, which state no figures of ours
};

/// Results of the replays, and the comparison of a recording with them.
struct Simulation {
  api::PlanReplays replays;
  std::vector<report::MeasuredTimeline> measured;         ///< empty: nothing was recorded
  std::optional<report::IterationComparison> comparison;  ///< of these with the replay
  std::vector<std::string> warnings;                      ///< about the recording
};

/// With energies that can be; names ranks that have no recording.
std::vector<profile::Recording> load_settled_recordings(const std::vector<std::string>& paths,
                                                        std::vector<std::string>& warnings) {
  std::vector<profile::Recording> recordings = load_recordings(paths, MarkedInvalid::refused);
  const std::string missing = profile::missing_text(recordings);
  if (!missing.empty()) warnings.push_back(missing + ": measured iterations are those of the other ranks");
  for (profile::Recording& recording : recordings) {
    settle_energy(recording);
    warnings.insert(warnings.end(), recording.warnings.begin(), recording.warnings.end());
  }
  for (std::string& line : profile::uncompared_energies(recordings)) warnings.push_back(std::move(line));
  return recordings;
}

/// Where a tenth of the units or more ran at other clocks than those of the plan; empty: fewer did.
std::string other_clocks_text(const report::IterationComparison& comparison) {
  long long units = 0;
  long long others = 0;
  for (const report::UnitComparison& cell : comparison.units) {
    units += cell.units;
    others += cell.at_other_clocks;
  }
  if (10 * others < units) return "";
  return fmt::format(
      "{} of {} recorded units ran at other clocks than the plan's: the recording is not of this plan, or clocks were "
      "not set, and differences of times show that too",
      others, units);
}

/// Plans of Perseus are Python lists, possibly after comments; ours are JSON objects.
bool is_perseus_plan(std::string_view text) {
  if (text.starts_with(kUtf8ByteOrderMark)) text.remove_prefix(kUtf8ByteOrderMark.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '[' || text[first] == '#');
}

/// The option overrides the plan.
std::string_view gpu_name_of(const SimulateArguments& arguments, const plan::Plan& plan) {
  return arguments.pipeline.gpu_name.empty() ? plan.gpu_name : arguments.pipeline.gpu_name;
}

/// The copy of the profile in the folder of `lowgear plan` that holds this plan; empty where there is none.
std::string profile_beside(const std::filesystem::path& plan) {
  const std::filesystem::path folder = plan.parent_path().parent_path();
  const bool is_run = file_exists(folder / output_file::kRun) && file_exists(folder / output_file::kProfile);
  return is_run ? (folder / output_file::kProfile).string() : "";
}

/// Where the profile's times at the plan's clocks are not those that it was planned with.
std::optional<std::string> other_profile(const plan::Plan& plan, const api::ProfiledPipeline& pipeline,
                                         const std::string& profile) {
  constexpr double kMeasuredAgain = 1.1;  // and the switch latency that plans may count
  double planned_s = 0;
  double profiled_s = 0;
  for (const std::vector<plan::PlannedOp>& rank : plan.ranks) {
    for (const plan::PlannedOp& op : rank) {
      planned_s += op.duration_s;
      profiled_s += pipeline.profile.at_clock(op.stage, op.kind, op.clock_mhz).time_s;
    }
  }
  if (profiled_s <= kMeasuredAgain * planned_s && planned_s <= kMeasuredAgain * profiled_s) return std::nullopt;
  return fmt::format(
      "{} is not the plan's profile: by it the ops take {:.4g} s together, by the plan {:.4g} s; leave it out to take "
      "the profile.csv of the plan's folder",
      profile, profiled_s, planned_s);
}

/// Throws InputError where an option states another pipeline than the plan does.
void refuse_another_pipeline(const ScheduleArguments& given, const plan::Plan& plan) {
  const auto refuse = [](std::string_view option, const auto& value, const auto& planned) {
    throw InputError(
        fmt::format("{} {}: the plan has {}; leave it out: a plan states its pipeline", option, value, planned));
  };
  const int ranks = static_cast<int>(plan.ranks.size());
  if (given.stages && *given.stages != ranks) refuse("--stages", *given.stages, counted(ranks, "rank", "ranks"));
  if (given.microbatches && *given.microbatches != plan.microbatches)
    refuse("--microbatches", *given.microbatches, plan.microbatches);
  if (given.schedule != ScheduleArguments{}.schedule && is_schedule_name(given.schedule) &&
      lower_case(given.schedule) != plan.schedule) {
    refuse("--schedule", given.schedule, plan.schedule);
  }
}

PlannedPipeline load_own_plan(const SimulateArguments& arguments, std::string_view text) {
  PlannedPipeline planned;
  planned.plan = plan::read_plan(text, arguments.plan);
  refuse_another_pipeline(arguments.pipeline.schedule, *planned.plan);
  PipelineInput& input = planned.input;
  api::ProfiledPipeline& pipeline = input.pipeline;
  const std::string profile =
      arguments.pipeline.profile.empty() ? profile_beside(arguments.plan) : arguments.pipeline.profile;
  if (profile.empty()) {
    throw InputError(
        fmt::format("missing: the profile, a CSV file; for example: lowgear verify --replay {} profile.csv",
                    shell_word(arguments.plan)));
  }
  input.file = load_profile(profile, arguments.pipeline.units);
  pipeline.schedule = api::schedule_of(*planned.plan);
  PipelineArguments named = arguments.pipeline;
  named.gpu_name = gpu_name_of(arguments, *planned.plan);
  const BlockingPower blocking = blocking_power_of(named, input.file, pipeline.schedule.rank_count());
  pipeline.blocking_power_w = blocking.by_rank_w;
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.profile = api::fit_profile(input.file.profile, pipeline.schedule, arguments.pipeline.shares);
  pipeline.predicted = predicted_rows_of(input.file.profile, input.file.predicted, pipeline.profile);
  pipeline.doubts = doubts_of(input.file, blocking, named.gpu_name, named.units);
  planned.choices = choices_for(*planned.plan, pipeline.dag);
  if (const auto doubt = other_profile(*planned.plan, pipeline, profile)) pipeline.doubts.push_back(*doubt);
  return planned;
}

PlannedPipeline load_plan(const SimulateArguments& arguments) {
  const std::string text = read_file(arguments.plan, plan::kMaxPlanBytes);
  if (!is_perseus_plan(text)) return load_own_plan(arguments, text);
  PlannedPipeline planned;
  planned.input = load_pipeline(arguments.pipeline);
  const schedule::PipelineDag& dag = planned.input.pipeline.dag;
  planned.choices.clocks_mhz = formats::is_power_states(text)
                                   ? clocks_for(formats::read_power_states(text, arguments.plan), dag)
                                   : clocks_for(formats::read_perseus_plan(text, arguments.plan), dag);
  return planned;
}

Simulation simulate(const SimulateArguments& arguments, const PlannedPipeline& planned) {
  ProgressBar progress;
  const api::ReplayRequest request{.conditions = {arguments.switch_latency.late_by_s(), arguments.slow_stages},
                                   .late_s = arguments.switch_latency.late_s(),
                                   .pipelines = arguments.pipelines,
                                   .slow_pipeline = arguments.slow_pipeline,
                                   .progress = &progress};
  const api::ProfiledPipeline& pipeline = planned.input.pipeline;
  Simulation result;
  result.replays = replay_plan(pipeline, planned.choices, request);
  if (!arguments.measured.empty()) {
    const std::vector<profile::Recording> recordings = load_settled_recordings(arguments.measured, result.warnings);
    result.measured = report::measured_timelines(recordings, pipeline.dag);
    result.comparison =
        compare_with(result.measured, pipeline.dag, result.replays.timeline.duration_s, planned.choices.clocks_mhz);
    if (std::string doubt = other_clocks_text(*result.comparison); !doubt.empty()) {
      result.warnings.push_back(std::move(doubt));
    }
  }
  return result;
}

void require_cluster_without_latency(const SimulateArguments& arguments) {
  if (arguments.slow_pipeline && arguments.pipelines < 2) {
    throw InputError("--slow-pipeline slows one of several pipelines: give --pipelines 2 or more");
  }
  if (arguments.pipelines > 1 && arguments.switch_latency.late_by_s() > 0) {
    throw InputError("--switch-latency is not simulated for clusters: give it without --pipelines");
  }
}

/// The iteration that the trace shows: the one asked for, or the last.
const report::MeasuredTimeline& traced_iteration(const SimulateArguments& arguments,
                                                 const std::vector<report::MeasuredTimeline>& measured) {
  if (!arguments.iteration) return measured.back();
  const auto found = std::ranges::find(measured, *arguments.iteration, &report::MeasuredTimeline::iteration);
  if (found != measured.end()) return *found;
  throw InputError(fmt::format("--iteration {}: was not recorded completely; there are {} from {} to {}",
                               *arguments.iteration, measured.size(), measured.front().iteration,
                               measured.back().iteration));
}

std::string write_trace(const SimulateArguments& arguments, const PlannedPipeline& planned, const Simulation& result) {
  const std::string label = planned.plan ? planned.plan->policy : "perseus plan";
  const report::Timeline replayed =
      report::report_timeline(fmt::format("{}, {}", label, arguments.plan), planned.input.pipeline.dag,
                              result.replays.timeline, planned.choices);
  const std::vector<double>& blocking_power_w = planned.input.pipeline.blocking_power_w;
  if (result.measured.empty()) return write_chrome_trace(replayed, blocking_power_w, report::TraceFigures::replayed);
  return write_chrome_trace(replayed, blocking_power_w, report::TraceFigures::replayed,
                            traced_iteration(arguments, result.measured));
}

Json comparison_json(const Simulation& result) {
  const report::IterationComparison& comparison = *result.comparison;
  Json units = Json::array();
  for (const report::UnitComparison& unit : comparison.units) {
    units.push_back({{"stage", unit.stage},
                     {"kind", name(unit.kind)},
                     {"units", unit.units},
                     {"replayed_s", unit.expected_s},
                     {"measured_s", unit.measured_s},
                     {"deviation_s", unit.deviation_s},
                     {"difference_pct", unit.difference_pct()}});
  }
  return {{"figures", figures_of(result.measured.back())},
          {"iterations", comparison.iterations},
          {"time_s", comparison.measured_s},
          {"difference_pct", 100 * (comparison.measured_s / result.replays.timeline.time_s - 1)},
          {"time_axis", text_of(result.measured.back().axis)},
          {"units", std::move(units)}};
}

std::string comparison_text(const Simulation& result) {
  const report::IterationComparison& comparison = *result.comparison;
  const std::string_view figures = figures_of(result.measured.back());
  std::string text =
      fmt::format("{:<10}{:12.6f} s  {} % of the replayed time, mean of {}\n", figures, comparison.measured_s,
                  signed_text(100 * (comparison.measured_s / result.replays.timeline.time_s - 1), 2),
                  counted(comparison.iterations, "iteration", "iterations"));
  Table table({{"stage"},
               {"kind", Table::Align::left},
               {"units"},
               {"replayed s"},
               {fmt::format("{} s", figures)},
               {"deviation s"},
               {"difference"}});
  for (const report::UnitComparison& unit : comparison.units) {
    table.add_row({fmt::to_string(unit.stage), std::string(name(unit.kind)), fmt::to_string(unit.units),
                   fmt::format("{:.6f}", unit.expected_s), fmt::format("{:.6f}", unit.measured_s),
                   fmt::format("{:.6f}", unit.deviation_s), signed_text(unit.difference_pct(), 2) + " %"});
  }
  return text + table.text();
}

Json predicted_json(const api::PredictedInterval& interval) {
  return {{"ops", interval.predicted_ops},         {"of", interval.ops},
          {"time_low_s", interval.low.time_s},     {"time_high_s", interval.high.time_s},
          {"energy_low_j", interval.low.energy_j}, {"energy_high_j", interval.high.energy_j}};
}

Json simulation_json(const SimulateArguments& arguments, const PlannedPipeline& planned, const Simulation& result) {
  const api::PlanReplays& replays = result.replays;
  Json json = {{"figures", "replayed"},
               {"plan", arguments.plan},
               {"schedule", planned.input.pipeline.schedule.name},
               {"time_s", replays.timeline.time_s},
               {"energy_j", replays.timeline.energy_j_total},
               {"busy_s", replays.timeline.busy_s},
               {"blocked_s", replays.timeline.blocked_s}};
  json["warnings"] = planned.input.pipeline.doubts;
  for (const std::string& warning : result.warnings) json["warnings"].push_back(warning);
  if (planned.plan) json["planned"] = {{"time_s", planned.plan->time_s}, {"energy_j", planned.plan->energy_j}};
  if (replays.unslowed) {
    json["unslowed"] = {{"time_s", replays.unslowed->time_s}, {"energy_j", replays.unslowed->energy_j}};
  }
  if (replays.late) {
    json["replayed_late"] = {{"switch_latency_s", profile::kAssumedSwitchLatencyS},
                             {"time_s", replays.late->time_s},
                             {"energy_j", replays.late->energy_j}};
  }
  if (replays.cluster) {
    json["cluster"] = {{"pipelines", arguments.pipelines},
                       {"time_s", replays.cluster->time_s},
                       {"energy_j", replays.cluster->energy_j_total}};
  }
  if (replays.predicted) json["predicted"] = predicted_json(*replays.predicted);
  if (result.comparison) json["measured"] = comparison_json(result);
  if (!arguments.trace.empty()) json["trace"] = arguments.trace;
  return json;
}

std::string figures_line(std::string_view what, double time_s, double energy_j, std::string_view end = "\n") {
  return fmt::format("{:<10}{:12.6f} s  {:12.3f} J{}", what, time_s, energy_j, end);
}

std::string simulation_text(const PlannedPipeline& planned, const Simulation& result,
                            const SwitchLatencyArgument& latency) {
  const api::PlanReplays& replays = result.replays;
  std::string text;
  if (planned.plan) text += figures_line("planned", planned.plan->time_s, planned.plan->energy_j);
  if (replays.unslowed) text += figures_line("unslowed", replays.unslowed->time_s, replays.unslowed->energy_j);
  text += figures_line("replayed", replays.timeline.time_s, replays.timeline.energy_j_total);
  if (latency.latency_s && latency.lead_s > 0) {
    text += fmt::format("clocks    {}\n", clock_changes_text(latency.lead_s, latency.late_by_s()));
  }
  if (replays.late) {
    text += fmt::format(
        "{}, if each clock changes {} after its unit begins: a usual latency, for want of --switch-latency\n",
        figures_line("late", replays.late->time_s, replays.late->energy_j, ""),
        duration_text(profile::kAssumedSwitchLatencyS));
  }
  if (replays.predicted) text += text_of(*replays.predicted) + '\n';
  if (replays.cluster) {
    text += figures_line(fmt::format("{} of them", replays.cluster->pipelines.size()), replays.cluster->time_s,
                         replays.cluster->energy_j_total);
  }
  Table table({{"rank"}, {"busy s"}, {"blocked s"}});
  for (std::size_t rank = 0; rank < replays.timeline.busy_s.size(); ++rank) {
    table.add_row({fmt::to_string(rank), fmt::format("{:.6f}", replays.timeline.busy_s[rank]),
                   fmt::format("{:.6f}", replays.timeline.blocked_s[rank])});
  }
  text += table.text() + simulated_text(planned.input.file.simulated);
  if (result.comparison) text += '\n' + comparison_text(result);
  return text;
}

/// Of the folder of a run: its first plan.
std::string plan_of(const std::string& path, Console& console) {
  const std::filesystem::path first = std::filesystem::path(path) / output_file::plan(0);
  if (!file_exists(first)) return path;
  console.note(fmt::format("replaying {}, the folder's first plan", first.string()));
  return first.string();
}

ExitCode run_simulate(SimulateArguments arguments, Console& console) {
  arguments.plan = plan_of(arguments.plan, console);
  require_cluster_without_latency(arguments);
  if (arguments.iteration && (arguments.measured.empty() || arguments.trace.empty())) {
    throw InputError(
        "--iteration chooses the measured iteration that --trace shows next to the plan: give --measured and --trace");
  }
  const PlannedPipeline planned = load_plan(arguments);
  for (const std::string& doubt : planned.input.pipeline.doubts) console.warn(doubt);
  if (planned.input.pipeline.profile.has_settings() && planned.choices.settings.empty()) {
    console.note("the plan states no settings: each clock runs with the fastest setting that the profile has there");
  }
  // A cluster is replayed with clocks that change at once.
  if (arguments.pipelines == 1) arguments.switch_latency.complete_from(planned.input.file.switch_latency_s);
  if (planned.plan) arguments.switch_latency.lead_s = planned.plan->clock_lead_s;
  const Simulation result = simulate(arguments, planned);
  for (const std::string& warning : result.warnings) console.warn(warning);
  if (!arguments.trace.empty()) {
    write_named_file(arguments.trace, write_trace(arguments, planned, result), console);
  }
  if (arguments.json) {
    console.print_json(simulation_json(arguments, planned, result));
  } else {
    console.print(simulation_text(planned, result, arguments.switch_latency));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_simulate(CLI::App& app) {
  auto arguments = std::make_shared<SimulateArguments>();
  constexpr int kMaxPipelines = 4096;
  app.add_option("--replay,--plan", arguments->plan,
                 "Plan to replay: a JSON file of lowgear plan, or its folder for the first plan, with the profile.csv "
                 "there unless another is given; or a freqs_pipeline_NNNNN.py of Perseus or Zeus, which needs a "
                 "profile, --stages and --microbatches")
      ->type_name("FILE")
      ->required();
  add_pipeline_options(app, arguments->pipeline);
  add_gpu_name_option(app, arguments->pipeline.gpu_name,
                      "the profile's powers are checked against its limit (default the plan's)");
  add_numbered_factors(
      app, "--slow-stage,--straggler", "STAGE", 1,
      [arguments](NumberedFactor slow) {
        arguments->slow_stages.push_back({slow.number, slow.factor});
      },
      "Virtual stage that takes FACTOR times as long at the same power");
  add_switch_latency_option(app, arguments->switch_latency);
  add_whole_number(app, "--pipelines", {1, kMaxPipelines}, into(arguments->pipelines),
                   "Data-parallel pipelines that wait for each other at the end of an iteration (default 1)");
  add_number(app, "--slow-pipeline", {1, simulator::kMaxSlowdownFactor}, into(arguments->slow_pipeline),
             "Factor by which one of the pipelines is slower on all stages, with the same plan");
  app.add_option("--trace", arguments->trace, "Write the timeline to this file, for Perfetto and chrome://tracing")
      ->type_name("FILE");
  app.add_option("--measured", arguments->measured,
                 "Recording of a run with this plan (--record of lowgear run or train): its units are compared with "
                 "the replay, and --trace shows both")
      ->type_name("RECORDING");
  add_whole_number(app, "--iteration", {0, profile::kMaxIteration}, into(arguments->iteration),
                   "Number of the recorded iteration that --trace shows (default the last)");
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_simulate(*arguments, console); };
}

}  // namespace lowgear::cli
