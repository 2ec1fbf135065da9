#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/api/profile_fitting.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/schedule.h"

namespace lowgear::cli {

/// Value of `--schedule` that has `lowgear plan` search the order.
inline constexpr std::string_view kFreeOrder = "auto";

/// A schedule on the command line.
struct ScheduleArguments {
  std::string schedule = "1f1b";  ///< name of a generator, or path of a CSV
  std::optional<int> stages;      ///< pipeline ranks; empty: load_pipeline takes those of the profile
  std::optional<int> microbatches;
  std::optional<int> chunks;             ///< virtual stages per rank
  std::optional<int> extra_activations;  ///< EnvPipe: beyond those of 1F1B
  schedule::P2pGrouping grouping = schedule::P2pGrouping::none;
};

/// A profiled pipeline on the command line.
struct PipelineArguments {
  std::string verb = "plan";  ///< that has these options, for the example in messages
  ScheduleArguments schedule;
  std::string profile;         ///< path
  std::string blocking_power;  ///< watts, or path; empty: that of the profile or the GPU, else assumed
  api::FittingShares shares;
  std::string gpu_name;  ///< model on which the profile was measured; empty: not stated
  profile::ImpossibleUnits units = profile::ImpossibleUnits::refuse_unless_accepted;  ///< `--accept-units`
};

/// `--schedule`, `--stages`, `--microbatches`, `--virtual-stages`, `--extra-activations`, `--p2p`.
void add_schedule_options(CLI::App& app, ScheduleArguments& arguments);
/// Whether the text is the name of a schedule, in any case.
[[nodiscard]] bool is_schedule_name(std::string_view text);
/// The profile, as first argument or `--profile`.
CLI::Option* add_profile_option(CLI::App& app, std::string& path);
/// `--blocking-power`.
CLI::Option* add_blocking_power_option(CLI::App& app, std::string& argument);
/// `--gpu`, the model that a profile was measured on; `use` ends the help text.
void add_gpu_name_option(CLI::App& app, std::string& gpu_name, std::string_view use);
/// The profile, `--blocking-power`, `--accept-units`, the options of schedules, `--backward-split` and
/// `--recomputation-share`.
void add_pipeline_options(CLI::App& app, PipelineArguments& arguments);

/// A pipeline as all commands use it, and the file of its profile.
struct PipelineInput {
  api::ProfiledPipeline pipeline;
  profile::ProfileFile file = {};  ///< as it was read
};

/// The schedule as named or as the file has it, messages included where it has them. A named one has no
/// backwards of the first stages of which the profile has forwards only. `profile` and `blocking_power_w` (by rank)
/// determine EnvPipe's schedule; they are null and empty when they are unknown. Throws InputError when it
/// does not exist, contradicts the other arguments, is larger than memory, or can hang.
[[nodiscard]] schedule::Schedule load_schedule(const ScheduleArguments& arguments, const profile::StageProfile* profile,
                                               std::span<const double> blocking_power_w);

/// Says that `load_schedule` has left out backwards of a named schedule; empty where it has not.
[[nodiscard]] std::optional<std::string> frozen_stages_note(const ScheduleArguments& arguments,
                                                            const schedule::Schedule& schedule);

/// Reads the stage profile in this file. Throws InputError.
[[nodiscard]] profile::ProfileFile load_profile(const std::string& path,
                                                profile::ImpossibleUnits units = profile::ImpossibleUnits::refuse);

/// Throws InputError that lists what is missing of a profile and, where the schedule is not a file, of a number of
/// microbatches.
void require_given(const PipelineArguments& arguments);

/// Reads all files. Throws InputError.
[[nodiscard]] PipelineInput load_pipeline(const PipelineArguments& arguments);

/// Blocking power of a GPU of each rank, in watts, and what to know of it.
struct BlockingPower {
  std::vector<double> by_rank_w;
  std::optional<std::string> assumption = {};  ///< where nobody stated it: its value, source and how to state it
};

/// What was assumed of the blocking power, and reasons to doubt the rows of a profile (`profile_doubts`), one line
/// each. `gpu_name` may be empty.
[[nodiscard]] std::vector<std::string> doubts_of(const profile::ProfileFile& file, const BlockingPower& blocking,
                                                 std::string_view gpu_name,
                                                 profile::ImpossibleUnits units = profile::ImpossibleUnits::refuse);

/// The line that marks printed figures whose profile is of simulated GPUs; empty for others.
[[nodiscard]] std::string simulated_text(bool simulated);

/// The blocking power that the user states, else that of the profile, else that of the GPU model from the estimator's
/// table, else a share of the power of computing. Throws InputError as `blocking_power_from_argument` does.
[[nodiscard]] BlockingPower blocking_power_of(const PipelineArguments& arguments, const profile::ProfileFile& file,
                                              int ranks);

/// Blocking power of each stage in watts, from the user's argument: a number for all stages, or the path of a CSV with
/// the columns `stage,blocking_power` (W), as `read_blocking_power` takes it. Throws InputError for anything else, or
/// as `read_blocking_power` does.
[[nodiscard]] std::vector<double> blocking_power_from_argument(const std::string& argument, int stages);

}  // namespace lowgear::cli
