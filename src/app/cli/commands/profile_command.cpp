#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "app/cli/arguments/estimate_input.h"
#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/profile_arguments.h"
#include "app/cli/arguments/profile_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/text/profile_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/memory_files.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/power/predicted_clocks.h"
#include "planning/profile/compose/composed_profile.h"
#include "planning/profile/options.h"
#include "planning/profile/plausibility.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/recorded_activations.h"
#include "planning/profile/switch_latency.h"
#include "planning/steps/recorded_work.h"

namespace lowgear::cli {
namespace {

profile::FewClockFit fill_between(const profile::StageProfile& profile, const ProfileArguments& arguments,
                                  Console& console) {
  const std::vector<int> supported = parse_clocks(arguments.clocks);
  const std::vector<int> within = predictable_clocks(profile, supported);
  if (within.size() < supported.size()) {
    console.note(
        fmt::format("{} supported clocks are outside of the measured range and get no row: nothing is extrapolated",
                    supported.size() - within.size()));
  }
  return fit_few_clocks(profile, within);
}

/// SM clocks of the samples, by the requested clock.
std::map<profile::CellKey, double> sampled_clocks(const profile::RecordedProfile* recorded) {
  std::map<profile::CellKey, double> sampled_mhz;
  if (recorded == nullptr) return sampled_mhz;
  for (const profile::RecordedCell& cell : recorded->cells) {
    if (cell.sampled_mhz) sampled_mhz.emplace(cell.key, *cell.sampled_mhz);
  }
  return sampled_mhz;
}

/// With the job's estimated shares, of the GPU of `arguments.gpu_file`.
power::ClockAssumptions clock_assumptions(const ProfileArguments& arguments, int stages) {
  power::ClockAssumptions assumptions;
  if (arguments.job.empty()) return assumptions;
  const estimator::JobEstimate estimate = estimator::estimate_job(
      load_job({.file = arguments.job, .settings = {{"--gpu-file", "gpu.file", arguments.gpu_file}}},
               arguments.outputs()),
      {});
  const int estimated = static_cast<int>(estimate.iteration.stages.size());
  if (estimated != stages) {
    throw InputError(fmt::format("{}: the job has {} {}, and the profile {}; name the recorded job", arguments.job,
                                 estimated, estimated == 1 ? "stage" : "stages", stages));
  }
  assumptions.estimated_time_shares = clock_shares(estimate.job.gpu, estimate.iteration);
  return assumptions;
}

power::PredictedClocks predict_by_power(const profile::StageProfile& profile, const ProfileArguments& arguments,
                                        const profile::RecordedProfile* recorded, Console& console) {
  const power::GpuFile gpu = power::parse_gpu_file(read_file(arguments.gpu_file), arguments.gpu_file);
  console.note(fmt::format("clocks that were not recorded are predicted with the power in {}, {}",
                           printable(arguments.gpu_file), describe(gpu)));
  return predict_clocks(profile, gpu, parse_clocks(arguments.clocks), sampled_clocks(recorded),
                        clock_assumptions(arguments, profile.stages()));
}

/// Adds the rows that were not recorded to the profile, and marks them. `recorded` is null for a profile as input.
power::PredictedClocks fill(profile::ProfileFile& file, const ProfileArguments& arguments,
                            const profile::RecordedProfile* recorded, Console& console) {
  power::PredictedClocks filled;
  if (arguments.gpu_file.empty()) {
    filled.fit = fill_between(file.profile, arguments, console);
  } else {
    filled = predict_by_power(file.profile, arguments, recorded, console);
    for (const profile::FilledRow& row : filled.fit.rows) {
      if (row.origin != profile::RowOrigin::predicted) continue;
      file.predicted.push_back({{row.stage, row.kind, row.value.clock_mhz}, row.time_error_s, row.energy_error_j});
    }
  }
  file.profile = filled.fit.profile();
  return filled;
}

/// Those of an earlier recording do not stay beside a profile that has none. Another file of that name stays: it is
/// read by nobody.
void remove_old_work(const ProfileArguments& arguments, Console& console) {
  const std::filesystem::path path = arguments.work_path();
  std::error_code error;
  if (path.empty() || MemoryFiles::keeper_of(path) != nullptr || !std::filesystem::is_regular_file(path, error)) return;
  if (!steps::is_work_file(read_file(path))) return;
  std::filesystem::remove(path, error);
  if (error) throw_input_error({path.string(), 0, 0}, "cannot be removed: " + error.message(), "name another --out");
  console.note(fmt::format("{} is removed: it was of an earlier recording", printable(path.string())));
}

void write_work(const ProfileArguments& arguments, const profile::StageProfile& profile, const steps::WorkModel& work,
                Console& console) {
  const std::string path = arguments.work_path();
  if (path.empty()) {
    console.note("the times by length are not written: --out names no file for them to be next to");
  } else {
    write_file_atomically(path, steps::write_work_file(work, profile));
  }
  if (work.error() > steps::kLargeFitError) {
    console.warn(
        fmt::format("times by length are off by {:.0f} % (root mean square): record more steps, or steps that nothing "
                    "else disturbs",
                    100 * work.error()));
  }
}

/// `work` is null where the profile has no times by length.
void write_results(const ProfileArguments& arguments, const profile::ProfileFile& file, const std::string& errors,
                   const steps::WorkModel* work, Console& console) {
  if (work == nullptr) remove_old_work(arguments, console);
  write_named_file(arguments.out, profile::write_profile_file(file), console);
  if (work != nullptr) write_work(arguments, file.profile, *work, console);
  write_file_atomically(arguments.errors_path(), errors);
}

void write_page(const ProfileArguments& arguments, const profile::StageProfile& profile, const std::string& basis,
                std::vector<std::string> warnings, Console& console) {
  if (arguments.html.empty()) return;
  report::Page page = profile_page(profile, basis, arguments.command);
  page.warnings = std::move(warnings);
  write_named_file(arguments.html, render_html_page(page), console);
}

std::string next_text(const ProfileArguments& arguments, const std::optional<RecordedSchedule>& recorded = {}) {
  const std::string order =
      recorded && !recorded->file.empty()
          ? "--schedule " + shell_word(recorded->file)
          : fmt::format("--microbatches {}", recorded ? fmt::to_string(recorded->microbatches) : "M");
  return fmt::format("Next: lowgear plan {} {}\n", shell_word(arguments.out), order);
}

ExitCode run_choose(const ProfileArguments& arguments, Console& console) {
  const std::vector<int> supported = parse_clocks(arguments.clocks);
  const auto [lowest, highest] = std::ranges::minmax(supported);
  const std::vector<int> chosen = profile::choose_clocks(supported, lowest, highest, *arguments.choose);
  if (arguments.json) {
    console.print_json({{"clocks_mhz", chosen}});
  } else {
    console.print(fmt::format("{}\n", fmt::join(chosen, ",")));
  }
  return ExitCode::ok;
}

ExitCode run_fill(const ProfileArguments& arguments, Console& console) {
  profile::ProfileFile file = profile::read_profile_file(read_file(arguments.fill), arguments.fill);
  std::vector<std::string> doubts = profile_doubts(file, {});
  for (const std::string& doubt : doubts) console.warn(doubt);
  const power::PredictedClocks filled = fill(file, arguments, nullptr, console);
  const profile::FewClockFit& fit = filled.fit;
  write_results(arguments, file, error_csv(fit, nullptr, file.simulated), nullptr, console);
  write_page(arguments, file.profile, "given and predicted", std::move(doubts), console);
  if (arguments.json) {
    Json json = filled_json(fit, file.simulated);
    if (!filled.shares.empty()) json["time_shares"] = time_shares_json(filled.shares);
    json["out"] = arguments.out;
    json["errors_out"] = arguments.errors_path();
    console.print_json(json);
  } else {
    console.print(filled_table(fit, file.simulated) + time_shares_table(filled.shares) +
                  simulated_text(file.simulated) + next_text(arguments));
    console.note(fmt::format("which rows are predicted and which are measured: see {}", arguments.errors_path()));
  }
  return ExitCode::ok;
}

std::vector<profile::Recording> load(const ProfileArguments& arguments) {
  // A profile has no place for the mark, so that a plan from it would not tell.
  const MarkedInvalid marked = arguments.accepts_invalid ? MarkedInvalid::accepted : MarkedInvalid::refused;
  if (arguments.merak.empty()) return load_recordings(arguments.recordings, marked);
  formats::MerakRun run = arguments.merak_run;
  run.clocks_mhz = parse_clocks(arguments.clocks);
  return load_merak(arguments.merak, run);
}

/// A log of clock changes of every rank, as Perseus names them.
void write_freqevents(const ProfileArguments& arguments, const std::vector<profile::Recording>& recordings) {
  if (arguments.freqevents.empty()) return;
  const std::filesystem::path folder(arguments.freqevents);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_input_error({folder.string(), 0, 0}, fmt::format("cannot be made: {}", error.message()));
  for (const profile::Recording& recording : recordings) {
    const std::string part = recording.part == 0 ? "" : fmt::format("part-{:05}.", recording.part);
    write_file_atomically(folder / fmt::format("{}{}.freqevents.csv", part, recording.rank),
                          profile::freqevents_csv(recording));
  }
}

/// Where the recordings have lengths, a model of times by length; the profile is then of units of mean length.
std::optional<steps::WorkModel> fit_work(const ProfileArguments& arguments, std::vector<profile::Recording>& recordings,
                                         Console& console) {
  if (!arguments.merak.empty()) return std::nullopt;
  const std::optional<steps::Lengths> lengths = recorded_lengths(arguments.recordings);
  if (!lengths) return std::nullopt;
  if (!arguments.gpu_file.empty()) {
    throw InputError(
        "--gpu-file: the recording has lengths, and times by length are those of the highest recorded clock, which "
        "predicted clocks may be above; leave --gpu-file out");
  }
  const std::string unstated = steps::leave_out_unstated(recordings, *lengths);
  if (!unstated.empty()) console.warn(unstated);
  return steps::fit_recorded_work(recordings, *lengths, arguments.profiling);
}

ExitCode run_recordings(const ProfileArguments& arguments, Console& console) {
  std::vector<profile::Recording> recordings = load(arguments);
  const std::optional<steps::WorkModel> work = fit_work(arguments, recordings, console);
  profile::ProfilingOptions profiling = arguments.profiling;
  const std::optional<RecordedSchedule> schedule =
      arguments.merak.empty() ? recorded_schedule(arguments.recordings)
                              : RecordedSchedule{arguments.merak_run.stages, arguments.merak_run.microbatches, {}};
  if (schedule) {
    profiling.stages = schedule->stages;
    profiling.microbatches = schedule->microbatches;
  }
  const profile::RecordedProfile recorded = profile_recordings(recordings, profiling);
  // Merak's units do not ask for their clocks as they begin; where lengths differ, a late clock does not show.
  const std::optional<profile::SwitchLatency> latency =
      arguments.merak.empty() && !work ? find_switch_latency(recordings) : std::optional<profile::SwitchLatency>();
  for (const std::string& warning : recorded.warnings) console.warn(warning);
  Json json = recorded_json(recorded);
  if (latency) json["switch_latency"] = switch_latency_json(*latency);
  // The check of a reader: every stage has the kinds that a plan needs.
  profile::ProfileFile file =
      profile::read_profile_file(profile::write_profile_file({.profile = recorded.profile()}), "the recorded profile");
  file.simulated = recorded.simulated;
  const profile::StageActivations activations = activations_by_stage(recordings, file.profile.stages());
  if (!activations.warning.empty()) console.warn(activations.warning);
  if (!activations.bytes.empty()) json["activation_bytes"] = activations.bytes;
  file.columns.activation_bytes = activations.bytes;
  file.columns.blocking_power_w =
      profiling.blocking_w ? std::vector<double>(static_cast<std::size_t>(file.profile.stages()), *profiling.blocking_w)
                           : usable_blocking_power_w(recorded.blocking, file.profile.stages());
  if (latency) file.switch_latency_s = latency->latency_s;
  const std::string basis = recorded.simulated ? "simulated" : "measured";
  const std::string blocking = arguments.blocking_power_out.empty() ? "" : write_blocking_power(recorded.blocking);
  std::string shares;
  if (arguments.fills()) {
    const power::PredictedClocks filled = fill(file, arguments, &recorded, console);
    json["filled"] = filled_json(filled.fit, file.simulated);
    if (!filled.shares.empty()) json["time_shares"] = time_shares_json(filled.shares);
    shares = time_shares_table(filled.shares);
    write_results(arguments, file, error_csv(filled.fit, &recorded, file.simulated), work ? &*work : nullptr, console);
    write_page(arguments, file.profile, basis + " and predicted", recorded.warnings, console);
  } else {
    write_results(arguments, file, error_csv(recorded), work ? &*work : nullptr, console);
    write_page(arguments, file.profile, basis, recorded.warnings, console);
  }
  write_freqevents(arguments, recordings);
  if (!blocking.empty()) write_named_file(arguments.blocking_power_out, blocking, console);
  if (work) json["work"] = work->json();
  json["out"] = arguments.out;
  json["errors_out"] = arguments.errors_path();
  if (arguments.json) {
    console.print_json(json);
  } else {
    console.print(recorded_table(recorded) + (work ? work_table(*work) : "") + shares +
                  activations_text(activations.bytes) + switch_latency_text(latency, recordings) +
                  simulated_text(recorded.simulated) + next_text(arguments, schedule));
  }
  return ExitCode::ok;
}

profile::ComposedProfile composed_of(const std::string& parts, const ProfileArguments& arguments, Console& console) {
  profile::ComposeOptions options;
  if (arguments.max_options) options.max_options = static_cast<std::size_t>(*arguments.max_options);
  if (arguments.profiling.blocking_w) options.blocking_power_w = *arguments.profiling.blocking_w;
  profile::ComposedProfile composed = compose_profile(profile::read_part_table(read_file(parts), parts), options);
  // The check of a reader: every stage has the kinds that a plan needs.
  const std::string source = "the profile composed of " + parts;
  (void)profile::read_profile_file(profile::write_profile_file({.profile = composed.profile}), source);
  for (const std::string& doubt : profile_doubts(composed.profile, {.source = source})) console.warn(doubt);
  return composed;
}

ExitCode run_composition(const ProfileArguments& arguments, Console& console) {
  if (arguments.recordings.size() != 2) {
    throw InputError("compose reads one file: lowgear profile compose PARTS.csv --out profile.csv");
  }
  const std::string& parts = arguments.recordings.back();
  if (arguments.out.empty()) throw InputError("--out is missing: where to write the profile");
  const profile::ComposedProfile composed = composed_of(parts, arguments, console);
  remove_old_work(arguments, console);
  write_named_file(arguments.out, profile::write_profile_file({.profile = composed.profile}), console);
  if (arguments.json) {
    Json json = composed_json(composed);
    json["out"] = arguments.out;
    console.print_json(json);
  } else {
    console.print(composed_table(composed) + next_text(arguments));
  }
  return ExitCode::ok;
}

ExitCode run_profile(const ProfileArguments& arguments, const CLI::App& app, Console& console) {
  check_profile_arguments(app, arguments);
  if (arguments.composes()) return run_composition(arguments, console);
  if (arguments.choose) return run_choose(arguments, console);
  if (!arguments.fill.empty()) return run_fill(arguments, console);
  return run_recordings(arguments, console);
}

}  // namespace

VerbAction declare_profile(CLI::App& app) {
  auto arguments = std::make_shared<ProfileArguments>();
  add_profile_options(app, *arguments);
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    return run_profile(*arguments, app, console);
  };
}

}  // namespace lowgear::cli
