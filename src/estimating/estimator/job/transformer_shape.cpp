#include "estimating/estimator/job/transformer_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"

namespace lowgear::estimator {
namespace {

/// Throws at a member of the shape.
class Checker {
 public:
  explicit Checker(const TransformerShape& shape) : name_(shape.name.empty() ? "model" : shape.name) {}

  [[noreturn]] void fail(std::string_view member, std::string_view what, std::string_view fix = {}) const {
    throw_input_error({printable(name_), 0, 0}, fmt::format("{}: {}", member, what), fix);
  }
  void size(std::string_view member, std::int64_t value, std::int64_t highest, std::int64_t lowest = 1) const {
    if (value < lowest || value > highest) fail(member, fmt::format("{} is not from {} to {}", value, lowest, highest));
  }

 private:
  std::string name_;
};

void check_heads(const Checker& check, const TransformerShape& shape) {
  check.size("heads", shape.heads, model::kMaxModelWidth);
  check.size("kv_heads", shape.kv_heads, shape.heads);
  check.size("head_dim", shape.head_dim, model::kMaxModelWidth);
  if (shape.heads % shape.kv_heads != 0) {
    check.fail("kv_heads", fmt::format("{} heads of keys do not divide {} heads", shape.kv_heads, shape.heads),
               "give a divisor of the number of heads");
  }
  if (shape.heads * shape.head_dim > model::kMaxModelWidth) {
    check.fail("heads",
               fmt::format("{} heads of {} are wider than {}", shape.heads, shape.head_dim, model::kMaxModelWidth));
  }
}

void check_experts(const Checker& check, const ExpertShape& experts) {
  check.size("experts", experts.experts, kMaxExperts);
  if (experts.experts_per_token < 1 || experts.experts_per_token > experts.experts) {
    check.fail("experts_per_token",
               fmt::format("a token cannot use {} of {} experts", experts.experts_per_token, experts.experts));
  }
  check.size("intermediate of the experts", experts.intermediate, model::kMaxModelWidth);
  check.size("intermediate of the shared expert", experts.shared_intermediate, model::kMaxModelWidth, 0);
}

std::int64_t query_width(const TransformerShape& shape) { return shape.heads * shape.head_dim; }
std::int64_t key_width(const TransformerShape& shape) { return shape.kv_heads * shape.head_dim; }

std::int64_t attention_matrices(const TransformerShape& shape) {
  return shape.hidden * (2 * query_width(shape) + 2 * key_width(shape));
}

std::int64_t attention_biases(const TransformerShape& shape) {
  const std::int64_t qkv = shape.qkv_biases ? query_width(shape) + 2 * key_width(shape) : 0;
  return qkv + (shape.output_bias ? shape.hidden : 0);
}

std::int64_t mlp_matrices(const TransformerShape& shape, std::int64_t intermediate) {
  return (shape.mlp == MlpKind::gated ? 3 : 2) * shape.hidden * intermediate;
}

std::int64_t mlp_biases(const TransformerShape& shape, std::int64_t intermediate) {
  if (!shape.mlp_biases) return 0;
  return (shape.mlp == MlpKind::gated ? 2 : 1) * intermediate + shape.hidden;
}

void check_windows(const Checker& check, const TransformerShape& shape) {
  check.size("window", shape.window, model::kMaxPositions, 0);
  if (shape.window > 0 && shape.windowed.size() != static_cast<std::size_t>(shape.layers)) {
    check.fail("windowed",
               fmt::format("says of {} layers whether they are, not of {}", shape.windowed.size(), shape.layers));
  }
}

/// The shared expert has a gate of one output (Qwen 2 MoE).
std::int64_t shared_expert_matrices(const TransformerShape& shape) {
  const std::int64_t intermediate = shape.experts->shared_intermediate;
  return intermediate == 0 ? 0 : mlp_matrices(shape, intermediate) + shape.hidden;
}

std::int64_t norm_parameters(NormKind kind, std::int64_t width) {
  return kind == NormKind::layer_norm ? 2 * width : width;
}

}  // namespace

TransformerSizes gpt_sizes(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t vocabulary,
                           std::int64_t max_positions) {
  return {vocabulary, hidden, layers, heads, heads, hidden / heads, 4 * hidden, max_positions};
}

TransformerShape gpt_shape(const TransformerSizes& sizes) {
  TransformerShape shape{sizes};
  shape.mlp = MlpKind::plain;
  shape.norm = NormKind::layer_norm;
  shape.positions = PositionKind::learned;
  shape.qkv_biases = true;
  shape.output_bias = true;
  shape.mlp_biases = true;
  return shape;
}

TransformerShape shape_of(const model::ModelConfig& config, std::string name) {
  const TransformerSizes sizes{config.vocabulary, config.hidden,   config.layers,       config.heads,
                               config.kv_heads,   config.head_dim, config.intermediate, config.max_positions};
  TransformerShape shape =
      config.architecture == model::Architecture::gpt2 ? gpt_shape(sizes) : TransformerShape{sizes};
  shape.name = std::move(name);
  shape.tied_embeddings = config.tied_embeddings;
  shape.qkv_biases = config.attention_bias;
  shape.output_bias = config.attention_bias;
  shape.mlp_biases = config.mlp_bias;
  return shape;
}

std::int64_t windowed_layers(const TransformerShape& shape, std::int64_t sequence_length, std::int64_t first,
                             std::int64_t count) {
  if (shape.window == 0 || shape.window >= sequence_length) return 0;
  const auto begin = shape.windowed.begin() + first;
  return std::count(begin, begin + count, true);
}

double pairs_within_window(std::int64_t sequence_length, std::int64_t window) {
  if (window == 0 || window >= sequence_length) return 1;
  const double share = static_cast<double>(window) / static_cast<double>(sequence_length);
  return share * (2 - share);
}

void require_valid(const TransformerShape& shape) {
  const Checker check(shape);
  check.size("vocabulary", shape.vocabulary, model::kMaxVocabulary);
  check.size("hidden", shape.hidden, model::kMaxModelWidth);
  check.size("layers", shape.layers, model::kMaxModelLayers);
  check_heads(check, shape);
  if (shape.experts) {
    check_experts(check, *shape.experts);
  } else {
    check.size("intermediate", shape.intermediate, model::kMaxModelWidth);
  }
  check.size("max_positions", shape.max_positions, model::kMaxPositions);
  check_windows(check, shape);
  // Bounded by the sizes above: 2^16 experts of 3 * 2^44 weights still fit into 64 bits, in 1024 layers they do not.
  const ParameterCounts counts = parameter_counts(shape);
  const double parameters = static_cast<double>(counts.per_layer()) * static_cast<double>(shape.layers);
  if (parameters > kMaxParameters) check.fail("layers", "the model has more than 10^16 parameters");
}

ParameterCounts parameter_counts(const TransformerShape& shape) {
  ParameterCounts counts;
  const std::int64_t norm = norm_parameters(shape.norm, shape.hidden);
  counts.embedding = shape.vocabulary * shape.hidden;
  if (shape.positions == PositionKind::learned) counts.embedding += shape.max_positions * shape.hidden;
  if (shape.embedding_norm) counts.embedding += norm;
  counts.attention_per_layer = attention_matrices(shape) + attention_biases(shape);
  if (shape.experts) {
    const ExpertShape& experts = *shape.experts;
    counts.mlp_per_layer = shape.hidden * experts.experts + shared_expert_matrices(shape);
    counts.experts_per_layer =
        experts.experts * (mlp_matrices(shape, experts.intermediate) + mlp_biases(shape, experts.intermediate));
  } else {
    counts.mlp_per_layer = mlp_matrices(shape, shape.intermediate) + mlp_biases(shape, shape.intermediate);
  }
  counts.norms_per_layer = 2 * norm + (shape.qk_norms ? 2 * shape.head_dim : 0);
  counts.head = norm + (shape.tied_embeddings ? 0 : shape.vocabulary * shape.hidden);
  return counts;
}

std::int64_t parameter_count(const TransformerShape& shape) {
  const ParameterCounts counts = parameter_counts(shape);
  return counts.embedding + shape.layers * counts.per_layer() + counts.head;
}

double active_matrix_parameters(const TransformerShape& shape) {
  std::int64_t layer = attention_matrices(shape);
  if (shape.experts) {
    const ExpertShape& experts = *shape.experts;
    layer += shape.hidden * experts.experts + shared_expert_matrices(shape) +
             experts.experts_per_token * mlp_matrices(shape, experts.intermediate);
  } else {
    layer += mlp_matrices(shape, shape.intermediate);
  }
  return static_cast<double>(layer) * static_cast<double>(shape.layers) +
         static_cast<double>(shape.hidden) * static_cast<double>(shape.vocabulary);
}

double training_flops_per_token(const TransformerShape& shape, std::int64_t sequence_length) {
  const auto windowed = static_cast<double>(windowed_layers(shape, sequence_length, 0, shape.layers));
  const double layers =
      static_cast<double>(shape.layers) - windowed * (1 - pairs_within_window(sequence_length, shape.window));
  const double attention =
      12.0 * layers * static_cast<double>(query_width(shape)) * static_cast<double>(sequence_length);
  return 6 * active_matrix_parameters(shape) + attention;
}

}  // namespace lowgear::estimator
