#include "estimating/model/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>

#include "base/core/error.h"
#include "base/core/numbers/even_division.h"
#include "base/core/numbers/number.h"
#include "estimating/model/family.h"

namespace lowgear::model {

namespace {

constexpr std::string_view kRulesFix =
    "give uniform, cost, custom:0,8,14,21,27, or a rule of Merak's: uniform_transformer, uniform_floor, parameters";

struct NamedRule {
  std::string_view name;
  PartitionRule::Kind kind;
};

constexpr auto kNamedRules = std::to_array<NamedRule>({
    {"uniform", PartitionRule::Kind::uniform},
    {"cost", PartitionRule::Kind::cost},
    {"uniform_transformer", PartitionRule::Kind::merak_transformer},
    {"uniform_floor", PartitionRule::Kind::merak_floor},
    {"parameters", PartitionRule::Kind::merak_parameters},
});

void require_enough_layers(std::int64_t layers, int stages) {
  if (stages < 1) throw InputError(fmt::format("a pipeline of {} stages; give at least 1", stages));
  if (layers < stages) {
    throw InputError(
        fmt::format("{} layers cannot be divided over {} stages; use fewer stages or a deeper model", layers, stages));
  }
}

std::vector<LayerRange> ranges_between(const std::vector<std::int64_t>& boundaries) {
  std::vector<LayerRange> ranges;
  for (std::size_t stage = 0; stage + 1 < boundaries.size(); ++stage) {
    ranges.push_back({boundaries[stage], boundaries[stage + 1]});
  }
  return ranges;
}

std::vector<LayerRange> partition_evenly(std::int64_t layers, int stages) {
  std::vector<std::int64_t> boundaries = {0};
  const std::int64_t stages_with_one_more = layers % stages;
  for (int stage = 0; stage < stages; ++stage) {
    boundaries.push_back(boundaries.back() + layers / stages + (stage < stages_with_one_more ? 1 : 0));
  }
  return ranges_between(boundaries);
}

[[noreturn]] void fail_boundaries(std::span<const std::int64_t> boundaries, std::string_view what,
                                  std::string_view fix) {
  throw InputError(fmt::format("custom:{}: {}; {}", fmt::join(boundaries, ","), what, fix));
}

void require_rising_from_0(std::span<const std::int64_t> boundaries) {
  if (boundaries.size() < 2) fail_boundaries(boundaries, "there is no stage", "give one boundary more than stages");
  if (boundaries.front() != 0) fail_boundaries(boundaries, "the first boundary is not 0", "begin with 0");
  if (std::ranges::adjacent_find(boundaries, std::greater_equal<>()) != boundaries.end()) {
    fail_boundaries(boundaries, "the boundaries do not increase", "give every stage at least one layer");
  }
}

std::vector<LayerRange> partition_at(std::span<const std::int64_t> boundaries, std::int64_t layers, int stages) {
  require_rising_from_0(boundaries);
  if (boundaries.size() != static_cast<std::size_t>(stages) + 1) {
    fail_boundaries(boundaries, fmt::format("{} stages, but the pipeline has {}", boundaries.size() - 1, stages),
                    "give one boundary more than stages");
  }
  const std::int64_t extra = boundaries.back() - layers;
  if (extra != 0 && extra != 2 && extra != 3) {
    fail_boundaries(boundaries, fmt::format("the last boundary does not fit a model of {0} layers", layers),
                    fmt::format("end with {} to count layers, or {} or {} to count embedding and head too", layers,
                                layers + 2, layers + 3));
  }
  const std::int64_t embedding_entries = extra == 0 ? 0 : 1;
  std::vector<std::int64_t> by_layer;
  for (const std::int64_t boundary : boundaries) {
    by_layer.push_back(std::clamp(boundary - embedding_entries, std::int64_t{0}, layers));
  }
  std::vector<LayerRange> ranges = ranges_between(by_layer);
  for (std::size_t stage = 0; stage < ranges.size(); ++stage) {
    if (ranges[stage].size() > 0) continue;
    fail_boundaries(boundaries, fmt::format("stage {} has no layer, as embedding and head are counted", stage),
                    "give every stage at least one layer");
  }
  return ranges;
}

/// Embedding, final norm and output matrix.
constexpr std::int64_t kPiecesBesideLayers = 3;

/// Parameters of the pieces that Merak's tracer makes: embedding, layers, final norm, output matrix. A tied output
/// matrix counts there, too: Merak's pieces own their parameters.
std::vector<std::int64_t> parameters_of_pieces(const ModelConfig& config) {
  const EndParameters ends = end_parameters(config);
  std::vector<std::int64_t> pieces = {ends.embedding};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    pieces.push_back(layer_parameters(config, has_experts(config, layer)).total());
  }
  pieces.push_back(ends.final_norm);
  pieces.push_back(config.vocabulary * config.hidden);
  return pieces;
}

/// Refuses what Merak would train with a stage that does nothing.
std::vector<LayerRange> partition_as_merak(const std::vector<std::int64_t>& boundaries, const ModelConfig& config,
                                           int stages) {
  if (std::ranges::adjacent_find(boundaries, std::greater_equal<>()) != boundaries.end()) {
    throw InputError(
        fmt::format("partition: Merak's rule leaves a stage without a piece (custom:{}); give uniform, or fewer stages",
                    fmt::join(boundaries, ",")));
  }
  return partition_at(boundaries, config.layers, stages);
}

void require_usable(const LayerCosts& costs) {
  if (costs.layers.size() > static_cast<std::size_t>(kMaxModelLayers)) {
    throw InputError(fmt::format("costs of {} layers; at most {} are read", costs.layers.size(), kMaxModelLayers));
  }
  const double total = std::accumulate(costs.layers.begin(), costs.layers.end(), costs.embedding + costs.head);
  const bool negative =
      costs.embedding < 0 || costs.head < 0 || std::ranges::any_of(costs.layers, [](double cost) { return cost < 0; });
  if (negative || !std::isfinite(total)) {
    throw InputError("the cost of a layer is negative or not finite; give costs from 0 on");
  }
}

std::vector<std::int64_t> parse_boundaries(std::string_view text) {
  std::vector<std::int64_t> boundaries;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const std::optional<long long> boundary = parse_integer(word);
    if (!boundary || *boundary < 0) {
      throw InputError(fmt::format("partition: {} is not a layer; {}", quote(word), kRulesFix));
    }
    boundaries.push_back(*boundary);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return boundaries;
}

}  // namespace

PartitionRule parse_partition_rule(std::string_view text) {
  constexpr std::string_view kCustom = "custom:";
  PartitionRule rule;
  if (const auto* named = std::ranges::find(kNamedRules, text, &NamedRule::name); named != kNamedRules.end()) {
    rule.kind = named->kind;
    return rule;
  }
  if (!text.starts_with(kCustom)) {
    throw InputError(fmt::format("partition: {} is not known; {}", quote(text), kRulesFix));
  }
  rule.kind = PartitionRule::Kind::custom;
  rule.boundaries = parse_boundaries(text.substr(kCustom.size()));
  require_rising_from_0(rule.boundaries);
  return rule;
}

std::string partition_text(std::span<const LayerRange> partition) {
  std::string text = fmt::format("custom:{}", partition.front().begin);
  for (const LayerRange& layers : partition) text += fmt::format(",{}", layers.end);
  return text;
}

std::vector<LayerRange> partition_layers(const ModelConfig& config, int stages, const PartitionRule& rule) {
  require_enough_layers(config.layers, stages);
  switch (rule.kind) {
    case PartitionRule::Kind::uniform:
      break;
    case PartitionRule::Kind::cost: {
      const std::int64_t tokens = rule.sequence_length > 0 ? rule.sequence_length : config.max_positions;
      return partition_by_cost(flop_costs(config, tokens), stages);
    }
    case PartitionRule::Kind::custom:
      return partition_at(rule.boundaries, config.layers, stages);
    case PartitionRule::Kind::merak_transformer:
      return partition_as_merak(merak_even_boundaries(config.layers, stages, MerakRounding::up), config, stages);
    case PartitionRule::Kind::merak_floor:
      return partition_as_merak(merak_even_boundaries(config.layers + kPiecesBesideLayers, stages, MerakRounding::down),
                                config, stages);
    case PartitionRule::Kind::merak_parameters:
      return partition_as_merak(merak_balanced_boundaries(parameters_of_pieces(config), stages), config, stages);
  }
  return partition_evenly(config.layers, stages);
}

void require_divisible(const ModelConfig& config, int ranks) {
  const auto require = [ranks](std::int64_t count, std::string_view what) {
    if (count % ranks == 0) return;
    throw InputError(fmt::format("tp: {} {} cannot be split evenly among {} ranks; choose a tp that divides {}", count,
                                 what, ranks, count));
  };
  require(config.heads, "attention heads");
  require(config.kv_heads, "key/value heads");
  if (!config.experts || !config.experts->dense.empty()) require(config.intermediate, "rows of the MLP");
  if (config.experts) {
    require(config.experts->intermediate, "rows of an expert");
    require(config.experts->shared_intermediate, "rows of the shared expert");
  }
  require(config.vocabulary, "words of the vocabulary");
  if (ranks == 1 || family_of(config).tensors.qkv.size() > 1 || config.heads == config.kv_heads) return;
  throw InputError(
      "tp: queries, keys and values of different widths are in one matrix, which is not split among ranks; choose tp "
      "1");
}

LayerCosts flop_costs(const ModelConfig& config, std::int64_t sequence_length) {
  LayerCosts costs;  // the embedding is a look-up
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    costs.layers.push_back(training_flops_of_layer(config, layer, sequence_length));
  }
  costs.head = training_flops_of_head(config);
  return costs;
}

std::vector<LayerRange> partition_by_cost(const LayerCosts& costs, int stages) {
  require_enough_layers(static_cast<std::int64_t>(costs.layers.size()), stages);
  require_usable(costs);
  return ranges_between(divide_evenly({costs.embedding, costs.layers, costs.head}, stages));
}

namespace {

constexpr double kBottleneckStep = 1e-3;  // parameters

/// Parameters of the pieces up to each, that one included.
std::vector<double> sums_of(std::span<const std::int64_t> parameters) {
  std::vector<double> sums;
  double sum = 0;
  for (const std::int64_t count : parameters) sums.push_back(sum += static_cast<double>(count));
  return sums;
}

struct Filling {
  std::vector<std::int64_t> boundaries;
  bool fits = false;  ///< by Merak's test, which compares the last stage less its first piece where pieces run out
};

/// Fills each stage with as many pieces as stay below the bottleneck.
Filling fill(std::span<const double> sums, int stages, double bottleneck) {
  const auto pieces = static_cast<std::int64_t>(sums.size());
  Filling filling{std::vector<std::int64_t>(static_cast<std::size_t>(stages) + 1, pieces)};
  filling.boundaries.front() = 0;
  double end = bottleneck;
  for (std::size_t stage = 1; stage < static_cast<std::size_t>(stages); ++stage) {
    const std::int64_t boundary = std::ranges::lower_bound(sums, end) - sums.begin();
    filling.boundaries[stage] = boundary;
    if (boundary == pieces) {
      const auto first = static_cast<std::size_t>(filling.boundaries[stage - 1]);
      filling.fits = sums.back() - sums[first] < bottleneck;
      return filling;
    }
    // Before the first piece, Merak's index of the piece before wraps around to the last one.
    end = (boundary == 0 ? sums.back() : sums[static_cast<std::size_t>(boundary) - 1]) + bottleneck;
  }
  filling.fits = end >= sums.back();
  return filling;
}

}  // namespace

std::vector<std::int64_t> merak_even_boundaries(std::int64_t pieces, int stages, MerakRounding rounding) {
  std::int64_t chunk = 1;
  if (pieces > stages) chunk = (pieces + (rounding == MerakRounding::up ? stages - 1 : 0)) / stages;
  std::vector<std::int64_t> boundaries;
  for (int stage = 0; stage < stages; ++stage) boundaries.push_back(std::min(chunk * stage, pieces));
  boundaries.push_back(pieces);
  return boundaries;
}

std::vector<std::int64_t> merak_balanced_boundaries(std::span<const std::int64_t> parameters, int stages) {
  const auto pieces = static_cast<std::int64_t>(parameters.size());
  if (pieces <= stages) return merak_even_boundaries(pieces, stages, MerakRounding::up);
  const std::vector<double> sums = sums_of(parameters);
  double lower = sums.back() / stages;
  double upper = sums.back();
  while (upper > lower + kBottleneckStep) {
    const double middle = lower + (upper - lower) / 2;
    if (fill(sums, stages, middle).fits) {
      upper = middle;
    } else {
      lower = middle + kBottleneckStep;
    }
  }
  return fill(sums, stages, upper).boundaries;
}

}  // namespace lowgear::model
