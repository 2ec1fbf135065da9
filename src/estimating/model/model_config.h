#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lowgear::model {

enum class Architecture : unsigned char { llama, gpt2 };

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

/// The shape of a decoder-only language model: a field for each member of its config.json that counts.
struct ModelConfig {
  Architecture architecture = Architecture::llama;
  std::int64_t vocabulary = 0;     ///< tokens
  std::int64_t hidden = 0;         ///< width of the activations between layers
  std::int64_t layers = 0;         ///< transformer blocks
  std::int64_t heads = 0;          ///< of queries
  std::int64_t kv_heads = 0;       ///< of keys and values; grouped-query attention when fewer than heads
  std::int64_t head_dim = 0;       ///< width of one head; heads * head_dim need not be `hidden` (Llama)
  std::int64_t intermediate = 0;   ///< width inside the MLP
  std::int64_t max_positions = 0;  ///< longest sequence, in tokens
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;  ///< base of the rotary frequencies (Llama)
  RopeScaling rope_scaling = {};
  bool tied_embeddings = false;  ///< the output matrix is the token embedding
  bool attention_bias = false;   ///< always in GPT-2
  bool mlp_bias = false;         ///< always in GPT-2

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Largest sizes that a model may have: far beyond any, and such that no count of parameters or bytes overflows.
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxModelLayers = 1024;
/// Of `hidden`, `intermediate`, `heads` * `head_dim`.
inline constexpr std::int64_t kMaxModelWidth = std::int64_t{1} << 22;
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 27;

/// Throws InputError, at the JSON path that the value has in a config.json of `source`, unless every size is positive
/// and within the bounds above, kv_heads divides heads, head_dim is even where there are rotary embeddings, epsilon and
/// rope parameters are valid, and a GPT-2 has what GPT-2 always has (heads * head_dim = hidden, kv_heads = heads,
/// biases, no rope scaling).
void require_valid(const ModelConfig& config, const std::string& source);

/// Reads the config.json of Hugging Face transformers: `model_type` llama (LlamaForCausalLM), mistral
/// (MistralForCausalLM whose sliding window is null or not smaller than the longest sequence) or gpt2
/// (GPT2LMHeadModel). Sizes must be given; other members default as transformers documents them for the model type:
/// num_key_value_heads to num_attention_heads, head_dim to hidden_size / num_attention_heads, rope_theta to 10000,
/// rms_norm_eps to 1e-6, layer_norm_epsilon to 1e-5, tie_word_embeddings to false for Llama and true for GPT-2, n_inner
/// to 4 * n_embd. RoPE is read from `rope_scaling` and `rope_theta` as well as from `rope_parameters` (transformers 5).
///
/// Throws InputError with line and column on text that is no JSON, and with the JSON path on a member that is missing,
/// of the wrong type, contradictory (see require_valid) or unknown, and on every feature that would change the result
/// and that the trainer does not have: other activations, RoPE types other than default, linear and llama3, a sliding
/// window, quantised weights, GPT-2's variants of attention scaling. So is dropout above zero, which includes GPT-2's
/// default of 0.1 when the members `*_pdrop` are missing: training without it would not be what the file says.
[[nodiscard]] ModelConfig parse_model_config(std::string_view json, const std::string& source);

/// A config.json that parse_model_config and transformers read back as the same model.
[[nodiscard]] std::string to_json(const ModelConfig& config);

/// Parameters of a valid model, tied embeddings counted once.
[[nodiscard]] std::int64_t parameter_count(const ModelConfig& config);

/// Floating-point operations to train on one token of sequences of `sequence_length` tokens, as MFU counts them: 6 for
/// every weight of a matrix that multiplies activations, which are all but the embeddings looked up, plus
/// 12 * layers * heads * head_dim * sequence_length for attention scores and values. Recomputation does not count, nor
/// does the causal mask reduce it. Sources: PaLM (Chowdhery et al. 2022, appendix B), and for the output matrix
/// Megatron (Korthikanti et al. 2022, appendix A), whose 72 l h^2 (1 + s / 6h + V / 12lh) it is for GPT.
[[nodiscard]] double training_flops_per_token(const ModelConfig& config, std::int64_t sequence_length);

}  // namespace lowgear::model
