#pragma once

// The start of EnvPipe's reconfiguration, the same on simulated iterations and in a training: a sweep over the clocks,
// the order and the first clocks.

#include <span>
#include <string>
#include <vector>

#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/envpipe/envpipe_config.h"

namespace lowgear::policies {

inline constexpr int kEnvPipeStepsPerClock = 6;  ///< training steps of its profiling

/// The clocks that it profiles: from the highest one down, each at least `step_mhz` below the one before. `clocks_mhz`:
/// highest first.
[[nodiscard]] std::vector<int> envpipe_profiled_clocks_mhz(std::span<const int> clocks_mhz, int step_mhz);

/// Results of its profiling, by rank.
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

/// The figures that its order assumes for stages without a profile: all take the same time, and a backward twice that
/// of a forward.
[[nodiscard]] std::vector<schedule::EnvPipeStage> stages_without_profile(int ranks);

/// EnvPipe's outer envelope (Choi et al., USENIX ATC 2023), by op: everything on the last stage, the first
/// microbatch's forward and the last microbatch's backward on every stage. Found by position, not by timing.
[[nodiscard]] std::vector<bool> outer_envelope(const schedule::PipelineDag& dag);

/// EnvPipe's mean: of more than three samples only those count that are less than one standard deviation (of all
/// samples) from their mean; where none is, all. Not a number of no samples.
[[nodiscard]] double envpipe_mean(std::span<const double> samples);

/// Measurements of one rank in a training step of the sweep; a figure that is not finite was not measured.
struct EnvPipeSample {
  double energy_j = 0;         ///< of the whole step, waiting included
  double forward_time_s = 0;   ///< mean of its forwards
  double backward_time_s = 0;  ///< mean of its backwards
};

/// EnvPipe's energy profiler in a training: all ranks together run six steps at each of its clocks, from the highest
/// one down; but for the type `uniform`, the last rank stays at the highest. The clock of least mean energy is a rank's
/// optimal one. The type `baseline` has no sweep.
class EnvPipeSweep {
 public:
  /// `clocks_mhz`: as envpipe_profiled_clocks_mhz has them, not empty.
  EnvPipeSweep(std::vector<int> clocks_mhz, int ranks, EnvPipeOptions::Type type);

  [[nodiscard]] bool is_finished() const { return clock_ == clocks_mhz_.size(); }
  /// By rank: for the next step, while there is one.
  [[nodiscard]] std::vector<int> rank_clocks_mhz() const;
  [[nodiscard]] int steps_left() const;
  /// Takes the measurements of a step, by rank. One that is incomplete does not count: the step is repeated. Returns
  /// why, or an empty text.
  std::string observe(std::span<const EnvPipeSample> samples);
  /// Once it has finished.
  [[nodiscard]] EnvPipeFindings findings() const;

 private:
  std::vector<int> clocks_mhz_;
  EnvPipeOptions::Type type_;
  std::size_t clock_ = 0;                                         ///< that is being tried
  std::vector<std::vector<std::vector<EnvPipeSample>>> samples_;  ///< by rank and clock
};

}  // namespace lowgear::policies
