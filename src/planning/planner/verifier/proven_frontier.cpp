#include "planning/planner/verifier/proven_frontier.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace lowgear::planner::verifier {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A fraction as its whole part, rounded down, and the rest: the products that comparing needs then fit into 128 bits.
struct Fraction {
  EnergyZj whole = 0;
  EnergyZj rest = 0;  ///< of the divisor
  EnergyZj divisor = 1;

  Fraction(EnergyZj dividend, std::int64_t by) : whole(dividend / by), rest(dividend % by), divisor(by) {
    if (rest < 0) {
      --whole;
      rest += divisor;
    }
  }
  [[nodiscard]] EnergyZj rounded_up() const { return rest == 0 ? whole : whole + 1; }
  friend bool operator<=(const Fraction& a, const Fraction& b) {
    return a.whole != b.whole ? a.whole < b.whole : a.rest * b.divisor <= b.rest * a.divisor;
  }
};

/// Energy saved per time from `fast` to `slow`.
Fraction fall(const Point& fast, const Point& slow) {
  return {fast.energy_zj - slow.energy_zj, slow.time_ps - fast.time_ps};
}

/// Time at which two lines meet.
Fraction crossing(const Line& steep, const Line& flat) {
  return {steep.intercept_zj - flat.intercept_zj, steep.slope_nw - flat.slope_nw};
}

/// The points that no line between two others passes below, up to the fastest one of least total energy.
std::vector<Point> lower_chain(std::vector<Point> points, PowerNw blocking_power_nw) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.time_ps != b.time_ps ? a.time_ps < b.time_ps : a.energy_zj < b.energy_zj;
  });
  std::vector<Point> chain;
  for (const Point& next : points) {
    if (!chain.empty() && chain.back().time_ps == next.time_ps) continue;
    while (chain.size() > 1 && fall(chain[chain.size() - 2], chain.back()) <= fall(chain.back(), next)) {
      chain.pop_back();
    }
    chain.push_back(next);
  }
  const Fraction no_saving(blocking_power_nw, 1);  // waiting costs as much as is saved
  while (chain.size() > 1 && fall(chain[chain.size() - 2], chain.back()) <= no_saving) chain.pop_back();
  return chain;
}

std::vector<Line> upper_envelope(std::vector<Line> lines) {
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return a.slope_nw != b.slope_nw ? a.slope_nw > b.slope_nw : a.intercept_zj > b.intercept_zj;
  });
  std::vector<Line> envelope;
  for (const Line& next : lines) {
    if (!envelope.empty() && envelope.back().slope_nw == next.slope_nw) continue;
    while (envelope.size() > 1 &&
           crossing(envelope.back(), next) <= crossing(envelope[envelope.size() - 2], envelope.back())) {
      envelope.pop_back();
    }
    envelope.push_back(next);
  }
  return envelope;
}

}  // namespace

ProvenFrontier::ProvenFrontier(std::vector<Point> points, std::vector<Line> lines, PowerNw blocking_power_nw)
    : chain_(lower_chain(std::move(points), blocking_power_nw)), blocking_power_nw_(blocking_power_nw) {
  const TimePs end_ps = chain_.back().time_ps;
  for (const Line& line : lines) {
    if (line.slope_nw > blocking_power_nw) continue;
    if (!slow_line_ || line.at(end_ps) > slow_line_->at(end_ps)) slow_line_ = line;
  }
  envelope_ = upper_envelope(std::move(lines));
}

double ProvenFrontier::energy_j(const Point& point) const {
  return j_from_zj(point.energy_zj + static_cast<EnergyZj>(blocking_power_nw_) * point.time_ps);
}

/// The line of the envelope that is highest at a time.
const Line& ProvenFrontier::highest_at(TimePs time_ps) const {
  std::size_t low = 0;
  std::size_t high = envelope_.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (envelope_[middle].at(time_ps) < envelope_[middle + 1].at(time_ps)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return envelope_[low];
}

double ProvenFrontier::lower_bound_j(TimePs time_ps) const {
  const TimePs at_ps = std::max(time_ps, chain_.front().time_ps);
  return energy_j({at_ps, highest_at(at_ps).at(at_ps)});
}

/// The chain at a time within its ends, rounded up.
EnergyZj ProvenFrontier::chain_at(TimePs time_ps) const {
  const auto slower = std::lower_bound(chain_.begin(), chain_.end(), time_ps,
                                       [](const Point& point, TimePs time) { return point.time_ps < time; });
  if (slower->time_ps == time_ps) return slower->energy_zj;
  const Point& fast = *std::prev(slower);
  const Fraction slope = fall(fast, *slower);
  const EnergyZj passed_ps = time_ps - fast.time_ps;
  return fast.energy_zj - (slope.whole * passed_ps + slope.rest * passed_ps / slope.divisor);
}

double ProvenFrontier::distance(EnergyZj achieved_zj, EnergyZj bound_zj, TimePs time_ps) const {
  if (achieved_zj <= bound_zj) return 0;
  const double bound_j = energy_j({time_ps, bound_zj});
  return bound_j > 0 ? j_from_zj(achieved_zj - bound_zj) / bound_j : kInfinity;
}

double ProvenFrontier::epsilon() const {
  // The chain is linear between its vertices and the envelope convex, so that their distance is largest at a vertex or
  // where two lines meet.
  double epsilon = distance_at_kinks();
  for (const Point& vertex : chain_) {
    epsilon =
        std::max(epsilon, distance(vertex.energy_zj, highest_at(vertex.time_ps).at(vertex.time_ps), vertex.time_ps));
  }
  const Point& end = chain_.back();
  if (!slow_line_) return kInfinity;
  return std::max(epsilon, distance(end.energy_zj, slow_line_->at(end.time_ps), end.time_ps));
}

double ProvenFrontier::distance_at_kinks() const {
  double largest = 0;
  for (std::size_t k = 1; k < envelope_.size(); ++k) {
    const Fraction kink_ps = crossing(envelope_[k - 1], envelope_[k]);
    if (kink_ps.whole < chain_.front().time_ps || kink_ps.rounded_up() > chain_.back().time_ps) continue;
    // Both fall with time: before the kink the chain is higher than there, and after it the bound is lower.
    const auto before_ps = static_cast<TimePs>(kink_ps.whole);
    const auto behind_ps = static_cast<TimePs>(kink_ps.rounded_up());
    largest = std::max(largest, distance(chain_at(before_ps), envelope_[k].at(behind_ps), behind_ps));
  }
  return largest;
}

}  // namespace lowgear::planner::verifier
