#include "planning/planner/frontier/instance.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/core/error.h"

namespace lowgear::planner {

namespace {

/// No GPU saves energy at this rate; two clocks whose times differ by nanoseconds of noise seem to.
constexpr double kMaxSlopeW = 1e7;

}  // namespace

EnergyZj ConvexCost::energy_zj(TimePs at_ps) const {
  EnergyZj energy = energy_at_fastest_zj;
  for (std::size_t j = 0; j < slope_nw.size() && time_ps[j] < at_ps; ++j) {
    energy -= static_cast<EnergyZj>(slope_nw[j]) * (std::min(at_ps, time_ps[j + 1]) - time_ps[j]);
  }
  return energy;
}

ConvexCost convex_cost(std::span<const profile::Option> options) {
  if (options.empty()) throw InputError("an op has no clock to run at");
  if (options.back().time_s > kMaxTimeS) throw InputError("an op takes more than 10^6 s; check the unit of time");
  struct Point {
    TimePs time_ps;
    double energy_j;
  };
  const auto slope_w = [](const Point& fast, const Point& slow) {
    return (fast.energy_j - slow.energy_j) / s_from_ps(slow.time_ps - fast.time_ps);
  };
  // The hull is that of the rounded times: rounding bends a hull of clocks that are picoseconds apart.
  std::vector<Point> points;
  for (const profile::Option& option : options) {
    const Point next{ps_not_below_s(option.time_s), option.effective_energy_j};
    const auto last_is_beaten = [&] {
      if (points.back().time_ps == next.time_ps || slope_w(points.back(), next) > kMaxSlopeW) return true;
      return points.size() >= 2 && slope_w(points[points.size() - 2], points.back()) <= slope_w(points.back(), next);
    };
    while (!points.empty() && last_is_beaten()) points.pop_back();
    points.push_back(next);
  }

  ConvexCost cost;
  cost.energy_at_fastest_zj = static_cast<EnergyZj>(points.front().energy_j * kZjPerJoule);
  cost.time_ps.push_back(points.front().time_ps);
  for (std::size_t j = 1; j < points.size(); ++j) {
    const PowerNw slope = nw_from_w(slope_w(points[j - 1], points[j]));
    if (slope <= 0) break;  // nothing to the nanowatt is saved from here on
    if (!cost.slope_nw.empty() && slope >= cost.slope_nw.back()) {
      cost.time_ps.back() = points[j].time_ps;  // one piece with the one before, to the nanowatt
      continue;
    }
    cost.slope_nw.push_back(slope);
    cost.time_ps.push_back(points[j].time_ps);
  }
  return cost;
}

TimePs makespan_ps(const ProblemInstance& instance, std::span<const TimePs> time_ps) {
  std::vector<TimePs> finish_ps(time_ps.size());
  return PrecedenceGraph(instance).finish_times(time_ps, finish_ps);
}

namespace {

/// Groups `item(edge)` by `key(edge)` in compressed rows.
template <typename Key, typename Item>
void group(const std::vector<schedule::DagEdge>& edges, std::size_t ops, Key key, Item item,
           std::vector<std::int32_t>& begin, std::vector<std::int32_t>& items) {
  begin.assign(ops + 1, 0);
  for (const schedule::DagEdge& edge : edges) ++begin[static_cast<std::size_t>(key(edge)) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  items.resize(edges.size());
  std::vector<std::int32_t> next(begin.begin(), begin.end() - 1);
  for (const schedule::DagEdge& edge : edges) {
    items[static_cast<std::size_t>(next[static_cast<std::size_t>(key(edge))]++)] = item(edge);
  }
}

}  // namespace

PrecedenceGraph::PrecedenceGraph(const ProblemInstance& instance)
    : order_(instance.topological_order.begin(), instance.topological_order.end()),
      reverse_order_(instance.topological_order.rbegin(), instance.topological_order.rend()) {
  const auto from = [](const schedule::DagEdge& edge) { return edge.from; };
  const auto to = [](const schedule::DagEdge& edge) { return edge.to; };
  const std::size_t ops = order_.size();
  group(instance.edges, ops, to, from, predecessor_begin_, predecessors_);
  group(instance.edges, ops, from, to, successor_begin_, successors_);
}

TimePs PrecedenceGraph::finish_times(std::span<const TimePs> time_ps, std::span<TimePs> finish_ps) const {
  TimePs makespan_ps = 0;
  for (const std::int32_t op : order_) {
    TimePs start_ps = 0;
    for (const std::int32_t before : predecessors(op)) {
      start_ps = std::max(start_ps, finish_ps[static_cast<std::size_t>(before)]);
    }
    finish_ps[static_cast<std::size_t>(op)] = start_ps + time_ps[static_cast<std::size_t>(op)];
    makespan_ps = std::max(makespan_ps, finish_ps[static_cast<std::size_t>(op)]);
  }
  return makespan_ps;
}

}  // namespace lowgear::planner
