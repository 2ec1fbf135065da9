#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

/// What EnvPipe's reconfiguration starts from, the same on simulated iterations and in a training.
namespace lowgear::planner {

inline constexpr int kEnvPipeStepsPerClock = 6;  ///< training steps of its profiling

/// The clocks that it profiles: from the highest one down, each at least `step_mhz` below the one before. `clocks_mhz`:
/// highest first.
[[nodiscard]] std::vector<int> envpipe_profiled_clocks_mhz(std::span<const int> clocks_mhz, int step_mhz);

/// What its profiling found, by rank.
struct EnvPipeFindings {
  std::vector<int> optimal_mhz;  ///< the clock of least energy
  /// Times of a forward at that clock and of a backward at the highest one; empty where ranks do not run just the stage
  /// of their number.
  std::vector<schedule::EnvPipeStage> stages;
};

/// How many forwards each rank runs early in EnvPipe's own order.
struct EnvPipeOrder {
  std::vector<int> early_forwards;  ///< by rank
  std::string note;                 ///< where memory admits fewer than its rule asks for; else empty
};
/// `extra_activations` as EnvPipeOptions has them. Throws InputError when they are of another number of ranks.
[[nodiscard]] EnvPipeOrder envpipe_order(int microbatches, const EnvPipeFindings& findings,
                                         const std::vector<int>& extra_activations);

/// Throws InputError unless every rank runs just the stage of its number, with whole backwards: only then it has an own
/// order.
void require_envpipe_order(const schedule::PipelineDag& dag);

/// The clock that each op starts with: within the outer envelope (type `envelope`) or everywhere (`baseline`) its
/// highest one, `highest_mhz` by op; else the optimal one of its rank.
[[nodiscard]] std::vector<int> envpipe_start_clocks_mhz(const schedule::PipelineDag& dag, EnvPipeOptions::Type type,
                                                        std::vector<int> highest_mhz, std::span<const int> optimal_mhz);

/// What its order assumes of stages that were not profiled: all take the same time, and a backward twice that of a
/// forward.
[[nodiscard]] std::vector<schedule::EnvPipeStage> stages_without_profile(int ranks);

}  // namespace lowgear::planner
