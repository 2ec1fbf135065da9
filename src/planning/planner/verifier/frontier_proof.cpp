#include "planning/planner/verifier/frontier_proof.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planning/planner/verifier/certificate_reader.h"

namespace lowgear::planner::verifier {
namespace {

/// What is wrong, if anything.
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
                                             Findings& findings) {
  CertificateReader reader(certificate.text, certificate.name, pipeline.ops().size(), pipeline.precedences().size());
  Walk walk(pipeline);
  while (reader.next()) {
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
