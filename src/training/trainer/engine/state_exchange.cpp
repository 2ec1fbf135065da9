#include "training/trainer/engine/state_exchange.h"

#include <memory>
#include <set>

namespace lowgear::trainer {
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
