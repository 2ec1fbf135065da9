#include "app/cli/arguments/pipeline_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/help.h"
#include "app/cli/terminal/process.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/memory_files.h"
#include "base/core/numbers/quantity.h"
#include "base/core/text.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "planning/api/profile_fitting.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/profile/group_check.h"
#include "planning/profile/options.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::cli {
namespace {

constexpr int kMaxChunks = 1024;
constexpr auto kGroupings = std::to_array<std::string_view>({"single", "grouped"});

std::string schedule_names() {
  std::vector<std::string_view> names;
  for (const schedule::ScheduleGenerator& generator : schedule::schedule_generators()) names.push_back(generator.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_generator(std::string_view name) {
  return std::ranges::any_of(schedule::schedule_generators(),
                             [&](const auto& generator) { return generator.name == name; });
}

/// A schedule's name in any case as its generator writes it; a path as it is.
std::string schedule_name(const std::string& text) {
  std::string name = lower_case(text);
  return is_generator(name) || name == kFreeOrder ? name : text;
}

std::string nearest_schedule(const std::string& text) {
  std::vector<std::string_view> names;
  for (const schedule::ScheduleGenerator& generator : schedule::schedule_generators()) names.push_back(generator.name);
  const auto nearest = nearest_name(lower_case(text), names);
  return nearest ? fmt::format("did you mean {}? ", *nearest) : "";
}

schedule::Schedule generate_schedule(const ScheduleArguments& arguments, const profile::StageProfile* profile,
                                     std::span<const double> blocking_power_w) {
  const int chunks = arguments.chunks.value_or(1);
  if (!arguments.stages && profile != nullptr && chunks > 1 && profile->stages() % chunks == 0) {
    throw InputError(
        fmt::format("the schedule {0} needs --stages: give --stages {1} if each of the profile's {1} stages is a rank, "
                    "--stages {2} if {3} of them run on one rank",
                    arguments.schedule, profile->stages(), profile->stages() / chunks, chunks));
  }
  if (!arguments.stages) throw InputError(fmt::format("the schedule {} needs --stages", arguments.schedule));
  if (!arguments.microbatches) {
    throw InputError(fmt::format("the schedule {} needs --microbatches", arguments.schedule));
  }
  schedule::ScheduleRequest request{.name = arguments.schedule,
                                    .ranks = *arguments.stages,
                                    .microbatches = *arguments.microbatches,
                                    .chunks = chunks,
                                    .envpipe_stages = {}};
  api::require_planning_memory(request.ranks, request.microbatches, request.chunks, available_memory_bytes());
  if (request.name == "envpipe") {
    if (profile == nullptr) throw InputError("the schedule envpipe depends on the stages' times: give --profile");
    if (profile->stages() != request.ranks) {
      throw InputError(fmt::format("the profile has {} stages and --stages says {}: envpipe runs one stage per rank",
                                   profile->stages(), request.ranks));
    }
    request.envpipe_stages = api::envpipe_stages(*profile, blocking_power_w, arguments.extra_activations);
  }
  return make_schedule(request);
}

void require_equal(const std::string& path, std::string_view what, int in_file, std::string_view option,
                   std::optional<int> given) {
  if (!given || *given == in_file) return;
  throw_input_error({path, 0, 0}, fmt::format("has {} {}, and {} says {}", in_file, what, option, *given),
                    "make them agree, or leave the option out");
}

schedule::Schedule read_schedule(const ScheduleArguments& arguments) {
  const std::string& path = arguments.schedule;
  if (path == kFreeOrder) {
    throw InputError("--schedule auto: only lowgear plan searches orders; name one of them here, or a schedule.csv");
  }
  if (!file_exists(path) && !std::filesystem::exists(path) && path != "-") {
    throw InputError(
        fmt::format("--schedule: there is no schedule and no file {}; {}there are {}, or a CSV in PyTorch's notation",
                    quote(path), nearest_schedule(path), schedule_names()));
  }
  schedule::Schedule schedule = schedule::read_torch_csv(read_file(path), path);
  const int ranks = schedule.rank_count();
  require_equal(path, "ranks", ranks, "--stages", arguments.stages);
  require_equal(path, "microbatches", schedule.microbatches, "--microbatches", arguments.microbatches);
  if (arguments.chunks) {
    require_equal(path, "virtual stages", schedule.stages, "--stages x --virtual-stages", *arguments.chunks * ranks);
  }
  api::require_planning_memory(schedule.stages, schedule.microbatches, 1, available_memory_bytes());
  if (has_communication(schedule)) require_runnable(schedule, arguments.grouping);
  return schedule;
}

}  // namespace

bool is_schedule_name(std::string_view text) { return is_generator(lower_case(text)); }

void add_schedule_options(CLI::App& app, ScheduleArguments& arguments) {
  app.add_option("--schedule", arguments.schedule,
                 "Schedule by name (default 1f1b), or a CSV in PyTorch's notation. Names: " + schedule_names())
      ->type_name("NAME|FILE")
      ->default_str(arguments.schedule)
      ->transform([](std::string text) { return schedule_name(std::move(text)); });
  add_whole_number(app, "--stages", {1, profile::kMaxStages}, into(arguments.stages),
                   "Pipeline ranks (default: those of the schedule file or profile)");
  add_whole_number(app, "--microbatches", {1, schedule::kMaxMicrobatches}, into(arguments.microbatches),
                   "Microbatches per iteration; required without a schedule file, which states them");
  add_whole_number(
      app, "--virtual-stages,--chunks", {1, kMaxChunks}, into(arguments.chunks),
      "Virtual stages per rank (default 1): 2 or more for interleaved. The profile has one stage per virtual stage, "
      "or one per rank, which is then divided into equal parts");
  add_whole_number(app, "--extra-activations", {0, schedule::kMaxMicrobatches}, into(arguments.extra_activations),
                   "envpipe: microbatches whose activations fit into a GPU's memory in addition to those of 1F1B "
                   "(default: no limit for --schedule envpipe, none for --policy envpipe)");
  add_choice(
      app, "--p2p", kGroupings,
      [&arguments](std::size_t place) {
        arguments.grouping = place == 0 ? schedule::P2pGrouping::none : schedule::P2pGrouping::adjacent;
      },
      "How a rank issues the sends and receives of a schedule file: one at a time (single, the default), or adjacent "
      "ones together (grouped)");
}

CLI::Option* add_profile_option(CLI::App& app, std::string& path) {
  return app
      .add_option("profile,--profile", path,
                  "Stage profile, a CSV file. Its columns are stage,instruction,frequency,time,energy in MHz, s and J")
      ->type_name("FILE");
}

CLI::Option* add_blocking_power_option(CLI::App& app, std::string& argument) {
  return app
      .add_option(
          "--blocking-power", argument,
          "Power of a GPU that waits, in W (default: the profile's, else that of --gpu, else assumed). Or a CSV "
          "file with the columns stage,blocking_power in W; the profile has it as column blocking_power")
      ->type_name("W|FILE");
}

void add_gpu_name_option(CLI::App& app, std::string& gpu_name, std::string_view use) {
  app.add_option("--gpu", gpu_name, fmt::format("GPU model of the profile, as nvidia-smi -L names it; {}", use))
      ->type_name("NAME");
}

void add_pipeline_options(CLI::App& app, PipelineArguments& arguments) {
  arguments.verb = app.get_name();
  add_profile_option(app, arguments.profile);
  add_schedule_options(app, arguments.schedule);
  add_blocking_power_option(app, arguments.blocking_power);
  app.add_flag_callback(
      "--accept-units", [&arguments] { arguments.units = profile::ImpossibleUnits::accept; },
      "Plan although times, energies or blocking power look like other units; warnings say what is in doubt");
  add_quantity(app, "--backward-split", Unit::share, {1e-6, 1 - 1e-6}, into(arguments.shares.backward_split),
               "Share of a backward pass' time and energy that its input gradient takes, 0 to 1; for schedules that "
               "split backward passes (zb-h1, zb-h2, zb-v) on a profile without split ones");
  add_quantity(app, "--recomputation-share", Unit::share, {1e-6, profile::kMostRecomputation},
               into(arguments.shares.recomputation),
               "Time and energy of a recomputation by those of its forward, about 1; for schedules that recompute "
               "(merak-...) on a profile without rows of recomputation. The profile's backwards do not recompute");
  group_options(app, "Schedules",
                {"--virtual-stages", "--extra-activations", "--p2p", "--backward-split", "--recomputation-share"});
  group_options(app, std::string(kFurtherOptions), {"--accept-units"});
}

schedule::Schedule load_schedule(const ScheduleArguments& arguments, const profile::StageProfile* profile,
                                 std::span<const double> blocking_power_w) {
  if (!is_generator(arguments.schedule)) return read_schedule(arguments);
  const int frozen = profile != nullptr ? forward_only_stages(*profile) : 0;
  if (frozen > 0 && arguments.schedule == "envpipe") {
    throw InputError(
        "the schedule envpipe depends on every stage's backwards, and the profile has none of stage 0: "
        "give another schedule");
  }
  schedule::Schedule schedule = generate_schedule(arguments, profile, blocking_power_w);
  // The stages of a profile by rank are not those of a schedule that has several of them on a rank.
  return frozen > 0 && profile->stages() == schedule.stages ? with_frozen_stages(schedule, frozen) : schedule;
}

std::optional<std::string> frozen_stages_note(const ScheduleArguments& arguments, const schedule::Schedule& schedule) {
  if (!is_generator(arguments.schedule) || schedule.frozen_stages == 0) return std::nullopt;
  const bool one = schedule.frozen_stages == 1;
  return fmt::format("the profile has only forwards of the first {}, as of frozen layers: {} leaves {} backwards out",
                     one ? "stage" : fmt::format("{} stages", schedule.frozen_stages), schedule.name,
                     one ? "its" : "their");
}

profile::ProfileFile load_profile(const std::string& path, profile::ImpossibleUnits units) {
  const std::string text = read_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (text[first] == '{' || text[first] == '[')) {
    if (text.find("\"lowgear.plan/") != std::string::npos) {
      throw_input_error({path, 0, 0}, "this is a plan, and a profile is a CSV file",
                        fmt::format("replay the plan: lowgear verify --replay {}", shell_word(path)));
    }
    throw_input_error({path, 0, 0}, "this is JSON, and a profile is a CSV file",
                      "its columns are stage,instruction,frequency,time,energy");
  }
  return profile::read_profile_file(text, path, units);
}

std::vector<std::string> doubts_of(const profile::ProfileFile& file, const BlockingPower& blocking,
                                   std::string_view gpu_name, profile::ImpossibleUnits units) {
  std::vector<std::string> doubts = profile_doubts(
      file, {.blocking_power_w = blocking.by_rank_w, .gpu = estimator::power_limit_of(gpu_name), .units = units});
  if (blocking.assumption) doubts.insert(doubts.begin(), *blocking.assumption);
  return doubts;
}

std::string simulated_text(bool simulated) {
  return simulated ? "simulated, not measured: what a plan saves on real GPUs is not known from these figures\n" : "";
}

void require_given(const PipelineArguments& arguments) {
  const ScheduleArguments& schedule = arguments.schedule;
  const bool is_file = !is_generator(schedule.schedule) && schedule.schedule != kFreeOrder;
  std::vector<std::string_view> missing;
  if (arguments.profile.empty()) missing.emplace_back("the profile (a CSV file)");
  if (!is_file && !schedule.microbatches) missing.emplace_back("--microbatches");
  if (missing.empty()) return;
  throw InputError(fmt::format("missing: {}; for example: lowgear {} {} --microbatches {}", fmt::join(missing, " and "),
                               arguments.verb, arguments.profile.empty() ? "profile.csv" : arguments.profile,
                               schedule.microbatches.value_or(32)));
}

namespace {

/// A name of no GPU that is known, and of none that a driver would print.
std::optional<std::string> gpu_name_doubt(const std::string& gpu_name) {
  constexpr auto kVendors = std::to_array<std::string_view>({"nvidia", "tesla", "quadro", "amd"});
  const std::string name = lower_case(gpu_name);
  const auto is_of = [&](std::string_view vendor) { return name.starts_with(vendor); };
  if (gpu_name.empty() || estimator::gpu_of_name(gpu_name) || std::ranges::any_of(kVendors, is_of)) return std::nullopt;
  const std::vector<std::string> known = estimator::gpu_names();
  const std::vector<std::string_view> names(known.begin(), known.end());
  const auto nearest = nearest_name(name, names);
  return fmt::format("--gpu {}: not a GPU that is known{}; agents refuse plans for another GPU than their own",
                     gpu_name,
                     nearest ? fmt::format("; did you mean {}?", *nearest)
                             : fmt::format(", such as {} or NVIDIA A100-SXM4-80GB", known.back()));
}

}  // namespace

PipelineInput load_pipeline(const PipelineArguments& arguments) {
  require_given(arguments);
  PipelineInput input;
  api::ProfiledPipeline& pipeline = input.pipeline;
  input.file = load_profile(arguments.profile, arguments.units);
  pipeline.profile = input.file.profile;
  // Blocking power is by rank; a named schedule has as many as --stages says, which may be wrong for the profile.
  ScheduleArguments schedule = arguments.schedule;
  BlockingPower blocking;
  const auto resolve_blocking_power = [&](int ranks) {
    blocking = blocking_power_of(arguments, input.file, ranks);
    pipeline.blocking_power_w = blocking.by_rank_w;
  };
  if (is_generator(schedule.schedule)) {
    // With several chunks a profile may be by rank or by virtual stage: then the number of ranks has to be given.
    if (!schedule.stages && schedule.chunks.value_or(1) == 1) schedule.stages = pipeline.profile.stages();
    if (schedule.stages) resolve_blocking_power(*schedule.stages);
  }
  pipeline.schedule = without_communication(load_schedule(schedule, &pipeline.profile, pipeline.blocking_power_w));
  if (pipeline.blocking_power_w.empty()) resolve_blocking_power(pipeline.schedule.rank_count());
  pipeline.profile = api::fit_profile(std::move(pipeline.profile), pipeline.schedule, arguments.shares);
  pipeline.predicted = predicted_rows_of(input.file.profile, input.file.predicted, pipeline.profile);
  pipeline.simulated = input.file.simulated;
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.doubts = doubts_of(input.file, blocking, arguments.gpu_name, arguments.units);
  if (auto doubt = gpu_name_doubt(arguments.gpu_name)) pipeline.doubts.push_back(std::move(*doubt));
  if (auto note = frozen_stages_note(schedule, pipeline.schedule)) pipeline.doubts.push_back(std::move(*note));
  if (auto note = api::divided_stages_note(input.file.profile.stages(), pipeline.schedule)) {
    pipeline.doubts.push_back(std::move(*note));
  }
  return input;
}

namespace {

/// GPUs draw 0.17 to 0.24 of their power limit while they wait (estimating/estimator/gpu/gpu_tables.cpp).
constexpr double kBlockingShare = 0.2;

constexpr std::string_view kMeasureBlockingPower =
    "measure it: lowgear profile does, or let a rank wait in a collective for some seconds and read its power, for "
    "--blocking-power (docs/profiling.md#blocking-power)";

double median_power_at_max_clock_w(const profile::StageProfile& profile) {
  std::vector<double> powers_w;
  for (const profile::StageOp& op : profile.ops()) {
    const profile::Measurement& row = profile.at_max_clock(op.stage, op.kind);
    powers_w.push_back(row.energy_j / row.time_s);
  }
  return profile::median_of(std::move(powers_w));
}

/// Whether a text that names no file was meant as a number.
bool looks_like_number(const std::string& text) {
  constexpr std::string_view kFirst = "0123456789+-.";
  const std::string lower = lower_case(text);
  return text != "-" && !text.empty() &&
         (kFirst.find(text.front()) != std::string_view::npos || lower.starts_with("nan") || lower.starts_with("inf"));
}

std::string read_blocking_power_file(const std::string& argument) {
  try {
    return read_file(argument);
  } catch (const InputError& error) {
    throw InputError(fmt::format(
        "{}; give the blocking power as watts, or as a CSV with the columns stage,blocking_power", error.what()));
  }
}

}  // namespace

BlockingPower blocking_power_of(const PipelineArguments& arguments, const profile::ProfileFile& file, int ranks) {
  if (!arguments.blocking_power.empty()) return {blocking_power_from_argument(arguments.blocking_power, ranks)};
  const std::vector<double>& by_stage_w = file.columns.blocking_power_w;
  const auto count = static_cast<std::size_t>(ranks);
  if (by_stage_w.size() == count) return {by_stage_w};
  if (!by_stage_w.empty()) return {std::vector<double>(count, profile::median_of(by_stage_w))};
  if (const auto known_w = estimator::blocking_power_of(arguments.gpu_name)) {
    return {std::vector<double>(count, *known_w), fmt::format("blocking power: {:.4g} W, Lowgear's figure for {}; {}",
                                                              *known_w, arguments.gpu_name, kMeasureBlockingPower)};
  }
  const double power_w = std::round(kBlockingShare * median_power_at_max_clock_w(file.profile));
  return {std::vector<double>(count, power_w),
          fmt::format("blocking power: assumed {:.4g} W, a fifth of the power of ops at their highest clock; {}",
                      power_w, kMeasureBlockingPower)};
}

std::vector<double> blocking_power_from_argument(const std::string& argument, int stages) {
  const std::optional<double> power_w = parse_quantity(argument, Unit::watt);
  if (!power_w) {
    std::error_code unknown;
    if (looks_like_number(argument) && !file_exists(argument) && !std::filesystem::exists(argument, unknown)) {
      throw InputError("--blocking-power: " +
                       expected_quantity(Unit::watt, {0, profile::kMaxBlockingPowerW}, argument));
    }
    return profile::read_blocking_power(read_blocking_power_file(argument), argument, stages);
  }
  if (!(*power_w >= 0 && *power_w <= profile::kMaxBlockingPowerW)) {
    throw InputError(fmt::format("blocking power {} W is not in 0 to {}; give the watts of one GPU that waits",
                                 *power_w, profile::kMaxBlockingPowerW));
  }
  if (stages < 1 || stages > profile::kMaxStages) {
    throw InputError(fmt::format("{} stages are not in 1 to {}", stages, profile::kMaxStages));
  }
  return std::vector<double>(static_cast<std::size_t>(stages), *power_w);
}

}  // namespace lowgear::cli
