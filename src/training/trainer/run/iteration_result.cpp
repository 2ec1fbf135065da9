#include "training/trainer/run/iteration_result.h"

#include <array>
#include <cstddef>

#include "estimating/model/model_config.h"
#include "estimating/model/partition.h"
#include "training/trainer/model/parameter_store.h"

namespace lowgear::trainer {
namespace {

/// Training FLOPs without those of weight gradients that are left out, and those that a frozen prefix saves: two thirds
/// of a block's are its backward, one third the gradient of a tied output matrix.
double needed_flops_per_token(const launcher::TrainConfig& config, const IterationResult& result) {
  const std::int64_t frozen_blocks = result.frozen_blocks;
  const model::LayerCosts costs = flop_costs(config.model, config.sequence_length);
  double flops = training_flops_per_token(config.model, config.sequence_length);
  for (std::int64_t block = 0; block < frozen_blocks; ++block) {
    flops -= 2 * costs.layers[static_cast<std::size_t>(block)] / 3;
  }
  if (result.dropped_gradients && !config.adapt.placebo) {
    double weights = 0;
    for (const std::int64_t count : linear_weights(config.model)) weights += static_cast<double>(count);
    flops -= 2 * weights * static_cast<double>(config.model.layers) * result.dropped_gradients->share;
  }
  if (frozen_blocks > 0 && config.model.tied_embeddings) flops -= costs.head / 3;
  return flops;
}

}  // namespace

void IterationTotals::add_up(Collective& world) {
  const std::array<double*, 14> members = {
      &loss,    &energy_j,    &energy_uncertainty_j, &without_energy, &without_uncertainty, &by_power,     &simulated,
      &invalid, &peak_flop_s, &without_peak,         &without_server, &without_recording,   &not_switched, &end};
  const at::Tensor sum = at::empty({static_cast<std::int64_t>(members.size())}, at::kDouble);
  auto* values = sum.data_ptr<double>();
  for (std::size_t i = 0; i < members.size(); ++i) values[i] = *members[i];
  world.all_reduce(sum);
  for (std::size_t i = 0; i < members.size(); ++i) *members[i] = values[i];
}

void IterationTotals::describe(const launcher::TrainConfig& config, IterationResult& result) const {
  result.loss = loss;
  if (without_energy == 0) result.energy_j = energy_j;
  if (without_uncertainty == 0) result.energy_uncertainty_j = energy_uncertainty_j;
  result.ranks_by_power = static_cast<int>(by_power);
  result.simulated = simulated > 0;
  result.invalid = invalid > 0;
  result.ranks_without_server = static_cast<int>(without_server);
  result.ranks_without_recording = static_cast<int>(without_recording);
  result.ranks_not_switched = static_cast<int>(not_switched);
  if (without_peak > 0) return;
  const double flops = needed_flops_per_token(config, result) * static_cast<double>(config.tokens_per_step());
  result.mfu = flops / (result.time_s * peak_flop_s);
}

}  // namespace lowgear::trainer
