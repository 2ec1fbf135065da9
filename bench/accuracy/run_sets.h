#pragma once

#include <string>
#include <vector>

#include "estimating/estimator/published_runs.h"

namespace lowgear::bench {

/// Runs of one source, and the error that their estimates should reach.
struct RunSet {
  std::string title;
  std::string source;  ///< markdown: the publication, and what was assumed
  std::vector<estimator::PublishedRun> runs = {};
  double reach_mean_pct = 8;
  double reach_largest_pct = 0;  ///< 0: none
  std::string residuals = {};    ///< markdown: the causes of remaining errors
  double calculon_pct = 0;       ///< mean absolute error of Calculon on the same rows; 0: it was not run
};

/// Every set whose rows are at hand, and the titles of the others, whose files are not in ../shared/data.
struct RunSets {
  std::vector<RunSet> sets;
  std::vector<std::string> absent;
};
[[nodiscard]] RunSets run_sets();

}  // namespace lowgear::bench
