#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "estimating/estimator/work/operators.h"

namespace lowgear::bench {

/// Clusters whose published samples (of the estimator in arXiv 2509.22832) are read from ../shared/data/operators; they
/// are no part of this project.
[[nodiscard]] bool samples_present();

/// How a fifth of a sampling file is kept out of the fit.
enum class Holdout : unsigned char {
  random,   ///< by lot; the lot is fixed (kHoldoutSeed)
  largest,  ///< the fifth with most work: extrapolation
};
inline constexpr int kHoldoutSeed = 42;

/// Errors on the samples of one sampling file and pass that were kept out.
struct HoldoutErrors {
  double own_mape_pct = 0;     ///< mean absolute error, fitted to the same file's other samples alone
  double pooled_mape_pct = 0;  ///< fitted to those of all files of this kind of operator together, as estimates are
  double covered_pct = 0;      ///< of samples that lie within the 90 % interval, pooled
};

struct HoldoutRow {
  std::string function;  ///< `linear1`
  estimator::Pass pass = estimator::Pass::forward;
  std::size_t samples = 0;
  std::size_t thrown_out = 0;  ///< of these, before the split: what physics forbids
  HoldoutErrors random = {};
  HoldoutErrors largest = {};
};

/// All operators of one cluster, except passes that cannot be believed at all.
struct HoldoutTable {
  std::string cluster;  ///< `Perlmutter`
  std::vector<HoldoutRow> rows;
  std::vector<std::string> left_out;  ///< `flash_atten backward`
};

/// Perlmutter and Vista.
[[nodiscard]] std::vector<HoldoutTable> operator_holdout();

/// Mean errors over all rows, or over those of the ten operators of the llemma example that have no known defect:
/// without flash_atten and linear2.
struct HoldoutMeans {
  HoldoutErrors random = {};
  HoldoutErrors largest = {};
};
[[nodiscard]] HoldoutMeans means_of_all(const HoldoutTable& table);
[[nodiscard]] HoldoutMeans means_of_ten(const HoldoutTable& table);

/// One configuration of the published estimator, by its own formula.
struct PeerRun {
  std::string config;       ///< `llemma_7b_4_2_2_P`
  double published_s = 0;   ///< what the published tool prints (XGBoost 1.7.4, scikit-learn 1.2.1)
  double reproduced_s = 0;  ///< published_estimate
};
[[nodiscard]] std::vector<PeerRun> peer_runs();

}  // namespace lowgear::bench
