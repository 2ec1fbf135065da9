#pragma once

#include <cstdint>
#include <vector>

#include "training/trainer/model/parameter_store.h"

namespace lowgear::trainer {

/// The shape of the whole parameter, as the computation has it.
[[nodiscard]] std::vector<std::int64_t> whole_shape(const Parameter& parameter);
/// This rank's part of a whole tensor.
[[nodiscard]] at::Tensor part_of(const at::Tensor& whole, const TensorShard& shard);
/// The inverse: the whole tensor from the parts of all ranks, in their order.
[[nodiscard]] at::Tensor whole_of(const std::vector<at::Tensor>& parts, const TensorShard& shard);

/// Random values as GPT-2 has them: matrices normal with deviation 0.02, divided by sqrt(2 layers) where a layer adds
/// to the residual stream; norms 1, biases 0. A parameter's values follow from seed and name alone, so that every
/// layout of ranks begins with the same model.
void initialize(ParameterStore& store, std::int64_t layers, std::uint64_t seed);

}  // namespace lowgear::trainer
