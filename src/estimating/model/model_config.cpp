#include "estimating/model/model_config.h"

#include <fmt/format.h>

#include <algorithm>

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
  if (!experts.dense.empty()) {
    if (experts.dense.size() != static_cast<std::size_t>(config.layers)) {
      return ModelFault{"dense", fmt::format("has {} elements for {} layers", experts.dense.size(), config.layers), ""};
    }
    if (Fault fault = out_of_range("intermediate", config.intermediate, kMaxModelWidth)) return fault;
  }
  return out_of_range("intermediate of the shared expert", experts.shared_intermediate, kMaxModelWidth, 0);
}

Fault find_encoder_fault(const ModelConfig& config) {
  if (Fault fault = out_of_range("encoder_layers", config.encoder_layers, config.layers, 0)) return fault;
  if (Fault fault = out_of_range("token_types", config.token_types, kMaxVocabulary, 0)) return fault;
  if (config.positions != PositionKind::relative) return std::nullopt;
  if (Fault fault = out_of_range("relative_buckets", config.relative_buckets, kMaxPositions, 4)) return fault;
  return out_of_range("relative_distance", config.relative_distance, kMaxPositions, config.relative_buckets / 2 + 1);
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

/// Of one layer, with which one token is multiplied; in a decoder after an encoder, one token of both.
std::int64_t active_layer_matrices(const ModelConfig& config, std::int64_t layer) {
  const std::int64_t attention = attention_matrices(config) * (attends_to_encoder(config, layer) ? 2 : 1);
  if (!has_experts(config, layer)) return attention + mlp_matrices(config, config.intermediate);
  const ExpertShape& experts = *config.experts;
  return attention + config.hidden * experts.experts + shared_expert_matrices(config) +
         experts.experts_per_token * mlp_matrices(config, experts.intermediate);
}

std::int64_t norm_weights(const ModelConfig& config) {
  return config.norm == NormKind::layer_norm ? 2 * config.hidden : config.hidden;
}

bool is_windowed(const ModelConfig& config, std::int64_t layer, std::int64_t sequence_length) {
  return windowed_layers(config, sequence_length, layer, 1) > 0;
}

std::string message_name(const ModelConfig& config) { return config.name.empty() ? "model" : printable(config.name); }

}  // namespace

ModelConfig gpt_model(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t vocabulary,
                      std::int64_t max_positions) {
  ModelConfig config = {vocabulary, hidden, layers, heads, heads, hidden / heads, 4 * hidden, max_positions};
  config.mlp = MlpKind::plain;
  config.norm = NormKind::layer_norm;
  config.family = "gpt2";
  config.activation = Activation::gelu_tanh;
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
  if (Fault fault = find_encoder_fault(config)) return fault;
  // Bounded by the sizes above: 2^16 experts of 3 * 2^44 weights still fit into 64 bits, in 1024 layers they do not.
  const auto layer =
      static_cast<double>(std::max(layer_parameters(config, false).total(),
                                   config.experts ? layer_parameters(config, true).total() : std::int64_t{0}));
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
  if (config.positions != PositionKind::rotary || (config.head_dim % 2 == 0 && rotary_dims(config) > 0)) return {};
  return {{message_name(config), 0, 0},
          fmt::format("head_dim: {} of {} dimensions of a head cannot be turned in pairs", rotary_dims(config),
                      config.head_dim)};
}

bool is_masked_language_model(const ModelConfig& config) {
  return config.encoder_layers > 0 && config.encoder_layers == config.layers;
}

bool has_encoder_and_decoder(const ModelConfig& config) {
  return config.encoder_layers > 0 && config.encoder_layers < config.layers;
}

bool attends_to_encoder(const ModelConfig& config, std::int64_t layer) {
  return has_encoder_and_decoder(config) && layer >= config.encoder_layers;
}

bool has_experts(const ModelConfig& config, std::int64_t layer) {
  if (!config.experts) return false;
  return config.experts->dense.empty() || !config.experts->dense[static_cast<std::size_t>(layer)];
}

std::int64_t embedding_width(const ModelConfig& config) {
  return config.embedding_width > 0 ? config.embedding_width : config.hidden;
}

std::int64_t rotary_dims(const ModelConfig& config) {
  return static_cast<std::int64_t>(static_cast<double>(config.head_dim) * config.rotary_share) / 2 * 2;
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

LayerParameters layer_parameters(const ModelConfig& config, bool experts) {
  LayerParameters counts;
  counts.attention = attention_matrices(config) + attention_biases(config);
  counts.norms = 2 * norm_weights(config) + (config.qk_norms ? 2 * config.head_dim : 0);
  if (!experts) {
    counts.mlp = mlp_matrices(config, config.intermediate) + mlp_biases(config, config.intermediate);
    return counts;
  }
  const ExpertShape& shape = *config.experts;
  counts.mlp = config.hidden * shape.experts + shared_expert_matrices(config);
  counts.experts = shape.experts * (mlp_matrices(config, shape.intermediate) + mlp_biases(config, shape.intermediate));
  return counts;
}

std::int64_t cross_attention_parameters(const ModelConfig& config) {
  if (!has_encoder_and_decoder(config)) return 0;
  return attention_matrices(config) + attention_biases(config) + norm_weights(config);
}

EndParameters end_parameters(const ModelConfig& config) {
  const std::int64_t width = embedding_width(config);
  const std::int64_t projection = config.embedding_width > 0 ? width * config.hidden : 0;
  EndParameters counts;
  counts.embedding = config.vocabulary * width + projection;
  if (config.positions == PositionKind::learned) {
    counts.embedding += (config.max_positions + config.position_offset) * config.hidden;
  }
  counts.embedding += config.token_types * config.hidden;
  const std::int64_t stacks = has_encoder_and_decoder(config) ? 2 : 1;
  if (config.positions == PositionKind::relative) counts.embedding += stacks * config.relative_buckets * config.heads;
  if (config.embedding_norm) counts.embedding += norm_weights(config);
  counts.final_norm = (config.final_norm ? stacks * norm_weights(config) : 0) + projection;
  if (config.head_transform) counts.final_norm += config.hidden * (config.hidden + 1) + config.vocabulary;
  counts.output_matrix = config.tied_embeddings ? 0 : config.vocabulary * width;
  return counts;
}

std::int64_t parameter_count(const ModelConfig& config) {
  const EndParameters ends = end_parameters(config);
  std::int64_t count =
      ends.embedding + ends.head() + (config.layers - config.encoder_layers) * cross_attention_parameters(config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    count += layer_parameters(config, has_experts(config, layer)).total();
  }
  return count;
}

double training_flops_of_layer(const ModelConfig& config, std::int64_t layer, std::int64_t sequence_length) {
  const double pairs =
      is_windowed(config, layer, sequence_length) ? pairs_within_window(sequence_length, config.window) : 1;
  const double attentions = attends_to_encoder(config, layer) ? 2 : 1;
  return kFlopsPerWeight * static_cast<double>(active_layer_matrices(config, layer)) +
         2 * kFlopsPerWeight * static_cast<double>(query_width(config)) * static_cast<double>(sequence_length) * pairs *
             attentions;
}

double training_flops_of_head(const ModelConfig& config) {
  const std::int64_t transform = config.head_transform ? config.hidden * config.hidden : 0;
  return kFlopsPerWeight * static_cast<double>(config.vocabulary * embedding_width(config) + transform);
}

double training_flops_per_token(const ModelConfig& config, std::int64_t sequence_length) {
  double flops = training_flops_of_head(config);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    flops += training_flops_of_layer(config, layer, sequence_length);
  }
  return flops;
}

}  // namespace lowgear::model
