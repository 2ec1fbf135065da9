#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "planning/schedule/schedule.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Called when each unit of computation waits for its input, begins and ends.
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  /// The rank's earlier work is done.
  virtual void unit_waits(const schedule::Action& /*unit*/) {}
  virtual void unit_begins(const schedule::Action& unit) = 0;
  virtual void unit_ended(const schedule::Action& unit) = 0;
};

struct EngineOptions {
  std::vector<StreamShape> streams;      ///< what passes between stages
  at::TensorOptions activation_options;  ///< type and device of activations
  double loss_gradient = 1;              ///< weight of each microbatch's loss in the gradients
};

/// Executes one rank's part of a pipeline schedule.
class PipelineEngine {
 public:
  /// `schedule` has its communication written out and was proved to run (`require_runnable`); it outlives the engine,
  /// as the stages do, those that it has on rank `position`, by virtual stage. Frozen layers are frozen in both.
  PipelineEngine(const schedule::Schedule& schedule, int position, std::map<int, Stage*> stages, PointToPoint& peers,
                 EngineOptions options);

  /// One iteration: adds to the gradients of this rank's trained parameters. Returns the sum of the microbatches'
  /// losses on the rank of the last stage, and zero on others. In the gradients, losses count `loss_weight` times as
  /// much as the options say. `observer` may be null. Throws Error when another rank has failed; the gradients are then
  /// unusable.
  [[nodiscard]] at::Tensor run(std::span<const Microbatch> microbatches, UnitObserver* observer,
                               double loss_weight = 1);

 private:
  using Key = std::tuple<int, int>;  ///< stage, microbatch
  /// Tensors on their way from or to another stage, each with its transfer.
  struct Message {
    Tensors tensors;
    std::vector<std::unique_ptr<PendingTransfer>> transfers;

    void wait() const {
      for (const auto& transfer : transfers) transfer->wait();
    }
  };

  void wait_for_input(const schedule::Action& action);
  void compute(const schedule::Action& action, const Microbatch& microbatch);
  void forward(const schedule::Action& action, const Microbatch& microbatch);
  void backward(const schedule::Action& action, WeightGradients when);
  void transfer(const schedule::Action& action);
  void send(const Tensors& tensors, int stage);
  void receive(std::map<Key, Message>& inbox, const schedule::Action& action);
  [[nodiscard]] static Tensors take(std::map<Key, Tensors>& here, std::map<Key, Message>& inbox, const Key& key);
  void forget();

  const std::vector<schedule::Action>* actions_;
  std::vector<int> rank_of_stage_;
  int last_stage_;
  int frozen_stages_;
  std::map<int, Stage*> stages_;
  PointToPoint* peers_;
  EngineOptions options_;

  // Of the iteration at hand.
  std::map<Key, Tensors> activations_;           ///< outputs by the stage that made them
  std::map<Key, Tensors> gradients_;             ///< gradients of inputs, by the stage that made them
  std::map<Key, Message> incoming_activations_;  ///< by the stage that made them
  std::map<Key, Message> incoming_gradients_;
  std::deque<Message> outgoing_;
  at::Tensor loss_;
  double loss_weight_ = 1;
};

}  // namespace lowgear::trainer
