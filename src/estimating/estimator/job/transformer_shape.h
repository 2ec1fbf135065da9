#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::estimator {

/// The feed-forward part of a layer that has several of it, of which each token uses some.
struct ExpertShape {
  std::int64_t experts = 0;              ///< in a layer
  std::int64_t experts_per_token = 0;    ///< top-k of the router
  std::int64_t intermediate = 0;         ///< width inside one expert
  std::int64_t shared_intermediate = 0;  ///< width of the expert that every token uses; 0 where there is none

  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;
};

enum class MlpKind : unsigned char {
  plain,  ///< two matrices with an activation in between (GPT, BLOOM)
  gated,  ///< three matrices: activation(gate) * up, then down (SwiGLU; Llama)
};
enum class NormKind : unsigned char { layer_norm, rms_norm };
enum class PositionKind : unsigned char { learned, rotary, alibi };

/// How large a decoder-only transformer is.
struct TransformerSizes {
  std::int64_t vocabulary = 0;     ///< tokens, before padding
  std::int64_t hidden = 0;         ///< width of the activations between layers
  std::int64_t layers = 0;         ///< transformer blocks
  std::int64_t heads = 0;          ///< of queries
  std::int64_t kv_heads = 0;       ///< of keys and values
  std::int64_t head_dim = 0;       ///< width of one head
  std::int64_t intermediate = 0;   ///< width inside the MLP; with experts that of layers without them (none here)
  std::int64_t max_positions = 0;  ///< longest sequence that the model is made for, in tokens

  friend bool operator==(const TransformerSizes&, const TransformerSizes&) = default;
};

/// Of GPT: every head has its own keys and values, and the MLP four times the width.
[[nodiscard]] TransformerSizes gpt_sizes(std::int64_t hidden, std::int64_t layers, std::int64_t heads,
                                         std::int64_t vocabulary, std::int64_t max_positions);

/// A decoder-only transformer as far as the cost of training it depends on it. Unlike ModelConfig, which the trainer
/// runs, it need not say what is computed to the last detail; so it covers families that the trainer does not have.
struct TransformerShape : TransformerSizes {
  std::string name = {};  ///< of the catalogue or the file, for messages and reports
  MlpKind mlp = MlpKind::gated;
  NormKind norm = NormKind::rms_norm;
  PositionKind positions = PositionKind::rotary;
  bool tied_embeddings = false;  ///< the output matrix is the token embedding
  bool qkv_biases = false;       ///< of the query, key and value projections (GPT-2, BLOOM, Pythia, Qwen 2)
  bool output_bias = false;      ///< of attention's output projection (GPT-2, BLOOM, Pythia)
  bool mlp_biases = false;       ///< of the linear layers of the MLP (GPT-2, BLOOM, Pythia)
  bool qk_norms = false;         ///< queries and keys pass an RMS norm of head_dim weights each (Qwen 3)
  bool embedding_norm = false;   ///< a layer norm follows the embedding (BLOOM)
  /// Attention and MLP read the same input and are summed (GPT-NeoX, Pythia): one all-reduce of tensor parallelism
  /// instead of two.
  bool parallel_residual = false;
  std::optional<ExpertShape> experts = {};  ///< instead of the MLP of every layer
  std::int64_t window = 0;                  ///< tokens that a token of a windowed layer attends to, itself included
  std::vector<bool> windowed = {};          ///< by layer; empty where no layer is
  /// What its config.json says and is not in the shape, for the user.
  std::vector<std::string> notes = {};

  friend bool operator==(const TransformerShape&, const TransformerShape&) = default;
};

/// What GPT-2 is made of: layer norms, learned positions, a plain MLP, biases.
[[nodiscard]] TransformerShape gpt_shape(const TransformerSizes& sizes);

/// The shape of a model that the trainer runs.
[[nodiscard]] TransformerShape shape_of(const model::ModelConfig& config, std::string name);

/// How many of the `count` layers from `first` on are windowed, where the sequence is longer than the window.
[[nodiscard]] std::int64_t windowed_layers(const TransformerShape& shape, std::int64_t sequence_length,
                                           std::int64_t first, std::int64_t count);

/// Pairs of tokens that a causal layer with a window attends to, as a share of those without. 0 stands for no window.
[[nodiscard]] double pairs_within_window(std::int64_t sequence_length, std::int64_t window);

/// Reads the config.json of Hugging Face transformers: `model_type` llama, mistral, mixtral, qwen2, qwen2_moe, qwen3,
/// qwen3_moe, gpt2, gpt_neox, bloom. transformer_members.h has what becomes of each member: those that change what
/// training costs are in the shape, refused or in its notes, as are those that it does not list. Throws InputError with
/// line and column on text that is no JSON, and with the JSON path on a size that is missing, of the wrong type or out
/// of the bounds of model/model_config.h, on what is refused, and on a model type that is not in the list.
[[nodiscard]] TransformerShape parse_transformer_shape(std::string_view json, const std::string& source);

/// A model of the catalogue by name, as `llama-3-70b`, `gpt3-175b`, `mixtral-8x7b`; case, `-`, `_` and spaces do not
/// matter. Papers' names of sizes are known, too (`gpt3-xl`).
/// Sizes come from the published config.json or paper of each (transformer_catalogue.cpp names the source). Throws
/// InputError naming those that may be meant.
[[nodiscard]] TransformerShape named_transformer(std::string_view name);
[[nodiscard]] bool is_transformer_name(std::string_view name);

/// The names of the catalogue that may be meant by another, such as a model's on Hugging Face (`Meta-Llama-3-8B`).
[[nodiscard]] std::vector<std::string> transformers_meant_by(std::string_view name);

/// Names of the catalogue as help texts show them: by family, then size.
[[nodiscard]] std::vector<std::string> transformer_names();

/// Most experts of a layer.
inline constexpr std::int64_t kMaxExperts = 1 << 16;
/// Most parameters of a model: a thousand times the largest, and such that their bytes fit into 64 bits.
inline constexpr double kMaxParameters = 1e16;

/// Throws InputError, naming the model and the member, unless sizes are positive and within the bounds of
/// model/model_config.h, kv_heads divides heads, experts_per_token is at most experts, every layer is windowed or not
/// where there is a window, and the parameters are at most kMaxParameters.
void require_valid(const TransformerShape& shape);

/// Parameters by where they are. All of one copy of the model, before any sharding; tied embeddings count once, in
/// `embedding`.
struct ParameterCounts {
  std::int64_t embedding = 0;            ///< tokens, learned positions and their norm
  std::int64_t attention_per_layer = 0;  ///< projections with biases
  std::int64_t mlp_per_layer = 0;        ///< without experts; with them the shared expert and the router
  std::int64_t experts_per_layer = 0;    ///< of all experts of a layer
  std::int64_t norms_per_layer = 0;
  std::int64_t head = 0;  ///< final norm and output matrix (the norm alone when tied)

  [[nodiscard]] std::int64_t per_layer() const {
    return attention_per_layer + mlp_per_layer + experts_per_layer + norms_per_layer;
  }
};
[[nodiscard]] ParameterCounts parameter_counts(const TransformerShape& shape);
/// Of the whole model.
[[nodiscard]] std::int64_t parameter_count(const TransformerShape& shape);

/// Weights of the matrices that one token is multiplied with: parameters without embeddings looked up, norms and
/// biases, and of the experts only those that a token uses. The output matrix counts, tied or not.
[[nodiscard]] double active_matrix_parameters(const TransformerShape& shape);

/// Floating-point operations to train on one token: model/model_config.h's training_flops_per_token for any shape; with
/// experts only those count that a token uses, and in windowed layers of all pairs of tokens the share within windows.
[[nodiscard]] double training_flops_per_token(const TransformerShape& shape, std::int64_t sequence_length);

}  // namespace lowgear::estimator
