#include "training/launcher/partition_choice.h"

#include <algorithm>

#include "estimating/model/parameters.h"

namespace lowgear::launcher {
namespace {

/// Training FLOPs of what is left to do.
model::LayerCosts remaining_flops(const TrainConfig& config, std::int64_t frozen_blocks) {
  model::LayerCosts costs = flop_costs(config.model, config.sequence_length);
  for (std::int64_t block = 0; block < frozen_blocks; ++block) costs.layers[static_cast<std::size_t>(block)] /= 3;
  if (frozen_blocks > 0 && config.model.tied_embeddings) costs.head *= 2.0 / 3;
  return costs;
}

double iteration_cost(const model::LayerCosts& costs, std::span<const model::LayerRange> partition, int microbatches) {
  double sum = 0;
  double costliest = 0;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    double cost = (stage == 0 ? costs.embedding : 0) + (stage + 1 == partition.size() ? costs.head : 0);
    for (std::int64_t layer = partition[stage].begin; layer < partition[stage].end; ++layer) {
      cost += costs.layers[static_cast<std::size_t>(layer)];
    }
    sum += cost;
    costliest = std::max(costliest, cost);
  }
  return sum + (microbatches - 1) * costliest;
}

}  // namespace

PartitionOptions flop_options(const TrainConfig& config, std::int64_t frozen_blocks,
                              std::span<const model::LayerRange> now) {
  const model::LayerCosts costs = remaining_flops(config, frozen_blocks);
  const int stages = static_cast<int>(now.size());
  PartitionOptions options;
  options.stay.partition.assign(now.begin(), now.end());
  options.move.partition = frozen_blocks > 0
                               ? partition_by_cost(costs, stages)
                               : partition_layers(config.model, stages, model::parse_partition_rule(config.partition));
  options.saving = 1 - iteration_cost(costs, options.move.partition, config.microbatches) /
                           iteration_cost(costs, now, config.microbatches);
  return options;
}

bool is_worth_moving(const PartitionOptions& options, const SwitchCost& cost) {
  if (options.move.partition == options.stay.partition || options.saving < kLeastPartitionSaving) return false;
  if (cost.step_time_s == 0) return true;
  return options.saving * cost.step_time_s * static_cast<double>(cost.steps_left) > cost.switch_time_s;
}

double layer_state_bytes(const model::ModelConfig& config, int tp) {
  constexpr double kBytesPerParameter = 12;
  std::int64_t elements = 0;
  for (const model::ParameterSpec& spec : parameters(config)) {
    if (spec.layer != 0) continue;
    const std::int64_t count = model::element_count(spec.shape);
    elements += spec.shape.size() == 2 ? count / tp : count;
  }
  return kBytesPerParameter * static_cast<double>(elements);
}

}  // namespace lowgear::launcher
