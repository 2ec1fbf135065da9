#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"

namespace lowgear::model {

/// The experts of a layer that has them instead of one MLP.
struct ExpertShape {
  std::int64_t experts = 0;              ///< in a layer
  std::int64_t experts_per_token = 0;    ///< top-k of the router
  std::int64_t intermediate = 0;         ///< width inside one expert
  std::int64_t shared_intermediate = 0;  ///< width of the expert that every token uses; 0 without such an expert

  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;
};

enum class MlpKind : unsigned char {
  plain,  ///< two matrices with an activation in between (GPT, BLOOM)
  gated,  ///< three matrices: activation(gate) * up, then down (SwiGLU; Llama)
};
enum class NormKind : unsigned char { layer_norm, rms_norm };
enum class PositionKind : unsigned char { learned, rotary, alibi };

/// How the frequencies of rotary embeddings are changed for longer texts (`rope_scaling` of a config.json).
struct RopeScaling {
  enum class Kind : unsigned char {
    none,
    linear,  ///< every frequency divided by `factor`
    llama3,  ///< low frequencies divided by `factor`, high ones kept, those in between blended
  };
  Kind kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_max_positions = 8192;

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// Yes, or no with the reason.
struct Verdict {
  SourceLocation where = {};
  std::string problem = {};  ///< one line: what, how to repair it; empty means yes

  explicit operator bool() const { return problem.empty(); }
  /// Throws InputError at the place if the answer is no.
  void require() const;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// The description of a decoder-only transformer. The estimator computes costs from it, the trainer builds layers from
/// it. `trainable` and `estimable` say whether they can.
struct ModelConfig {
  std::int64_t vocabulary = 0;     ///< tokens, before padding
  std::int64_t hidden = 0;         ///< width of the activations between layers
  std::int64_t layers = 0;         ///< transformer blocks
  std::int64_t heads = 0;          ///< heads of queries
  std::int64_t kv_heads = 0;       ///< heads of keys and values; fewer than `heads` in grouped-query attention
  std::int64_t head_dim = 0;       ///< width of one head; heads * head_dim may differ from `hidden`
  std::int64_t intermediate = 0;   ///< width inside the MLP; ignored with experts
  std::int64_t max_positions = 0;  ///< longest sequence that the model is made for, in tokens

  std::string name = {};  ///< of the catalogue or the file, for messages and reports
  MlpKind mlp = MlpKind::gated;
  NormKind norm = NormKind::rms_norm;
  PositionKind positions = PositionKind::rotary;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;  ///< base of the rotary frequencies
  RopeScaling rope_scaling = {};
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
  std::int64_t window = 0;          ///< tokens that a token of a windowed layer attends to, itself included; 0: all
  std::vector<bool> windowed = {};  ///< by layer; empty without a window

  // Findings of the reader of its config.json.
  std::vector<std::string> notes = {};  ///< members that an estimate ignores, for the user, with their place
  Verdict supported_members = {};       ///< refuses the first member that neither estimator nor trainer supports
  Verdict trained_members = {};         ///< refuses the first member that the trainer does not support

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// GPT's layers: layer norms, learned positions, biases, keys and values for every head, an MLP of four times the
/// width. Embeddings are not tied.
[[nodiscard]] ModelConfig gpt_model(std::int64_t hidden, std::int64_t layers, std::int64_t heads,
                                    std::int64_t vocabulary, std::int64_t max_positions);

/// Largest sizes that a model may have: far beyond any, and such that no count of parameters or bytes overflows.
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxModelLayers = 1024;
/// Of `hidden`, `intermediate`, `heads` * `head_dim`.
inline constexpr std::int64_t kMaxModelWidth = std::int64_t{1} << 22;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 27;
inline constexpr std::int64_t kMaxExperts = 1 << 16;  ///< of a layer
/// Most parameters of a model: a thousand times the largest, and such that their bytes fit into 64 bits.
inline constexpr double kMaxParameters = 1e16;

/// Why a description is invalid.
struct ModelFault {
  std::string_view field;  ///< of ModelConfig
  std::string what;
  std::string fix;  ///< may be empty
};

/// The first fault, if any. A description without one has sizes within the bounds above, kv_heads that divide heads,
/// experts_per_token of at most experts, `windowed` for every layer if there is a window, at most kMaxParameters.
[[nodiscard]] std::optional<ModelFault> find_fault(const ModelConfig& config);

/// Throws InputError with the model's name and the fault.
void require_valid(const ModelConfig& config);

/// Whether the estimator knows the cost of every layer of a valid model.
[[nodiscard]] Verdict estimable(const ModelConfig& config);

/// Whether the trainer computes exactly a valid model: every member of its config.json, and layers that are Llama's
/// (with or without biases) or GPT-2's.
[[nodiscard]] Verdict trainable(const ModelConfig& config);

/// The `model_type` as which a trainable model is trained and saved: `gpt2`, or `llama`, which Mistral's layers are
/// too.
[[nodiscard]] std::string_view trained_type(const ModelConfig& config);

/// Number of windowed layers among the `count` layers from `first` on; 0 if the window holds the whole sequence.
[[nodiscard]] std::int64_t windowed_layers(const ModelConfig& config, std::int64_t sequence_length, std::int64_t first,
                                           std::int64_t count);

/// Pairs of tokens that a causal layer with a window attends to, as a share of those without. 0 stands for no window.
[[nodiscard]] double pairs_within_window(std::int64_t sequence_length, std::int64_t window);

/// Parameters by place, of one copy of the model before any sharding. Tied embeddings count once, in `embedding`.
struct ParameterCounts {
  std::int64_t embedding = 0;            ///< tokens, learned positions and their norm
  std::int64_t attention_per_layer = 0;  ///< projections with biases
  std::int64_t mlp_per_layer = 0;        ///< without experts; with them the shared expert and the router
  std::int64_t experts_per_layer = 0;    ///< of all experts of a layer
  std::int64_t norms_per_layer = 0;
  std::int64_t final_norm = 0;
  std::int64_t output_matrix = 0;  ///< 0 when tied

  [[nodiscard]] std::int64_t per_layer() const {
    return attention_per_layer + mlp_per_layer + experts_per_layer + norms_per_layer;
  }
  [[nodiscard]] std::int64_t head() const { return final_norm + output_matrix; }
};
[[nodiscard]] ParameterCounts parameter_counts(const ModelConfig& config);
/// Parameters of the whole model.
[[nodiscard]] std::int64_t parameter_count(const ModelConfig& config);

/// Weights of the matrices that one token is multiplied with: parameters without embeddings looked up, norms and
/// biases, and of the experts only those that a token uses. The output matrix counts, tied or not.
[[nodiscard]] double active_matrix_parameters(const ModelConfig& config);

/// Floating-point operations of one layer to train on one token of sequences of `sequence_length` tokens, as MFU counts
/// them: 6 for every weight of a matrix that multiplies the token, plus 12 * heads * head_dim * sequence_length for
/// attention scores and values, in a windowed layer times the share of pairs within the window. Recomputation does not
/// count, nor does the causal mask reduce it.
[[nodiscard]] double training_flops_of_layer(const ModelConfig& config, std::int64_t layer,
                                             std::int64_t sequence_length);

/// The same of the output matrix: 6 for every weight.
[[nodiscard]] double training_flops_of_head(const ModelConfig& config);

/// The same of the whole model. Sources: PaLM (Chowdhery et al.
/// 2022, appendix B), and for the output matrix Megatron (Korthikanti et al. 2022, appendix A), whose
/// 72 l h^2 (1 + s / 6h + V / 12lh) it is for GPT.
[[nodiscard]] double training_flops_per_token(const ModelConfig& config, std::int64_t sequence_length);

}  // namespace lowgear::model
