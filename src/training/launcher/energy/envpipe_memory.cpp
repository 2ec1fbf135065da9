#include "training/launcher/energy/envpipe_memory.h"

#include <fmt/format.h>

#include <cstddef>

#include "base/core/error.h"
#include "planning/joint/orders/memory_limit.h"

namespace lowgear::launcher {

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
        fmt::format("energy.envpipe.memory_limit: {}: it is not known what a microbatch's activations take: the job "
                    "measures it in the steps that try clocks, which energy.envpipe.profile leaves out, and that "
                    "profile has no column activation_bytes; profile it with lowgear profile, give the number of "
                    "microbatches that fit, or leave out the profile",
                    memory.bytes));
  }
  return activations_beyond_1f1b(joint::parse_memory_limit(memory.bytes, activation_bytes), ranks, microbatches);
}

}  // namespace lowgear::launcher
