#include "estimating/sampling/sampled_operator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/core/error.h"
#include "base/core/text.h"

namespace lowgear::sampling {

namespace {

using enum ShapeColumn;

constexpr std::array kTokensWidth = {microbatch, sequence, hidden};
constexpr std::array kParallel = {tp, microbatch, sequence, hidden};
constexpr std::array kHeads = {tp, microbatch, heads, sequence, hidden};
constexpr std::array kScores = {tp, microbatch, heads, sequence};
constexpr std::array kLoss = {tp, microbatch, sequence};
constexpr std::array kParameters = {parameters};
constexpr std::array kStage = {tp, hidden, layers};
constexpr std::array kExperts = {tp, microbatch, sequence, hidden, experts, expert_width, experts_per_token};

/// The family that `all` leaves out.
constexpr std::string_view kStageOptimizers = "stage-optimizer";

constexpr auto kOperators = std::to_array<OperatorDescription>({
    {SampledOperator::embedding, "embedding", "embedding", kParallel, 2},
    {SampledOperator::layer_norm, "layernorm", "norm", kTokensWidth, 2},
    {SampledOperator::rms_norm, "RMSlayernorm", "norm", kTokensWidth, 2},
    {SampledOperator::residual_add, "res_add", "residual", kTokensWidth, 2},
    {SampledOperator::linear_qkv, "linear1", "linear", kParallel, 2},
    {SampledOperator::linear_out, "linear2", "linear", kParallel, 2},
    {SampledOperator::linear_up, "linear3", "linear", kParallel, 2},
    {SampledOperator::linear_down, "linear4", "linear", kParallel, 2},
    {SampledOperator::linear_head, "linear_final", "linear", kParallel, 2},
    {SampledOperator::rotary, "RoPE", "rotary", kHeads, 2},
    {SampledOperator::attention_scores, "baddbmm", "unfused-attention", kHeads, 2},
    {SampledOperator::attention_values, "bmm", "unfused-attention", kHeads, 2},
    {SampledOperator::fused_attention, "flash_atten", "attention", kHeads, 2},
    {SampledOperator::attention_mask, "fillmask", "unfused-attention", kHeads, 2},
    {SampledOperator::softmax, "softmax", "unfused-attention", kScores, 2},
    {SampledOperator::masked_softmax, "ScaledUpperTriangMaskedSoftmax", "unfused-attention", kScores, 2},
    {SampledOperator::gelu, "gelu", "activation", kParallel, 2},
    {SampledOperator::swiglu, "swiglu", "activation", kTokensWidth, 2},
    {SampledOperator::experts, "moe", "experts", kExperts, 2},
    {SampledOperator::gated_experts, "gated_moe", "experts", kExperts, 2},
    {SampledOperator::cross_entropy, "parallel_cross_entropy_128", "loss", kLoss, 2},
    {SampledOperator::optimizer, "optimizer", "optimizer", kParameters, 1},
    {SampledOperator::first_stage_optimizer, "firstStage_optimizer", kStageOptimizers, kStage, 1},
    {SampledOperator::middle_stage_optimizer, "middleStage_optimizer", kStageOptimizers, kStage, 1},
    {SampledOperator::last_stage_optimizer, "lastStage_optimizer", kStageOptimizers, kStage, 1},
});
static_assert(kOperators.size() == kSampledOperators);

constexpr std::string_view kAll = "all";

/// GPT-2's, which the published sampler has built in.
std::int64_t vocabulary_of_rank(std::int64_t ranks) {
  constexpr std::int64_t kVocabulary = 50257;
  constexpr std::int64_t kMultiple = 128;
  const std::int64_t share = kMultiple * ranks;
  return (kVocabulary + share - 1) / share * kMultiple;
}

/// Matrices of the layers of a stage, of one rank: GPT-NeoX's.
std::int64_t layer_parameters(const OperatorShape& shape) {
  constexpr std::int64_t kMatrices = 12;
  return kMatrices * shape.layers * shape.hidden * shape.hidden / shape.tp;
}

/// Elements that are read and written, and that are allocated.
struct Elements {
  double flops = 0;
  double traffic = 0;
  double footprint = 0;
};

Elements matrix_products(double batch, double rows, double inner, double columns) {
  const double operands = batch * (rows * inner + inner * columns + rows * columns);
  return {.flops = 6 * batch * rows * inner * columns, .traffic = 3 * operands, .footprint = 2 * operands};
}

/// `moves` tensors of `count` elements are read or written in both passes together, `kept` exist at once.
Elements elementwise(double count, double moves, double kept) {
  return {.flops = 0, .traffic = moves * count, .footprint = kept * count};
}

/// Each token becomes as many rows as it uses experts, of which a rank has its share. `gates` is 1 where the first
/// product makes a gate, too.
Elements expert_elements(const KernelSizes& sizes, double gates) {
  const auto n = [&sizes](std::size_t i) { return static_cast<double>(sizes[i]); };
  const double tokens = n(0);
  const double hidden = n(1);
  const double width = n(2);
  const double first = (1 + gates) * width;
  const double rows = tokens * n(5) / n(4);
  const double weights = n(3) * hidden * (first + width);
  const double inner = rows * (2 * first + 2 * width);  // written by one kernel, read by the next
  return {.flops = 6 * rows * hidden * (first + width) + 6 * tokens * hidden * n(3) * n(4),
          .traffic = 3 * (weights + inner + 4 * rows * hidden + 2 * tokens * hidden),
          .footprint = 2 * (weights + inner / 2 + 3 * rows * hidden + 2 * tokens * hidden)};
}

Elements elements_of(SampledOperator op, const KernelSizes& sizes) {
  const auto n = [&sizes](std::size_t i) { return static_cast<double>(sizes[i]); };
  switch (op) {
    case SampledOperator::embedding: {
      Elements result = elementwise(n(0) * n(2), 4, 2);
      result.traffic += n(1) * n(2);  // the gradient of the whole table is written
      result.footprint += 2 * n(1) * n(2);
      return result;
    }
    case SampledOperator::layer_norm:
    case SampledOperator::rms_norm:
    case SampledOperator::gelu:
      return elementwise(n(0) * n(1), 5, 4);
    case SampledOperator::residual_add:
      return elementwise(n(0) * n(1), 6, 4);
    case SampledOperator::swiglu:
      return elementwise(n(0) * n(1), 8, 6);
    case SampledOperator::linear_qkv:
    case SampledOperator::linear_out:
    case SampledOperator::linear_up:
    case SampledOperator::linear_down:
    case SampledOperator::linear_head:
      return matrix_products(1, n(0), n(1), n(2));
    case SampledOperator::rotary:
      return elementwise(n(0) * n(1) * n(2) * n(3), 8, 6);
    case SampledOperator::attention_scores:
    case SampledOperator::attention_values:
      return matrix_products(n(0), n(1), n(2), n(1));
    case SampledOperator::fused_attention: {
      const double heads = n(0) * n(2);
      Elements result = elementwise(heads * n(1) * n(3), 12, 9);
      result.flops = 14 * heads * n(1) * n(1) * n(3) / 2;  // 2 products forward, 5 backward, half of each masked
      return result;
    }
    case SampledOperator::attention_mask:
      return elementwise(n(0) * n(1) * n(1), 4, 3);
    case SampledOperator::softmax:
    case SampledOperator::masked_softmax:
      return elementwise(n(0) * n(1) * n(1), 5, 4);
    case SampledOperator::experts:
      return expert_elements(sizes, 0);
    case SampledOperator::gated_experts:
      return expert_elements(sizes, 1);
    case SampledOperator::cross_entropy:
      return elementwise(n(0) * n(1), 6, 4);
    case SampledOperator::optimizer:
    case SampledOperator::first_stage_optimizer:
    case SampledOperator::middle_stage_optimizer:
    case SampledOperator::last_stage_optimizer:
      return elementwise(n(0), 9, 5);
  }
  throw Error("no such operator");
}

/// Whether a word of a list means this operator.
bool is_meant(const OperatorDescription& description, std::string_view word) {
  if (word == kAll) return description.family != kStageOptimizers;
  return word == description.name || word == description.family;
}

/// Every word that means some.
std::vector<std::string_view> known_words() {
  std::vector<std::string_view> words = {kAll};
  for (const OperatorDescription& description : kOperators) {
    for (const std::string_view word : {description.name, description.family}) {
      if (std::ranges::find(words, word) == words.end()) words.push_back(word);
    }
  }
  return words;
}

}  // namespace

std::string_view name(SampleType type) {
  switch (type) {
    case SampleType::bf16:
      return "bf16";
    case SampleType::fp16:
      return "fp16";
    case SampleType::fp32:
      return "fp32";
  }
  throw Error("no such type");
}

std::optional<SampleType> sample_type(std::string_view text) {
  for (const SampleType type : {SampleType::bf16, SampleType::fp16, SampleType::fp32}) {
    if (name(type) == text) return type;
  }
  return std::nullopt;
}

int bytes_of(SampleType type) { return type == SampleType::fp32 ? 4 : 2; }

std::string_view name(ShapeColumn column) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"mp", "b", "h", "l", "dim", "params", "encoders", "moe_num_experts", "intermediate_size", "top_k"});
  return kNames.at(static_cast<std::size_t>(column));
}

std::span<const OperatorDescription> sampled_operators() { return kOperators; }

const OperatorDescription& describe(SampledOperator op) { return kOperators.at(static_cast<std::size_t>(op)); }

std::vector<SampledOperator> operators_named(std::string_view list, std::string_view option) {
  std::array<bool, kSampledOperators> meant{};
  take_words(list, option, "operator", known_words(), [&meant](std::string_view word) {
    bool found = false;
    for (std::size_t i = 0; i < kOperators.size(); ++i) {
      if (!is_meant(kOperators[i], word)) continue;
      meant[i] = true;
      found = true;
    }
    return found;
  });
  std::vector<SampledOperator> result;
  for (const OperatorDescription& description : kOperators) {
    if (meant[static_cast<std::size_t>(description.op)]) result.push_back(description.op);
  }
  return result;
}

std::int64_t OperatorShape::at(ShapeColumn column) const {
  switch (column) {
    case ShapeColumn::tp:
      return tp;
    case ShapeColumn::microbatch:
      return microbatch;
    case ShapeColumn::heads:
      return heads;
    case ShapeColumn::sequence:
      return sequence;
    case ShapeColumn::hidden:
      return hidden;
    case ShapeColumn::parameters:
      return parameters;
    case ShapeColumn::layers:
      return layers;
    case ShapeColumn::experts:
      return experts;
    case ShapeColumn::expert_width:
      return expert_width;
    case ShapeColumn::experts_per_token:
      return experts_per_token;
  }
  throw Error("no such column");
}

KernelSizes kernel_sizes(SampledOperator op, const OperatorShape& shape) {
  const std::int64_t tokens = shape.tokens();
  const std::int64_t hidden = shape.hidden;
  const std::int64_t heads = shape.heads / shape.tp;
  switch (op) {
    case SampledOperator::embedding:
      return {tokens, vocabulary_of_rank(shape.tp), hidden, 1};
    case SampledOperator::layer_norm:
    case SampledOperator::rms_norm:
    case SampledOperator::residual_add:
    case SampledOperator::swiglu:
      return {tokens, hidden, 1, 1};
    case SampledOperator::linear_qkv:
      return {tokens, hidden, 3 * hidden / shape.tp, 1};
    case SampledOperator::linear_out:
      return {tokens, hidden / shape.tp, hidden, 1};
    case SampledOperator::linear_up:
      return {tokens, hidden, 4 * hidden / shape.tp, 1};
    case SampledOperator::linear_down:
      return {tokens, 4 * hidden / shape.tp, hidden, 1};
    case SampledOperator::linear_head:
      return {tokens, hidden, vocabulary_of_rank(shape.tp), 1};
    case SampledOperator::rotary:
    case SampledOperator::fused_attention:
      return {shape.microbatch, shape.sequence, heads, hidden / shape.heads};
    case SampledOperator::attention_scores:
    case SampledOperator::attention_values:
      return {shape.microbatch * heads, shape.sequence, hidden / shape.heads, 1};
    case SampledOperator::attention_mask:
    case SampledOperator::softmax:
    case SampledOperator::masked_softmax:
      return {shape.microbatch * heads, shape.sequence, 1, 1};
    case SampledOperator::gelu:
      return {tokens, 4 * hidden / shape.tp, 1, 1};
    case SampledOperator::experts:
    case SampledOperator::gated_experts:
      return {tokens, hidden, shape.expert_width, shape.experts / shape.tp, shape.tp, shape.experts_per_token};
    case SampledOperator::cross_entropy:
      return {tokens, vocabulary_of_rank(shape.tp), 1, 1};
    case SampledOperator::optimizer:
      return {shape.parameters, 1, 1, 1};
    case SampledOperator::first_stage_optimizer:
    case SampledOperator::last_stage_optimizer:
      return {layer_parameters(shape) + vocabulary_of_rank(shape.tp) * hidden, 1, 1, 1};
    case SampledOperator::middle_stage_optimizer:
      return {layer_parameters(shape), 1, 1, 1};
  }
  throw Error("no such operator");
}

SampleWork work_of(SampledOperator op, const OperatorShape& shape, SampleType type) {
  const Elements elements = elements_of(op, kernel_sizes(op, shape));
  const bool has_wide_states = describe(op).passes == 1;
  const double bytes = has_wide_states ? 4 : bytes_of(type);
  return {.flops = elements.flops,
          .traffic_bytes = bytes * elements.traffic,
          .footprint_bytes = bytes * elements.footprint};
}

void take_words(std::string_view list, std::string_view option, std::string_view kind,
                std::span<const std::string_view> words, const std::function<bool(std::string_view)>& take) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view word = list.substr(begin, end - begin);
    begin = end + 1;
    if (take(word)) continue;
    const std::optional<std::string_view> nearest = nearest_name(word, words);
    throw InputError(fmt::format(
        "{}: there is no {} {}; {}", option, kind, quote(word),
        nearest ? fmt::format("did you mean {}?", *nearest) : fmt::format("there are {}", fmt::join(words, ", "))));
  }
}

}  // namespace lowgear::sampling
