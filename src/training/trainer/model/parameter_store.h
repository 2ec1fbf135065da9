#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// Which part of a parameter a rank of a tensor-parallel group holds.
struct TensorShard {
  std::int64_t dimension = -1;  ///< along which it is split evenly; -1: every rank holds all of it
  int rank = 0;
  int ranks = 1;
  int groups = 1;  ///< the dimension is that many equal groups (GPT-2's q, k and v), each of which is split

  [[nodiscard]] bool split() const { return dimension >= 0 && ranks > 1; }
};

class ParameterStore;

/// One parameter of the model, as its files name and shape it, and this rank's part of it.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of this rank's part, as the computation uses it
  TensorShard shard;
  bool transposed = false;  ///< the files hold it transposed (GPT-2's Conv1D)
  bool decays = false;      ///< weight decay applies: matrices, but not norms and biases
  /// Another stage holds the same parameter (tied embeddings): the gradients of both are added. The first stage's is
  /// the one that counts.
  bool tied_copy = false;
  bool tied = false;    ///< it is either of such two
  at::Tensor value;     ///< what the computation reads, in its type; part of the store's values
  at::Tensor gradient;  ///< sum over the microbatches so far, fp32; part of the store's gradients
  std::int64_t offset = 0;
  ParameterStore* store = nullptr;  ///< that it belongs to

  [[nodiscard]] std::int64_t count() const { return value.numel(); }
  /// Adds to the gradient, and tells the store.
  void accumulate(const at::Tensor& addend);
};

/// Learns what was added to gradients.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  /// Each of the `count` elements of the store's gradients from `begin` on has got one addend more.
  virtual void gradient_added(std::int64_t begin, std::int64_t count) = 0;
};

/// The parameters of one rank in two flat buffers, values and gradients, in the order in which they were declared but
/// with those that decay first: collectives and the optimizer work on whole stretches.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;
  ~ParameterStore() = default;

  /// Parameters come after one another in memory in the order of their declaration, decaying ones and others apart, so
  /// that neighbours may be used as one tensor. References stay valid.
  Parameter& declare(Parameter parameter);
  /// Makes the buffers, each `multiple` elements long or a multiple of that, and gives every parameter its part.
  /// Values are undefined until they are loaded or initialised; gradients are zero.
  void allocate(at::ScalarType type, at::Device device, std::int64_t multiple);

  [[nodiscard]] std::deque<Parameter>& parameters() { return parameters_; }
  [[nodiscard]] const std::deque<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] const at::Tensor& values() const { return values_; }
  [[nodiscard]] const at::Tensor& gradients() const { return gradients_; }
  /// Elements at the start of the buffers to which weight decay applies.
  [[nodiscard]] std::int64_t decaying() const { return decaying_; }
  void zero_gradients() { gradients_.zero_(); }

  /// Null: no observer.
  void observe(GradientObserver* observer) { observer_ = observer; }
  /// Call this after adding to `part`, a stretch of the gradients.
  void gradient_added(const at::Tensor& part) const {
    if (observer_ != nullptr) observer_->gradient_added(part.storage_offset(), part.numel());
  }

 private:
  std::deque<Parameter> parameters_;
  at::Tensor values_;
  at::Tensor gradients_;
  std::int64_t decaying_ = 0;
  GradientObserver* observer_ = nullptr;
};

/// Neighbours of a store, declared one after the other, as one tensor: rows of all of them. `values` or `gradients` of
/// the store.
[[nodiscard]] at::Tensor joined(const at::Tensor& buffer, const Parameter& first, const Parameter& last);

}  // namespace lowgear::trainer
