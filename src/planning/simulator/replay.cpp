#include "planning/simulator/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/core/error.h"

namespace lowgear::simulator {

namespace {

/// Laps in which the lags of a rank settle, or never do. As many more then show what its iterations differ by.
constexpr int kMaxLaps = 16;

/// The clock of a GPU that follows requests late.
struct LaggingClock {
  int effective_mhz = 0;
  std::optional<double> remaining_lag_s;  ///< until the newest request takes effect; absent when none is on its way

  friend bool operator==(const LaggingClock&, const LaggingClock&) = default;
};

/// Cost of the op at a clock that another op requested: measured at this clock, else at the nearest measured clock
/// below, else at the op's lowest measured clock.
OpCost cost_near_clock(const profile::StageProfile& profile, const schedule::ComputeOp& op, int clock_mhz,
                       std::string_view setting) {
  const auto measurements = profile.measurements(op.stage, op.kind);
  const auto at_or_below = std::find_if(measurements.begin(), measurements.end(),
                                        [&](const profile::Measurement& m) { return m.clock_mhz <= clock_mhz; });
  const profile::Measurement* nearest = at_or_below != measurements.end() ? &*at_or_below : &measurements.back();
  if (profile.has_settings()) {
    const profile::Measurement* const same = profile.find(op.stage, op.kind, nearest->clock_mhz, setting);
    nearest = same != nullptr ? same : &profile.at_clock(op.stage, op.kind, nearest->clock_mhz);
  }
  return {nearest->time_s, nearest->energy_j};
}

OpCost times(const OpCost& cost, double work) { return {cost.time_s * work, cost.energy_j * work}; }

OpCost largest(const OpCost& one, const OpCost& other) {
  return {std::max(one.time_s, other.time_s), std::max(one.energy_j, other.energy_j)};
}

double work_of(const IterationWork& iteration, std::size_t op) {
  return iteration.work.empty() ? 1.0 : iteration.work[op];
}

/// The clock and setting that an op requests, and its cost with them.
struct OpRequest {
  int clock_mhz = 0;
  std::string_view setting;
  OpCost cost;
};

/// Runs one op of `work` and moves `clock` to the op's end.
OpCost run_op(const profile::StageProfile& profile, const schedule::ComputeOp& op, const OpRequest& request,
              double work, double latency_s, LaggingClock& clock) {
  const auto& [requested_mhz, setting, own] = request;
  if (requested_mhz == clock.effective_mhz) {
    clock.remaining_lag_s.reset();
    return own;
  }
  const double lag_s = clock.remaining_lag_s.value_or(latency_s);
  const OpCost old = times(cost_near_clock(profile, op, clock.effective_mhz, setting), work);
  if (lag_s > old.time_s) {
    clock.remaining_lag_s = lag_s - old.time_s;
    return old;
  }
  clock = {requested_mhz, std::nullopt};
  const double done_at_old = lag_s / old.time_s;
  return {lag_s + (1 - done_at_old) * own.time_s, done_at_old * old.energy_j + (1 - done_at_old) * own.energy_j};
}

/// Changes the costs of a rank's ops from those at their own clocks to those with the lag.
void run_rank(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
              const plan::OpChoicesView& choices, double latency_s, const IterationWork& iteration, std::size_t rank,
              std::span<OpCost> costs) {
  const auto begin = static_cast<std::size_t>(dag.rank_begin[rank]);
  const auto end = static_cast<std::size_t>(dag.rank_begin[rank + 1]);
  if (begin == end) return;
  const bool follows_itself = iteration.clocks_before_mhz.empty();
  const std::vector<OpCost> own(costs.begin() + static_cast<std::ptrdiff_t>(begin),
                                costs.begin() + static_cast<std::ptrdiff_t>(end));
  LaggingClock clock{follows_itself ? choices.clocks_mhz[end - 1] : iteration.clocks_before_mhz[rank], std::nullopt};
  for (int lap = 0; lap < 2 * kMaxLaps; ++lap) {
    const LaggingClock at_lap_begin = clock;
    for (std::size_t i = begin; i < end; ++i) {
      const OpRequest request{choices.clocks_mhz[i], choices.setting(i), own[i - begin]};
      const OpCost cost = run_op(profile, dag.ops[i], request, work_of(iteration, i), latency_s, clock);
      costs[i] = lap < kMaxLaps ? cost : largest(costs[i], cost);
    }
    if (!follows_itself || clock == at_lap_begin) return;
  }
}

}  // namespace

std::vector<OpCost> costs_at_clocks(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                    const plan::OpChoicesView& choices, const IterationWork& iteration) {
  assert(choices.clocks_mhz.size() == dag.ops.size());
  assert(choices.settings.empty() || choices.settings.size() == dag.ops.size());
  std::vector<OpCost> costs;
  costs.reserve(dag.ops.size());
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    const auto& [rank, stage, kind, microbatch] = dag.ops[i];
    const profile::Measurement& measured =
        choices.settings.empty() ? profile.at_clock(stage, kind, choices.clocks_mhz[i])
                                 : profile.at_setting(stage, kind, choices.clocks_mhz[i], choices.settings[i]);
    costs.push_back(times({measured.time_s, measured.energy_j}, work_of(iteration, i)));
  }
  return costs;
}

std::vector<OpCost> costs_with_switch_latency(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                              const plan::OpChoicesView& choices, double latency_s,
                                              const IterationWork& iteration) {
  if (!(latency_s >= 0) || !std::isfinite(latency_s)) {
    throw InputError(fmt::format("switch latency of {} s: it must be 0 or more", latency_s));
  }
  std::vector<OpCost> costs = costs_at_clocks(dag, profile, choices, iteration);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(dag.ranks); ++rank) {
    run_rank(dag, profile, choices, latency_s, iteration, rank, costs);
  }
  return costs;
}

std::vector<double> slowed_work(const schedule::PipelineDag& dag, std::span<const StageSlowdown> slowdowns) {
  if (slowdowns.empty()) return {};
  std::vector<double> factor_of_stage(static_cast<std::size_t>(dag.stages), 1.0);
  for (const StageSlowdown& slowdown : slowdowns) {
    if (slowdown.stage < 0 || slowdown.stage >= dag.stages) {
      throw InputError(fmt::format("slowdown of stage {}: the pipeline has no such stage; its stages are 0 to {}",
                                   slowdown.stage, dag.stages - 1));
    }
    double& factor = factor_of_stage[static_cast<std::size_t>(slowdown.stage)];
    factor *= slowdown.factor;
    if (!(slowdown.factor > 0) || !(factor > 0) || !(factor <= kMaxSlowdownFactor)) {
      throw InputError(fmt::format("slowdown of stage {} by {}: the factor must be above 0 and at most {}",
                                   slowdown.stage, slowdown.factor, kMaxSlowdownFactor));
    }
  }
  std::vector<double> work;
  work.reserve(dag.ops.size());
  for (const schedule::ComputeOp& op : dag.ops) work.push_back(factor_of_stage[static_cast<std::size_t>(op.stage)]);
  return work;
}

TimingGraph::TimingGraph(const schedule::PipelineDag& dag) : ops_(dag.topological_order) {
  const std::size_t count = ops_.size();
  std::vector<int> position(count);
  for (std::size_t i = 0; i < count; ++i) {
    position[static_cast<std::size_t>(ops_[i])] = static_cast<int>(i);
  }
  predecessor_begin_.assign(count + 1, 0);
  for (const schedule::DagEdge& edge : dag.edges) {
    ++predecessor_begin_[static_cast<std::size_t>(position[static_cast<std::size_t>(edge.to)]) + 1];
  }
  for (std::size_t i = 0; i < count; ++i) {
    predecessor_begin_[i + 1] += predecessor_begin_[i];
  }
  predecessors_.resize(dag.edges.size());
  std::vector<int> next(predecessor_begin_.begin(), predecessor_begin_.end() - 1);
  for (const schedule::DagEdge& edge : dag.edges) {
    int& slot = next[static_cast<std::size_t>(position[static_cast<std::size_t>(edge.to)])];
    predecessors_[static_cast<std::size_t>(slot++)] = edge.from;
  }
}

template <typename Time>
Time TimingGraph::evaluate(std::span<const Time> duration, std::span<Time> start) const {
  assert(duration.size() == ops_.size() && start.size() == ops_.size());
  Time makespan = 0;
  const int* predecessor = predecessors_.data();
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    Time earliest = 0;
    for (const int* end = predecessors_.data() + predecessor_begin_[i + 1]; predecessor != end; ++predecessor) {
      const auto from = static_cast<std::size_t>(*predecessor);
      earliest = std::max(earliest, start[from] + duration[from]);
    }
    const auto op = static_cast<std::size_t>(ops_[i]);
    start[op] = earliest;
    makespan = std::max(makespan, earliest + duration[op]);
  }
  return makespan;
}

double TimingGraph::start_times(std::span<const double> duration_s, std::span<double> start_s) const {
  return evaluate<double>(duration_s, start_s);
}

TimePs TimingGraph::start_times(std::span<const TimePs> duration_ps, std::span<TimePs> start_ps) const {
  return evaluate<TimePs>(duration_ps, start_ps);
}

Timeline replay(const schedule::PipelineDag& dag, std::span<const OpCost> costs,
                std::span<const double> blocking_power_w) {
  return replay(dag, TimingGraph(dag), costs, blocking_power_w);
}

Timeline replay(const schedule::PipelineDag& dag, const TimingGraph& graph, std::span<const OpCost> costs,
                std::span<const double> blocking_power_w) {
  assert(costs.size() == dag.ops.size() && graph.op_count() == dag.ops.size());
  assert(blocking_power_w.size() == static_cast<std::size_t>(dag.ranks));
  Timeline timeline;
  timeline.start_s.resize(costs.size());
  timeline.duration_s.reserve(costs.size());
  timeline.energy_j.reserve(costs.size());
  timeline.busy_s.assign(static_cast<std::size_t>(dag.ranks), 0.0);
  for (std::size_t op = 0; op < costs.size(); ++op) {
    timeline.duration_s.push_back(costs[op].time_s);
    timeline.energy_j.push_back(costs[op].energy_j);
    timeline.busy_s[static_cast<std::size_t>(dag.ops[op].rank)] += costs[op].time_s;
    timeline.energy_j_total += costs[op].energy_j;
  }
  timeline.time_s = graph.start_times(timeline.duration_s, timeline.start_s);
  for (std::size_t rank = 0; rank < timeline.busy_s.size(); ++rank) {
    const double blocked_s = timeline.time_s - timeline.busy_s[rank];
    timeline.blocked_s.push_back(blocked_s);
    timeline.energy_j_total += blocking_power_w[rank] * blocked_s;
  }
  return timeline;
}

std::vector<std::vector<plan::PlannedOp>> planned_ops(const schedule::PipelineDag& dag, const Timeline& timeline,
                                                      const plan::OpChoicesView& choices) {
  assert(choices.clocks_mhz.size() == dag.ops.size());
  std::vector<std::vector<plan::PlannedOp>> ranks(static_cast<std::size_t>(dag.ranks));
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    const schedule::ComputeOp& op = dag.ops[i];
    ranks[static_cast<std::size_t>(op.rank)].push_back({op.stage, op.kind, op.microbatch, choices.clocks_mhz[i],
                                                        timeline.start_s[i], timeline.duration_s[i],
                                                        std::string(choices.setting(i))});
  }
  return ranks;
}

}  // namespace lowgear::simulator
