#include "planner/latency_planner.h"

#include <algorithm>
#include <utility>

namespace lowgear {
namespace {

constexpr int kDeadlineBisections = 10;

/// Replays, times ops, that improving a plan may cost: about a second.
constexpr std::size_t kMaxReplayedOps = 20'000'000;

/// Relative; what is less comes of rounding.
constexpr double kLeastGain = 1e-9;

}  // namespace

LatencyPlanner::LatencyPlanner(const PipelineDag& dag, const StageProfile& profile,
                               std::span<const double> blocking_power_w, double latency_s)
    : dag_(&dag), profile_(&profile), blocking_power_w_(blocking_power_w), latency_s_(latency_s), graph_(dag) {}

ReplayedClocks LatencyPlanner::replayed(std::vector<int> clocks_mhz) const {
  const std::vector<OpCost> costs = costs_with_switch_latency(*dag_, *profile_, clocks_mhz, latency_s_);
  return {std::move(clocks_mhz), replay(*dag_, graph_, costs, blocking_power_w_)};
}

std::optional<ReplayedClocks> LatencyPlanner::plan(std::span<const Proposal> proposals, TimePs fastest_ps,
                                                   TimePs deadline_ps) const {
  std::optional<ReplayedClocks> best;
  for (const Proposal& proposal : proposals) {
    std::optional<ReplayedClocks> found = slowest_in_time(proposal, fastest_ps, deadline_ps);
    if (found && (!best || found->timeline.energy_j_total < best->timeline.energy_j_total)) best = std::move(found);
  }
  if (!best) return best;
  std::size_t trials = kMaxReplayedOps / std::max<std::size_t>(dag_->ops.size(), 1);
  double before_j = 0;
  do {
    before_j = best->timeline.energy_j_total;
    take_out_changes(*best, deadline_ps, trials);
    slow_down_ops(*best, deadline_ps, trials);
  } while (best->timeline.energy_j_total < before_j * (1 - kLeastGain) && trials > 0);
  return best;
}

std::optional<ReplayedClocks> LatencyPlanner::slowest_in_time(const Proposal& proposal, TimePs fastest_ps,
                                                              TimePs deadline_ps) const {
  const auto try_deadline = [&](TimePs tighter_ps) -> std::optional<ReplayedClocks> {
    std::optional<std::vector<int>> clocks = proposal(tighter_ps);
    if (!clocks) return std::nullopt;
    ReplayedClocks found = replayed(std::move(*clocks));
    if (ps_from_s(found.timeline.time_s) > deadline_ps) found = replayed(rises_in_advance(found.clocks_mhz));
    if (ps_from_s(found.timeline.time_s) > deadline_ps) return std::nullopt;
    return found;
  };
  TimePs late_ps = deadline_ps;
  if (std::optional<ReplayedClocks> found = try_deadline(late_ps)) return found;
  TimePs kept_ps = fastest_ps;
  std::optional<ReplayedClocks> best = try_deadline(kept_ps);
  for (int i = 0; best && i < kDeadlineBisections; ++i) {
    const TimePs middle_ps = kept_ps + (late_ps - kept_ps) / 2;
    std::optional<ReplayedClocks> found = try_deadline(middle_ps);
    (found ? kept_ps : late_ps) = middle_ps;
    if (found && found->timeline.energy_j_total < best->timeline.energy_j_total) best = std::move(found);
  }
  return best;
}

/// Ranks repeat their ops for ever, so that the first op's clock is asked for at the end of the iteration.
std::vector<int> LatencyPlanner::rises_in_advance(const std::vector<int>& clocks_mhz) const {
  std::vector<int> raised = clocks_mhz;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(dag_->ranks); ++rank) {
    const int begin = dag_->rank_begin[rank];
    const int end = dag_->rank_begin[rank + 1];
    for (int op = begin; op < end; ++op) {
      const int wanted_mhz = clocks_mhz[static_cast<std::size_t>(op)];
      double lead_s = 0;
      int before = op;
      for (int steps = 1; steps < end - begin && lead_s < latency_s_; ++steps) {
        before = before == begin ? end - 1 : before - 1;
        int& clock_mhz = raised[static_cast<std::size_t>(before)];
        if (clock_mhz < wanted_mhz && has_clock(before, before + 1, wanted_mhz)) clock_mhz = wanted_mhz;
        const ComputeOp& running = dag_->ops[static_cast<std::size_t>(before)];
        lead_s += profile_->at_clock(running.stage, running.kind, clock_mhz).time_s;
      }
    }
  }
  return raised;
}

bool LatencyPlanner::has_clock(int op_begin, int op_end, int clock_mhz) const {
  return std::all_of(dag_->ops.begin() + op_begin, dag_->ops.begin() + op_end, [&](const ComputeOp& op) {
    const auto measurements = profile_->measurements(op.stage, op.kind);
    return std::any_of(measurements.begin(), measurements.end(),
                       [&](const Measurement& m) { return m.clock_mhz == clock_mhz; });
  });
}

/// The plan with another clock for the ops from `begin` to before `end`, if that is in time.
std::optional<ReplayedClocks> LatencyPlanner::with_clock(const ReplayedClocks& plan, int begin, int end, int clock_mhz,
                                                         TimePs deadline_ps) const {
  std::vector<int> clocks = plan.clocks_mhz;
  std::fill(clocks.begin() + begin, clocks.begin() + end, clock_mhz);
  ReplayedClocks other = replayed(std::move(clocks));
  if (ps_from_s(other.timeline.time_s) > deadline_ps) return std::nullopt;
  return other;
}

/// Gives runs of ops at one clock the clock of the run before or behind them.
void LatencyPlanner::take_out_changes(ReplayedClocks& best, TimePs deadline_ps, std::size_t& trials) const {
  const auto try_clock = [&](int begin, int end, int clock_mhz) {
    const bool has_it_already = best.clocks_mhz[static_cast<std::size_t>(begin)] == clock_mhz;
    if (trials == 0 || has_it_already || !has_clock(begin, end, clock_mhz)) return false;
    --trials;
    std::optional<ReplayedClocks> other = with_clock(best, begin, end, clock_mhz, deadline_ps);
    if (!other || other->timeline.energy_j_total > best.timeline.energy_j_total) return false;
    best = std::move(*other);
    return true;
  };
  for (int rank = 0; rank < dag_->ranks; ++rank) {
    const int rank_end = dag_->rank_begin[static_cast<std::size_t>(rank) + 1];
    for (int begin = dag_->rank_begin[static_cast<std::size_t>(rank)]; begin < rank_end;) {
      const auto clock_at = [&](int op) { return best.clocks_mhz[static_cast<std::size_t>(op)]; };
      int end = begin + 1;
      while (end < rank_end && clock_at(end) == clock_at(begin)) ++end;
      const bool has_before = begin > dag_->rank_begin[static_cast<std::size_t>(rank)];
      const bool merged = (has_before && try_clock(begin, end, clock_at(begin - 1))) ||
                          (end < rank_end && try_clock(begin, end, clock_at(end)));
      if (!merged || end == rank_end) begin = end;
    }
  }
}

/// Tries the lower clocks of every op, the lowest first; without a gain, a clock that never takes effect would stay.
void LatencyPlanner::slow_down_ops(ReplayedClocks& best, TimePs deadline_ps, std::size_t& trials) const {
  for (int op = 0; op < static_cast<int>(dag_->ops.size()); ++op) {
    const ComputeOp& slowed = dag_->ops[static_cast<std::size_t>(op)];
    const auto measurements = profile_->measurements(slowed.stage, slowed.kind);
    for (auto lower = measurements.rbegin(); lower != measurements.rend() && trials > 0; ++lower) {
      if (lower->clock_mhz >= best.clocks_mhz[static_cast<std::size_t>(op)]) break;
      --trials;
      std::optional<ReplayedClocks> other = with_clock(best, op, op + 1, lower->clock_mhz, deadline_ps);
      if (!other || other->timeline.energy_j_total >= best.timeline.energy_j_total * (1 - kLeastGain)) continue;
      best = std::move(*other);
      break;
    }
  }
}

}  // namespace lowgear
