#include "training/trainer/run/partition_chooser.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "training/launcher/repartition.h"
#include "training/launcher/training_schedule.h"
#include "training/trainer/checkpoint/job_folder.h"

namespace lowgear::trainer {
namespace {

/// Until a switch was measured: slower than any link between GPUs.
constexpr double kAssumedBytesPerS = 1e9;

/// Rank 0's text, of any length. A meeting of all ranks.
std::string broadcast_text(Collective& world, const std::string& text) {
  const at::Tensor length = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  world.broadcast(length, 0);
  const auto size = static_cast<std::size_t>(length.item<std::int64_t>());
  if (size == 0) return "";
  const at::Tensor bytes = at::zeros({static_cast<std::int64_t>(size)}, at::kByte);
  if (world.rank() == 0) std::memcpy(bytes.data_ptr(), text.data(), size);
  world.broadcast(bytes, 0);
  return {static_cast<const char*>(bytes.data_ptr()), size};
}

}  // namespace

PartitionChooser::PartitionChooser(const launcher::TrainConfig& config, client::Client& client,
                                   const Communicators& ranks, int position)
    : config_(&config),
      client_(&client),
      ranks_(&ranks),
      position_(position),
      partition_(config.partition),
      bytes_per_s_(kAssumedBytesPerS) {
  if (!config.adapt.repartition->profile) return;
  together(*ranks.world, [this] {
    if (ranks_->world->rank() == 0) planner_.emplace(*config_);
  });
}

std::string PartitionChooser::partition_at(std::int64_t iteration, std::int64_t frozen_blocks,
                                           std::span<const model::LayerRange> now) {
  const launcher::RepartitionConfig& repartition = *config_->adapt.repartition;
  if (!repartition.automatic) {
    for (const auto& entry : repartition.schedule) {
      if (entry.step <= iteration) partition_ = entry.partition;
    }
    return partition_;
  }
  if (chosen_for_ == frozen_blocks) return partition_;
  chosen_for_ = frozen_blocks;
  launcher::PlannedPartition chosen;
  together(*ranks_->world, [&] {
    if (ranks_->world->rank() == 0) chosen = choose(iteration, frozen_blocks, now);
  });
  agree(std::move(chosen));
  return partition_;
}

launcher::PlannedPartition PartitionChooser::choose(std::int64_t iteration, std::int64_t frozen_blocks,
                                                    std::span<const model::LayerRange> now) const {
  const launcher::PartitionOptions options =
      planner_ ? planner_->options(frozen_blocks, now) : launcher::flop_options(*config_, frozen_blocks, now);
  const launcher::SwitchCost cost{
      .step_time_s = step_time_s_, .switch_time_s = switch_time_s(options), .steps_left = config_->steps - iteration};
  return is_worth_moving(options, cost) ? options.move : options.stay;
}

/// By what the rank that moves most sends and receives.
double PartitionChooser::switch_time_s(const launcher::PartitionOptions& options) const {
  const std::vector<int> rank_of = rank_of_stage(launcher::training_schedule(*config_, 0));
  const auto moves = launcher::layer_moves(options.stay.partition, options.move.partition, rank_of);
  return static_cast<double>(launcher::busiest_rank_moves(moves)) *
         launcher::layer_state_bytes(config_->model, config_->parallel.tp) / bytes_per_s_;
}

/// What rank 0 has chosen.
void PartitionChooser::agree(launcher::PlannedPartition chosen) {
  const std::string text = chosen.partition.empty() ? "" : model::partition_text(chosen.partition);
  partition_ = broadcast_text(*ranks_->world, text);
  std::string plan = broadcast_text(*ranks_->world, chosen.plan);
  if (!plan.empty()) plan_ = std::move(plan);
}

bool PartitionChooser::follow() {
  if (!plan_) return true;
  const bool follows = std::exchange(follows_, true);
  try {
    client_->load_plan_text(*std::exchange(plan_, std::nullopt), "adapt.repartition.profile", position_,
                            /*nearest_below=*/false);
    return true;
  } catch (const Error& error) {
    if (!follows) throw;
    fmt::print(stderr, "the plan for {}: {}; training continues\n", partition_, error.what());
    return false;
  }
}

void PartitionChooser::after_iteration(const IterationResult& result) {
  if (!result.moved) {
    step_time_s_ = result.time_s;
  } else if (result.moved->bytes > 0) {
    bytes_per_s_ = result.moved->bytes / result.moved->time_s;
  }
}

Json PartitionChooser::save() const {
  Json json = {{"partition", partition_}, {"step_time_s", step_time_s_}, {"bytes_per_s", bytes_per_s_}};
  if (chosen_for_) json["frozen_blocks"] = *chosen_for_;
  return json;
}

void PartitionChooser::restore(const JsonView& saved) {
  const std::string partition = saved.at("partition").text();
  try {
    const int stages = launcher::training_schedule(*config_, 0).stages;
    (void)partition_layers(config_->model, stages, model::parse_partition_rule(partition));
  } catch (const InputError&) {
    return;
  }
  partition_ = partition;
  step_time_s_ = saved.at("step_time_s").number();
  bytes_per_s_ = saved.at("bytes_per_s").number();
  // A plan is made anew, for the same clocks.
  if (saved.has("frozen_blocks") && !config_->adapt.repartition->profile) {
    chosen_for_ = saved.at("frozen_blocks").integer_in(0, static_cast<int>(config_->model.layers));
  }
}

}  // namespace lowgear::trainer
