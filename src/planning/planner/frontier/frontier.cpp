#include "planning/planner/frontier/frontier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/core/units.h"

namespace lowgear::planner {

namespace {

EnergyZj value_at(const BoundLine& line, TimePs time_ps) {
  return line.intercept_zj - static_cast<EnergyZj>(line.slope_nw) * time_ps;
}

/// Time at which two lines of different slope meet, rounded down.
TimePs crossing_ps(const BoundLine& steep, const BoundLine& flat) {
  return static_cast<TimePs>((steep.intercept_zj - flat.intercept_zj) / (steep.slope_nw - flat.slope_nw));
}

/// The lines that are highest somewhere, steepest first: where the one before `line` gives way to it must be faster
/// than where it gives way to the next.
std::vector<BoundLine> upper_envelope(std::vector<BoundLine> bounds) {
  // Extended precision: a line dropped by a rounding error of 1e-19 touches the envelope in a point.
  const auto crossing = [](const BoundLine& steep, const BoundLine& flat) {
    return static_cast<long double>(steep.intercept_zj - flat.intercept_zj) /
           static_cast<long double>(steep.slope_nw - flat.slope_nw);
  };
  std::stable_sort(bounds.begin(), bounds.end(), [](const BoundLine& a, const BoundLine& b) {
    return a.slope_nw != b.slope_nw ? a.slope_nw > b.slope_nw : a.intercept_zj > b.intercept_zj;
  });
  std::vector<BoundLine> envelope;
  for (const BoundLine& line : bounds) {
    if (!envelope.empty() && envelope.back().slope_nw == line.slope_nw) continue;
    while (envelope.size() >= 2 &&
           crossing(envelope[envelope.size() - 2], envelope.back()) >= crossing(envelope.back(), line)) {
      envelope.pop_back();
    }
    envelope.push_back(line);
  }
  return envelope;
}

/// Walks from the slowest solution to T*, the fastest from which another unit of time costs at least as much blocking
/// energy as it saves. The flow is then exactly the blocking power: it proves that no iteration, however slow, uses
/// less energy.
void walk_to_least_energy(FrontierSolver& solver, PowerNw blocking_power_nw) {
  while (solver.saturate(blocking_power_nw) == FrontierSolver::Saturation::shorter_possible) solver.shorten();
}

}  // namespace

TimePs fastest_makespan_ps(const ProblemInstance& instance) {
  std::vector<TimePs> fastest_ps(static_cast<std::size_t>(instance.op_count()));
  for (int op = 0; op < instance.op_count(); ++op) {
    fastest_ps[static_cast<std::size_t>(op)] = instance.cost(op).fastest_ps();
  }
  return makespan_ps(instance, fastest_ps);
}

Frontier::Frontier(std::vector<FrontierVertex> vertices, std::vector<BoundLine> bounds, PowerNw blocking_power_nw)
    : vertices_(std::move(vertices)),
      bounds_(upper_envelope(std::move(bounds))),
      blocking_power_nw_(blocking_power_nw) {}

double Frontier::energy_j(const FrontierVertex& vertex) const {
  return j_from_zj(vertex.effective_energy_zj + static_cast<EnergyZj>(blocking_power_nw_) * vertex.time_ps);
}

double Frontier::energy_j_at(TimePs time_ps) const {
  const TimePs at_ps = std::clamp(time_ps, fastest_ps(), slowest_ps());
  const auto slower = std::lower_bound(vertices_.begin(), vertices_.end(), at_ps,
                                       [](const FrontierVertex& v, TimePs t) { return v.time_ps < t; });
  if (slower == vertices_.begin()) return energy_j(*slower);
  const FrontierVertex& a = *std::prev(slower);
  const FrontierVertex& b = *slower;
  const double share = static_cast<double>(at_ps - a.time_ps) / static_cast<double>(b.time_ps - a.time_ps);
  return energy_j(a) + share * (energy_j(b) - energy_j(a));
}

EnergyZj Frontier::bound_zj(TimePs time_ps) const {
  EnergyZj best = value_at(bounds_.front(), time_ps);
  for (const BoundLine& line : bounds_) best = std::max(best, value_at(line, time_ps));
  return best;
}

double Frontier::lower_bound_j_at(TimePs time_ps) const {
  const TimePs at_ps = std::max(time_ps, fastest_ps());
  return j_from_zj(bound_zj(at_ps) + static_cast<EnergyZj>(blocking_power_nw_) * at_ps);
}

double Frontier::distance_at(TimePs time_ps) const {
  const double bound_j = lower_bound_j_at(time_ps);
  return (energy_j_at(time_ps) - bound_j) / bound_j;
}

/// The flattest bound is level in total energy where its slope is the blocking power. One that is steeper falls for
/// ever, and bounds the least energy by what it is at T*.
double Frontier::distance_of_least_energy() const {
  const BoundLine& flattest = bounds_.back();
  if (flattest.slope_nw != blocking_power_nw_) return distance_at(slowest_ps());
  const double bound_j = j_from_zj(flattest.intercept_zj);
  return (energy_j(vertices_.back()) - bound_j) / bound_j;
}

/// Achievable energy is linear between vertices and the bound is convex, so that their distance is largest at a vertex
/// or where two neighbouring lines of the bound meet.
std::vector<TimePs> Frontier::widest_times() const {
  std::vector<TimePs> times;
  for (const FrontierVertex& vertex : vertices_) times.push_back(vertex.time_ps);
  for (std::size_t k = 1; k < bounds_.size(); ++k) {
    const TimePs time_ps = crossing_ps(bounds_[k - 1], bounds_[k]);
    if (time_ps > fastest_ps() && time_ps < slowest_ps()) times.push_back(time_ps);
  }
  return times;
}

double Frontier::epsilon() const {
  double epsilon = std::max(0.0, distance_of_least_energy());
  for (const TimePs time_ps : widest_times()) epsilon = std::max(epsilon, distance_at(time_ps));
  return epsilon;
}

std::optional<TimePs> Frontier::fastest_beyond(double epsilon) const {
  std::optional<TimePs> fastest;
  if (distance_of_least_energy() > epsilon) fastest = slowest_ps();
  for (const TimePs time_ps : widest_times()) {
    if (distance_at(time_ps) > epsilon && (!fastest || time_ps < *fastest)) fastest = time_ps;
  }
  return fastest;
}

Checkpoints::Checkpoints(const ProblemInstance& instance)
    : ops_(static_cast<std::size_t>(instance.op_count())), fastest_ps_(fastest_makespan_ps(instance)) {}

void Checkpoints::vertex(const FrontierSolver& solver) {
  if (!places_.empty()) return;
  grid_ = deadline_grid(fastest_ps_, solver.time_ps(), ops_);
  ahead_ = grid_.count;
  places_.push_back({solver.time_ps(), solver.save()});
}

void Checkpoints::leaving(const FrontierSolver& solver) {
  const auto passes_by = [&](TimePs time_ps) { return ahead_ > 0 && grid_.at_ps(ahead_ - 1) >= time_ps; };
  while (passes_by(solver.time_ps())) --ahead_;
  const TimePs next_ps = solver.time_ps() - solver.step_ps();
  if (!passes_by(next_ps)) return;
  while (passes_by(next_ps)) --ahead_;
  places_.push_back({solver.time_ps(), solver.save()});
}

const FrontierSolver::State* Checkpoints::before(TimePs time_ps) const {
  if (places_.empty() || places_.front().time_ps < time_ps) return nullptr;
  const FrontierSolver::State* found = &places_.front().state;
  for (const Place& place : places_) {
    if (place.time_ps <= time_ps) break;  // slowest first
    found = &place.state;
  }
  return found;
}

Frontier solve_frontier(const ProblemInstance& instance, std::span<FrontierObserver* const> observers,
                        Progress* progress) {
  WorkReport work(progress);
  work.begin("looking for the least energy", -1);
  FrontierSolver solver(instance, &work);
  std::vector<FrontierVertex> vertices;
  std::vector<BoundLine> bounds;
  const auto record = [&] {
    // The flow is optimal at this vertex, so that its line passes through it.
    bounds.push_back({solver.flow_value_nw(),
                      solver.effective_energy_zj() + static_cast<EnergyZj>(solver.flow_value_nw()) * solver.time_ps()});
    vertices.push_back({solver.time_ps(), solver.effective_energy_zj()});
    for (FrontierObserver* observer : observers) observer->vertex(solver);
  };
  walk_to_least_energy(solver, instance.blocking_power_nw);
  record();
  const auto slowest_ps = static_cast<double>(solver.time_ps());
  const double range_ps = slowest_ps - static_cast<double>(fastest_makespan_ps(instance));
  while (solver.saturate() == FrontierSolver::Saturation::shorter_possible) {
    for (FrontierObserver* observer : observers) observer->leaving(solver);
    solver.shorten();
    record();
    work.begin("solving the frontier", (slowest_ps - static_cast<double>(solver.time_ps())) / range_ps);
  }
  std::reverse(vertices.begin(), vertices.end());
  std::reverse(bounds.begin(), bounds.end());
  return {std::move(vertices), std::move(bounds), instance.blocking_power_nw};
}

DeadlineSolver::DeadlineSolver(const ProblemInstance& instance, const Checkpoints* checkpoints, WorkReport* work)
    : solver_(instance, work), slowest_(solver_.save()), checkpoints_(checkpoints) {}

ContinuousPlan DeadlineSolver::solve(TimePs deadline_ps) {
  const FrontierSolver::State* checkpoint = checkpoints_ == nullptr ? nullptr : checkpoints_->before(deadline_ps);
  solver_.restore(checkpoint == nullptr ? slowest_ : *checkpoint);
  while (solver_.time_ps() > deadline_ps && solver_.saturate() == FrontierSolver::Saturation::shorter_possible) {
    solver_.shorten(deadline_ps);
  }
  ContinuousPlan plan;
  plan.deadline_ps = deadline_ps;
  plan.op_flow_nw.assign(solver_.op_flow_nw().begin(), solver_.op_flow_nw().end());
  const std::size_t ops = plan.op_flow_nw.size();
  plan.op_time_ps.resize(ops);
  solver_.op_times(plan.op_time_ps);
  plan.start_by_ps.resize(ops);
  plan.finish_by_ps.resize(ops);
  for (std::size_t op = 0; op < ops; ++op) {
    plan.start_by_ps[op] = solver_.start_event_ps(static_cast<int>(op));
    plan.finish_by_ps[op] = solver_.finish_event_ps(static_cast<int>(op));
  }
  return plan;
}

BoundLine bound_of_flow(const ProblemInstance& instance, std::span<const PowerNw> op_flow_nw, PowerNw flow_value_nw) {
  EnergyZj intercept_zj = 0;
  for (int op = 0; op < instance.op_count(); ++op) {
    // Convex: the minimum is at the slowest breakpoint that still saves more per time than the flow charges.
    const ConvexCost& cost = instance.cost(op);
    const PowerNw flow_nw = op_flow_nw[static_cast<std::size_t>(op)];
    EnergyZj least_zj = cost.energy_at_fastest_zj + static_cast<EnergyZj>(flow_nw) * cost.time_ps.front();
    for (std::size_t j = 0; j < cost.slope_nw.size() && cost.slope_nw[j] > flow_nw; ++j) {
      least_zj -= static_cast<EnergyZj>(cost.slope_nw[j] - flow_nw) * (cost.time_ps[j + 1] - cost.time_ps[j]);
    }
    intercept_zj += least_zj;
  }
  return {flow_value_nw, intercept_zj};
}

EnergyZj effective_energy_zj(const ProblemInstance& instance, std::span<const TimePs> op_time_ps) {
  EnergyZj sum_zj = 0;
  for (int op = 0; op < instance.op_count(); ++op) {
    sum_zj += instance.cost(op).energy_zj(op_time_ps[static_cast<std::size_t>(op)]);
  }
  return sum_zj;
}

}  // namespace lowgear::planner
