#include "planning/api/power/plan_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>

#include "base/core/error.h"
#include "base/core/units.h"

namespace lowgear::api {

namespace {

/// Whole microwatts, so that a long sweep adds up no rounding errors; 2^63 of them are 9 TW.
constexpr double kUwPerWatt = 1e6;

struct Event {
  double time_s = 0;
  std::int64_t change_uw = 0;
};

}  // namespace

PowerTrace sum(std::span<const PowerShare> shares) {
  std::vector<Event> events;
  PowerTrace total;
  for (const PowerShare& share : shares) {
    std::int64_t before_uw = 0;
    for (const PowerStep& step : share.trace->steps) {
      const std::int64_t power_uw = std::llround(step.power_w * share.count * kUwPerWatt);
      if (power_uw != before_uw) events.push_back({step.start_s, power_uw - before_uw});
      before_uw = power_uw;
    }
    assert(total.end_s == 0 || total.end_s == share.trace->end_s);
    total.end_s = share.trace->end_s;
  }
  std::ranges::sort(events, {}, &Event::time_s);
  std::int64_t power_uw = 0;
  for (std::size_t i = 0; i < events.size();) {
    const double start_s = events[i].time_s;
    for (; i < events.size() && events[i].time_s < start_s + kShortestPowerLevelS; ++i) power_uw += events[i].change_uw;
    total.steps.push_back({start_s, static_cast<double>(power_uw) / kUwPerWatt});
  }
  if (total.steps.empty()) total.steps.push_back({});
  return total;
}

double peak_w(const PowerTrace& trace) {
  return std::ranges::max_element(trace.steps, {}, &PowerStep::power_w)->power_w;
}

double mean_w(const PowerTrace& trace, double from_s, double to_s) {
  double energy_j = 0;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const double end_s = i + 1 < trace.steps.size() ? trace.steps[i + 1].start_s : trace.end_s;
    const double within_s = std::min(end_s, to_s) - std::max(trace.steps[i].start_s, from_s);
    energy_j += trace.steps[i].power_w * std::max(0.0, within_s);
  }
  return energy_j / (to_s - from_s);
}

double mean_w(const PowerTrace& trace) { return mean_w(trace, 0, trace.end_s); }

namespace {

constexpr int kMaxGpus = 1'000'000;

double op_power_w(const profile::StageProfile& profile, const plan::PlannedOp& op) {
  const profile::Measurement& measured = profile.at_setting(op.stage, op.kind, op.clock_mhz, op.setting);
  const double power_w = measured.energy_j / measured.time_s;
  if (power_w <= kMaxGpuPowerW) return power_w;
  throw InputError(fmt::format("stage {} {} at {} MHz draws {} W by its profile; a GPU draws at most {} W", op.stage,
                               name(op.kind), op.clock_mhz, power_w, kMaxGpuPowerW));
}

void check_op(const plan::PlannedOp& op, std::size_t rank, std::size_t place, double before_s) {
  if (op.duration_s > 0 && op.start_s > before_s - kShortestPowerLevelS && op.start_s + op.duration_s <= kMaxTimeS)
    return;
  throw InputError(
      fmt::format("rank {}: op {} starts at {} s for {} s, the one before it ends at {} s; times must be "
                  "positive, at most {} s, and not overlap",
                  rank, place, op.start_s, op.duration_s, before_s, kMaxTimeS));
}

double end_s(const plan::Plan& plan) {
  double end_s = 0;
  for (const auto& ops : plan.ranks) {
    if (!ops.empty()) end_s = std::max(end_s, ops.back().start_s + ops.back().duration_s);
  }
  return end_s;
}

ScopePower scope_power(const PowerTrace& trace) { return {peak_w(trace), mean_w(trace)}; }

double swing_of_phases_w(const PowerTrace& job, const SteadyPhase& steady) {
  if (!(steady.end_s > steady.begin_s)) return 0;
  double least_w = std::numeric_limits<double>::infinity();
  double most_w = 0;
  const auto phase = [&](double from_s, double to_s) {
    if (to_s - from_s < kShortestPowerLevelS) return;
    const double power_w = mean_w(job, from_s, to_s);
    least_w = std::min(least_w, power_w);
    most_w = std::max(most_w, power_w);
  };
  phase(0, steady.begin_s);
  phase(steady.begin_s, steady.end_s);
  phase(steady.end_s, job.end_s);
  return most_w - least_w;
}

void check_groups(std::span<const GpuGroup> gpus, std::size_t ranks) {
  double count = 0;
  for (const GpuGroup& group : gpus) {
    if (group.rank < 0 || static_cast<std::size_t>(group.rank) >= ranks) {
      throw InputError(fmt::format("GPUs of rank {}: the plan has {} ranks", group.rank, ranks));
    }
    if (group.gpus < 1)
      throw InputError(
          fmt::format("rank {} has {} GPUs on node {}; give 1 at least", group.rank, group.gpus, group.node));
    count += group.gpus;
  }
  if (count < 1 || count > kMaxGpus) {
    throw InputError(fmt::format("{:.0f} GPUs: power is counted for 1 to {}", count, kMaxGpus));
  }
}

}  // namespace

SteadyPhase steady_phase(const plan::Plan& plan) {
  SteadyPhase steady{0, std::numeric_limits<double>::infinity()};
  for (const auto& ops : plan.ranks) {
    if (ops.empty()) continue;
    steady.begin_s = std::max(steady.begin_s, ops.front().start_s);
    steady.end_s = std::min(steady.end_s, ops.back().start_s + ops.back().duration_s);
  }
  if (!std::isfinite(steady.end_s) || steady.end_s <= steady.begin_s) return {};
  return steady;
}

std::vector<PowerTrace> rank_power(const plan::Plan& plan, const profile::StageProfile& profile,
                                   std::span<const double> blocking_power_w, double until_s) {
  if (blocking_power_w.size() != plan.ranks.size()) {
    throw InputError(
        fmt::format("{} blocking powers for {} ranks; give one for each", blocking_power_w.size(), plan.ranks.size()));
  }
  const double last_s = std::max(end_s(plan), until_s);
  if (!(last_s <= kMaxTimeS)) throw InputError(fmt::format("an iteration of {} s: at most {} s", last_s, kMaxTimeS));
  std::vector<PowerTrace> traces;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    PowerTrace trace{{}, last_s};
    double before_s = 0;
    const auto wait_until = [&](double time_s) {
      if (time_s - before_s >= kShortestPowerLevelS) trace.steps.push_back({before_s, blocking_power_w[rank]});
    };
    for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const plan::PlannedOp& op = plan.ranks[rank][i];
      check_op(op, rank, i, before_s);
      wait_until(op.start_s);
      trace.steps.push_back({op.start_s, op_power_w(profile, op)});
      before_s = op.start_s + op.duration_s;
    }
    wait_until(last_s);
    if (!trace.steps.empty()) trace.steps.front().start_s = 0;
    traces.push_back(std::move(trace));
  }
  return traces;
}

PlanPower plan_power(std::span<const PowerTrace> ranks, std::span<const GpuGroup> gpus, const SteadyPhase& steady) {
  check_groups(gpus, ranks.size());
  PlanPower power;
  for (const PowerTrace& trace : ranks) power.gpus.push_back(scope_power(trace));
  std::map<int, std::vector<PowerShare>> by_node;
  std::vector<PowerShare> all;
  std::vector<double> gpus_of_rank(ranks.size());
  for (const GpuGroup& group : gpus) {
    const auto rank = static_cast<std::size_t>(group.rank);
    by_node[group.node].push_back({&ranks[rank], static_cast<double>(group.gpus)});
    gpus_of_rank[rank] += group.gpus;
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (gpus_of_rank[rank] > 0) all.push_back({&ranks[rank], gpus_of_rank[rank]});
  }
  for (const auto& [node, shares] : by_node) power.nodes.push_back({node, scope_power(sum(shares))});
  const PowerTrace job = sum(all);
  power.job = scope_power(job);
  power.phase_swing_w = swing_of_phases_w(job, steady);
  return power;
}

}  // namespace lowgear::api
