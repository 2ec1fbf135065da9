#include "estimating/model/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lowgear::model {
namespace {

/// Forward and backward: a multiplication and an addition each, three times.
constexpr double kFlopsPerWeight = 6;

using Fault = std::optional<ModelFault>;

Fault out_of_range(std::string_view field, std::int64_t value, std::int64_t highest, std::int64_t lowest = 1) {
  if (value >= lowest && value <= highest) return std::nullopt;
  return ModelFault{field, fmt::format("{} is not from {} to {}", value, lowest, highest), ""};
}

Fault find_head_fault(const ModelConfig& config) {
  if (Fault fault = out_of_range("heads", config.heads, kMaxModelWidth)) return fault;
  if (Fault fault = out_of_range("kv_heads", config.kv_heads, config.heads)) return fault;
  if (Fault fault = out_of_range("head_dim", config.head_dim, kMaxModelWidth)) return fault;
  if (config.heads % config.kv_heads != 0) {
    return ModelFault{"kv_heads", fmt::format("{} heads of keys do not divide {} heads", config.kv_heads, config.heads),
                      "give a divisor of the number of heads"};
  }
  if (config.heads * config.head_dim <= kMaxModelWidth) return std::nullopt;
  return ModelFault{"heads",
                    fmt::format("{} heads of {} are wider than {}", config.heads, config.head_dim, kMaxModelWidth), ""};
}

Fault find_mlp_fault(const ModelConfig& config) {
  if (!config.experts) return out_of_range("intermediate", config.intermediate, kMaxModelWidth);
  const ExpertShape& experts = *config.experts;
  if (Fault fault = out_of_range("experts", experts.experts, kMaxExperts)) return fault;
  if (experts.experts_per_token < 1 || experts.experts_per_token > experts.experts) {
    return ModelFault{"experts_per_token",
                      fmt::format("a token cannot use {} of {} experts", experts.experts_per_token, experts.experts),
                      ""};
  }
  if (Fault fault = out_of_range("intermediate of the experts", experts.intermediate, kMaxModelWidth)) return fault;
  return out_of_range("intermediate of the shared expert", experts.shared_intermediate, kMaxModelWidth, 0);
}

Fault find_window_fault(const ModelConfig& config) {
  if (Fault fault = out_of_range("window", config.window, kMaxPositions, 0)) return fault;
  if (config.window == 0 || config.windowed.size() == static_cast<std::size_t>(config.layers)) return std::nullopt;
  return ModelFault{
      "windowed",
      fmt::format("has {} elements for {} layers; give one for each layer", config.windowed.size(), config.layers), ""};
}

std::int64_t query_width(const ModelConfig& config) { return config.heads * config.head_dim; }
std::int64_t key_width(const ModelConfig& config) { return config.kv_heads * config.head_dim; }

std::int64_t attention_matrices(const ModelConfig& config) {
  return config.hidden * (2 * query_width(config) + 2 * key_width(config));
}

std::int64_t attention_biases(const ModelConfig& config) {
  const std::int64_t qkv = config.qkv_biases ? query_width(config) + 2 * key_width(config) : 0;
  return qkv + (config.output_bias ? config.hidden : 0);
}

std::int64_t mlp_matrices(const ModelConfig& config, std::int64_t intermediate) {
  return (config.mlp == MlpKind::gated ? 3 : 2) * config.hidden * intermediate;
}

std::int64_t mlp_biases(const ModelConfig& config, std::int64_t intermediate) {
  if (!config.mlp_biases) return 0;
  return (config.mlp == MlpKind::gated ? 2 : 1) * intermediate + config.hidden;
}

/// The shared expert has a gate of one output (Qwen 2 MoE).
std::int64_t shared_expert_matrices(const ModelConfig& config) {
  const std::int64_t intermediate = config.experts->shared_intermediate;
  return intermediate == 0 ? 0 : mlp_matrices(config, intermediate) + config.hidden;
}

/// Of one layer, with which one token is multiplied.
std::int64_t active_layer_matrices(const ModelConfig& config) {
  const std::int64_t attention = attention_matrices(config);
  if (!config.experts) return attention + mlp_matrices(config, config.intermediate);
  const ExpertShape& experts = *config.experts;
  return attention + config.hidden * experts.experts + shared_expert_matrices(config) +
         experts.experts_per_token * mlp_matrices(config, experts.intermediate);
}

bool is_windowed(const ModelConfig& config, std::int64_t layer, std::int64_t sequence_length) {
  return windowed_layers(config, sequence_length, layer, 1) > 0;
}

/// Parts of the model that the trainer's layers lack.
std::vector<std::string_view> untrained_parts(const ModelConfig& config) {
  std::vector<std::string_view> parts;
  if (config.experts) parts.emplace_back("experts");
  if (config.qk_norms) parts.emplace_back("norms of queries and keys");
  if (config.embedding_norm) parts.emplace_back("a norm after the embedding");
  if (config.parallel_residual) parts.emplace_back("a parallel residual");
  if (config.window > 0 && config.window < config.max_positions) parts.emplace_back("a sliding window");
  if (config.positions == PositionKind::alibi) parts.emplace_back("ALiBi");
  return parts;
}

/// The first respect in which layers are not GPT-2's; empty if there is none.
std::string difference_from_gpt2(const ModelConfig& config) {
  if (config.norm != NormKind::layer_norm || config.mlp != MlpKind::plain) {
    return "positions: with learned positions, training has only layer norms and MLPs without gates";
  }
  if (config.kv_heads != config.heads) return "kv_heads: GPT-2 has no grouped-query attention";
  if (query_width(config) != config.hidden) {
    return fmt::format("heads: {} heads of {} are not the width of {}", config.heads, config.head_dim, config.hidden);
  }
  const bool biases = config.qkv_biases && config.output_bias && config.mlp_biases;
  return biases ? "" : "biases: GPT-2 has a bias in every layer";
}

/// The same for Llama's.
std::string difference_from_llama(const ModelConfig& config) {
  if (config.norm != NormKind::rms_norm || config.mlp != MlpKind::gated) {
    return "positions: with rotary positions, training has only RMS norms and gated MLPs";
  }
  if (config.head_dim % 2 != 0) {
    return fmt::format("head_dim: {} is odd, but rotary embeddings turn pairs", config.head_dim);
  }
  return config.qkv_biases == config.output_bias ? "" : "biases: training has them in all of attention or nowhere";
}

std::string message_name(const ModelConfig& config) { return config.name.empty() ? "model" : printable(config.name); }

}  // namespace

ModelConfig gpt_model(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t vocabulary,
                      std::int64_t max_positions) {
  ModelConfig config = {vocabulary, hidden, layers, heads, heads, hidden / heads, 4 * hidden, max_positions};
  config.mlp = MlpKind::plain;
  config.norm = NormKind::layer_norm;
  config.positions = PositionKind::learned;
  config.qkv_biases = true;
  config.output_bias = true;
  config.mlp_biases = true;
  return config;
}

std::optional<ModelFault> find_fault(const ModelConfig& config) {
  if (Fault fault = out_of_range("vocabulary", config.vocabulary, kMaxVocabulary)) return fault;
  if (Fault fault = out_of_range("hidden", config.hidden, kMaxModelWidth)) return fault;
  if (Fault fault = out_of_range("layers", config.layers, kMaxModelLayers)) return fault;
  if (Fault fault = find_head_fault(config)) return fault;
  if (Fault fault = find_mlp_fault(config)) return fault;
  if (Fault fault = out_of_range("max_positions", config.max_positions, kMaxPositions)) return fault;
  if (Fault fault = find_window_fault(config)) return fault;
  // Bounded by the sizes above: 2^16 experts of 3 * 2^44 weights still fit into 64 bits, in 1024 layers they do not.
  const auto layer = static_cast<double>(parameter_counts(config).per_layer());
  if (layer * static_cast<double>(config.layers) <= kMaxParameters) return std::nullopt;
  return ModelFault{"layers", "the model has more than 10^16 parameters", ""};
}

void require_valid(const ModelConfig& config) {
  const Fault fault = find_fault(config);
  if (!fault) return;
  throw_input_error({message_name(config), 0, 0}, fmt::format("{}: {}", fault->field, fault->what), fault->fix);
}

void Verdict::require() const {
  if (!*this) throw_input_error(where, problem);
}

Verdict estimable(const ModelConfig& config) { return config.supported_members; }

Verdict trainable(const ModelConfig& config) {
  if (!config.supported_members) return config.supported_members;
  if (!config.trained_members) return config.trained_members;
  std::string difference;
  if (const std::vector<std::string_view> parts = untrained_parts(config); !parts.empty()) {
    difference = fmt::format("not supported in training: {}", fmt::join(parts, ", "));
  } else {
    difference =
        config.positions == PositionKind::learned ? difference_from_gpt2(config) : difference_from_llama(config);
  }
  return {{message_name(config), 0, 0}, std::move(difference)};
}

std::string_view trained_type(const ModelConfig& config) {
  return config.positions == PositionKind::learned ? "gpt2" : "llama";
}

std::int64_t windowed_layers(const ModelConfig& config, std::int64_t sequence_length, std::int64_t first,
                             std::int64_t count) {
  if (config.window == 0 || config.window >= sequence_length) return 0;
  const auto begin = config.windowed.begin() + first;
  return std::count(begin, begin + count, true);
}

double pairs_within_window(std::int64_t sequence_length, std::int64_t window) {
  if (window == 0 || window >= sequence_length) return 1;
  const double share = static_cast<double>(window) / static_cast<double>(sequence_length);
  return share * (2 - share);
}

ParameterCounts parameter_counts(const ModelConfig& config) {
  ParameterCounts counts;
  const std::int64_t norm = config.norm == NormKind::layer_norm ? 2 * config.hidden : config.hidden;
  counts.embedding = config.vocabulary * config.hidden;
  if (config.positions == PositionKind::learned) counts.embedding += config.max_positions * config.hidden;
  if (config.embedding_norm) counts.embedding += norm;
  counts.attention_per_layer = attention_matrices(config) + attention_biases(config);
  if (config.experts) {
    const ExpertShape& experts = *config.experts;
    counts.mlp_per_layer = config.hidden * experts.experts + shared_expert_matrices(config);
    counts.experts_per_layer =
        experts.experts * (mlp_matrices(config, experts.intermediate) + mlp_biases(config, experts.intermediate));
  } else {
    counts.mlp_per_layer = mlp_matrices(config, config.intermediate) + mlp_biases(config, config.intermediate);
  }
  counts.norms_per_layer = 2 * norm + (config.qk_norms ? 2 * config.head_dim : 0);
  counts.final_norm = norm;
  counts.output_matrix = config.tied_embeddings ? 0 : config.vocabulary * config.hidden;
  return counts;
}

std::int64_t parameter_count(const ModelConfig& config) {
  const ParameterCounts counts = parameter_counts(config);
  return counts.embedding + config.layers * counts.per_layer() + counts.head();
}

double active_matrix_parameters(const ModelConfig& config) {
  return static_cast<double>(active_layer_matrices(config)) * static_cast<double>(config.layers) +
         static_cast<double>(config.hidden) * static_cast<double>(config.vocabulary);
}

double training_flops_of_layer(const ModelConfig& config, std::int64_t layer, std::int64_t sequence_length) {
  const double pairs =
      is_windowed(config, layer, sequence_length) ? pairs_within_window(sequence_length, config.window) : 1;
  return kFlopsPerWeight * static_cast<double>(active_layer_matrices(config)) +
         2 * kFlopsPerWeight * static_cast<double>(query_width(config)) * static_cast<double>(sequence_length) * pairs;
}

double training_flops_of_head(const ModelConfig& config) {
  return kFlopsPerWeight * static_cast<double>(config.vocabulary) * static_cast<double>(config.hidden);
}

double training_flops_per_token(const ModelConfig& config, std::int64_t sequence_length) {
  double flops = training_flops_of_head(config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    flops += training_flops_of_layer(config, layer, sequence_length);
  }
  return flops;
}

}  // namespace lowgear::model
