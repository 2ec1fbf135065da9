#pragma once

/// Partition of a model's layers into stages, also by the rules of Merak (the trainer of Perseus): stage s has the
/// pieces [boundaries[s], boundaries[s + 1]) into which Merak's tracer cuts the model. Like Merak's own code
/// (Merak/modules/utils.py, d2d5b41), they may leave a stage without a piece.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::model {

/// Layers [begin, end) of a model.
struct LayerRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// A rule of partition. The first stage also has the embedding, the last one the final norm and the output matrix.
struct PartitionRule {
  enum class Kind : unsigned char {
    uniform,            ///< the same number of layers; the first stages have one more if needed
    cost,               ///< least cost of the costliest stage, with embedding and head
    custom,             ///< at the given boundaries
    merak_transformer,  ///< Merak's `uniform_transformer`: layers alone, rounded up; the last stage has the rest
    merak_floor,        ///< Merak's `uniform_floor`: embedding, layers, norm and output matrix, rounded down
    merak_parameters,   ///< Merak's `parameters`: the same pieces, balanced by their parameters
  };
  Kind kind = Kind::uniform;
  /// Custom: the first boundary is 0, the last the number of all entries, stage s has the entries
  /// [boundaries[s], boundaries[s + 1]). The last boundary defines the entries, for L layers. L: the layers
  /// alone. L + 2: embedding, layers, head. L + 3: embedding, layers, final norm, output matrix. Merak, whose notation
  /// this is, counts the pieces into which its tracer cuts a model: gpt3-xl (L = 24) of Perseus' workloads has 27,
  /// bloom-3b (L = 30) has 32. So `custom:0,8,14,21,27` gives four stages of 7, 6, 7 and 4 of 24 layers.
  std::vector<std::int64_t> boundaries;
  /// Cost: tokens in a sequence, which decide the share of attention; 0 stands for the model's max_positions.
  std::int64_t sequence_length = 0;
};

/// Reads `uniform`, `cost`, `custom:0,8,14,21,27`, or a rule of Merak's: `uniform_transformer`, `uniform_floor`,
/// `parameters`. Throws InputError on anything else, and on boundaries that are fewer than two, do not begin with 0 or
/// do not rise.
[[nodiscard]] PartitionRule parse_partition_rule(std::string_view text);

/// A custom rule that counts only layers: `custom:0,8,14,21,24`. `partition` has at least one stage.
[[nodiscard]] std::string partition_text(std::span<const LayerRange> partition);

/// The layers of each of `stages` stages (virtual stages of an interleaved schedule). Throws InputError on fewer layers
/// than stages, on boundaries that do not fit the model or the number of stages, and if a custom rule or one of Merak's
/// leaves a stage without a layer.
[[nodiscard]] std::vector<LayerRange> partition_layers(const ModelConfig& config, int stages,
                                                       const PartitionRule& rule);

/// Throws InputError unless heads, key/value heads, MLP and vocabulary can be split evenly among `ranks` that share
/// every layer.
void require_divisible(const ModelConfig& config, int ranks);

/// Costs of the parts of a model, in any unit: FLOPs, seconds.
struct LayerCosts {
  double embedding = 0;
  std::vector<double> layers;
  double head = 0;
};

/// Training FLOPs of one token: training_flops_per_token by part.
[[nodiscard]] LayerCosts flop_costs(const ModelConfig& config, std::int64_t sequence_length);

/// The partition whose costliest stage costs least; among several, the one with the least sum of squares of stages'
/// costs, so that no stage is nearly empty without need. Exact, by dynamic programming. Throws InputError on fewer
/// layers than stages, more than kMaxModelLayers, and on a cost that is negative or not finite.
[[nodiscard]] std::vector<LayerRange> partition_by_cost(const LayerCosts& costs, int stages);

/// Merak's rounding of the number of pieces of a stage; the last stage has the rest.
enum class MerakRounding : unsigned char {
  up,    ///< `uniform`, and `uniform_transformer` over the layers alone
  down,  ///< `uniform_floor`
};

/// Stages with the same number of pieces. `pieces` is at least 0, `stages` at least 1.
[[nodiscard]] std::vector<std::int64_t> merak_even_boundaries(std::int64_t pieces, int stages, MerakRounding rounding);

/// `parameters`: a search for the least bottleneck that stages filled from the front stay below, to 1e-3 parameters.
/// `parameters` of each piece are not negative and not all 0; `stages` is at least 1.
[[nodiscard]] std::vector<std::int64_t> merak_balanced_boundaries(std::span<const std::int64_t> parameters, int stages);

}  // namespace lowgear::model
