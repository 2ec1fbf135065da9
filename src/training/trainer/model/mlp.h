#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "training/trainer/model/layers.h"

namespace lowgear::trainer {

[[nodiscard]] at::Tensor activated(const at::Tensor& input, model::Activation activation);

/// The feed-forward part of one layer: [batch, time, hidden] to the same.
class Mlp {
 public:
  virtual ~Mlp() = default;
  virtual void bind() = 0;
  /// Adds what a router chooses to `routing`, where that is defined (Streams).
  [[nodiscard]] virtual at::Tensor operator()(const at::Tensor& input, at::Tensor& routing) = 0;
};

/// An MLP or experts, as the model has them in this layer. `prefix` begins the names of the layer's tensors.
[[nodiscard]] std::unique_ptr<Mlp> make_mlp(const BlockContext& context, const std::string& prefix, std::int64_t layer);

}  // namespace lowgear::trainer
