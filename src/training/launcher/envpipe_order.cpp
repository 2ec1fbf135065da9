#include "training/launcher/envpipe_order.h"

#include <fmt/format.h>

#include <string>

#include "base/core/error.h"

namespace lowgear::launcher {

planner::EnvPipeOrder order_in_memory(const EnvPipeMemory& memory, int microbatches,
                                      const planner::EnvPipeFindings& found) {
  planner::EnvPipeOrder order = envpipe_order(microbatches, found, memory.extra_activations);
  if (order.note.empty()) return order;
  if (!memory.is_stated()) {
    order.note += "; this is what 1F1B holds: state what fits as energy.envpipe.memory_limit (--memory-limit)";
  } else if (!memory.bytes.empty()) {
    order.note += fmt::format(
        "; this is what 1F1B holds, as it is not known how many microbatches {} are: state their number as "
        "energy.envpipe.memory_limit (--memory-limit)",
        memory.bytes);
  }
  return order;
}

planner::EnvPipeOrder starting_order(const TrainConfig& config) {
  const int ranks = config.parallel.pp;
  if (config.parallel.chunks != 1) {
    throw InputError(fmt::format("schedule: {} has one stage per rank, and parallel.chunks is {}", kEnvPipeSchedule,
                                 config.parallel.chunks));
  }
  if (!config.early_forwards.empty()) return {.early_forwards = config.early_forwards, .note = {}};
  const int microbatches = config.microbatches;
  if (!config.envpipe || !config.envpipe->profile) {
    return order_in_memory(config.envpipe_memory, microbatches,
                           {.optimal_mhz = {}, .stages = planner::stages_without_profile(ranks)});
  }
  const EnvPipeMemory counted{
      .extra_activations =
          extra_activations(config.envpipe_memory, profiled_activation_bytes(*config.envpipe), ranks, microbatches)};
  return order_in_memory(counted, microbatches, order_findings_on_profile(*config.envpipe, ranks, microbatches));
}

std::string starting_note(const TrainConfig& config) {
  if (config.schedule != kEnvPipeSchedule) return {};
  const std::string note = starting_order(config).note;
  return note.empty() ? note : fmt::format("schedule {}: {}", kEnvPipeSchedule, note);
}

}  // namespace lowgear::launcher
