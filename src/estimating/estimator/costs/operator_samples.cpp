#include "estimating/estimator/costs/operator_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"
#include "estimating/sampling/sampled_operator.h"

namespace lowgear::estimator {
namespace {

constexpr double kMicrosecond = 1e-6;
/// A nanosecond and a day: no sample takes less or more.
constexpr double kMinSampleUs = 1e-3;
constexpr double kMaxSampleUs = 86'400e6;
/// Keeps every product of a shape's numbers within 63 bits.
constexpr long long kMaxShape = 1 << 20;
constexpr long long kMaxLayers = 1 << 12;
constexpr long long kMaxRanks = 1 << 16;
constexpr long long kMaxElements = 1LL << 40;

constexpr std::string_view kExpertColumns = "mp,b,l,dim,moe_num_experts,intermediate_size,top_k";

constexpr auto kFunctions = std::to_array<SampledFunction>({
    {"embedding", OperatorKind::embedding, "mp,b,l,dim"},
    {"layernorm", OperatorKind::layer_norm, "b,l,dim"},
    {"RMSlayernorm", OperatorKind::rms_norm, "b,l,dim"},
    {"res_add", OperatorKind::residual_add, "b,l,dim"},
    {"linear1", OperatorKind::linear, "mp,b,l,dim"},
    {"RoPE", OperatorKind::rotary, "mp,b,h,l,dim"},
    {"baddbmm", OperatorKind::attention_scores, "mp,b,h,l,dim"},
    {"fillmask", OperatorKind::attention_mask, "mp,b,h,l,dim"},
    {"softmax", OperatorKind::softmax, "mp,b,h,l"},
    {"ScaledUpperTriangMaskedSoftmax", OperatorKind::fused_softmax, "mp,b,h,l"},
    {"bmm", OperatorKind::attention_values, "mp,b,h,l,dim"},
    {"flash_atten", OperatorKind::fused_attention, "mp,b,h,l,dim"},
    {"linear2", OperatorKind::linear, "mp,b,l,dim"},
    {"linear3", OperatorKind::linear, "mp,b,l,dim"},
    {"gelu", OperatorKind::gelu, "mp,b,l,dim"},
    {"swiglu", OperatorKind::swiglu, "b,l,dim"},
    {"moe", OperatorKind::experts, kExpertColumns},
    {"gated_moe", OperatorKind::gated_experts, kExpertColumns},
    {"linear4", OperatorKind::linear, "mp,b,l,dim"},
    {"linear_final", OperatorKind::linear, "mp,b,l,dim"},
    {"parallel_cross_entropy_128", OperatorKind::cross_entropy, "mp,b,l"},
    {"firstStage_optimizer", OperatorKind::optimizer, "mp,dim,encoders", true},
    {"middleStage_optimizer", OperatorKind::optimizer, "mp,dim,encoders", true},
    {"lastStage_optimizer", OperatorKind::optimizer, "mp,dim,encoders", true},
    {"optimizer", OperatorKind::optimizer, "params", true},
});

std::optional<DataType> dtype_of(std::string_view text) {
  for (const DataType type : {DataType::fp16, DataType::bf16, DataType::fp32}) {
    if (text == name(type)) return type;
  }
  return std::nullopt;
}

/// Cuts off the text after the last `_` and returns it; nothing where there is none.
std::optional<std::string_view> take_last_word(std::string_view& text) {
  const std::size_t at = text.rfind('_');
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view word = text.substr(at + 1);
  text.remove_suffix(text.size() - at);
  return word;
}

std::optional<int> small_count(std::optional<std::string_view> word) {
  if (!word) return std::nullopt;
  const std::optional<long long> value = parse_integer(*word);
  if (!value || *value < 1 || *value > kMaxRanks) return std::nullopt;
  return static_cast<int>(*value);
}

/// The name without `_part{k}of{n}`.
std::string_view without_part(std::string_view name) {
  std::string_view rest = name;
  const std::optional<std::string_view> word = take_last_word(rest);
  constexpr std::string_view kPart = "part";
  if (!word || !word->starts_with(kPart)) return name;
  const std::string_view numbers = word->substr(kPart.size());
  const std::size_t of = numbers.find("of");
  if (of == std::string_view::npos) return name;
  return small_count(numbers.substr(0, of)) && small_count(numbers.substr(of + 2)) ? rest : name;
}

/// Parameters of a stage of the published models (GPT-NeoX: 12 dim^2 in a layer), of one rank.
std::int64_t stage_parameters(std::string_view function, const SampledShape& shape) {
  if (shape.parameters > 0) return shape.parameters;
  const std::int64_t layers = shape.layers * 12 * shape.hidden * shape.hidden / shape.ranks;
  const bool has_vocabulary = function != "middleStage_optimizer";
  return layers + (has_vocabulary ? sampled_vocabulary(shape.ranks) * shape.hidden : 0);
}

using Dims = std::array<std::int64_t, 4>;

Dims linear_dims(std::string_view function, const SampledShape& shape, std::int64_t ranks) {
  const std::int64_t tokens = shape.batch * shape.sequence;
  const std::int64_t hidden = shape.hidden;
  if (function == "linear1") return {tokens, hidden, 3 * hidden / ranks, 1};
  if (function == "linear2") return {tokens, hidden / ranks, hidden, 1};
  if (function == "linear3") return {tokens, hidden, 4 * hidden / ranks, 1};
  if (function == "linear4") return {tokens, 4 * hidden / ranks, hidden, 1};
  return {tokens, hidden, sampled_vocabulary(ranks), 1};
}

/// What one rank runs, as OperatorKind says; below 1 where the shape leaves it nothing.
Dims dims_of(const SampledFunction& function, const SampledShape& shape, std::int64_t ranks) {
  const std::int64_t batch = shape.batch;
  const std::int64_t length = shape.sequence;
  const std::int64_t heads = shape.heads / ranks;
  const std::int64_t head_dim = shape.hidden / std::max<std::int64_t>(shape.heads, 1);
  switch (function.kind) {
    case OperatorKind::embedding:
      return {batch * length, sampled_vocabulary(ranks), shape.hidden, 1};
    case OperatorKind::linear:
      return linear_dims(function.name, shape, ranks);
    case OperatorKind::rotary:
      return {batch, length, 2 * heads, head_dim};  // of queries and keys
    case OperatorKind::fused_attention:
      return {batch, length, heads, head_dim};
    case OperatorKind::attention_scores:
      return {batch * heads, length, head_dim, length};
    case OperatorKind::attention_values:
      return {batch * heads, length, length, head_dim};
    case OperatorKind::attention_mask:
    case OperatorKind::softmax:
    case OperatorKind::fused_softmax:
      return {batch, heads, length, length};
    case OperatorKind::gelu:
      return {batch, length, 4 * shape.hidden / ranks, 1};
    case OperatorKind::experts:
    case OperatorKind::gated_experts:
      return {batch * length, shape.hidden, shape.expert_width, shape.experts / ranks};
    case OperatorKind::cross_entropy:
      return {batch, length, sampled_vocabulary(ranks), 1};
    case OperatorKind::optimizer:
      return {stage_parameters(function.name, shape), 1, 1, 1};
    default:
      return {batch, length, shape.hidden, 1};
  }
}

bool has_column(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(','), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

/// Reads rows of a sampling file.
class SampleReader {
 public:
  SampleReader(std::string_view csv, const std::string& source) : table_(csv, source) {
    if (table_.rows() == 0) {
      throw_input_error({source, 0, 0}, "has no samples", "sample again, or remove the file");
    }
  }

  [[nodiscard]] const CsvTable& table() const { return table_; }

  [[nodiscard]] double seconds(std::size_t row, std::size_t column) const {
    const double us = table_.number(row, column);
    if (us >= kMinSampleUs && us <= kMaxSampleUs) return us * kMicrosecond;
    throw_input_error(table_.where(row, column), fmt::format("a time of {} us cannot have been measured", us),
                      "samples take a nanosecond to a day; remove the row");
  }

  [[nodiscard]] long long count(std::size_t row, std::size_t column, long long max) const {
    const long long value = table_.integer(row, column);
    if (value >= 1 && value <= max) return value;
    throw_input_error(table_.where(row, column), fmt::format("a shape of {} is not in 1 to {}", value, max),
                      "remove the row");
  }

 private:
  CsvTable table_;
};

/// Where a column of a shape goes.
struct SampleColumn {
  std::string_view name;
  std::int64_t SampledShape::*member;
  long long max;
};
constexpr auto kShapeColumns =
    std::to_array<SampleColumn>({{"mp", &SampledShape::ranks, kMaxRanks},
                                 {"b", &SampledShape::batch, kMaxShape},
                                 {"h", &SampledShape::heads, kMaxShape},
                                 {"l", &SampledShape::sequence, kMaxShape},
                                 {"dim", &SampledShape::hidden, kMaxShape},
                                 {"encoders", &SampledShape::layers, kMaxLayers},
                                 {"params", &SampledShape::parameters, kMaxElements},
                                 {"moe_num_experts", &SampledShape::experts, kMaxRanks},
                                 {"intermediate_size", &SampledShape::expert_width, kMaxShape},
                                 {"top_k", &SampledShape::experts_per_token, kMaxRanks}});

}  // namespace

std::optional<SampleFileName> parse_sample_file_name(std::string_view name) {
  constexpr std::string_view kEnding = ".csv";
  if (!name.ends_with(kEnding)) return std::nullopt;
  name.remove_suffix(kEnding.size());
  const std::size_t gpu_end = name.find('_');
  if (gpu_end == std::string_view::npos || gpu_end == 0) return std::nullopt;
  SampleFileName parts{.gpu = std::string(name.substr(0, gpu_end)), .function = {}, .group = std::nullopt};
  std::string_view rest = without_part(name.substr(gpu_end + 1));
  std::optional<std::string_view> last = take_last_word(rest);
  if (last && !dtype_of(*last)) {
    const std::optional<int> per_node = small_count(last);
    const std::optional<int> nodes = small_count(take_last_word(rest));
    if (!per_node || !nodes || std::int64_t{*nodes} * *per_node > kMaxRanks) return std::nullopt;
    parts.group = RankGroup{*nodes * *per_node, *per_node};
    last = take_last_word(rest);
  }
  const std::optional<DataType> dtype = last ? dtype_of(*last) : std::nullopt;
  if (!dtype || rest.empty()) return std::nullopt;
  parts.dtype = *dtype;
  parts.function = rest;
  return parts;
}

std::int64_t sampled_vocabulary(std::int64_t ranks) {
  return kernel_sizes(sampling::SampledOperator::embedding, {.tp = ranks})[1];
}

std::span<const SampledFunction> sampled_functions() { return kFunctions; }

const SampledFunction* find_sampled_function(std::string_view name) {
  const auto* const at = std::ranges::find(kFunctions, name, &SampledFunction::name);
  return at == kFunctions.end() ? nullptr : at;
}

std::optional<Operator> operator_of(const SampledFunction& function, const SampledShape& shape, Pass pass,
                                    DataType dtype) {
  const std::int64_t ranks = std::max<std::int64_t>(shape.ranks, 1);
  if (shape.heads > 0 && (shape.heads % ranks != 0 || shape.hidden % shape.heads != 0)) return std::nullopt;
  const bool splits_hidden = shape.heads == 0 && function.kind != OperatorKind::optimizer;
  if (splits_hidden && shape.hidden % ranks != 0) return std::nullopt;
  if (shape.experts % ranks != 0 || shape.experts_per_token > shape.experts) return std::nullopt;
  Operator op{.kind = function.kind, .pass = pass, .dims = dims_of(function, shape, ranks), .dtype = dtype};
  // Each rank has its share of the experts, and so of the rows.
  if (shape.experts > 0) op.rows = std::max<std::int64_t>(1, op.dims[0] * shape.experts_per_token / ranks);
  if (std::ranges::any_of(op.dims, [](std::int64_t dim) { return dim < 1; })) return std::nullopt;
  return op;
}

OperatorSamples parse_operator_samples(std::string_view csv, const std::string& source, const SampledFunction& function,
                                       DataType dtype) {
  const SampleReader reader(csv, source);
  const CsvTable& table = reader.table();
  struct Column {
    SampleColumn shape;
    std::size_t index;
  };
  std::vector<Column> columns;
  for (const SampleColumn& column : kShapeColumns) {
    if (has_column(function.columns, column.name)) columns.push_back({column, table.column(column.name)});
  }
  const std::size_t forward = table.column(function.one_pass ? "dur(us)" : "F_dur(us)");
  const std::size_t backward = function.one_pass ? forward : table.column("B_dur(us)");
  OperatorSamples samples{.source = source, .function = &function, .dtype = dtype, .rows = {}};
  samples.uncausal = function.kind == OperatorKind::fused_attention && !table.has_column("F_spread(us)");
  samples.rows.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    OperatorSample sample;
    for (const Column& column : columns) {
      sample.shape.*column.shape.member = reader.count(row, column.index, column.shape.max);
    }
    sample.forward_s = reader.seconds(row, forward);
    if (!function.one_pass) sample.backward_s = reader.seconds(row, backward);
    const SourceLocation where = table.where(row, columns.front().index);
    if (!operator_of(function, sample.shape, Pass::forward, dtype)) {
      throw_input_error({source, where.line, 0},
                        is_of_experts(function.kind)
                            ? "ranks (mp) do not divide the shape, or top_k is above the experts"
                            : "ranks (mp) or heads (h) do not divide the shape",
                        "remove the row");
    }
    sample.line = where.line;
    samples.rows.push_back(sample);
  }
  return samples;
}

std::optional<CollectiveKind> sampled_collective(std::string_view function) {
  constexpr std::string_view kLarge = "_large";
  if (function.ends_with(kLarge)) function.remove_suffix(kLarge.size());
  if (function == "allreduce") return CollectiveKind::all_reduce;
  if (function == "allgather") return CollectiveKind::all_gather;
  if (function == "reduce_scatter") return CollectiveKind::reduce_scatter;
  if (function == "p2p") return CollectiveKind::send;
  return std::nullopt;
}

CollectiveSamples parse_collective_samples(std::string_view csv, const std::string& source, CollectiveKind kind,
                                           DataType dtype) {
  const SampleReader reader(csv, source);
  const CsvTable& table = reader.table();
  const std::size_t shape = table.column("shape");
  const std::size_t nodes = table.column("nodes");
  const std::size_t per_node = table.column("GPUsPerNode");
  const std::size_t time = table.column("dur(us)");
  CollectiveSamples samples{.source = source, .kind = kind, .dtype = dtype, .rows = {}};
  samples.rows.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    CollectiveSample sample;
    sample.elements = static_cast<double>(reader.count(row, shape, kMaxElements));
    sample.group.ranks_per_node = static_cast<int>(reader.count(row, per_node, kMaxRanks));
    sample.group.ranks = sample.group.ranks_per_node *
                         static_cast<int>(reader.count(row, nodes, kMaxRanks / sample.group.ranks_per_node));
    sample.time_s = reader.seconds(row, time);
    sample.line = table.where(row, shape).line;
    if (sample.group.ranks < 2) {
      throw_input_error(table.where(row, nodes), "a collective of one rank moves nothing", "remove the row");
    }
    samples.rows.push_back(sample);
  }
  return samples;
}

double message_bytes(CollectiveKind kind, const CollectiveSample& sample, DataType dtype) {
  const double bytes = sample.elements * bytes_of(dtype);
  const bool is_share = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  return is_share ? bytes * sample.group.ranks : bytes;
}

}  // namespace lowgear::estimator
