#pragma once

#include <cstdint>

#include "base/core/formats/json.h"
#include "planning/adapt/freezing/controller.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// How much each block of the model changes in a window of iterations: sums of squares over the optimizer's state, from
/// a few samples. A sample costs a pass over that state. Sums stay on the device: no iteration waits for the host.
class FreezingWindow {
 public:
  /// The configuration has a controller of freezing. All outlive this.
  FreezingWindow(const launcher::TrainConfig& config, AdamW& optimizer, const Communicators& ranks);

  /// Whether a window ends with the iteration.
  [[nodiscard]] bool ends_with(std::int64_t iteration) const;
  /// After the optimizer's step, on all ranks: takes a sample when it is time to.
  void after_update(std::int64_t iteration);
  /// The measurements of the window that ends with the iteration, without the held-out loss. Begins the next one. Waits
  /// for the device.
  [[nodiscard]] adapt::freezing::Observation take(std::int64_t iteration, double learning_rate);

  /// Adds the samples of this window to the state of a checkpoint.
  void save(Json& root) const;
  /// Throws InputError with the JSON path.
  void restore(const JsonView& root);

 private:
  void forget_samples();

  const launcher::TrainConfig* config_;
  AdamW* optimizer_;
  const Communicators* ranks_;
  at::Tensor sums_;  ///< [blocks, 3] in fp64: squares of gradient, update and weight
  std::int64_t samples_ = 0;
};

}  // namespace lowgear::trainer
