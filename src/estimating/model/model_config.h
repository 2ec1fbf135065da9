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
  std::vector<bool> dense = {};          ///< layers with an MLP instead, by layer; empty: none

  friend bool operator==(const ExpertShape&, const ExpertShape&) = default;
};

enum class MlpKind : unsigned char {
  plain,  ///< two matrices with an activation in between (GPT, BLOOM)
  gated,  ///< three matrices: activation(gate) * up, then down (SwiGLU; Llama)
};
/// Within the MLP; in a gated one, of the gate.
enum class Activation : unsigned char { silu, gelu, gelu_tanh, quick_gelu, relu };
enum class NormKind : unsigned char { layer_norm, rms_norm };
enum class NormPlace : unsigned char {
  before,  ///< of the input of attention and MLP
  after,   ///< of the sums with their outputs
};
enum class PositionKind : unsigned char {
  learned,
  rotary,
  alibi,     ///< scores fall with the distance (Press et al. 2022)
  relative,  ///< scores change by a number for each head and bucket of distances, the same in all layers (T5)
};

/// How the frequencies of rotary embeddings are changed for longer texts (`rope_scaling` of a config.json).
struct RopeScaling {
  enum class Kind : unsigned char {
    none,
    linear,   ///< every frequency divided by `factor`
    dynamic,  ///< a larger base for sequences that are longer than the model's positions (NTK)
    llama3,   ///< low frequencies divided by `factor`, high ones kept, those in between blended
    yarn,     ///< the same by the turns within the original positions (Peng et al. 2023)
  };
  Kind kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_max_positions = 8192;  ///< of llama3 and yarn
  double beta_fast = 32;                       ///< yarn: frequencies of more turns are kept
  double beta_slow = 1;                        ///< yarn: those of fewer are divided
  double attention_factor = 1;                 ///< yarn: of cosines and sines
  bool truncate = true;                        ///< yarn: the blended stretch ends at whole dimensions

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

/// The description of a transformer: a decoder, an encoder, or an encoder and a decoder one after the other. The
/// estimator computes costs from it, the trainer builds layers from it. `trainable` and `estimable` say whether they
/// can. family.h has what only files depend on.
struct ModelConfig {
  std::int64_t vocabulary = 0;     ///< tokens, before padding
  std::int64_t hidden = 0;         ///< width of the activations between layers
  std::int64_t layers = 0;         ///< transformer blocks, those of an encoder first
  std::int64_t heads = 0;          ///< heads of queries
  std::int64_t kv_heads = 0;       ///< heads of keys and values; fewer than `heads` in grouped-query attention
  std::int64_t head_dim = 0;       ///< width of one head; heads * head_dim may differ from `hidden`
  std::int64_t intermediate = 0;   ///< width inside the MLP; ignored with experts
  std::int64_t max_positions = 0;  ///< longest sequence that the model is made for, in tokens

  std::string name = {};         ///< of the catalogue or the file, for messages and reports
  std::string family = "llama";  ///< whose names its tensors and members have; nothing that is computed depends on it
  MlpKind mlp = MlpKind::gated;
  Activation activation = Activation::silu;
  NormKind norm = NormKind::rms_norm;
  NormPlace norm_place = NormPlace::before;
  bool final_norm = true;  ///< after the last layer
  PositionKind positions = PositionKind::rotary;
  std::int64_t encoder_layers = 0;     ///< in which each token sees all others; later ones also attend to their output
  std::int64_t token_types = 0;        ///< rows of a table of which the first is added to every token (BERT); 0: none
  bool head_transform = false;         ///< a dense layer with the activation before the last norm, and biases of logits
  std::int64_t relative_buckets = 0;   ///< of relative positions
  std::int64_t relative_distance = 0;  ///< from which on all tokens are in the last bucket
  bool scaled_scores = true;           ///< attention's scores are divided by the root of head_dim
  bool scaled_head = false;            ///< what the output matrix multiplies is divided by the root of `hidden`
  std::int64_t start_token = 0;        ///< with which a decoder after an encoder begins
  std::int64_t position_offset = 0;    ///< of the first token in the table of learned positions (OPT)
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;        ///< base of the rotary frequencies
  double rotary_share = 1;          ///< of a head's dimensions, which are turned; the others are not
  bool rotary_interleaved = false;  ///< turns neighbours; else dimensions half of the turned ones apart
  RopeScaling rope_scaling = {};
  double embedding_dropout = 0;      ///< shares that are set to zero: of what enters the first layer,
  double attention_dropout = 0;      ///< of the attention's weights,
  double residual_dropout = 0;       ///< of what attention and MLP add,
  double mlp_dropout = 0;            ///< of what the activation puts out,
  double final_dropout = 0;          ///< of what the last norm of an encoder or decoder puts out
  std::int64_t embedding_width = 0;  ///< of tokens, before a projection to `hidden`; 0: that itself
  bool tied_embeddings = false;      ///< the output matrix is the token embedding
  bool qkv_biases = false;           ///< of the query, key and value projections (GPT-2, BLOOM, Pythia, Qwen 2)
  bool output_bias = false;          ///< of attention's output projection (GPT-2, BLOOM, Pythia)
  bool mlp_biases = false;           ///< of the linear layers of the MLP (GPT-2, BLOOM, Pythia)
  bool qk_norms = false;             ///< queries and keys pass an RMS norm of head_dim weights each (Qwen 3)
  bool embedding_norm = false;       ///< a layer norm follows the embedding (BLOOM)
  /// Attention and MLP read the same input and are summed (GPT-NeoX, Pythia): one all-reduce of tensor parallelism
  /// instead of two.
  bool parallel_residual = false;
  std::optional<ExpertShape> experts = {};  ///< instead of the MLP, but in dense layers
  bool normalised_experts = false;          ///< the shares of a token's experts sum to 1
  double balance_weight = 0;                ///< of the load-balancing loss of experts in the loss; 0: none
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

/// Whether the trainer computes exactly a valid model: every member of its config.json.
[[nodiscard]] Verdict trainable(const ModelConfig& config);

/// Whether tokens are masked and then predicted, by an encoder alone; else each token predicts the next one.
[[nodiscard]] bool is_masked_language_model(const ModelConfig& config);

/// Whether a decoder follows an encoder.
[[nodiscard]] bool has_encoder_and_decoder(const ModelConfig& config);

/// Whether a layer is one of a decoder that attends to an encoder's output.
[[nodiscard]] bool attends_to_encoder(const ModelConfig& config, std::int64_t layer);

/// Whether a layer has experts.
[[nodiscard]] bool has_experts(const ModelConfig& config, std::int64_t layer);

/// Width of the rows of the token embedding and the output matrix.
[[nodiscard]] std::int64_t embedding_width(const ModelConfig& config);

/// Dimensions of a head that are turned: an even number.
[[nodiscard]] std::int64_t rotary_dims(const ModelConfig& config);

/// Number of windowed layers among the `count` layers from `first` on; 0 if the window holds the whole sequence.
[[nodiscard]] std::int64_t windowed_layers(const ModelConfig& config, std::int64_t sequence_length, std::int64_t first,
                                           std::int64_t count);

/// Pairs of tokens that a causal layer with a window attends to, as a share of those without. 0 stands for no window.
[[nodiscard]] double pairs_within_window(std::int64_t sequence_length, std::int64_t window);

/// Parameters of a layer, of one copy of the model before any sharding.
struct LayerParameters {
  std::int64_t attention = 0;  ///< projections with biases
  std::int64_t mlp = 0;        ///< without experts; with them the shared expert and the router
  std::int64_t experts = 0;    ///< of all experts
  std::int64_t norms = 0;

  [[nodiscard]] std::int64_t total() const { return attention + mlp + experts + norms; }
};
/// `experts` says whether the layer has them.
[[nodiscard]] LayerParameters layer_parameters(const ModelConfig& config, bool experts);

/// Those that every layer of a decoder has besides, for its attention to an encoder's output; 0 without an encoder.
[[nodiscard]] std::int64_t cross_attention_parameters(const ModelConfig& config);

/// The same of what is before and after the layers. Tied embeddings count once, in `embedding`.
struct EndParameters {
  std::int64_t embedding = 0;      ///< tokens, types, positions, their norm, the projection to the layers' width
  std::int64_t final_norm = 0;     ///< with those of an encoder, projection or transformation, biases of logits
  std::int64_t output_matrix = 0;  ///< 0 when tied

  [[nodiscard]] std::int64_t head() const { return final_norm + output_matrix; }
};
[[nodiscard]] EndParameters end_parameters(const ModelConfig& config);
/// Parameters of the whole model.
[[nodiscard]] std::int64_t parameter_count(const ModelConfig& config);

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
