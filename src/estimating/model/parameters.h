#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/family.h"
#include "estimating/model/model_config.h"

namespace lowgear::model {

/// The part of the model that uses a parameter.
enum class Part : unsigned char {
  embedding,  ///< before the first layer: tokens, positions
  layer,
  head,  ///< after the last layer: final norm, output matrix
};

/// One parameter as the files of Hugging Face transformers name and shape it. Matrices are [outputs, inputs], or
/// [inputs, outputs] in families whose tensors are transposed; embeddings are [tokens, hidden].
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  Part part = Part::layer;
  std::int64_t layer = -1;  ///< from 0; -1 in no layer
};

/// All parameters of a trainable model in the order of computation. With tied embeddings there is no output matrix: the
/// head uses the token embedding.
[[nodiscard]] std::vector<ParameterSpec> parameters(const ModelConfig& config);

/// Elements of a tensor of the shape.
[[nodiscard]] std::int64_t element_count(const std::vector<std::int64_t>& shape);

/// The beginning of the names of a layer's parameters, and of an expert's after that.
[[nodiscard]] std::string layer_prefix(const ModelConfig& config, std::int64_t layer);
[[nodiscard]] std::string expert_prefix(const TensorNames& names, std::int64_t expert);

/// The names of the matrices of an MLP's input.
[[nodiscard]] const std::vector<std::string>& mlp_inputs(const ModelConfig& config, const TensorNames& names);

/// The beginning of all names except the output matrix's. Files that were saved from a model without its head (as the
/// first GPT-2 files were) have the same names without it.
[[nodiscard]] std::string_view base_prefix(const ModelConfig& config);

}  // namespace lowgear::model
