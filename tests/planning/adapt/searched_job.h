#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planning/adapt/operating_point_search.h"

namespace lowgear::adapt {

/// How much the iterations of a simulated job vary.
struct JobNoise {
  double iteration = 0.01;    ///< relative standard deviation of single iterations
  double slow = 0.004;        ///< of what changes slowly and alike for all points, within about a minute
  double drift_per_h = 0.01;  ///< relative, linear
  double stragglers = 0;      ///< share of iterations that take 20 % longer
};

/// What a point of the simulated job takes without noise.
struct TruePoint {
  double time_s = 0;
  double energy_j = 0;
};

/// A job whose points are known, with noise that is drawn iteration by iteration.
class SearchedJob {
 public:
  SearchedJob(std::vector<TruePoint> points, const JobNoise& noise, unsigned seed)
      : points_(std::move(points)), noise_(noise), random_(seed) {}

  /// Time and energy of one iteration at a point.
  TruePoint iterate(int point) {
    const TruePoint& truth = points_[static_cast<std::size_t>(point)];
    constexpr double kCorrelationS = 60;
    const double kept = std::exp(-truth.time_s / kCorrelationS);
    slow_time_ = kept * slow_time_ + std::sqrt(1 - kept * kept) * noise_.slow * normal_(random_);
    slow_energy_ = kept * slow_energy_ + std::sqrt(1 - kept * kept) * noise_.slow * normal_(random_);
    const double drift = noise_.drift_per_h * now_s_ / 3600;
    const double late = uniform_(random_) < noise_.stragglers ? 0.2 : 0;
    const double time = 1 + slow_time_ + drift + late + noise_.iteration * normal_(random_);
    const double energy = 1 + slow_energy_ + drift + 0.3 * late + noise_.iteration * normal_(random_);
    now_s_ += truth.time_s * time;
    return {truth.time_s * time, truth.energy_j * energy};
  }

 private:
  std::vector<TruePoint> points_;
  JobNoise noise_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double slow_time_ = 0;
  double slow_energy_ = 0;
  double now_s_ = 0;
};

/// Plans of a frontier at T_min x {1, 1.0025, 1.005, 1.01, 1.02, 1.05}, whose real times and energies differ from the
/// planned ones by what the profile was wrong by.
inline std::vector<TruePoint> random_frontier(double iteration_time_s, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> steepness(0.3, 4);
  std::normal_distribution<double> error(0, 0.002);
  const double saving = steepness(random) / 100;  // most that slowing down saves
  std::vector<TruePoint> points;
  for (const double slowdown : {0.0, 0.0025, 0.005, 0.01, 0.02, 0.05}) {
    const double energy = 1 - saving * (1 - std::exp(-slowdown / 0.01));
    const bool is_first = points.empty();
    points.push_back({iteration_time_s * (1 + slowdown + (is_first ? 0 : error(random))),
                      1000 * (energy + (is_first ? 0 : error(random)))});
  }
  return points;
}

inline std::vector<std::string> frontier_names() {
  return {"T_min", "1.0025 x T_min", "1.005 x T_min", "1.01 x T_min", "1.02 x T_min", "1.05 x T_min"};
}

/// How a search ended, judged by what it could not know.
struct SearchOutcome {
  int iterations = 0;
  double regret_pct = 0;  ///< energy above that of the best point that is allowed
  /// The same against the best of the points that are allowed with room for noise (half of the slowdown's tolerance).
  double clear_regret_pct = 0;
  double too_slow_pct = 0;  ///< of the chosen point, beyond the allowed slowdown; 0 when within
  ProbingCost cost;
};

/// The least energy among the points whose true slowdown is allowed, one by one.
inline double best_energy_j(const std::vector<TruePoint>& points, double allowed_slowdown_pct) {
  double best = std::numeric_limits<double>::infinity();
  for (const TruePoint& point : points) {
    if (point.time_s > points.front().time_s * (1 + allowed_slowdown_pct / 100)) continue;
    best = std::min(best, point.energy_j);
  }
  return best;
}

inline SearchOutcome search_outcome(const std::vector<TruePoint>& points, const SearchOptions& options,
                                    const JobNoise& noise, unsigned seed) {
  SearchedJob job(points, noise, seed);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < points.size(); ++i) names.push_back(std::to_string(i));
  OperatingPointSearch search(names, options);
  SearchOutcome outcome;
  while (!search.is_done()) {
    const TruePoint iteration = job.iterate(search.current());
    (void)search.observe(iteration.time_s, iteration.energy_j);
    ++outcome.iterations;
  }
  const TruePoint& chosen = points[static_cast<std::size_t>(search.current())];
  outcome.regret_pct = 100 * (chosen.energy_j / best_energy_j(points, options.allowed_slowdown_pct) - 1);
  const double clearly_allowed_pct = std::max(0.0, options.allowed_slowdown_pct - options.slowdown_tolerance_pct / 2);
  outcome.clear_regret_pct = 100 * (chosen.energy_j / best_energy_j(points, clearly_allowed_pct) - 1);
  outcome.too_slow_pct =
      std::max(0.0, 100 * (chosen.time_s / points.front().time_s - 1) - options.allowed_slowdown_pct);
  outcome.cost = search.cost();
  return outcome;
}

}  // namespace lowgear::adapt
