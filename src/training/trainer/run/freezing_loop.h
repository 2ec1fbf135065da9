#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planning/adapt/freezing/controller.h"
#include "planning/adapt/freezing/weight_gradient_rotation.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/measuring/metrics_file.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Sums of squares over the trained elements of a block of the model, 0 where it is frozen.
struct BlockSquares {
  double gradient = 0;  ///< of AdamW's first moment: the gradient, averaged over some 1 / (1 - beta1) steps
  double update = 0;    ///< of what a step changes, without weight decay, by its learning rate
  double weight = 0;
};

/// The squares of each block after a step, [blocks, 3] in fp64 on the device, which is not waited for: a sample costs a
/// pass over the optimizer's state, and no step waits until the host has read it. A meeting of all ranks, on which they
/// are the same.
[[nodiscard]] at::Tensor block_squares(const ParameterStore& store, AdamW& optimizer, const Communicators& ranks,
                                       std::int64_t blocks);

/// Zeros of that shape.
[[nodiscard]] at::Tensor no_block_squares(const ParameterStore& store, std::int64_t blocks);

/// On the host. Waits for the device.
[[nodiscard]] std::vector<BlockSquares> read_block_squares(const at::Tensor& sums);
/// Back again, [blocks, 3] in host memory.
[[nodiscard]] at::Tensor block_squares_tensor(const std::vector<BlockSquares>& squares);

/// How many blocks each step freezes: as the configuration lists it, or as a controller decides. The controller sees a
/// window of steps at its end; rank 0 decides, and all ranks learn the number before any of them begins the next step.
/// Or which weight gradients each step leaves out: every rank knows that by itself.
class FreezingLoop final : public SavedState {
 public:
  /// What is observed: the mean loss on held-out text, measured by all ranks together.
  using HeldOut = std::function<double()>;

  /// Who decides instead of the controller; on rank 0.
  using Observer = std::function<void(const adapt::freezing::Observation&)>;

  /// All outlive this. `held_out` is called only where the configuration has a controller.
  FreezingLoop(const launcher::TrainConfig& config, AdamW& optimizer, const Communicators& ranks, HeldOut held_out);

  /// From now on `observer` sees the windows, and `adopt` is called with what has been decided.
  void hand_over(Observer observer) { observer_ = std::move(observer); }
  /// So many blocks are frozen from the step on. On all ranks.
  void adopt(std::int64_t blocks, std::int64_t step);
  /// Whether a window ends with the step: then it contains the measuring.
  [[nodiscard]] bool measures_after(std::int64_t step) const;
  /// To be called once it is known how many steps were done before. Throws InputError when the log cannot be written.
  void begin(std::int64_t first_step);
  [[nodiscard]] std::int64_t blocks_at(std::int64_t step) const;
  /// Blocks that were unfrozen a short time before the step, whose learning rate still rises.
  [[nodiscard]] SlowerBlocks slower_at(std::int64_t step) const;
  /// What the configuration has the step leave out, the one before it done; empty where it does not say so.
  [[nodiscard]] std::optional<adapt::freezing::WeightGradientRotation::Drops> drops_at(std::int64_t step) const;
  /// The same for the model, and how often that was so before. As a placebo: nothing.
  [[nodiscard]] WeightGradientDrops dropped_at(std::int64_t step) const;
  /// After each step, on all ranks.
  void after_step(std::int64_t step, double learning_rate);

  [[nodiscard]] std::string save() const override;
  void restore(const std::string& json, const std::string& source) override;

 private:
  /// Blocks [from, until) that are trained again since a step.
  struct Unfrozen {
    std::int64_t from = 0;
    std::int64_t until = 0;
    std::int64_t step = -1;
  };

  [[nodiscard]] adapt::freezing::Observation observation(std::int64_t steps_done, double learning_rate) const;
  void decide(std::int64_t steps_done, double learning_rate);
  void forget_samples();
  void count_drops(std::int64_t step);
  void restore_rotation(const JsonView& root);

  const launcher::TrainConfig* config_;
  AdamW* optimizer_;
  const Communicators* ranks_;
  HeldOut held_out_;
  Observer observer_;                                      ///< may be empty
  std::optional<adapt::freezing::Controller> controller_;  ///< observes on rank 0 alone
  std::optional<adapt::freezing::WeightGradientRotation> rotation_;
  std::vector<std::int64_t> skipped_;  ///< steps that left the rotation's operation out
  std::int64_t blocks_ = 0;            ///< as the controller decided last
  Unfrozen unfrozen_;
  at::Tensor sums_;  ///< of block_squares, over the samples of the window
  std::int64_t samples_ = 0;
  std::optional<MetricsFile> log_;
};

}  // namespace lowgear::trainer
