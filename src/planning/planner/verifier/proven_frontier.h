#pragma once

#include <optional>
#include <vector>

#include "base/core/units.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/planner/verifier/verify.h"

namespace lowgear::planner::verifier {

/// An iteration time and a sum of effective energies that a solution reaches.
struct Point {
  TimePs time_ps = 0;
  EnergyZj energy_zj = 0;
};

/// No solution of iteration time T has less effective energy than intercept - slope x T.
struct Line {
  PowerNw slope_nw = 0;
  EnergyZj intercept_zj = 0;

  [[nodiscard]] EnergyZj at(TimePs time_ps) const { return intercept_zj - static_cast<EnergyZj>(slope_nw) * time_ps; }
};

/// The contents of a certificate: solutions above (their lower convex chain is achievable by mixing neighbours), lines
/// below (their upper envelope is a bound). Exact, in integers, but for ratios.
class ProvenFrontier {
 public:
  /// `points` and `lines` in any order, neither empty; times and slopes are not negative.
  ProvenFrontier(std::vector<Point> points, std::vector<Line> lines, PowerNw blocking_power_nw);

  /// Vertices of the lower convex chain, fastest first, up to the one of least energy with blocking energy included;
  /// none on the line between two others.
  [[nodiscard]] const std::vector<Point>& chain() const { return chain_; }
  /// Energy of the whole iteration, blocking energy included.
  [[nodiscard]] double energy_j(const Point& point) const;
  /// No iteration of this time uses less energy than this, blocking energy included. A time faster than the chain's is
  /// taken as its fastest.
  [[nodiscard]] double lower_bound_j(TimePs time_ps) const;
  /// Largest relative distance of the chain from the bound, over the chain's times, and of its slow end from the bound
  /// on every slower iteration. Infinite when there is no such bound.
  [[nodiscard]] double epsilon() const;

 private:
  [[nodiscard]] const Line& highest_at(TimePs time_ps) const;
  [[nodiscard]] EnergyZj chain_at(TimePs time_ps) const;
  [[nodiscard]] double distance(EnergyZj achieved_zj, EnergyZj bound_zj, TimePs time_ps) const;
  [[nodiscard]] double distance_at_kinks() const;

  std::vector<Point> chain_;
  std::vector<Line> envelope_;     ///< steepest first, each the highest somewhere
  std::optional<Line> slow_line_;  ///< bounds slower iterations: with blocking energy it does not fall with time
  PowerNw blocking_power_nw_ = 0;
};

/// Checks every vertex of a certificate and gives what they prove together. A vertex proves
///   - a point, when every op's time is one that it can have and their longest path takes the time that is stated: sum
///     of effective energies at that time;
///   - a line, when its flow f is nowhere negative, leaves every op as it enters it, and has the stated value L: for
///     any times d, sum g(d) >= sum over ops of min over t of (g(t) + f t) - L x longest path of d, since the flow can
///     be split into paths, none of which is longer.
/// At the first vertex that is not sound it adds a finding and returns nothing: what follows builds on it. Throws
/// InputError when the text cannot be read. `progress` may be null; it hears of every vertex.
[[nodiscard]] std::optional<ProvenFrontier> prove_frontier(const Pipeline& pipeline,
                                                           const PlanFolder::File& certificate, Findings& findings,
                                                           Progress* progress);

}  // namespace lowgear::planner::verifier
