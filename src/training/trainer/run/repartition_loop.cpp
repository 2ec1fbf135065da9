#include "training/trainer/run/repartition_loop.h"

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

RepartitionLoop::RepartitionLoop(const launcher::TrainConfig& config, SavedState& others, client::Client& client,
                                 const Communicators& ranks, int position)
    : config_(&config),
      others_(&others),
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

std::string RepartitionLoop::partition_at(std::int64_t step, std::int64_t frozen_blocks,
                                          std::span<const model::LayerRange> now) {
  const launcher::RepartitionConfig& repartition = *config_->adapt.repartition;
  if (!repartition.automatic) {
    for (const auto& entry : repartition.schedule) {
      if (entry.step <= step) partition_ = entry.partition;
    }
    return partition_;
  }
  if (decided_for_ == frozen_blocks) return partition_;
  decided_for_ = frozen_blocks;
  launcher::PlannedPartition chosen;
  together(*ranks_->world, [&] {
    if (ranks_->world->rank() == 0) chosen = choose(step, frozen_blocks, now);
  });
  agree(std::move(chosen));
  return partition_;
}

launcher::PlannedPartition RepartitionLoop::choose(std::int64_t step, std::int64_t frozen_blocks,
                                                   std::span<const model::LayerRange> now) const {
  const launcher::PartitionOptions options =
      planner_ ? planner_->options(frozen_blocks, now) : launcher::flop_options(*config_, frozen_blocks, now);
  const launcher::SwitchCost cost{
      .step_time_s = step_time_s_, .switch_time_s = switch_time_s(options), .steps_left = config_->steps - step};
  return is_worth_moving(options, cost) ? options.move : options.stay;
}

/// By what the rank that moves most sends and receives.
double RepartitionLoop::switch_time_s(const launcher::PartitionOptions& options) const {
  const std::vector<int> rank_of = rank_of_stage(launcher::training_schedule(*config_, 0));
  const auto moves = launcher::layer_moves(options.stay.partition, options.move.partition, rank_of);
  return static_cast<double>(launcher::busiest_rank_moves(moves)) *
         launcher::layer_state_bytes(config_->model, config_->parallel.tp) / bytes_per_s_;
}

/// What rank 0 has chosen.
void RepartitionLoop::agree(launcher::PlannedPartition chosen) {
  const std::string text = chosen.partition.empty() ? "" : model::partition_text(chosen.partition);
  partition_ = broadcast_text(*ranks_->world, text);
  std::string plan = broadcast_text(*ranks_->world, chosen.plan);
  if (!plan.empty()) plan_ = std::move(plan);
}

bool RepartitionLoop::follow() {
  if (!plan_) return true;
  const bool follows = std::exchange(follows_, true);
  try {
    client_->load_plan_text(*std::exchange(plan_, std::nullopt), "adapt.repartition.profile", position_,
                            /*nearest_below=*/false);
    return true;
  } catch (const Error& error) {
    if (!follows) throw;
    fmt::print(stderr, "rank {}: the plan for {}: {}; training continues\n", ranks_->world->rank(), partition_,
               error.what());
    return false;
  }
}

void RepartitionLoop::after_step(const StepResult& result) {
  if (!result.moved) {
    step_time_s_ = result.time_s;
  } else if (result.moved->bytes > 0) {
    bytes_per_s_ = result.moved->bytes / result.moved->time_s;
  }
}

std::string RepartitionLoop::save() const {
  const std::string others = others_->save();
  Json json = others.empty() ? Json::object() : Json::parse(others);
  json["repartition"] = {{"partition", partition_}, {"step_time_s", step_time_s_}, {"bytes_per_s", bytes_per_s_}};
  if (decided_for_) json["repartition"]["frozen_blocks"] = *decided_for_;
  return json.dump();
}

/// Of a job that may have had other stages: it then begins with its own partition.
void RepartitionLoop::restore(const std::string& json, const std::string& source) {
  others_->restore(json, source);
  const Json document = parse_json(json, source);
  const JsonView root(document, source, "$.freezing");
  if (!root.has("repartition")) return;
  const JsonView saved = root.at("repartition");
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
    decided_for_ = saved.at("frozen_blocks").integer_in(0, static_cast<int>(config_->model.layers));
  }
}

}  // namespace lowgear::trainer
