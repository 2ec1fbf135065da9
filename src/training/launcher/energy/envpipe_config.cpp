#include "training/launcher/energy/envpipe_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "planning/joint/orders/memory_limit.h"
#include "planning/planner/policies/envpipe/envpipe.h"
#include "planning/planner/policies/envpipe/envpipe_config.h"
#include "planning/planner/policies/envpipe/envpipe_names.h"
#include "planning/profile/columns/stage_columns.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "training/launcher/energy/blocking_power.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;
using planner::EnvPipeOptions;

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
  if (map.has("type")) options.type = planner::kEnvPipeTypes.at(place_of(map.at("type"), planner::kEnvPipeTypeWords));
  if (map.has("scheduling")) {
    options.order = planner::kEnvPipeOrders.at(place_of(map.at("scheduling"), planner::kEnvPipeOrderWords));
  }
  if (map.has("reconfig")) {
    options.reconfiguration =
        planner::kEnvPipeReconfigurations.at(place_of(map.at("reconfig"), planner::kEnvPipeReconfigWords));
  }
}

void read_numbers(const YamlView& map, EnvPipeOptions& options) {
  if (map.has("threshold_scale")) options.threshold_scale = map.at("threshold_scale").number_in(0, 1e9);
  if (map.has("transfer_ms")) options.transfer_s = map.at("transfer_ms").number_in(0, 1e6) * 1e-3;
  if (map.has("start_clock")) {
    options.start_clock_mhz = static_cast<int>(map.at("start_clock").integer_in(1, kMaxClockMhz));
  }
  if (map.has("lowest_clock")) {
    options.lowest_clock_mhz =
        static_cast<int>(map.at("lowest_clock").integer_in(1, options.start_clock_mhz.value_or(kMaxClockMhz)));
  }
}

void read_memory_limit(const YamlView& view, int ranks, int microbatches, EnvPipeConfig& config) {
  const std::string text = view.text();
  try {
    if (joint::states_bytes(text)) {
      (void)joint::bytes_by_rank(text, static_cast<std::size_t>(ranks));
      config.memory_bytes = text;
    } else {
      config.options.extra_activations = activations_beyond_1f1b(joint::parse_memory_limit(text), ranks, microbatches);
    }
  } catch (const InputError& error) {
    view.fail(error.what());
  }
}

}  // namespace

EnvPipeConfig read_envpipe(const YamlView& map, const fs::path& folder, int ranks, int microbatches) {
  map.require_only({"config", "type", "scheduling", "reconfig", "threshold_scale", "start_clock", "lowest_clock",
                    "transfer_ms", "memory_limit", "profile", "blocking_power", "log"});
  EnvPipeConfig config;
  if (map.has("config")) {
    const fs::path file = folder / map.at("config").text();
    config.options = planner::read_envpipe_config(read_file(file), file.string());
  }
  read_words(map, config.options);
  read_numbers(map, config.options);
  if (map.has("memory_limit")) read_memory_limit(map.at("memory_limit"), ranks, microbatches, config);
  if (map.has("log")) config.log = folder / map.at("log").text();
  require_valid(config.options);
  if (map.has("profile") != map.has("blocking_power")) {
    map.fail("profile and blocking_power go together", "profile: profile.csv, blocking_power: 75");
  }
  if (!map.has("profile")) return config;
  config.profile = folder / map.at("profile").text();
  config.blocking_power = map.at("blocking_power").text();
  if (config.blocking_power.ends_with(".csv")) config.blocking_power = (folder / config.blocking_power).string();
  return config;
}

std::vector<int> extra_activations(const EnvPipeConfig& config, std::span<const double> activation_bytes, int ranks,
                                   int microbatches) {
  if (config.memory_bytes.empty()) return config.options.extra_activations;
  if (activation_bytes.empty()) {
    throw InputError(
        fmt::format("energy.envpipe.memory_limit: {}: what a microbatch's activations take is measured in the steps "
                    "that try clocks, which a profile leaves out, and {} has no column activation_bytes; profile it "
                    "with lowgear profile, give the number of microbatches that fit, or leave out the profile",
                    config.memory_bytes, config.profile ? config.profile->string() : "nothing else"));
  }
  return activations_beyond_1f1b(joint::parse_memory_limit(config.memory_bytes, activation_bytes), ranks, microbatches);
}

std::vector<double> profiled_activation_bytes(const EnvPipeConfig& config) {
  const std::string source = config.profile.value().string();
  return profile::read_stage_columns(read_file(source), source).activation_bytes;
}

planner::EnvPipeFindings findings_on_profile(const EnvPipeConfig& config, const schedule::Schedule& schedule) {
  const schedule::Schedule computations = without_communication(schedule);
  const schedule::PipelineDag dag = build_dag(computations);
  const std::string source = config.profile.value().string();
  const profile::StageProfile profile = profile::read_stage_profile(read_file(source), source);
  if (profile.stages() != dag.stages) {
    throw InputError(fmt::format("{}: a profile of {} stages for a job of {}", source, profile.stages(), dag.stages));
  }
  const std::vector<double> blocking_power_w =
      read_blocking_power("energy.envpipe.blocking_power", config.blocking_power, dag.ranks);
  return envpipe_findings({.schedule = &computations,
                           .dag = &dag,
                           .profile = &profile,
                           .blocking_power_w = blocking_power_w,
                           .progress = nullptr},
                          config.options);
}

}  // namespace lowgear::launcher
