#pragma once

#include <string>
#include <vector>

#include "planning/schedule/schedule.h"

namespace lowgear::estimator {

/// What a schedule needs to be timed. Vectors by virtual stage; messages by the stage that they leave forward: entry s
/// is what passes between stages s and s + 1.
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

/// When ranks have done their part of an iteration that begins at 0.
struct PipelineTimes {
  std::vector<double> end_s;   ///< by rank: end of its last computation
  std::vector<double> busy_s;  ///< by rank: sum of its computations

  [[nodiscard]] double time_s() const;
};

/// Replays a schedule of computations with src/planning/simulator on its dependency graph, in which every message
/// between ranks is an op of its own, concurrent with the computations. Throws what build_dag throws.
[[nodiscard]] PipelineTimes replayed_times(const schedule::Schedule& schedule, const PipelineCosts& costs);

/// The same for a schedule by name (planning/schedule/generators.h). 1F1B and interleaved 1F1B are not built but
/// stepped through until the steps repeat; what comes out is what replayed_times gives, up to rounding.
[[nodiscard]] PipelineTimes pipeline_times(const std::string& schedule, const PipelineCosts& costs);

/// When each rank ends its part of the interleaved schedule (planning/schedule/generators.h), without building it:
/// ranks run their lists as far as what they wait for is known. The schedule repeats itself every round of
/// microbatches; once a whole round comes the same time after the round before on every rank, the rounds up to the last
/// ones are not run but added. The costs have several ranks, and microbatches that divide into the schedule's rounds.
[[nodiscard]] std::vector<double> interleaved_end_s(const PipelineCosts& costs);

}  // namespace lowgear::estimator
