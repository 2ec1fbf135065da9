#pragma once

#include <cstdint>
#include <span>
#include <string>
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
  std::vector<std::int64_t> head_dim;    ///< a hidden size has as many heads as fit
  std::vector<std::int64_t> parameters;  ///< of the optimizer
  std::vector<std::int64_t> layers;      ///< of a stage, for its optimizer
  std::vector<std::int64_t> experts;     ///< of a layer
  std::vector<std::int64_t> expert_width;
  std::vector<std::int64_t> experts_per_token;
  std::vector<std::int64_t> heads = {};  ///< of the model, in place of those by head_dim; may be empty
};

/// Hidden 2048 to 16384, tp 1 to 8, microbatches of 1 to 8, sequences of 1024 to 8192.
[[nodiscard]] OperatorGrid default_grid();
/// Some fifteen points an operator, for a look at a machine in a minute.
[[nodiscard]] OperatorGrid quick_grid();

/// Throws InputError, naming the option, on an empty list (of heads it may be), one of more than 128 values, and values
/// out of bounds.
void require_valid(const OperatorGrid& grid);

/// Work that a default plan bounds: no point is worth seconds.
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
  bool energy = false;  ///< a long window is run, too

  friend bool operator==(const PlannedSample&, const PlannedSample&) = default;
};

/// The points of one operator: valid combinations within the bounds, one for each set of kernel sizes, in an order that
/// mixes them well and is always the same, so that whatever part has been done covers the whole. Energy is measured at
/// `energy_points` of them that take long enough for a rate of launches to be no matter, evenly spread over the work.
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
/// `allreduce`, `allgather`, `reduce_scatter`, `p2p`: in the name of its file.
[[nodiscard]] std::string_view name(SampledCollective collective);
/// Those that a list of names means, as operators_named does.
[[nodiscard]] std::vector<SampledCollective> collectives_named(std::string_view list, std::string_view option);

/// Sizes of whole messages in bytes: what each rank puts into an all-reduce, ends up with in an all-gather, puts into a
/// reduce-scatter, or sends. Powers of two from `smallest` to `largest`, both included.
struct MessageSizes {
  std::int64_t smallest = 1024;
  std::int64_t largest = std::int64_t{1} << 30;
};

struct PlannedMessage {
  std::int64_t elements = 0;  ///< of the file's column `shape`: the message's, or each rank's share of it
  bool energy = false;

  friend bool operator==(const PlannedMessage&, const PlannedMessage&) = default;
};

/// The messages of one collective among so many ranks, smallest first. Energy is measured at `energy_points` of the
/// largest, each a sixteenth of the one before.
[[nodiscard]] std::vector<PlannedMessage> plan_messages(SampledCollective collective, SampleType type, int ranks,
                                                        const MessageSizes& sizes, int energy_points);

}  // namespace lowgear::sampling
