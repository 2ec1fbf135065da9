#include "training/trainer/run/trained_part.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "training/launcher/repartition.h"
#include "training/launcher/training_schedule.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/engine/backend.h"
#include "training/trainer/fp8/matrix.h"

namespace lowgear::trainer {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kNumbersPerElement = 3;  ///< fp32 value and two moments

std::vector<model::LayerRange> partition_of(const launcher::TrainConfig& config, int stages,
                                            const std::string& partition) {
  return partition_layers(config.model, stages, model::parse_partition_rule(partition));
}

std::vector<int> stages_of_rank(const schedule::Schedule& schedule, int position) {
  std::vector<int> stages;
  const std::vector<int> rank_of = rank_of_stage(schedule);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (rank_of[static_cast<std::size_t>(stage)] == position) stages.push_back(stage);
  }
  return stages;
}

/// Throws InputError where the device has no fp8, unless a probe may choose bf16.
std::optional<Fp8Blocks> fp8_blocks(const launcher::TrainConfig& config, at::Device device) {
  if (!config.fp8) return std::nullopt;
  if (!config.fp8->probe) {
    const std::string reason = fp8::missing(device);
    if (!reason.empty()) throw InputError(fmt::format("type: fp8: {}; set type: bf16", reason));
  }
  return Fp8Blocks{
      .begin = config.fp8->keep_first,
      .end = config.model.layers - config.fp8->keep_last,
      .on = !config.fp8->probe,
      .weight_gradients = config.fp8->bf16_weight_gradients ? WeightGradientType::bf16 : WeightGradientType::fp8};
}

}  // namespace

TrainedPart::TrainedPart(launcher::TrainConfig config, at::Device device, Communicators& ranks)
    : config_(std::move(config)),
      place_(launcher::RankLayout(config_.parallel).place_of(ranks.world->rank())),
      device_(device),
      ranks_(&ranks),
      schedule_(launcher::training_schedule(config_)),
      partition_(partition_of(config_, schedule_.stages, config_.partition)),
      fp8_(fp8_blocks(config_, device_)),
      part_(make_part(config_.freeze.blocks_at(0))) {
  if (config_.weights) {
    load_weights(*config_.weights, config_.model, store());
  } else {
    initialize(store(), config_.model.layers, config_.seed);
  }
  optimizer_ = std::make_unique<AdamW>(store(), config_.optimizer, ranks);
  assemble();
}

std::unique_ptr<ModelPart> TrainedPart::make_part(std::int64_t frozen_blocks) const {
  return std::make_unique<ModelPart>(config_.model, partition_, stages_of_rank(schedule_, place_.pp),
                                     ModelPartOptions{.type = config_.fp16   ? at::kHalf
                                                              : config_.bf16 ? at::kBFloat16
                                                                             : at::kFloat,
                                                      .device = device_,
                                                      .recompute = config_.recompute_of(place_.pp),
                                                      .buffer_multiple = config_.parallel.dp,
                                                      .fp8 = fp8_,
                                                      .frozen_blocks = frozen_blocks},
                                     *ranks_);
}

/// What executes a step, for what is frozen and where the layers are now.
void TrainedPart::assemble() {
  schedule_ = launcher::training_schedule(config_, store().frozen_blocks(), early_forwards_);
  engine_ = std::make_unique<PipelineEngine>(
      schedule_, place_.pp, part_->stages(), *ranks_->pipeline,
      EngineOptions{.streams = stream_shapes(config_.model, config_.rows(), config_.row_tokens(), config_.parallel.tp),
                    .activation_options = store().values().options(),
                    .loss_gradient = 1.0 / (config_.microbatches * config_.parallel.dp)});
  constexpr std::int64_t kGradientBytes = sizeof(float);
  reducer_.emplace(store(), *ranks_->data,
                   GradientReducerOptions{.bucket_elements = config_.gradient_bucket_bytes / kGradientBytes,
                                          .additions = config_.microbatches,
                                          .to_owners = config_.optimizer.zero1});
}

void TrainedPart::reorder(std::vector<int> early_forwards) {
  early_forwards_ = std::move(early_forwards);
  assemble();
}

void TrainedPart::use_fp8(bool on) {
  if (fp8_) fp8_->on = on;
  part_->use_fp8(on);
}

at::Tensor TrainedPart::compute_gradients(std::span<const Microbatch> microbatches, UnitObserver* observer,
                                          double loss_weight) {
  reducer_->begin();
  at::Tensor loss = engine_->run(microbatches, observer, loss_weight);
  part_->reduce_tied_gradients();
  reducer_->finish();
  return loss;
}

std::optional<PartitionSwitch> TrainedPart::change(std::int64_t frozen_blocks, const std::string& partition) {
  std::vector<model::LayerRange> wanted = partition_of(config_, schedule_.stages, partition);
  if (wanted == partition_) {
    if (frozen_blocks != store().frozen_blocks()) freeze(frozen_blocks);
    return std::nullopt;
  }
  config_.partition = partition;
  return move_layers(std::move(wanted), frozen_blocks);
}

void TrainedPart::freeze(std::int64_t blocks) {
  optimizer_->freeze(blocks, [this] { part_->bind(); });
  assemble();
}

PartitionSwitch TrainedPart::move_layers(std::vector<model::LayerRange> partition, std::int64_t frozen_blocks) {
  const auto start = Clock::now();
  const std::vector<launcher::LayerMove> moves = launcher::layer_moves(partition_, partition, rank_of_stage(schedule_));
  partition_ = std::move(partition);
  engine_.reset();
  reducer_.reset();
  std::unique_ptr<ModelPart> next;
  std::optional<StateExchange> exchange;
  const auto make = [&]() -> ParameterStore& {
    part_->dismiss();
    next = make_part(frozen_blocks);
    exchange.emplace(part_->store(), next->store(), moves, place_.pp, *ranks_->pipeline);
    return next->store();
  };
  optimizer_->move_to(make, [&](const at::Tensor& before, const at::Tensor& after) { exchange->run(before, after); });
  part_ = std::move(next);
  assemble();
  synchronize(device_);
  return {.time_s = std::chrono::duration<double>(Clock::now() - start).count(),
          .sent_bytes = static_cast<double>(exchange->sent() * kNumbersPerElement) * sizeof(float)};
}

namespace {

std::set<std::int64_t> blocks_of(const ParameterStore& store) {
  std::set<std::int64_t> blocks;
  for (const Parameter& parameter : store.parameters()) blocks.insert(parameter.block);
  return blocks;
}

}  // namespace

/// A block's matrices, and then its norms and biases: each kind was declared without any other block's in between, so
/// that it is one stretch in every store, frozen or not.
std::vector<StateExchange::Stretch> StateExchange::stretches_of(const ParameterStore& store, std::int64_t block) {
  std::vector<Stretch> stretches;
  for (const bool decays : {true, false}) {
    Stretch stretch;
    for (const Parameter& parameter : store.parameters()) {
      if (parameter.block != block || parameter.decays != decays) continue;
      if (stretch.count == 0) stretch.begin = parameter.offset;
      TORCH_INTERNAL_ASSERT(parameter.offset == stretch.begin + stretch.count, "a block is not in one piece");
      stretch.count += parameter.count();
    }
    stretches.push_back(stretch);
  }
  return stretches;
}

StateExchange::StateExchange(const ParameterStore& from, const ParameterStore& to,
                             std::span<const launcher::LayerMove> moves, int position, PointToPoint& peers)
    : peers_(&peers) {
  const std::set<std::int64_t> before = blocks_of(from);
  for (const std::int64_t block : blocks_of(to)) {
    if (!before.contains(block)) continue;
    const std::vector<Stretch> old = stretches_of(from, block);
    const std::vector<Stretch> now = stretches_of(to, block);
    for (std::size_t i = 0; i < old.size(); ++i) copies_.push_back({old[i], now[i].begin});
  }
  for (const launcher::LayerMove& move : moves) {
    if (move.from != position && move.to != position) continue;
    const bool sends = move.from == position;
    for (const Stretch& part : stretches_of(sends ? from : to, move.layer)) {
      if (part.count > 0) messages_.push_back({part, sends ? move.to : move.from, sends});
    }
  }
}

void StateExchange::run(const at::Tensor& before, const at::Tensor& after) const {
  const torch::autograd::AutoGradMode no_gradient(false);
  std::vector<std::unique_ptr<PendingTransfer>> transfers;
  peers_->begin_group();
  for (const Message& message : messages_) {
    const at::Tensor part = (message.sends ? before : after).narrow(0, message.part.begin, message.part.count);
    transfers.push_back(message.sends ? peers_->send(part, message.peer) : peers_->receive(part, message.peer));
  }
  peers_->end_group();
  for (const Copy& copy : copies_) {
    after.narrow(0, copy.to, copy.from.count).copy_(before.narrow(0, copy.from.begin, copy.from.count));
  }
  for (const auto& transfer : transfers) transfer->wait();
}

std::int64_t StateExchange::sent() const {
  std::int64_t elements = 0;
  for (const Message& message : messages_) elements += message.sends ? message.part.count : 0;
  return elements;
}

}  // namespace lowgear::trainer
