#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/core/progress.h"
#include "base/core/units.h"
#include "planning/planner/frontier/frontier_solver.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/frontier/work_report.h"

namespace lowgear::planner {

/// Deadlines spread evenly over a frontier. The library of plans is made for them, and the walk along the frontier
/// keeps a state before each, so that they need no walks of their own.
struct DeadlineGrid {
  TimePs fastest_ps = 0;
  TimePs step_ps = 0;
  TimePs count = 0;

  [[nodiscard]] TimePs at_ps(TimePs k) const { return fastest_ps + step_ps * k; }
};

/// Work is counted in visits of ops, so that a pipeline of any size gets its library in a similar time (about 5 ns
/// each).
[[nodiscard]] inline DeadlineGrid deadline_grid(TimePs fastest_ps, TimePs slowest_ps, std::size_t ops) {
  constexpr std::size_t kVisits = 6'000'000;
  constexpr std::size_t kVisitsPerDeadline = 36;  // per op: six roundings, each with its reclaim
  const std::size_t count =
      std::clamp<std::size_t>(kVisits / (kVisitsPerDeadline * std::max<std::size_t>(ops, 1)), 16, 192);
  const auto deadlines = static_cast<TimePs>(count);
  return {fastest_ps, (slowest_ps - fastest_ps) / (deadlines - 1), deadlines};
}

/// A pair of iteration time and energy that a solution reaches. Energy is the sum of the ops' effective energies; the
/// iteration's energy adds blocking power x time (docs/planner.md).
struct FrontierVertex {
  TimePs time_ps = 0;
  EnergyZj effective_energy_zj = 0;
};

/// A proven bound: every solution with iteration time T has effective energy >= intercept - slope x T. It is what a
/// conserving flow of value `slope_nw` proves (`bound_of_flow`).
struct BoundLine {
  PowerNw slope_nw = 0;
  EnergyZj intercept_zj = 0;
};

/// Iteration time with every op at its fastest.
[[nodiscard]] TimePs fastest_makespan_ps(const ProblemInstance& instance);

/// Time against least energy, from the fastest iteration to the one that uses least energy.
class Frontier {
 public:
  /// `vertices`: achievable, fastest first, convex; not empty. `bounds`: in any order, not empty, none flatter than the
  /// blocking power; those that others hide are left out.
  Frontier(std::vector<FrontierVertex> vertices, std::vector<BoundLine> bounds, PowerNw blocking_power_nw);

  [[nodiscard]] std::span<const FrontierVertex> vertices() const { return vertices_; }
  /// Steepest (for the fastest iterations) first.
  [[nodiscard]] std::span<const BoundLine> bounds() const { return bounds_; }
  [[nodiscard]] PowerNw blocking_power_nw() const { return blocking_power_nw_; }

  /// T_min: no iteration is faster.
  [[nodiscard]] TimePs fastest_ps() const { return vertices_.front().time_ps; }
  /// T*: no iteration uses less energy; a slower one only waits.
  [[nodiscard]] TimePs slowest_ps() const { return vertices_.back().time_ps; }

  /// Energy of the whole iteration, blocking energy included, at a vertex.
  [[nodiscard]] double energy_j(const FrontierVertex& vertex) const;
  /// The same on the line between vertices. `time_ps` is clamped to [T_min, T*].
  [[nodiscard]] double energy_j_at(TimePs time_ps) const;
  /// No iteration of at most this time (at least T_min) uses less energy than this, blocking energy included.
  [[nodiscard]] double lower_bound_j_at(TimePs time_ps) const;

  /// Largest relative distance of the achievable energy from its bound anywhere on the frontier, and of its least
  /// energy from what bounds iterations of any length; 0 when exact.
  [[nodiscard]] double epsilon() const;
  /// The fastest time at which that distance is above `epsilon` (T* for the least energy); none when it is nowhere.
  [[nodiscard]] std::optional<TimePs> fastest_beyond(double epsilon) const;

 private:
  [[nodiscard]] double distance_at(TimePs time_ps) const;
  [[nodiscard]] double distance_of_least_energy() const;
  [[nodiscard]] std::vector<TimePs> widest_times() const;
  [[nodiscard]] EnergyZj bound_zj(TimePs time_ps) const;

  std::vector<FrontierVertex> vertices_;
  std::vector<BoundLine> bounds_;
  PowerNw blocking_power_nw_ = 0;
};

/// Called with the solver at every vertex of the frontier, slowest first. The solver's times are the vertex's solution,
/// and its flow proves the stretch to the vertex shown before (at the first: that no slower iteration uses less
/// energy).
class FrontierObserver {
 public:
  virtual ~FrontierObserver() = default;
  virtual void vertex(const FrontierSolver& solver) = 0;
  /// Called where the walk is about to leave a vertex: `step_ps` says how far.
  virtual void leaving(const FrontierSolver& solver) { (void)solver; }
};

/// States on the walk, so that a deadline is solved without repeating the whole walk: the first one, and the last one
/// before each deadline of the grid.
class Checkpoints final : public FrontierObserver {
 public:
  /// For walks of `instance`, or of one with the same times.
  explicit Checkpoints(const ProblemInstance& instance);
  void vertex(const FrontierSolver& solver) override;
  void leaving(const FrontierSolver& solver) override;
  /// The fastest place kept that is slower than `time_ps`, or the first one, if that is as slow; null when there is
  /// none. Its flow holds from there on, and at the first one up to there.
  [[nodiscard]] const FrontierSolver::State* before(TimePs time_ps) const;

 private:
  struct Place {
    TimePs time_ps = 0;
    FrontierSolver::State state;
  };
  std::size_t ops_;
  TimePs fastest_ps_;
  DeadlineGrid grid_;
  TimePs ahead_ = 0;  ///< deadlines of the grid that the walk has yet to pass
  std::vector<Place> places_;
};

/// The whole exact frontier: every vertex. `observers` and `progress` may be empty / null.
[[nodiscard]] Frontier solve_frontier(const ProblemInstance& instance,
                                      std::span<FrontierObserver* const> observers = {}, Progress* progress = nullptr);

/// An optimal solution in continuous time for one deadline: what discrete plans are rounded from.
struct ContinuousPlan {
  TimePs deadline_ps = 0;
  std::vector<TimePs> op_time_ps;
  std::vector<TimePs> start_by_ps;   ///< by op: latest start that keeps the deadline, as the solution's events stand
  std::vector<TimePs> finish_by_ps;  ///< by op
  std::vector<PowerNw> op_flow_nw;   ///< what an op's time is worth
};

/// Finds continuous optima for deadlines.
class ContinuousSolver {
 public:
  virtual ~ContinuousSolver() = default;
  /// `deadline_ps` must be within [T_min, T*] of the frontier that the solver belongs to.
  [[nodiscard]] virtual ContinuousPlan solve(TimePs deadline_ps) = 0;
};

/// Solves single deadlines on one instance, starting from checkpoints of its frontier where there are any.
class DeadlineSolver final : public ContinuousSolver {
 public:
  /// The arguments must outlive the solver; `checkpoints` and `work` may be null.
  DeadlineSolver(const ProblemInstance& instance, const Checkpoints* checkpoints, WorkReport* work = nullptr);
  /// Takes any deadline from T_min to the slowest time of the instance, also beyond T*.
  [[nodiscard]] ContinuousPlan solve(TimePs deadline_ps) override;

 private:
  FrontierSolver solver_;
  FrontierSolver::State slowest_;
  const Checkpoints* checkpoints_;
};

/// The inequality that a flow proves: for any times d, sum g(d) >= intercept - slope x makespan, with
/// intercept = sum over ops of min over breakpoints of (g + flow x time). `op_flow_nw` must conserve.
[[nodiscard]] BoundLine bound_of_flow(const ProblemInstance& instance, std::span<const PowerNw> op_flow_nw,
                                      PowerNw flow_value_nw);

/// Sum of the ops' effective energies at the given times.
[[nodiscard]] EnergyZj effective_energy_zj(const ProblemInstance& instance, std::span<const TimePs> op_time_ps);

}  // namespace lowgear::planner
