#pragma once

#include <string>
#include <vector>

#include "planning/schedule/schedule.h"

namespace lowgear::estimator {

/// Times of the ops of a schedule. Vectors are by virtual stage; messages by the stage that they leave forward: entry s
/// is the message between stages s and s + 1.
struct PipelineCosts {
  int ranks = 1;
  int chunks = 1;  ///< virtual stages per rank
  int microbatches = 1;
  std::vector<double> forward_s = {};
  std::vector<double> backward_s = {};
  std::vector<double> weight_gradient_s = {};  ///< the part of backward_s that zero-bubble schedules run apart
  std::vector<double> activation_send_s = {};  ///< one entry fewer than stages
  std::vector<double> gradient_send_s = {};    ///< one entry fewer than stages

  [[nodiscard]] int stages() const { return ranks * chunks; }
};

/// End and work of each rank in an iteration that begins at 0.
struct PipelineTimes {
  std::vector<double> end_s;   ///< by rank: end of its last computation
  std::vector<double> busy_s;  ///< by rank: sum of its computations

  [[nodiscard]] double time_s() const;
};

/// Replays a schedule of computations with src/planning/simulator on its dependency graph, in which every message
/// between ranks is an op of its own, concurrent with the computations. Throws what build_dag throws.
[[nodiscard]] PipelineTimes replayed_times(const schedule::Schedule& schedule, const PipelineCosts& costs);

/// The same for a schedule by name (planning/schedule/generators.h). 1F1B and interleaved 1F1B are not built but
/// stepped through until the steps repeat; the result is that of replayed_times, up to rounding.
[[nodiscard]] PipelineTimes pipeline_times(const std::string& schedule, const PipelineCosts& costs);

/// End of each rank's part of the interleaved schedule (planning/schedule/generators.h), without building it: ranks run
/// their lists as far as their inputs are known. The schedule repeats every round of microbatches. Once a whole round
/// follows the one before by the same time on every rank, the rounds up to the last ones are added instead of run. The
/// costs have several ranks, and microbatches that divide into the schedule's rounds.
[[nodiscard]] std::vector<double> interleaved_end_s(const PipelineCosts& costs);

}  // namespace lowgear::estimator
