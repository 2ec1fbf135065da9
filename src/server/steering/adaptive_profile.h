#pragma once

#include <span>
#include <vector>

#include "base/core/op_kind.h"
#include "base/core/progress.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"

namespace lowgear::server {

/// Standard errors of one row of a measured profile.
struct MeasuredError {
  int stage = 0;
  OpKind kind = OpKind::forward;
  int clock_mhz = 0;
  double time_error_s = 0;
  double energy_error_j = 0;
};

/// The pipeline to profile, and the plan that the profile is for.
struct ProfilingTask {
  schedule::Schedule schedule;
  std::vector<int> supported_mhz;        ///< clocks that may be measured and planned with, in any order
  std::vector<double> blocking_power_w;  ///< by rank
  double slowdown_pct = 0;               ///< of the plan that is wanted, over the fastest
  planner::PlannerOptions planner;
  Progress* progress = nullptr;  ///< may be null
};

struct AdaptiveProfileOptions {
  double wanted_error = 0.005;  ///< relative standard error of the plan's energy at which to stop
  int clocks_per_round = 2;
};

/// The state of knowledge after a round of measurements, and the clocks to measure next.
struct ProfilingStep {
  profile::StageProfile profile;  ///< measured rows, and predicted ones at all supported clocks between them
  double energy_j = 0;            ///< *planned*, of an iteration of the wanted plan
  double energy_error_j = 0;      ///< its standard error
  bool is_known = false;          ///< whether that is as wanted
  /// Clocks to measure next, those that lower the error most first. A clock that was measured already is to be measured
  /// again and averaged. Empty when known, and when nothing that could be measured would help.
  std::vector<int> next_clocks_mhz;
};

/// Plans with a profile of few clocks (`choose_clocks` says which to begin with; `fit_few_clocks` fills the others in)
/// and propagates its errors to the plan's energy at this deadline, to first order:
///
///   dE = sum over rows of  n (de - P dt) + m phi dt
///
/// for the n ops that run at the row, P being blocking power. Of them m are bound by time (another microsecond would
/// make the iteration longer); time that they lose is bought back elsewhere at phi, taken to be the slope that the
/// row's own neighbours on the Pareto set give for it, -dg/dt with g = e - P t. Predicted rows of the same kind between
/// the same two measured clocks are taken to be off alike, in all stages: how a kind of work departs from its model is
/// much the same in each. All other errors are taken to be independent, and an energy to have the relative error of its
/// time besides one of its own. Errors of predictions are what `fit_few_clocks` says times what leaving out one
/// measured clock after the other shows them to be larger by. What to measure is chosen by how far the errors would
/// shrink: a measured clock cuts the bridge between its neighbours in two; one measured again halves its variance.
///
/// Throws InputError when the profile lacks a stage or kind of the schedule, has fewer than kMinMeasuredClocks clocks
/// of something, an error is negative or not finite or of a row that is not there, or options are out of range.
[[nodiscard]] ProfilingStep next_profiling_step(const ProfilingTask& task, const profile::StageProfile& measured,
                                                std::span<const MeasuredError> errors,
                                                const AdaptiveProfileOptions& options = {});

}  // namespace lowgear::server
