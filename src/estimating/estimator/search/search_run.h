#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/core/progress.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/search/search.h"

namespace lowgear::estimator {

/// How far quick_planned_energy_j may be above the planner's energy, as a share of the latter: the largest difference
/// of bench/ACCURACY.md, rounded up. With virtual stages it may be further below.
inline constexpr double kQuickPlanError = 0.027;

/// A search: the job, bounds and objective.
struct SearchRequest {
  TrainingJob job;  ///< its layout is ignored
  SampleSet samples;
  SearchLimits limits;
  SearchObjective objective = SearchObjective::time;
  Prices prices;
  int top = 10;
  int threads = 1;
};

/// Services of the machine that a search runs on.
struct SearchTools {
  TaskRunner run;                                                 ///< runs tasks concurrently
  SecondsClock now_s;                                             ///< for `search_s`, which is 0 without it
  std::function<std::optional<std::uint64_t>()> available_bytes;  ///< free memory, empty if unknown; optional
};

/// One of the best layouts, with its plans.
struct PlannedLayout {
  SearchResult result;
  JobFigures full_clocks;
  JobFigures no_later;      ///< the plan that takes no longer
  JobFigures least_energy;  ///< the plan at T*
};

/// The result of a search. All figures are *estimated*; plans are *planned* on estimated values.
struct SearchReportData {
  std::vector<SearchResult> results;  ///< layouts that fit, best first: those planned, by their plans; then the others
  std::vector<std::size_t> pareto;    ///< indices into `results` by quick estimates, fastest first
  std::vector<PlannedLayout> best;    ///< the first of `results`
  std::size_t planned = 0;            ///< number of layouts that were planned
  std::size_t open_rivals = 0;        ///< number of others that may beat the last of `best` when planned
  std::size_t rival = 0;              ///< index of the best result with another tp or pp than the winner; 0: none
  std::vector<TimeDifference> why;    ///< the winner's time against the rival's
  std::int64_t layouts = 0;           ///< number of valid layouts
  std::int64_t invalid = 0;           ///< number of invalid ones
  std::int64_t too_large = 0;         ///< number of layouts that do not fit into memory
  double search_s = 0;                ///< wall clock, all threads, planning included
};

/// Threads to plan these layouts on: fewer where memory does not hold so many plans at a time. Throws InputError where
/// it does not hold one.
[[nodiscard]] std::size_t planning_threads(const SearchRequest& request, const SearchTools& tools,
                                           std::span<const SearchLayout> layouts);

/// Evaluates every layout on `threads` threads, and plans the best: `top` of them, and up to twice as many more while
/// the error of the quick estimate makes the next one a rival of the last of the best. Throws InputError if no layout
/// fits, or memory does not hold a plan, and what `progress` throws to stop.
[[nodiscard]] SearchReportData run_search(const SearchRequest& request, const SearchTools& tools, Progress& progress);

}  // namespace lowgear::estimator
