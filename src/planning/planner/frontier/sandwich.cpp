#include "planning/planner/frontier/sandwich.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lowgear::planner {
namespace {

/// Rounding finer than this is hardly what keeps a frontier from being accurate.
constexpr PowerNw kFinestQuantumNw = 1'000;
/// Slopes as they are: whole nanowatts.
constexpr SlopeRounding kNoRounding{1, FrontierSolver::kUnlimitedFlow};

/// A solution is valued when the flow has grown, or the iteration has shrunk, by this much since the last one, and
/// before a step that is a good part of it.
constexpr double kFlowStep = 0.03;
constexpr double kTimeStep = 0.0025;
constexpr std::size_t kPartsBeforeFinerSampling = 4;

ConvexCost with_rounded_slopes(const ConvexCost& cost, SlopeRounding rounding) {
  ConvexCost rounded;
  rounded.energy_at_fastest_zj = cost.energy_at_fastest_zj;
  rounded.time_ps.push_back(cost.time_ps.front());
  for (std::size_t j = 0; j < cost.slope_nw.size(); ++j) {
    PowerNw step_nw = rounding.quantum_nw;
    while (step_nw <= cost.slope_nw[j] / (2 * rounding.divisor)) step_nw *= 2;
    const PowerNw slope_nw = (cost.slope_nw[j] + step_nw / 2) / step_nw * step_nw;
    if (slope_nw == 0) break;
    if (!rounded.slope_nw.empty() && slope_nw >= rounded.slope_nw.back()) {
      rounded.time_ps.back() = cost.time_ps[j + 1];
    } else {
      rounded.slope_nw.push_back(slope_nw);
      rounded.time_ps.push_back(cost.time_ps[j + 1]);
    }
  }
  return rounded;
}

/// Whether the energy falls less steeply after `b` than before it; times rise from a to c. In exact arithmetic: of
/// quotients the whole parts, then what is left, so that products stay within 128 bits.
bool bends(const FrontierVertex& a, const FrontierVertex& b, const FrontierVertex& c) {
  const EnergyZj fall_before = a.effective_energy_zj - b.effective_energy_zj;
  const EnergyZj fall_behind = b.effective_energy_zj - c.effective_energy_zj;
  const EnergyZj time_before = b.time_ps - a.time_ps;
  const EnergyZj time_behind = c.time_ps - b.time_ps;
  const EnergyZj whole_before = fall_before / time_before;
  const EnergyZj whole_behind = fall_behind / time_behind;
  if (whole_before != whole_behind) return whole_before > whole_behind;
  return (fall_before % time_before) * time_behind > (fall_behind % time_behind) * time_before;
}

/// The points that no line between two others passes below, up to the one of least total energy; fastest first.
std::vector<FrontierVertex> lower_convex_chain(std::vector<FrontierVertex> points, PowerNw blocking_power_nw) {
  std::sort(points.begin(), points.end(), [](const FrontierVertex& a, const FrontierVertex& b) {
    return std::pair(a.time_ps, a.effective_energy_zj) < std::pair(b.time_ps, b.effective_energy_zj);
  });
  std::vector<FrontierVertex> chain;
  for (const FrontierVertex& point : points) {
    if (!chain.empty() && chain.back().time_ps == point.time_ps) continue;
    while (chain.size() >= 2 && !bends(chain[chain.size() - 2], chain.back(), point)) {
      chain.pop_back();
    }
    chain.push_back(point);
  }
  const auto total_zj = [blocking_power_nw](const FrontierVertex& v) {
    return v.effective_energy_zj + static_cast<EnergyZj>(blocking_power_nw) * v.time_ps;
  };
  while (chain.size() >= 2 && total_zj(chain.back()) >= total_zj(chain[chain.size() - 2])) chain.pop_back();
  return chain;
}

/// A start that is mostly enough for a frontier of a thousandth.
PowerNw first_quantum_nw(const ProblemInstance& instance) {
  std::vector<PowerNw> slopes;
  for (const ConvexCost& cost : instance.costs) slopes.insert(slopes.end(), cost.slope_nw.begin(), cost.slope_nw.end());
  if (slopes.empty()) return kFinestQuantumNw;
  const auto middle = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  return std::max(*middle / 10, kFinestQuantumNw);
}

/// Collects achievable points and bounds along walks of rounded instances.
class SandwichWalk {
 public:
  SandwichWalk(const ProblemInstance& instance, std::span<FrontierObserver* const> observers, Progress* progress)
      : instance_(&instance),
        observers_(observers),
        work_(progress),
        op_time_ps_(static_cast<std::size_t>(instance.op_count())) {}

  /// Walks `rounded` from T* to its fast end, or until it is faster than `until_ps`. `sampling` scales the steps
  /// between solutions that are valued.
  void walk(const ProblemInstance& rounded, TimePs until_ps, double sampling, Checkpoints& checkpoints) {
    sampling_ = sampling;
    using Saturation = FrontierSolver::Saturation;
    work_.begin("looking for the least energy", -1);
    FrontierSolver solver(rounded, &work_);
    while (solver.saturate(instance_->blocking_power_nw) == Saturation::shorter_possible) solver.shorten();
    value(solver);
    checkpoints.vertex(solver);
    const TimePs slowest_ps = solver.time_ps();
    while (solver.time_ps() >= until_ps && solver.saturate() == Saturation::shorter_possible) {
      if (is_due(solver)) value(solver);
      checkpoints.leaving(solver);
      solver.shorten();
      report(slowest_ps, solver.time_ps());
    }
    if (solver.time_ps() < last_time_ps_) value(solver);
  }

  /// Of all walks so far.
  [[nodiscard]] Frontier frontier() const {
    return {lower_convex_chain(points_, instance_->blocking_power_nw), bounds_, instance_->blocking_power_nw};
  }

 private:
  [[nodiscard]] bool is_due(const FrontierSolver& solver) const {
    return static_cast<double>(solver.flow_value_nw()) >
               (1 + sampling_ * kFlowStep) * static_cast<double>(last_flow_nw_) ||
           static_cast<double>(solver.time_ps()) - static_cast<double>(solver.step_ps()) / 2 <
               (1 - sampling_ * kTimeStep) * static_cast<double>(last_time_ps_);
  }

  void value(const FrontierSolver& solver) {
    last_flow_nw_ = solver.flow_value_nw();
    last_time_ps_ = solver.time_ps();
    solver.op_times(op_time_ps_);
    points_.push_back({solver.time_ps(), effective_energy_zj(*instance_, op_time_ps_)});
    bounds_.push_back(bound_of_flow(*instance_, solver.op_flow_nw(), solver.flow_value_nw()));
    for (FrontierObserver* observer : observers_) observer->vertex(solver);
  }

  void report(TimePs slowest_ps, TimePs now_ps) {
    if (fastest_ps_ == 0) fastest_ps_ = fastest_makespan_ps(*instance_);
    work_.begin("solving the frontier", static_cast<double>(slowest_ps - now_ps) /
                                            static_cast<double>(std::max<TimePs>(slowest_ps - fastest_ps_, 1)));
  }

  const ProblemInstance* instance_;
  std::span<FrontierObserver* const> observers_;
  WorkReport work_;
  std::vector<TimePs> op_time_ps_;
  std::vector<FrontierVertex> points_;
  std::vector<BoundLine> bounds_;
  double sampling_ = 1;
  PowerNw last_flow_nw_ = 0;
  TimePs last_time_ps_ = 0;
  TimePs fastest_ps_ = 0;
};

}  // namespace

ProblemInstance with_rounded_slopes(const ProblemInstance& instance, SlopeRounding rounding) {
  ProblemInstance rounded = instance;
  for (ConvexCost& cost : rounded.costs) cost = with_rounded_slopes(cost, rounding);
  return rounded;
}

std::size_t Sandwich::part_for(TimePs deadline_ps) const {
  std::size_t part = parts.size() - 1;
  while (part > 0 && parts[part].fastest_ps > deadline_ps) --part;
  return part;
}

SandwichSolver::SandwichSolver(const Sandwich& sandwich, WorkReport* work)
    : sandwich_(&sandwich), work_(work), solvers_(sandwich.parts.size()) {}

ContinuousPlan SandwichSolver::solve(TimePs deadline_ps) {
  const std::size_t index = sandwich_->part_for(deadline_ps);
  const Sandwich::Part& part = sandwich_->parts[index];
  if (!solvers_[index]) solvers_[index].emplace(*part.instance, &part.checkpoints, work_);
  return solvers_[index]->solve(deadline_ps);
}

Sandwich solve_sandwich(const ProblemInstance& instance, double epsilon, std::span<FrontierObserver* const> observers,
                        Progress* progress) {
  SandwichWalk walk(instance, observers, progress);
  SlopeRounding rounding{first_quantum_nw(instance), 5};
  std::vector<Sandwich::Part> parts;
  TimePs until_ps = 0;
  double sampling = 1;
  while (true) {
    Sandwich::Part part{std::make_unique<const ProblemInstance>(with_rounded_slopes(instance, rounding)),
                        Checkpoints(instance), until_ps};
    walk.walk(*part.instance, until_ps, sampling, part.checkpoints);
    parts.push_back(std::move(part));
    Frontier frontier = walk.frontier();
    const std::optional<TimePs> beyond = frontier.fastest_beyond(epsilon);
    if (!beyond || sampling == 0) return {std::move(frontier), std::move(parts)};
    // The solutions on either side of a place bound it: walk one sampling step further.
    until_ps = static_cast<TimePs>((1 - 2 * kTimeStep) * static_cast<double>(*beyond));
    if (rounding.quantum_nw == kFinestQuantumNw) {
      rounding = kNoRounding;
      sampling = 0;  // what is left is the exact frontier, every vertex of it
      continue;
    }
    rounding = {std::max(rounding.quantum_nw / 2, kFinestQuantumNw), rounding.divisor * 2};
    // Where finer slopes alone do not help, solutions lie too far apart.
    if (parts.size() >= kPartsBeforeFinerSampling) sampling /= 2;
  }
}

}  // namespace lowgear::planner
