#include "training/launcher/energy/envpipe_state.h"

#include <cstddef>

#include "planning/planner/policies/envpipe/envpipe_config.h"
#include "planning/planner/policies/envpipe/envpipe_names.h"

namespace lowgear::launcher {
namespace {

constexpr int kMaxCount = 1'000'000'000;

std::vector<int> read_numbers(const JsonView& list, int low, int high) {
  std::vector<int> numbers;
  for (std::size_t i = 0; i < list.size(); ++i) numbers.push_back(list.at(i).integer_in(low, high));
  return numbers;
}

}  // namespace

Json envpipe_settings_json(const planner::EnvPipeOptions& options, const EnvPipeMemory& memory,
                           const std::vector<int>& clocks_mhz) {
  const auto word = [](const auto& words, auto value) { return words.at(static_cast<std::size_t>(value)); };
  Json settings = {{"type", word(planner::kEnvPipeTypeWords, options.type)},
                   {"scheduling", word(planner::kEnvPipeOrderWords, options.order)},
                   {"reconfig", word(planner::kEnvPipeReconfigWords, options.reconfiguration)},
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
          {"state", planner::to_json(saved.state)}};
}

EnvPipeSaved read_envpipe_saved(const JsonView& view) {
  EnvPipeSaved saved;
  saved.settings = view.at("settings").json();
  saved.settled = view.at("settled").boolean();
  saved.early_forwards = read_numbers(view.at("early_forwards"), 0, kMaxCount);
  saved.state = planner::read_envpipe_state(view.at("state"));
  return saved;
}

}  // namespace lowgear::launcher
