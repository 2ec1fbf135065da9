#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "estimating/sampling/sampled_operator.h"

namespace lowgear::sampling {

/// Values that the sizes of operators take; a grid is all their combinations.
struct OperatorGrid {
  std::vector<std::int64_t> hidden;
  std::vector<std::int64_t> tp;
  std::vector<std::int64_t> microbatch;
  std::vector<std::int64_t> sequence;
  std::vector<std::int64_t> head_dim;    ///< heads = hidden / head_dim
  std::vector<std::int64_t> parameters;  ///< of the optimizer
  std::vector<std::int64_t> layers;      ///< of a stage, for its optimizer
  std::vector<std::int64_t> experts;     ///< of a layer
  std::vector<std::int64_t> expert_width;
  std::vector<std::int64_t> experts_per_token;
  std::vector<std::int64_t> heads = {};  ///< of the model, instead of hidden / head_dim; may be empty
};

/// Hidden 2048 to 16384, tp 1 to 8, microbatches of 1 to 8, sequences of 1024 to 8192.
[[nodiscard]] OperatorGrid default_grid();
/// Some fifteen points for each operator, which take about a minute.
[[nodiscard]] OperatorGrid quick_grid();

/// Throws InputError that names the option, on an empty list (except `heads`), more than 128 values, and values out of
/// bounds.
void require_valid(const OperatorGrid& grid);

/// Largest work of a point in a default plan, so that no point takes seconds.
struct SampleBounds {
  double flops = 6e13;
  double traffic_bytes = 6e10;
  double footprint_bytes = 24e9;
};

/// Every n-th point from the k-th on, so that n machines share a plan.
struct SamplePart {
  int index = 1;  ///< from 1
  int count = 1;

  friend bool operator==(const SamplePart&, const SamplePart&) = default;
};

struct PlannedSample {
  OperatorShape shape;
  bool energy = false;  ///< also runs a long window to measure energy

  friend bool operator==(const PlannedSample&, const PlannedSample&) = default;
};

/// The points of one operator: valid combinations within the bounds, one for each set of kernel sizes, in a fixed order
/// that mixes them well, so that every prefix covers the whole range. Energy is measured at `energy_points` of them,
/// evenly spread over the work, among points long enough for launches not to matter.
[[nodiscard]] std::vector<PlannedSample> plan_samples(SampledOperator op, SampleType type, const OperatorGrid& grid,
                                                      int energy_points, const SampleBounds& bounds = {});

/// The elements of a plan that belong to the part.
template <typename Element>
[[nodiscard]] std::vector<Element> part_of(std::span<const Element> all, const SamplePart& part) {
  std::vector<Element> result;
  for (auto i = static_cast<std::size_t>(part.index - 1); i < all.size(); i += static_cast<std::size_t>(part.count)) {
    result.push_back(all[i]);
  }
  return result;
}

enum class SampledCollective : unsigned char { all_reduce, all_gather, reduce_scatter, send };
inline constexpr int kSampledCollectives = 4;
/// The word in its file's name: `allreduce`, `allgather`, `reduce_scatter`, `p2p`.
[[nodiscard]] std::string_view name(SampledCollective collective);
/// The collectives of a list of names, read as by operators_named.
[[nodiscard]] std::vector<SampledCollective> collectives_named(std::string_view list, std::string_view option);

/// Sizes of whole messages in bytes: each rank's input of an all-reduce or reduce-scatter, its result of an all-gather,
/// the message of a send. Powers of two from `smallest` to `largest`, both included.
struct MessageSizes {
  std::int64_t smallest = 1024;
  std::int64_t largest = std::int64_t{1} << 30;
};

struct PlannedMessage {
  std::int64_t elements = 0;  ///< the file's column `shape`: of the message, or of each rank's share of it
  bool energy = false;

  friend bool operator==(const PlannedMessage&, const PlannedMessage&) = default;
};

/// The messages of one collective among `ranks` ranks, smallest first. Energy is measured at `energy_points` of them,
/// from the largest down, each a sixteenth of the one before.
[[nodiscard]] std::vector<PlannedMessage> plan_messages(SampledCollective collective, SampleType type, int ranks,
                                                        const MessageSizes& sizes, int energy_points);

}  // namespace lowgear::sampling
