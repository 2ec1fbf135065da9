#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "estimating/estimator/memory/activation_memory.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {
namespace {

constexpr double kBillion = 1e9;

/// `2.01 bytes x 6.66e9 parameters`, in bytes that the rank has for each parameter of its pipeline stage.
std::string each_parameter(double bytes, double parameters) {
  return fmt::format("{:.3g} bytes for each of {:.2f} billion parameters", bytes / parameters, parameters / kBillion);
}

std::string weights_reason(const TrainingJob& job, double bytes, double parameters) {
  if (job.zero < 3) return each_parameter(bytes, parameters);
  return keeps_master_weights(job) ? "two layers, gathered" : "the rank's share in fp32, and two layers, gathered";
}

std::string workspace_reason(const TrainingJob& job, double bytes) {
  const std::optional<TrainingJob> dense = second_kind(job);
  if (bytes > std::max(layer_workspace_bytes(job), dense ? layer_workspace_bytes(*dense) : 0)) {
    return fmt::format("logits and their gradients in the backward of the {} loss", name(job.stack.loss));
  }
  return job.recompute == Recompute::full ? "backward of a layer with what it recomputes" : "backward of a layer";
}

}  // namespace

std::vector<MemoryPart> memory_parts(const TrainingJob& job, const MemoryEstimate& estimate, std::size_t rank) {
  const RankMemory& memory = estimate.ranks[rank];
  const double parameters = parameters_of_ranks(job)[rank];
  const double tokens = tokens_of_rank(job);
  const auto parts = std::to_array<MemoryPart>({
      {"weights", memory.weights, weights_reason(job, memory.weights, parameters)},
      {"gradients", memory.gradients, each_parameter(memory.gradients, parameters)},
      {"optimizer", memory.optimizer, each_parameter(memory.optimizer, parameters)},
      {"layers' activations", memory.activations - memory.logits,
       fmt::format("{}, {:.0f} tokens a microbatch{}", recomputation_text(job.recompute), tokens,
                   job.offload == Offload::activations ? ", two layers at a time" : "")},
      {"logits", memory.logits,
       fmt::format("kept by the {} loss, {:.0f} tokens x {}", name(job.stack.loss), tokens, job.model.vocabulary)},
      {"workspace", memory.workspace, workspace_reason(job, memory.workspace)},
      {"context and communication", memory.buffers - memory.workspace,
       "CUDA context, buffers of NCCL, messages, gradients on their way"},
      {"margin", memory.fragmentation, "holes of the allocator: 5 % of activations and workspace"},
  });
  std::vector<MemoryPart> shown;
  for (const MemoryPart& part : parts) {
    if (part.bytes > 0) shown.push_back(part);
  }
  return shown;
}

}  // namespace lowgear::estimator
