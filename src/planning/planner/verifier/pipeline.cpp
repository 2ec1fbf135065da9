#include "planning/planner/verifier/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "base/core/error.h"

namespace lowgear::planner::verifier {

namespace {

constexpr double kSteepestW = 1e7;

struct CurvePoint {
  TimePs time_ps = 0;
  double energy_j = 0;
};

double slope_w(const CurvePoint& fast, const CurvePoint& slow) {
  return (fast.energy_j - slow.energy_j) / s_from_ps(slow.time_ps - fast.time_ps);
}

/// The measurements as points, fastest first; of one time only the cheapest.
std::vector<CurvePoint> points_of(std::span<const profile::Measurement> measurements, double blocking_power_w) {
  std::vector<CurvePoint> points;
  for (const profile::Measurement& measured : measurements) {
    points.push_back({ps_not_below_s(measured.time_s), measured.energy_j - blocking_power_w * measured.time_s});
  }
  std::sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) {
    return std::tie(a.time_ps, a.energy_j) < std::tie(b.time_ps, b.energy_j);
  });
  const auto same_time = [](const CurvePoint& a, const CurvePoint& b) { return a.time_ps == b.time_ps; };
  points.erase(std::unique(points.begin(), points.end(), same_time), points.end());
  return points;
}

/// The point that the curve goes to from `points[from]`: the one that it falls to most steeply, the slowest of equals;
/// `from` itself when none is cheaper.
std::size_t steepest_descent(std::span<const CurvePoint> points, std::size_t from) {
  std::size_t best = from;
  double best_w = 0;
  for (std::size_t to = from + 1; to < points.size(); ++to) {
    const double w = slope_w(points[from], points[to]);
    if (w > 0 && w >= best_w) {
      best = to;
      best_w = w;
    }
  }
  return best;
}

}  // namespace

CostCurve::CostCurve(std::span<const profile::Measurement> measurements, double blocking_power_w) {
  const std::vector<CurvePoint> points = points_of(measurements, blocking_power_w);
  std::size_t at = 0;
  std::size_t next = steepest_descent(points, at);
  while (next != at && slope_w(points[at], points[next]) > kSteepestW) {
    at = next;
    next = steepest_descent(points, at);
  }
  corners_.push_back({points[at].time_ps, static_cast<EnergyZj>(points[at].energy_j * kZjPerJoule), 0});
  for (; next != at; at = next, next = steepest_descent(points, at)) {
    PowerNw slope_nw = nw_from_w(slope_w(points[at], points[next]));
    if (slope_nw == 0) break;
    if (corners_.size() > 1) slope_nw = std::min(slope_nw, corners_[corners_.size() - 2].slope_nw);
    Corner& here = corners_.back();
    here.slope_nw = slope_nw;
    const TimePs time_ps = points[next].time_ps;
    corners_.push_back({time_ps, here.energy_zj - static_cast<EnergyZj>(slope_nw) * (time_ps - here.time_ps), 0});
  }
}

EnergyZj CostCurve::energy_zj(TimePs time_ps) const {
  const auto slower = std::upper_bound(corners_.begin(), corners_.end(), time_ps,
                                       [](TimePs time, const Corner& corner) { return time < corner.time_ps; });
  const Corner& corner = *std::prev(slower);
  return corner.energy_zj - static_cast<EnergyZj>(corner.slope_nw) * (time_ps - corner.time_ps);
}

EnergyZj CostCurve::least_at_price_zj(PowerNw price_nw) const {
  const auto with_price = [&](const Corner& corner) {
    return corner.energy_zj + static_cast<EnergyZj>(price_nw) * corner.time_ps;
  };
  EnergyZj least = with_price(corners_.front());
  for (const Corner& corner : corners_) least = std::min(least, with_price(corner));
  return least;
}

namespace {

/// A computation that is waited for: its stage, kind and microbatch.
using OpName = std::tuple<int, OpKind, int>;

/// Which computation of which other stage may need what `op` makes, each kind of backward included. At most one of
/// them exists in a schedule.
std::vector<OpName> consumers(const PipelineOp& op) {
  if (op.kind == OpKind::forward) return {{op.stage + 1, OpKind::forward, op.microbatch}};
  if (op.kind == OpKind::weight_gradient || op.kind == OpKind::recomputation) return {};
  std::vector<OpName> gradients;
  for (const OpKind kind : {OpKind::backward, OpKind::input_gradient, OpKind::recomputing_backward}) {
    gradients.emplace_back(op.stage - 1, kind, op.microbatch);
  }
  return gradients;
}

/// What of the same stage, and so of the same rank, has to run before `op`.
std::vector<OpName> own_inputs(const PipelineOp& op) {
  switch (op.kind) {
    case OpKind::forward:
      return {};
    case OpKind::weight_gradient:
      return {{op.stage, OpKind::input_gradient, op.microbatch}};
    case OpKind::recomputation:
      return {{op.stage, OpKind::forward, op.microbatch}};
    default:
      return {{op.stage, OpKind::forward, op.microbatch}, {op.stage, OpKind::recomputation, op.microbatch}};
  }
}

}  // namespace

Pipeline::Pipeline(const schedule::Schedule& schedule, const profile::StageProfile& profile,
                   std::span<const double> blocking_power_w)
    : ranks_(schedule.rank_count()) {
  for (const double power_w : blocking_power_w) blocking_power_nw_ += nw_from_w(power_w);
  add_ops(schedule);
  add_curves(profile, blocking_power_w);
  add_precedences(schedule);
  index_precedences();
  sort_ops(schedule.name);
}

void Pipeline::add_ops(const schedule::Schedule& schedule) {
  for (int rank = 0; rank < ranks_; ++rank) {
    for (const schedule::Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
      if (action.kind == schedule::ActionKind::compute)
        ops_.push_back({rank, action.stage, action.op, action.microbatch, 0});
    }
  }
}

void Pipeline::add_curves(const profile::StageProfile& profile, std::span<const double> blocking_power_w) {
  std::map<std::pair<int, OpKind>, std::size_t> curve_of;
  double slowest_sum_s = 0;
  for (PipelineOp& op : ops_) {
    const auto [found, is_new] = curve_of.try_emplace({op.stage, op.kind}, curves_.size());
    op.curve = found->second;
    if (is_new) {
      (void)profile.at_max_clock(op.stage, op.kind);  // throws when there is none
      curves_.emplace_back(profile.measurements(op.stage, op.kind),
                           blocking_power_w[static_cast<std::size_t>(op.rank)]);
    }
    slowest_sum_s += s_from_ps(curves_[op.curve].slowest_ps());
  }
  if (slowest_sum_s > kMaxTimeS) throw InputError("profile.csv: the ops take more than 10^6 s together");
}

void Pipeline::add_precedences(const schedule::Schedule& schedule) {
  std::map<OpName, std::size_t> place;
  for (std::size_t op = 0; op < ops_.size(); ++op) place[{ops_[op].stage, ops_[op].kind, ops_[op].microbatch}] = op;
  for (std::size_t op = 0; op < ops_.size(); ++op) {
    for (const OpName& input : own_inputs(ops_[op])) {
      const auto found = place.find(input);
      if (found != place.end() && found->second > op) {
        throw InputError(fmt::format("{}: rank {} runs the {} of stage {}, microbatch {}, before what it needs",
                                     schedule.name, ops_[op].rank, name(ops_[op].kind), ops_[op].stage,
                                     ops_[op].microbatch));
      }
    }
    if (op + 1 < ops_.size() && ops_[op + 1].rank == ops_[op].rank) precedences_.push_back({op, op + 1});
    for (const OpName& consumer : consumers(ops_[op])) {
      const auto found = place.find(consumer);
      if (found == place.end()) continue;
      // Within a rank the order says it already, or contradicts it, and then the sort does not end.
      const bool implied = ops_[found->second].rank == ops_[op].rank && found->second > op;
      if (!implied) precedences_.push_back({op, found->second});
    }
  }
}

void Pipeline::index_precedences() {
  predecessor_begin_.assign(ops_.size() + 1, 0);
  successor_begin_.assign(ops_.size() + 1, 0);
  for (const Precedence& it : precedences_) {
    ++predecessor_begin_[it.after + 1];
    ++successor_begin_[it.before + 1];
  }
  for (std::size_t op = 0; op < ops_.size(); ++op) {
    predecessor_begin_[op + 1] += predecessor_begin_[op];
    successor_begin_[op + 1] += successor_begin_[op];
  }
  predecessors_.resize(precedences_.size());
  std::vector<std::size_t> next = predecessor_begin_;
  for (const Precedence& it : precedences_) predecessors_[next[it.after]++] = it.before;
}

void Pipeline::sort_ops(const std::string& source) {
  std::vector<std::size_t> waiting_for(ops_.size(), 0);
  for (std::size_t op = 0; op < ops_.size(); ++op) {
    waiting_for[op] = predecessor_begin_[op + 1] - predecessor_begin_[op];
    if (waiting_for[op] == 0) order_.push_back(op);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    for (std::size_t k = successor_begin_[order_[i]]; k < successor_begin_[order_[i] + 1]; ++k) {
      const std::size_t after = precedences_[k].after;
      if (--waiting_for[after] == 0) order_.push_back(after);
    }
  }
  if (order_.size() != ops_.size()) throw InputError(source + ": the dependencies of its computations cycle");
}

std::optional<std::string> blocking_power_fault(std::span<const double> by_rank_w, std::string_view run_name,
                                                std::span<const double> by_stage_w, std::string_view profile_name,
                                                std::span<const int> rank_of_stage) {
  for (std::size_t stage = 0; stage < std::min(by_stage_w.size(), rank_of_stage.size()); ++stage) {
    const auto rank = static_cast<std::size_t>(rank_of_stage[stage]);
    if (by_rank_w[rank] == by_stage_w[stage]) continue;
    return fmt::format("{}: blocking_power_w[{}] is {} W, but {} states {} W for stage {}; plan again", run_name, rank,
                       by_rank_w[rank], profile_name, by_stage_w[stage], stage);
  }
  return std::nullopt;
}

}  // namespace lowgear::planner::verifier
