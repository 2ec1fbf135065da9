#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "training/launcher/config/train_config.h"
#include "training/trainer/model/kernels.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// One rank's optimizer state for one part of the store's flat buffers, the trained or the frozen one: all of the part,
/// with ZeRO-1 1/dp of it.
struct OptimizerState {
  std::int64_t begin = 0;  ///< first element of the buffers
  at::Tensor master;       ///< fp32 values; the store's own where those are fp32 (and not rounded)
  at::Tensor mean;         ///< AdamW's first moment
  at::Tensor variance;     ///< and second
};

/// Parameters whose learning rate is `factor` of that of the others: those of a prefix of `until` blocks that are not
/// in one of `from` blocks.
struct SlowerBlocks {
  std::int64_t from = 0;
  std::int64_t until = 0;
  double factor = 1;
};

/// AdamW (Loshchilov and Hutter 2019) in fp32 on the flat buffers, over the gradients of all replicas; with ZeRO-1
/// (Rajbhandari et al. 2020) each replica updates its stretch and all gather the values. Frozen parameters are left as
/// they are, without weight decay; their moments are kept in host memory for the time when they are trained again.
/// A parameter whose gradient a step has left out is left as it is by that step, as are its moments and the number of
/// its steps: as PyTorch's optimizers do without a gradient.
class AdamW {
 public:
  /// Values must be loaded by now. With ZeRO-1 the buffers' length is a multiple of the number of replicas.
  AdamW(ParameterStore& store, const launcher::OptimizerConfig& config, Communicators& ranks);

  /// The gradients are summed over the replicas by now (GradientReducer). Clips them by the global norm of all trained
  /// parameters over all ranks, updates, and sets the gradients to zero. They count 1 / `loss_scale` times. Returns the
  /// norm before clipping; when it is not finite, nothing is updated.
  double step(double learning_rate, const SlowerBlocks& slower = {}, double loss_scale = 1);

  [[nodiscard]] std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// Of the trained parameters, on the device.
  [[nodiscard]] OptimizerState& state() { return state_; }
  /// Of the frozen ones: moments and, where the store's values are not fp32, master values in host memory.
  [[nodiscard]] OptimizerState& frozen_state() { return frozen_; }
  /// Adds to `sums` [3] (fp64) the squares of the first moment, of what a step subtracts from such parameters by its
  /// learning rate and without weight decay, and of their values.
  void add_squares(const at::Tensor& sums, const at::Tensor& master, const at::Tensor& mean,
                   const at::Tensor& variance) const;
  /// Whether this rank's stretch of the parameter is the one that counts in sums over all ranks.
  [[nodiscard]] bool counts(const Parameter& parameter) const;
  /// Gives the store the master values, also of frozen parameters: after they were loaded.
  void publish();
  /// Has the store freeze the embedding and the first `blocks` blocks, 0: nothing, and train all others; every
  /// parameter keeps its values and moments, and with ZeRO-1 the replicas divide the trained ones anew. Calls `rebind`
  /// when the store has its new buffers: users of the old ones keep their memory. Between steps; a meeting of
  /// the replicas. Holds up to 8 bytes per parameter of this rank more while it runs.
  void freeze(std::int64_t blocks, const std::function<void()>& rebind);
  /// Brings numbers from their places in the store before to those in the next one: flat, on the device.
  using Exchange = std::function<void(const at::Tensor& before, const at::Tensor& after)>;
  /// Continues with the store that `make` returns, of the same type, as this rank gets other layers: calls `exchange`
  /// for the fp32 values and for each moment. `make` is called when this has given up the gradients of the store
  /// before, which has to keep its values until all is done. Between steps; a meeting of the replicas, and of whom
  /// `exchange` meets. Holds up to 8 bytes per parameter of this rank more while it runs, beyond both stores.
  void move_to(const std::function<ParameterStore&()>& make, const Exchange& exchange);
  [[nodiscard]] ParameterStore& store() const { return *store_; }

 private:
  [[nodiscard]] double global_norm() const;
  void update(double learning_rate, const SlowerBlocks& slower, double gradient_scale);
  /// For the number of steps so far without the skipped ones; without the values that each step is given.
  [[nodiscard]] kernels::AdamWStep step_constants(std::int64_t skipped_steps = 0) const;
  struct Span {
    std::int64_t begin = 0;  ///< in this rank's stretch
    std::int64_t end = 0;
    double factor = 1;               ///< of the learning rate
    bool dropped = false;            ///< left as it is, with its moments
    std::int64_t skipped_steps = 0;  ///< Parameter::skipped_steps

    [[nodiscard]] bool is_like(const Span& other) const {
      return factor == other.factor && dropped == other.dropped && skipped_steps == other.skipped_steps;
    }
  };
  [[nodiscard]] std::vector<Span> spans(const SlowerBlocks& slower) const;
  void publish(const OptimizerState& state, std::int64_t begin, std::int64_t count);
  [[nodiscard]] bool shared() const { return config_.zero1 && ranks_->data->size() > 1; }
  [[nodiscard]] std::int64_t frozen() const { return store_->values().numel() - store_->trained(); }
  void cut();
  [[nodiscard]] at::Tensor own_values(const OptimizerState& state, std::int64_t count) const;
  void arrange_moments(OptimizerState trained, OptimizerState frozen, const BufferLayout& before,
                       const Exchange& exchange);
  [[nodiscard]] bool keeps_masters() const {
    return store_->values().scalar_type() != at::kFloat || store_->emulates_fp16();
  }
  [[nodiscard]] at::Tensor gathered(at::Tensor trained, const at::Tensor& frozen, const BufferLayout& layout) const;

  ParameterStore* store_;
  launcher::OptimizerConfig config_;
  Communicators* ranks_;
  OptimizerState state_;
  OptimizerState frozen_;
  at::Tensor gradients_;  ///< this rank's stretch, summed over the replicas
  std::int64_t steps_ = 0;
};

/// The learning rate of a step (counted from 0): rises linearly over the warm-up, of which the last step has the
/// highest rate, then falls along half a cosine from there towards the least, which it would have at step `steps`: the
/// first that is not taken (Loshchilov and Hutter 2017; PyTorch's CosineAnnealingLR).
[[nodiscard]] double learning_rate(const launcher::OptimizerConfig& config, std::int64_t step, std::int64_t steps);

}  // namespace lowgear::trainer
