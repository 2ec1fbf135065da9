#include "training/launcher/energy/envpipe_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/number.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/profile/options.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "rivals/policies/envpipe/envpipe.h"
#include "rivals/policies/envpipe/envpipe_config.h"

namespace lowgear::launcher {

namespace {

namespace fs = std::filesystem;
using policies::EnvPipeOptions;

constexpr int kMaxClockMhz = 100'000;

/// The place of the text among some words.
std::size_t place_of(const YamlView& view, std::span<const std::string_view> words) {
  const std::string text = view.text();
  const auto found = std::ranges::find(words, text);
  if (found == words.end()) {
    view.fail(fmt::format("{} is not known to EnvPipe", quote(text)),
              fmt::format("write one of {}", fmt::join(words, ", ")));
  }
  return static_cast<std::size_t>(found - words.begin());
}

void read_words(const YamlView& map, EnvPipeOptions& options) {
  if (map.has("type")) options.type = policies::kEnvPipeTypes.at(place_of(map.at("type"), policies::kEnvPipeTypeWords));
  if (map.has("scheduling")) {
    options.order = policies::kEnvPipeOrders.at(place_of(map.at("scheduling"), policies::kEnvPipeOrderWords));
  }
  if (map.has("reconfig")) {
    options.reconfiguration =
        policies::kEnvPipeReconfigurations.at(place_of(map.at("reconfig"), policies::kEnvPipeReconfigWords));
  }
}

void read_numbers(const YamlView& map, EnvPipeOptions& options) {
  if (map.has("threshold_scale")) options.threshold_scale = map.at("threshold_scale").number_in(0, 1e9);
  if (map.has("profile_step")) {
    options.profile_step_mhz = static_cast<int>(map.at("profile_step").integer_in(1, kMaxClockMhz));
  }
  if (map.has("raise_step")) {
    options.raise_step_mhz = static_cast<int>(map.at("raise_step").integer_in(1, kMaxClockMhz));
  }
  if (map.has("transfer_ms")) options.transfer_s = map.at("transfer_ms").number_in(0, 1e6) * 1e-3;
  if (map.has("start_clock")) {
    options.start_clock_mhz = static_cast<int>(map.at("start_clock").integer_in(1, kMaxClockMhz));
  }
  if (map.has("lowest_clock")) {
    options.lowest_clock_mhz =
        static_cast<int>(map.at("lowest_clock").integer_in(1, options.start_clock_mhz.value_or(kMaxClockMhz)));
  }
}

profile::StageProfile read_own_profile(const EnvPipeConfig& config, int stages) {
  const std::string source = config.profile.value().string();
  profile::StageProfile profile = profile::read_profile_file(read_file(source), source).profile;
  if (profile.stages() == stages) return profile;
  throw InputError(fmt::format("{}: a profile of {} stages for a job of {}", source, profile.stages(), stages));
}

std::vector<double> own_blocking_power(const EnvPipeConfig& config, int ranks) {
  return read_blocking_power("energy.envpipe.blocking_power", config.blocking_power, ranks);
}

}  // namespace

EnvPipeConfig read_envpipe(const YamlView& map, const fs::path& folder) {
  map.require_only(kEnvPipeMembers);
  EnvPipeConfig config;
  if (map.has("config")) {
    const fs::path file = folder / map.at("config").path();
    config.options = policies::read_envpipe_config(read_file(file), file.string());
  }
  read_words(map, config.options);
  read_numbers(map, config.options);
  if (map.has("log")) config.log = folder / map.at("log").path();
  require_valid(config.options);
  if (map.has("profile") != map.has("blocking_power")) {
    map.fail("profile and blocking_power go together", "profile: profile.csv, blocking_power: 75");
  }
  if (!map.has("profile")) return config;
  config.profile = folder / map.at("profile").path();
  config.blocking_power = map.at("blocking_power").text();
  if (config.blocking_power.ends_with(".csv")) config.blocking_power = (folder / config.blocking_power).string();
  return config;
}

std::vector<double> profiled_activation_bytes(const EnvPipeConfig& config) {
  const std::string source = config.profile.value().string();
  return profile::read_profile_file(read_file(source), source).columns.activation_bytes;
}

policies::EnvPipeFindings findings_on_profile(const EnvPipeConfig& config, const schedule::Schedule& schedule) {
  const schedule::Schedule computations = without_communication(schedule);
  const schedule::PipelineDag dag = build_dag(computations);
  const profile::StageProfile profile = read_own_profile(config, dag.stages);
  const std::vector<double> blocking_power_w = own_blocking_power(config, dag.ranks);
  return envpipe_findings({.schedule = &computations,
                           .dag = &dag,
                           .profile = &profile,
                           .blocking_power_w = blocking_power_w,
                           .progress = nullptr},
                          config.options);
}

policies::EnvPipeFindings order_findings_on_profile(const EnvPipeConfig& config, int ranks, int microbatches) {
  return envpipe_order_findings(read_own_profile(config, ranks), own_blocking_power(config, ranks), microbatches,
                                config.options);
}

EnvPipeMemory read_envpipe_memory(const YamlView& view, int ranks, int microbatches) {
  const std::string text = view.text();
  try {
    if (!joint::states_bytes(text)) {
      return {.extra_activations = activations_beyond_1f1b(joint::parse_memory_limit(text), ranks, microbatches)};
    }
    (void)joint::bytes_by_rank(text, static_cast<std::size_t>(ranks));
    return {.bytes = text};
  } catch (const InputError& error) {
    view.fail(error.what());
  }
}

std::vector<int> extra_activations(const EnvPipeMemory& memory, std::span<const double> activation_bytes, int ranks,
                                   int microbatches) {
  if (memory.bytes.empty()) return memory.extra_activations;
  if (activation_bytes.empty()) {
    throw InputError(
        fmt::format("energy.envpipe.memory_limit: {}: the size of a microbatch's activations is not known: the job "
                    "measures it in the steps that try clocks, which energy.envpipe.profile leaves out, and that "
                    "profile has no column activation_bytes; profile it with lowgear profile, give the number of "
                    "microbatches that fit, or leave out the profile",
                    memory.bytes));
  }
  return activations_beyond_1f1b(joint::parse_memory_limit(memory.bytes, activation_bytes), ranks, microbatches);
}

namespace {

constexpr int kMaxCount = 1'000'000'000;

std::vector<int> read_numbers(const JsonView& list, int low, int high) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < list.size(); ++i) numbers.push_back(list.at(i).integer_in(low, high));
  return numbers;
}

}  // namespace

Json envpipe_settings_json(const policies::EnvPipeOptions& options, const EnvPipeMemory& memory,
                           const std::vector<int>& clocks_mhz) {
  const auto word = [](const auto& words, auto value) { return words.at(static_cast<std::size_t>(value)); };
  Json settings = {{"type", word(policies::kEnvPipeTypeWords, options.type)},
                   {"scheduling", word(policies::kEnvPipeOrderWords, options.order)},
                   {"reconfig", word(policies::kEnvPipeReconfigWords, options.reconfiguration)},
                   {"threshold_scale", options.threshold_scale},
                   {"raise_step_mhz", options.raise_step_mhz},
                   {"transfer_s", options.transfer_s},
                   {"extra_activations", memory.extra_activations},
                   {"clocks_mhz", clocks_mhz}};
  if (!memory.bytes.empty()) settings["memory_limit"] = memory.bytes;
  return settings;
}

Json to_json(const EnvPipeSaved& saved) {
  return {{"settings", saved.settings},
          {"settled", saved.settled},
          {"early_forwards", saved.early_forwards},
          {"state", policies::to_json(saved.state)}};
}

EnvPipeSaved read_envpipe_saved(const JsonView& view) {
  EnvPipeSaved saved;
  saved.settings = view.at("settings").json();
  saved.settled = view.at("settled").boolean();
  saved.early_forwards = read_numbers(view.at("early_forwards"), 0, kMaxCount);
  saved.state = policies::read_envpipe_state(view.at("state"));
  return saved;
}

std::vector<double> read_blocking_power(std::string_view setting, const std::string& given, int stages) {
  const std::optional<double> power_w = parse_number(given);
  if (!power_w) return profile::read_blocking_power(read_file(given), given, stages);
  if (!(*power_w >= 0 && *power_w <= profile::kMaxBlockingPowerW)) {
    throw InputError(fmt::format("{}: {} W; give the watts of one GPU that waits", setting, given));
  }
  return std::vector<double>(static_cast<std::size_t>(stages), *power_w);
}

}  // namespace lowgear::launcher
