#include "training/trainer/engine/engine.h"

#include <utility>

#include "planning/schedule/communication.h"

namespace lowgear::trainer {
namespace {

/// Sends that may be under way beyond one for every stage; older ones are waited for, so that memory stays bounded. No
/// schedule that runs with blocking sends hangs on that.
constexpr std::size_t kSendsUnderWay = 8;

/// Ends the group of transfers that it has begun.
class TransferGroup {
 public:
  explicit TransferGroup(PointToPoint& peers) : peers_(&peers) {}
  void open() {
    if (!std::exchange(open_, true)) peers_->begin_group();
  }
  void close() {
    if (std::exchange(open_, false)) peers_->end_group();
  }

 private:
  PointToPoint* peers_;
  bool open_ = false;
};

}  // namespace

PipelineEngine::PipelineEngine(const schedule::Schedule& schedule, int position, std::map<int, Stage*> stages,
                               PointToPoint& peers, EngineOptions options)
    : actions_(&schedule.ranks.at(static_cast<std::size_t>(position))),
      rank_of_stage_(rank_of_stage(schedule)),
      last_stage_(schedule.stages - 1),
      frozen_stages_(schedule.frozen_stages),
      stages_(std::move(stages)),
      peers_(&peers),
      options_(std::move(options)) {}

at::Tensor PipelineEngine::run(std::span<const Microbatch> microbatches, UnitObserver* observer, double loss_weight) {
  forget();
  loss_weight_ = loss_weight;
  TransferGroup group(*peers_);
  for (const schedule::Action& action : *actions_) {
    if (is_message(action.kind)) {
      group.open();
      transfer(action);
      continue;
    }
    group.close();
    if (observer != nullptr) observer->unit_waits(action);
    wait_for_input(action);
    if (observer != nullptr) observer->unit_begins(action);
    compute(action, microbatches[static_cast<std::size_t>(action.microbatch)]);
    if (observer != nullptr) observer->unit_ended(action);
  }
  group.close();
  for (const Message& sent : outgoing_) sent.wait();
  at::Tensor loss = std::move(loss_);
  forget();
  return loss;
}

void PipelineEngine::forget() {
  activations_.clear();
  gradients_.clear();
  incoming_activations_.clear();
  incoming_gradients_.clear();
  outgoing_.clear();
  for (const auto& [index, stage] : stages_) stage->clear();
  loss_ = at::zeros({}, options_.activation_options.dtype(at::kFloat));
}

/// Before the unit begins: waiting is no work, and runs at the clock of the unit before.
void PipelineEngine::wait_for_input(const schedule::Action& action) {
  const bool is_forward = action.op == OpKind::forward;
  if (action.op == OpKind::weight_gradient) return;
  auto& inbox = is_forward ? incoming_activations_ : incoming_gradients_;
  const auto found = inbox.find({action.stage + (is_forward ? -1 : 1), action.microbatch});
  if (found != inbox.end()) found->second.wait();
}

void PipelineEngine::compute(const schedule::Action& action, const Microbatch& microbatch) {
  switch (action.op) {
    case OpKind::forward:
      return forward(action, microbatch);
    case OpKind::backward:
      return backward(action, WeightGradients::now);
    case OpKind::input_gradient:
      return backward(action, WeightGradients::later);
    case OpKind::weight_gradient:
      return stages_.at(action.stage)->weight_gradients(action.microbatch);
    case OpKind::forward_backward:
    case OpKind::recomputation:
    case OpKind::recomputing_backward:
      break;  // schedules with them are refused (training_schedule.h)
  }
}

void PipelineEngine::forward(const schedule::Action& action, const Microbatch& microbatch) {
  const Key before{action.stage - 1, action.microbatch};
  const Tensors input = action.stage == 0 ? Tensors() : take(activations_, incoming_activations_, before);
  Stage& stage = *stages_.at(action.stage);
  Tensors output = action.stage < frozen_stages_ ? stage.evaluate(microbatch, input)
                                                 : stage.forward(action.microbatch, microbatch, input);
  if (action.stage == last_stage_) {
    loss_.add_(output.front());
  } else {
    activations_[{action.stage, action.microbatch}] = std::move(output);
  }
}

void PipelineEngine::backward(const schedule::Action& action, WeightGradients when) {
  const Key after{action.stage + 1, action.microbatch};
  const Tensors gradients = action.stage == last_stage_
                                ? Tensors{at::full_like(loss_, options_.loss_gradient * loss_weight_)}
                                : take(gradients_, incoming_gradients_, after);
  Tensors input_gradients = stages_.at(action.stage)->backward(action.microbatch, gradients, when);
  if (action.stage > frozen_stages_) gradients_[{action.stage, action.microbatch}] = std::move(input_gradients);
}

Tensors PipelineEngine::take(std::map<Key, Tensors>& here, std::map<Key, Message>& inbox, const Key& key) {
  if (const auto found = here.find(key); found != here.end()) {
    Tensors tensors = std::move(found->second);
    here.erase(found);
    return tensors;
  }
  const auto found = inbox.find(key);
  TORCH_INTERNAL_ASSERT(found != inbox.end(), "a computation before its input was asked for");
  Tensors tensors = std::move(found->second.tensors);
  inbox.erase(found);
  return tensors;
}

void PipelineEngine::transfer(const schedule::Action& action) {
  const Key own{action.stage, action.microbatch};
  switch (action.kind) {
    case schedule::ActionKind::send_f:
      return send(activations_.extract(own).mapped(), action.stage + 1);
    case schedule::ActionKind::send_b:
      return send(gradients_.extract(own).mapped(), action.stage - 1);
    case schedule::ActionKind::recv_f:
      return receive(incoming_activations_, action);
    case schedule::ActionKind::recv_b:
      return receive(incoming_gradients_, action);
    case schedule::ActionKind::compute:
      return;
  }
}

void PipelineEngine::send(const Tensors& tensors, int stage) {
  const std::size_t most = rank_of_stage_.size() + kSendsUnderWay;
  while (outgoing_.size() >= most) {
    outgoing_.front().wait();
    outgoing_.pop_front();
  }
  Message& message = outgoing_.emplace_back();
  for (const at::Tensor& tensor : tensors) {
    message.tensors.push_back(tensor.contiguous());
    message.transfers.push_back(peers_->send(message.tensors.back(), rank_of_stage_[static_cast<std::size_t>(stage)]));
  }
}

void PipelineEngine::receive(std::map<Key, Message>& inbox, const schedule::Action& action) {
  const int from = peer_stage(action);
  Message& message = inbox[{from, action.microbatch}];
  for (const StreamShape& stream : options_.streams) {
    const at::TensorOptions options = options_.activation_options;
    message.tensors.push_back(at::empty(stream.shape, stream.in_fp32 ? options.dtype(at::kFloat) : options));
    message.transfers.push_back(
        peers_->receive(message.tensors.back(), rank_of_stage_[static_cast<std::size_t>(from)]));
  }
}

}  // namespace lowgear::trainer
