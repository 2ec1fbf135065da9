#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/core/progress.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/search/search.h"

namespace lowgear::estimator {

/// What a search looks for.
struct SearchRequest {
  TrainingJob job;  ///< its layout is not looked at
  SampleSet samples;
  SearchLimits limits;
  SearchObjective objective = SearchObjective::time;
  Prices prices;
  int top = 10;
  int threads = 1;
};

/// What a search takes of the machine that it runs on.
struct SearchTools {
  TaskRunner run;                                                 ///< runs what can be done concurrently
  SecondsClock now_s;                                             ///< for `evaluate_s`, which stays 0 without one
  std::function<std::optional<std::uint64_t>()> available_bytes;  ///< of memory, empty where not known; may be empty
};

/// A layout among the best, planned in full.
struct PlannedLayout {
  SearchResult result;
  JobFigures full_clocks;
  JobFigures no_later;      ///< the plan that takes no longer
  JobFigures least_energy;  ///< the plan at T*
};

/// What a search has found. All of it is *estimated*; plans are *planned* on estimated values.
struct SearchReportData {
  std::vector<SearchResult> results;  ///< that fit, best first
  std::vector<std::size_t> pareto;    ///< indices into `results`, fastest first
  std::vector<PlannedLayout> best;    ///< the first of `results`
  std::size_t rival = 0;              ///< index of the best with another tp or pp than the winner; 0: there is none
  std::vector<TimeDifference> why;    ///< the winner's time against the rival's
  std::int64_t layouts = 0;           ///< that the job's rules allow
  std::int64_t invalid = 0;           ///< that they do not
  std::int64_t too_large = 0;         ///< that do not fit into memory
  double evaluate_s = 0;              ///< wall clock, all threads
};

/// Evaluates every layout on `threads` threads, and plans the best. Throws InputError where no layout fits, or memory
/// does not hold a plan, and what `progress` throws to stop.
[[nodiscard]] SearchReportData run_search(const SearchRequest& request, const SearchTools& tools, Progress& progress);

}  // namespace lowgear::estimator
