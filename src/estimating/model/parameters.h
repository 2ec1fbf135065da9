#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::model {

/// Where in the model a parameter is used.
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
  std::int64_t layer = -1;  ///< 0-based; -1 when it is in no layer
};

/// All parameters of a valid model in the order of its computation. With tied embeddings there is no `lm_head.weight`:
/// the head uses the token embedding.
[[nodiscard]] std::vector<ParameterSpec> parameters(const ModelConfig& config);

/// Elements of a tensor of the shape.
[[nodiscard]] std::int64_t element_count(const std::vector<std::int64_t>& shape);

/// What the names begin with but for lm_head's: `model.` or `transformer.`. Weights that were saved from the model
/// without its head (as the first GPT-2 files were) have the same names without it.
[[nodiscard]] std::string_view base_prefix(Architecture architecture);

}  // namespace lowgear::model
