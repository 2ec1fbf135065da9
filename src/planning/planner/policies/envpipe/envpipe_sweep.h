#pragma once

#include <span>
#include <string>
#include <vector>

#include "planning/planner/policies/envpipe/envpipe_options.h"
#include "planning/planner/policies/envpipe/envpipe_start.h"

namespace lowgear::planner {

/// EnvPipe's mean: of more than three samples only those count that are less than one standard deviation (of all
/// samples) from their mean; where none is, all. Not a number of no samples.
[[nodiscard]] double envpipe_mean(std::span<const double> samples);

/// What one rank measured in a training step of the sweep; not finite: it did not.
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
  /// What the step measured, by rank. One that is incomplete does not count: the step is repeated. Returns why, or an
  /// empty text.
  std::string observe(std::span<const EnvPipeSample> samples);
  /// Once it has finished.
  [[nodiscard]] EnvPipeFindings findings() const;

 private:
  std::vector<int> clocks_mhz_;
  EnvPipeOptions::Type type_;
  std::size_t clock_ = 0;                                         ///< that is being tried
  std::vector<std::vector<std::vector<EnvPipeSample>>> samples_;  ///< by rank and clock
};

}  // namespace lowgear::planner
