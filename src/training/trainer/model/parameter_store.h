#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "estimating/model/model_config.h"
#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// The linear layers of a block, each used as one product of matrices.
enum class BlockLinear : std::int8_t {
  none = -1,     ///< of a parameter: it belongs to none
  attention_in,  ///< queries, keys and values
  attention_out,
  mlp_in,  ///< up, and gate; of all experts
  mlp_out
};
inline constexpr std::int64_t kBlockLinears = 4;

/// Weights of each in a block, of the whole model, in the order of BlockLinear: multiply-adds of a token. Dense layers
/// among those with experts count as these.
[[nodiscard]] std::vector<std::int64_t> linear_weights(const model::ModelConfig& config);

/// The weight gradients that a step leaves out, by operation: block * kBlockLinears + linear. Both empty: none, ever.
struct WeightGradientDrops {
  std::vector<bool> dropped;
  std::vector<std::int64_t> skipped;  ///< steps before this one that left it out
};

/// The part of a parameter that a rank of a tensor-parallel group holds.
struct TensorShard {
  std::int64_t dimension = -1;  ///< along which it is split evenly; -1: every rank holds the whole parameter
  int rank = 0;
  int ranks = 1;
  int groups = 1;  ///< the dimension is that many equal groups (GPT-2's q, k and v), each of which is split

  [[nodiscard]] bool split() const { return dimension >= 0 && ranks > 1; }
};

class ParameterStore;

/// The `block` of the embedding's parameters: before the first one.
inline constexpr std::int64_t kEmbeddingBlock = -1;

/// One parameter of the model, by the name and shape in its files, and this rank's part of it.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of this rank's part, as the computation uses it
  TensorShard shard = {};
  bool transposed = false;  ///< the files hold it transposed (GPT-2's Conv1D)
  bool decays = false;      ///< weight decay applies: matrices, but not norms and biases
  /// Another stage holds the same parameter (tied embeddings): the gradients of both are added. The first stage's is
  /// the one that counts.
  bool tied_copy = false;
  bool tied = false;                       ///< it is either of such two
  std::int64_t block = 0;                  ///< of the model that it belongs to; their number: what follows the last one
  BlockLinear linear = BlockLinear::none;  ///< of the block, whose weight or bias it is
  bool frozen = false;                     ///< not trained: no gradient and no update
  bool dropped = false;  ///< the present step gives it no gradient, and the optimizer leaves it and its moments
  std::int64_t skipped_steps =
      0;                     ///< of the optimizer, which left it as it was: AdamW's correction does not count them
  at::Tensor value = {};     ///< for the computation, in its type; part of the store's values
  at::Tensor gradient = {};  ///< sum over the microbatches so far, fp32; part of the store's gradients; none if frozen
  std::int64_t offset = 0;
  ParameterStore* store = nullptr;  ///< that it belongs to

  [[nodiscard]] std::int64_t count() const { return value.numel(); }
  /// Adds to the gradient, and notifies the store.
  void accumulate(const at::Tensor& addend);
};

/// Is notified of additions to gradients.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  /// Each of the `count` elements of the store's gradients from `begin` on has got one addend more.
  virtual void gradient_added(std::int64_t begin, std::int64_t count) = 0;
};

/// Where the parameters of a store are in its buffers.
struct BufferLayout {
  std::vector<std::int64_t> offsets;  ///< by their order in the store
  std::int64_t trained = 0;           ///< elements of the trained part, which comes first; the others are frozen
  std::int64_t all = 0;
};

/// Whether a parameter is in a frozen prefix of `blocks` blocks. The embedding belongs to every prefix, and with it the
/// output matrix that is tied to it: both or none.
[[nodiscard]] bool in_frozen_prefix(const Parameter& parameter, std::int64_t blocks);

/// The parameters of one rank in two flat buffers, values and gradients, in the order in which they were declared but
/// with frozen ones last and, within both parts, those that decay first: collectives and the optimizer work on whole
/// stretches. There are gradients of the trained part alone.
class ParameterStore {
 public:
  ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;
  ~ParameterStore() = default;

  /// Parameters come after one another in memory in the order of their declaration, decaying ones and others apart, so
  /// that neighbours may be used as one tensor. References stay valid.
  Parameter& declare(Parameter parameter);
  /// Makes the buffers, of which both parts are `multiple` elements long or a multiple of that, and gives every
  /// parameter its part. Values are undefined until they are loaded or initialised; gradients are zero. CPUs do not
  /// compute in fp16: the values are fp32 there, and round_values makes them numbers of fp16.
  void allocate(at::ScalarType type, at::Device device, std::int64_t multiple);
  /// Freezes the embedding and the first `blocks` blocks of the model, 0: nothing, and trains all others. After
  /// `allocate` it makes new buffers: values are kept, gradients are zero, and tensors that parameters had are stale.
  void freeze(std::int64_t blocks);
  /// Sets the gradients that the next steps leave out, until the next call: between steps.
  void drop(const WeightGradientDrops& drops);
  [[nodiscard]] std::int64_t frozen_blocks() const { return frozen_blocks_; }
  [[nodiscard]] bool emulates_fp16() const { return emulates_fp16_; }
  /// Rounds a part of the values, or all, to the type that the store emulates; else does nothing.
  void round_values(const at::Tensor& part) const;
  [[nodiscard]] BufferLayout layout() const;

  [[nodiscard]] std::deque<Parameter>& parameters() { return parameters_; }
  [[nodiscard]] const std::deque<Parameter>& parameters() const { return parameters_; }
  /// The trained ones by their place in the buffers.
  [[nodiscard]] std::vector<const Parameter*> trained_by_offset() const;
  [[nodiscard]] const at::Tensor& values() const { return values_; }
  [[nodiscard]] const at::Tensor& gradients() const { return gradients_; }
  /// Elements at the start of the buffers that are trained.
  [[nodiscard]] std::int64_t trained() const { return trained_; }
  /// Elements at the start of the buffers that are trained and to which weight decay applies.
  [[nodiscard]] std::int64_t decaying() const { return decaying_; }
  void zero_gradients() { gradients_.zero_(); }

  /// Gives up the memory of the gradients: nothing of this store is trained any more.
  void release_gradients();

  /// Null: no observer.
  void observe(GradientObserver* observer) { observer_ = observer; }
  /// Call this after adding to `part`, a stretch of the gradients.
  void gradient_added(const at::Tensor& part) const {
    if (observer_ != nullptr) observer_->gradient_added(part.storage_offset(), part.numel());
  }

 private:
  void lay_out();

  std::deque<Parameter> parameters_;
  at::TensorOptions options_;
  bool emulates_fp16_ = false;
  std::int64_t multiple_ = 1;
  std::int64_t frozen_blocks_ = 0;
  at::Tensor values_;
  at::Tensor gradients_;
  std::int64_t trained_ = 0;
  std::int64_t decaying_ = 0;
  GradientObserver* observer_ = nullptr;
};

/// Neighbours of a store, declared one after the other, as one tensor: rows of all of them. `values` or `gradients` of
/// the store.
[[nodiscard]] at::Tensor joined(const at::Tensor& buffer, const Parameter& first, const Parameter& last);

}  // namespace lowgear::trainer
