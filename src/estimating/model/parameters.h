#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::model {

/// The part of the model that uses a parameter.
enum class Part : unsigned char {
  embedding,  ///< before the first layer: tokens, positions
  layer,
  head,  ///< after the last layer: final norm, output matrix
};

/// One parameter as the files of Hugging Face transformers name and shape it. Llama's matrices are [outputs, inputs],
/// GPT-2's (Conv1D) [inputs, outputs]; embeddings are [tokens, hidden].
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  Part part = Part::layer;
  std::int64_t layer = -1;  ///< from 0; -1 in no layer
};

/// All parameters of a trainable model in the order of computation. With tied embeddings there is no `lm_head.weight`:
/// the head uses the token embedding.
[[nodiscard]] std::vector<ParameterSpec> parameters(const ModelConfig& config);

/// Elements of a tensor of the shape.
[[nodiscard]] std::int64_t element_count(const std::vector<std::int64_t>& shape);

/// The beginning of all names except lm_head's: `model.` or `transformer.`. Files that were saved from a model without
/// its head (as the first GPT-2 files were) have the same names without it.
[[nodiscard]] std::string_view base_prefix(const ModelConfig& config);

}  // namespace lowgear::model
