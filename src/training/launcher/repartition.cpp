#include "training/launcher/repartition.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/core/files/file.h"
#include "estimating/model/parameters.h"
#include "planning/api/work_replan.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/communication.h"
#include "training/launcher/energy/envpipe_config.h"
#include "training/launcher/training_schedule.h"

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

namespace {

/// The position that has each layer, by layer.
std::vector<int> positions(std::span<const model::LayerRange> partition, std::span<const int> rank_of) {
  std::vector<int> result;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    result.insert(result.end(), static_cast<std::size_t>(partition[stage].size()), rank_of[stage]);
  }
  return result;
}

}  // namespace

std::vector<LayerMove> layer_moves(std::span<const model::LayerRange> before, std::span<const model::LayerRange> after,
                                   std::span<const int> rank_of) {
  const std::vector<int> from = positions(before, rank_of);
  const std::vector<int> to = positions(after, rank_of);
  std::vector<LayerMove> moves;
  for (std::size_t layer = 0; layer < from.size(); ++layer) {
    if (from[layer] != to[layer]) moves.push_back({static_cast<std::int64_t>(layer), from[layer], to[layer]});
  }
  return moves;
}

std::int64_t busiest_rank_moves(std::span<const LayerMove> moves) {
  std::map<int, std::int64_t> by_rank;
  std::int64_t most = 0;
  for (const LayerMove& move : moves) most = std::max({most, ++by_rank[move.from], ++by_rank[move.to]});
  return most;
}

namespace {

profile::Partition counts_of(std::span<const model::LayerRange> partition) {
  profile::Partition counts;
  for (const model::LayerRange& layers : partition) counts.push_back(static_cast<int>(layers.size()));
  return counts;
}

std::vector<model::LayerRange> ranges_of(const profile::Partition& counts) {
  std::vector<model::LayerRange> partition;
  std::int64_t layer = 0;
  for (const int count : counts) {
    partition.push_back({layer, layer + count});
    layer += count;
  }
  return partition;
}

PlannedPartition planned(const api::PlannedWork& work) {
  return {ranges_of(work.partition), plan::write_plan(work.plan)};
}

}  // namespace

WorkPlanner::WorkPlanner(const TrainConfig& config)
    : config_(&config), schedule_(without_communication(training_schedule(config, 0))) {
  const RepartitionConfig::Profile& given = config.adapt.repartition.value().profile.value();
  partition_ =
      counts_of(partition_layers(config.model, schedule_.stages, model::parse_partition_rule(config.partition)));
  profile_ = profile::layer_profile_of(profile::read_profile_file(read_file(given.file), given.file.string()).profile,
                                       partition_);
  blocking_power_w_ = read_blocking_power("adapt.repartition.blocking_power", given.blocking_power, schedule_.stages);
  api::WorkReplanRequest request{.profile = profile_,
                                 .blocking_power_w = blocking_power_w_,
                                 .before = {.schedule = schedule_},
                                 .partition = partition_,
                                 .after = {.schedule = schedule_},
                                 .step_time = api::StepTime::own_fastest};
  // Layers will have to move: where they cannot, that is said now.
  const double fastest_s = api::replan_work(request).before.fastest_s;
  deadline_s_ = fastest_s * (1 + given.slowdown_pct / 100);
  request.keep_partition = true;
  request.after_deadline_s = deadline_s_;
  const api::PlannedWork work = api::replan_work(request).after;
  first_figures_ = {work.plan.time_s, work.plan.energy_j};
  first_ = planned(work);
}

PartitionOptions WorkPlanner::options(std::int64_t frozen_blocks, std::span<const model::LayerRange> now) const {
  api::Work work{.change = {.frozen_layers = static_cast<int>(frozen_blocks)}, .schedule = schedule_};
  api::WorkReplanRequest request{.profile = profile_,
                                 .blocking_power_w = blocking_power_w_,
                                 .before = work,
                                 .partition = counts_of(now),
                                 .after = work,
                                 .keep_partition = frozen_blocks == 0,
                                 .step_time = api::StepTime::own_fastest};
  // In its own time first, which says what both partitions can do.
  const api::WorkReplan fastest = api::replan_work(request);
  request.after_deadline_s = std::max(deadline_s_, fastest.after.fastest_s);
  const api::WorkReplan replan = api::replan_work(request);
  const plan::Plan& stay = (replan.same_partition ? replan.same_partition : fastest.same_partition)->plan;
  PartitionOptions options{.stay = {{now.begin(), now.end()}, plan::write_plan(stay)}, .move = planned(replan.after)};
  Figures move{replan.after.plan.time_s, replan.after.plan.energy_j};
  if (frozen_blocks == 0) {
    options.move = first_;
    move = first_figures_;
  }
  options.saving = 1 - move.energy_j / stay.energy_j;
  // One that is later than it may be loses time, too.
  constexpr double kSameTime = 1 + 1e-9;
  if (stay.time_s > std::max(move.time_s, deadline_s_) * kSameTime) {
    options.saving = std::max(options.saving, 1 - move.time_s / stay.time_s);
  }
  return options;
}

}  // namespace lowgear::launcher
