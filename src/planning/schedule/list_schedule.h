#pragma once

#include <vector>

#include "base/core/units.h"
#include "planning/schedule/schedule.h"

/// Orders found by list scheduling: a simulated iteration in which each rank, whenever it is free, takes the most
/// urgent op that is ready. An order made so can always run: its ops have a common order in time.
namespace lowgear::schedule {

/// Virtual stages of each rank, in the order of the model.
using StageLayout = std::vector<std::vector<int>>;

/// Rank r runs the stages r, r + S, r + 2S, ..., `chunks` of them. One chunk: rank r runs stage r.
[[nodiscard]] StageLayout looped_layout(int ranks, int chunks);
/// Rank r runs the stages r and 2S - 1 - r, so that the last rank passes activations to itself (ZB-V).
[[nodiscard]] StageLayout v_layout(int ranks);

/// Times of a stage's ops in the simulated iteration.
struct StageTimes {
  TimePs forward_ps = 0;
  TimePs backward_ps = 0;  ///< of the input gradient alone where the schedule splits backwards
  TimePs weight_gradient_ps = 0;
};

/// Which op is most urgent. Backwards (input gradients) are before all others, those of late stages first; forwards,
/// also of late stages first, are before weight gradients, which fill waits. Then:
struct ListRule {
  /// No forward or weight gradient is begun when a gradient arrives within this share of its time. Not negative.
  double patience = 0;
  /// With more input gradients than this whose weight gradient has not been computed, a weight gradient is before
  /// forwards.
  int weight_backlog = kUnlimited;
  /// By rank: most stage-microbatches whose forward has begun and whose backward (input gradient) has not. Empty: no
  /// limit.
  std::vector<int> most_ahead = {};

  static constexpr int kUnlimited = 1 << 30;
};

/// The input of a list schedule.
struct ListScheduleRequest {
  StageLayout stages_of_rank;
  int microbatches = 1;
  bool splits_backward = false;
  std::vector<StageTimes> times;      ///< by stage; all above 0 where they are used
  std::vector<int> most_activations;  ///< by rank, in stage-microbatches; at least one for each stage of the rank
  ListRule rule = {};
};

/// The order that the rule gives; it never holds more than `most_activations` (`peak_in_flight_activations`). A forward
/// of a rank's c-th of v stages leaves room for one activation of each later one, and each stage takes microbatches in
/// turn: so the oldest microbatch can always proceed, and the simulation cannot stop before its end. Throws InputError
/// when a limit is below a rank's stages (which says so), or sizes do not fit each other.
[[nodiscard]] Schedule list_schedule(const ListScheduleRequest& request);

}  // namespace lowgear::schedule
