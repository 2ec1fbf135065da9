#include "planning/workflow/joint_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

#include "base/core/formats/csv.h"

namespace lowgear::workflow {
namespace {

using Curve = std::vector<simulator::PipelineFigures>;

/// Infinite before the curve's first time; after its last, where waiting only uses energy, that of its last.
double energy_j_at(const Curve& curve, double time_s) {
  if (time_s < curve.front().time_s) return std::numeric_limits<double>::infinity();
  const auto slower = std::ranges::lower_bound(curve, time_s, {}, &simulator::PipelineFigures::time_s);
  if (slower == curve.end()) return curve.back().energy_j;
  if (slower == curve.begin()) return slower->energy_j;
  const simulator::PipelineFigures& fast = *std::prev(slower);
  const double share = (time_s - fast.time_s) / (slower->time_s - fast.time_s);
  return fast.energy_j + share * (slower->energy_j - fast.energy_j);
}

std::size_t best_at(std::span<const Curve> curves, double time_s) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < curves.size(); ++i) {
    if (energy_j_at(curves[i], time_s) < energy_j_at(curves[best], time_s)) best = i;
  }
  return best;
}

JointPoint point_at(std::span<const Curve> curves, std::size_t order, double time_s) {
  return {time_s, energy_j_at(curves[order], time_s), static_cast<int>(order)};
}

/// From `before` to where another order is best: the points of both at each change of the order up to `time_s`.
void add_changes(std::span<const Curve> curves, double time_s, std::vector<JointPoint>& points) {
  constexpr int kHalvings = 50;
  const auto next = static_cast<int>(best_at(curves, time_s));
  for (std::size_t changes = 0; changes < curves.size() && points.back().order != next; ++changes) {
    const auto present = static_cast<std::size_t>(points.back().order);
    double still_s = points.back().time_s;
    double changed_s = time_s;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle_s = still_s + (changed_s - still_s) / 2;
      (best_at(curves, middle_s) == present ? still_s : changed_s) = middle_s;
    }
    points.push_back(point_at(curves, present, changed_s));
    points.push_back(point_at(curves, best_at(curves, changed_s), changed_s));
  }
}

}  // namespace

std::string describe(const PartitionRun& partition, const simulator::PipelineFigures& shown_plan) {
  std::string text = fmt::format("layers by rank: {} instead of {}", fmt::join(partition.chosen, ","),
                                 fmt::join(partition.given, ","));
  if (partition.chosen == partition.given) {
    text = fmt::format("layers by rank: {} as given", fmt::join(partition.given, ","));
  } else if (partition.given_plan) {
    constexpr double kPercent = 100;
    const simulator::PipelineFigures& given = *partition.given_plan;
    text += fmt::format(", whose own joint plan uses {:.6g} J in {:.6g} s (planned, replayed): {:+.2f} % energy",
                        given.energy_j, given.time_s, kPercent * (shown_plan.energy_j / given.energy_j - 1));
  } else {
    text += ", whose orders cannot keep the plan's deadline";
  }
  return text + fmt::format("; best of {} tried, not proven best: bounds are of this partition", partition.tried);
}

std::string write_joint_frontier(std::span<const JointPoint> points) {
  std::string out = "time_s,energy_j,order\n";
  for (const JointPoint& point : points) {
    fmt::format_to(std::back_inserter(out), "{},{},{}\n", point.time_s, point.energy_j, point.order);
  }
  return out;
}

std::vector<JointPoint> read_joint_frontier(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  if (table.rows() == 0) throw_input_error({source, 0, 0}, "has no rows", "plan again");
  const std::size_t time = table.column("time_s");
  const std::size_t energy = table.column("energy_j");
  const std::size_t order = table.column("order");
  std::vector<JointPoint> points;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const long long number = table.integer(row, order);
    constexpr long long kMost = 1000;
    if (number < 0 || number > kMost) throw_input_error(table.where(row, order), fmt::format("no order {}", number));
    points.push_back({table.number(row, time), table.number(row, energy), static_cast<int>(number)});
  }
  return points;
}

std::vector<JointPoint> joint_frontier(std::span<const Curve> frontiers) {
  std::vector<double> times_s;
  for (const Curve& curve : frontiers) {
    for (const simulator::PipelineFigures& vertex : curve) times_s.push_back(vertex.time_s);
  }
  std::ranges::sort(times_s);
  times_s.erase(std::ranges::unique(times_s).begin(), times_s.end());
  std::vector<JointPoint> points;
  for (const double time_s : times_s) {
    if (!points.empty()) add_changes(frontiers, time_s, points);
    const JointPoint point = point_at(frontiers, best_at(frontiers, time_s), time_s);
    if (!points.empty() && point.energy_j >= points.back().energy_j) continue;
    points.push_back(point);
  }
  return points;
}

}  // namespace lowgear::workflow
