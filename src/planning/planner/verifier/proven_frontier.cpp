#include "planning/planner/verifier/proven_frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "planning/planner/verifier/certificate_reader.h"

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

namespace {

/// Description of an error; empty without one.
using Fault = std::optional<std::string>;

/// Follows the vertices of a certificate and keeps the sums that few ops change from one to the next.
class Walk {
 public:
  explicit Walk(const Pipeline& pipeline)
      : pipeline_(&pipeline),
        energy_zj_(pipeline.ops().size(), 0),
        least_zj_(pipeline.ops().size(), 0),
        start_ps_(pipeline.ops().size()),
        inflow_nw_(pipeline.ops().size()),
        outflow_nw_(pipeline.ops().size()) {
    for (std::size_t op = 0; op < least_zj_.size(); ++op) set_flow(op, 0);
  }

  /// Checks the vertex at which the reader stands, and keeps what it proves.
  [[nodiscard]] Fault add(const CertificateReader& at) {
    if (Fault fault = check_times(at)) return fault;
    if (Fault fault = check_flow(at)) return fault;
    for (const std::size_t op : at.op_time_ps().changed) set_time(op, at.op_time_ps().value[op]);
    for (const std::size_t op : at.op_flow_nw().changed) set_flow(op, at.op_flow_nw().value[op]);
    points_.push_back({at.stated_time_ps(), energy_sum_zj_});
    lines_.push_back({at.stated_flow_nw(), least_sum_zj_});
    return std::nullopt;
  }

  [[nodiscard]] std::optional<ProvenFrontier> result() && {
    if (points_.empty()) return std::nullopt;
    return ProvenFrontier(std::move(points_), std::move(lines_), pipeline_->blocking_power_nw());
  }

 private:
  [[nodiscard]] std::string name_of(std::size_t op) const {
    const PipelineOp& it = pipeline_->ops()[op];
    return fmt::format("op {} ({} of stage {}, microbatch {})", op, name(it.kind), it.stage, it.microbatch);
  }

  [[nodiscard]] Fault check_times(const CertificateReader& at) {
    const Series& times = at.op_time_ps();
    if (points_.empty() && times.changed.size() != times.value.size()) return "it does not give every op a time";
    for (const std::size_t op : times.changed) {
      const CostCurve& curve = pipeline_->curve(op);
      const TimePs time_ps = times.value[op];
      if (time_ps >= curve.fastest_ps() && time_ps <= curve.slowest_ps()) continue;
      return fmt::format("{} takes {} ps, but its clocks take {} to {} ps", name_of(op), time_ps, curve.fastest_ps(),
                         curve.slowest_ps());
    }
    const auto longest_ps = pipeline_->start_times<TimePs>(times.value, start_ps_);
    if (longest_ps == at.stated_time_ps()) return std::nullopt;
    return fmt::format("the longest path takes {} ps, not {} ps", longest_ps, at.stated_time_ps());
  }

  [[nodiscard]] Fault check_flow(const CertificateReader& at) {
    const auto& flow = at.op_flow_nw().value;
    const auto& edge_flow = at.edge_flow_nw().value;
    for (const std::size_t op : at.op_flow_nw().changed) {
      if (flow[op] < 0) return fmt::format("the flow through {} is negative", name_of(op));
    }
    for (const std::size_t edge : at.edge_flow_nw().changed) {
      if (edge_flow[edge] < 0) return fmt::format("the flow along edge {} is negative", edge);
    }
    inflow_nw_.assign(flow.size(), 0);
    outflow_nw_.assign(flow.size(), 0);
    for (std::size_t edge = 0; edge < edge_flow.size(); ++edge) {
      outflow_nw_[pipeline_->precedences()[edge].before] += edge_flow[edge];
      inflow_nw_[pipeline_->precedences()[edge].after] += edge_flow[edge];
    }
    EnergyZj value_nw = 0;  // wide: a sum over all first ops
    for (std::size_t op = 0; op < flow.size(); ++op) {
      if (!pipeline_->has_predecessor(op)) value_nw += flow[op];
      if ((pipeline_->has_predecessor(op) && inflow_nw_[op] != flow[op]) ||
          (pipeline_->has_successor(op) && outflow_nw_[op] != flow[op])) {
        return fmt::format("the flow is not conserved at {}", name_of(op));
      }
    }
    if (value_nw == at.stated_flow_nw()) return std::nullopt;
    return fmt::format("the flow does not have the stated value of {} nW", at.stated_flow_nw());
  }

  void set_time(std::size_t op, TimePs time_ps) {
    const EnergyZj energy_zj = pipeline_->curve(op).energy_zj(time_ps);
    energy_sum_zj_ += energy_zj - energy_zj_[op];
    energy_zj_[op] = energy_zj;
  }

  void set_flow(std::size_t op, PowerNw flow_nw) {
    const EnergyZj least_zj = pipeline_->curve(op).least_at_price_zj(flow_nw);
    least_sum_zj_ += least_zj - least_zj_[op];
    least_zj_[op] = least_zj;
  }

  const Pipeline* pipeline_;
  std::vector<EnergyZj> energy_zj_;  ///< by op, at its time
  std::vector<EnergyZj> least_zj_;   ///< by op, least of energy + flow x time
  EnergyZj energy_sum_zj_ = 0;
  EnergyZj least_sum_zj_ = 0;
  std::vector<TimePs> start_ps_;
  std::vector<PowerNw> inflow_nw_;
  std::vector<PowerNw> outflow_nw_;
  std::vector<Point> points_;
  std::vector<Line> lines_;
};

}  // namespace

std::optional<ProvenFrontier> prove_frontier(const Pipeline& pipeline, const PlanFolder::File& certificate,
                                             Findings& findings, Progress* progress) {
  CertificateReader reader(certificate.text, certificate.name, pipeline.ops().size(), pipeline.precedences().size());
  Walk walk(pipeline);
  while (reader.next()) {
    if (progress != nullptr) progress->update(kVerifying, -1);
    if (const Fault fault = walk.add(reader)) {
      findings.add(fmt::format("{}: {}", reader.where(), *fault));
      return std::nullopt;
    }
  }
  std::optional<ProvenFrontier> proven = std::move(walk).result();
  if (!proven) findings.add(certificate.name + ": it has no vertices, and so proves nothing");
  return proven;
}

}  // namespace lowgear::planner::verifier
