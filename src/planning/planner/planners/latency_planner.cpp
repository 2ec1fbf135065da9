#include "planning/planner/planners/latency_planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

namespace lowgear::planner {

namespace {

constexpr int kDeadlineBisections = 10;

/// Replays, times ops, that improving a plan may cost: about a second.
constexpr std::size_t kMaxSearchedOps = 20'000'000;

/// Relative; what is less comes of rounding.
constexpr double kLeastGain = 1e-9;

bool has_clock(const schedule::ComputeOp& op, const profile::StageProfile& profile, int clock_mhz) {
  const auto measurements = profile.measurements(op.stage, op.kind);
  return std::ranges::find(measurements, clock_mhz, &profile::Measurement::clock_mhz) != measurements.end();
}

/// The ops of every (stage, kind), rank by rank.
std::vector<std::vector<std::vector<int>>> cells_by_rank(const schedule::PipelineDag& dag) {
  std::vector<std::vector<std::vector<int>>> cells_of_ranks(static_cast<std::size_t>(dag.ranks));
  for (std::size_t rank = 0; rank < cells_of_ranks.size(); ++rank) {
    std::map<std::pair<int, OpKind>, std::vector<int>> cells;
    for (int op = dag.rank_begin[rank]; op < dag.rank_begin[rank + 1]; ++op) {
      const schedule::ComputeOp& in_cell = dag.ops[static_cast<std::size_t>(op)];
      cells[{in_cell.stage, in_cell.kind}].push_back(op);
    }
    for (auto& [cell, ops] : cells) cells_of_ranks[rank].push_back(std::move(ops));
  }
  return cells_of_ranks;
}

}  // namespace

LatencyPlanner::LatencyPlanner(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                               std::span<const double> blocking_power_w, double latency_s, PlanGranularity granularity,
                               WorkReport* work)
    : dag_(&dag),
      profile_(&profile),
      blocking_power_w_(blocking_power_w),
      latency_s_(latency_s),
      granularity_(granularity),
      work_(work),
      graph_(dag) {}

void LatencyPlanner::report_visits(std::size_t ops) const {
  if (work_ != nullptr) work_->visited(ops);
}

ReplayedClocks LatencyPlanner::replayed(std::vector<int> clocks_mhz) const {
  // Costs and times each take several visits of every op.
  constexpr std::size_t kVisitsPerReplay = 8;
  report_visits(kVisitsPerReplay / 2 * dag_->ops.size());
  const std::vector<simulator::OpCost> costs =
      simulator::costs_with_switch_latency(*dag_, *profile_, clocks_mhz, latency_s_);
  report_visits(kVisitsPerReplay / 2 * dag_->ops.size());
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
  Search search{*std::move(best), deadline_ps, kMaxSearchedOps / std::max<std::size_t>(dag_->ops.size(), 1)};
  double before_j = 0;
  do {
    before_j = search.best.timeline.energy_j_total;
    if (granularity_ == PlanGranularity::per_op) {
      improve_by_op(search);
    } else {
      improve_by_cell(search);
    }
  } while (search.best.timeline.energy_j_total < before_j * (1 - kLeastGain) && search.trials > 0);
  return std::move(search.best);
}

std::optional<ReplayedClocks> LatencyPlanner::slowest_in_time(const Proposal& proposal, TimePs fastest_ps,
                                                              TimePs deadline_ps) const {
  const auto try_deadline = [&](TimePs tighter_ps) -> std::optional<ReplayedClocks> {
    std::optional<std::vector<int>> clocks = proposal(tighter_ps);
    if (!clocks) return std::nullopt;
    ReplayedClocks found = replayed(std::move(*clocks));
    const bool is_late = ps_from_s(found.timeline.time_s) > deadline_ps;
    if (is_late && granularity_ == PlanGranularity::per_op) found = replayed(rises_in_advance(found.clocks_mhz));
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

std::vector<int> LatencyPlanner::rises_in_advance(const std::vector<int>& clocks_mhz) const {
  report_visits(clocks_mhz.size());
  return planner::rises_in_advance(*dag_, *profile_, latency_s_, clocks_mhz, {});
}

bool LatencyPlanner::have_clock(std::span<const int> ops, int clock_mhz) const {
  report_visits(ops.size());
  return std::ranges::all_of(
      ops, [&](int op) { return has_clock(dag_->ops[static_cast<std::size_t>(op)], *profile_, clock_mhz); });
}

/// The best plan with another clock for these ops, if that is in time.
std::optional<ReplayedClocks> LatencyPlanner::with_clock(const Search& search, std::span<const int> ops,
                                                         int clock_mhz) const {
  std::vector<int> clocks = search.best.clocks_mhz;
  for (const int op : ops) clocks[static_cast<std::size_t>(op)] = clock_mhz;
  ReplayedClocks other = replayed(std::move(clocks));
  if (ps_from_s(other.timeline.time_s) > search.deadline_ps) return std::nullopt;
  return other;
}

/// Gives these ops, which share a clock, another one if they have it and it costs no energy.
bool LatencyPlanner::take_clock(Search& search, std::span<const int> ops, int clock_mhz) const {
  const bool is_at_it = search.best.clocks_mhz[static_cast<std::size_t>(ops.front())] == clock_mhz;
  if (search.trials == 0 || is_at_it || !have_clock(ops, clock_mhz)) return false;
  --search.trials;
  std::optional<ReplayedClocks> other = with_clock(search, ops, clock_mhz);
  if (!other || other->timeline.energy_j_total > search.best.timeline.energy_j_total) return false;
  search.best = *std::move(other);
  return true;
}

/// Tries the lower clocks of these ops, which share one and their measurements, the lowest first; without a gain, a
/// clock that never takes effect would stay.
void LatencyPlanner::slow_down(Search& search, std::span<const int> ops) const {
  const schedule::ComputeOp& slowed = dag_->ops[static_cast<std::size_t>(ops.front())];
  const auto measurements = profile_->measurements(slowed.stage, slowed.kind);
  for (auto lower = measurements.rbegin(); lower != measurements.rend() && search.trials > 0; ++lower) {
    if (lower->clock_mhz >= search.best.clocks_mhz[static_cast<std::size_t>(ops.front())]) break;
    --search.trials;
    std::optional<ReplayedClocks> other = with_clock(search, ops, lower->clock_mhz);
    if (!other || other->timeline.energy_j_total >= search.best.timeline.energy_j_total * (1 - kLeastGain)) continue;
    search.best = *std::move(other);
    break;
  }
}

void LatencyPlanner::improve_by_op(Search& search) const {
  take_out_changes(search);
  for (int op = 0; op < static_cast<int>(dag_->ops.size()) && search.trials > 0; ++op) {
    slow_down(search, std::span(&op, 1));
  }
}

/// Gives runs of ops at one clock the clock of the run before or after them.
void LatencyPlanner::take_out_changes(Search& search) const {
  std::vector<int> ops(dag_->ops.size());
  std::iota(ops.begin(), ops.end(), 0);
  const auto clock_at = [&](int op) { return search.best.clocks_mhz[static_cast<std::size_t>(op)]; };
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(dag_->ranks); ++rank) {
    const int rank_begin = dag_->rank_begin[rank];
    const int rank_end = dag_->rank_begin[rank + 1];
    for (int begin = rank_begin; begin < rank_end;) {
      int end = begin + 1;
      while (end < rank_end && clock_at(end) == clock_at(begin)) ++end;
      const auto run = std::span(ops).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      const bool merged = (begin > rank_begin && take_clock(search, run, clock_at(begin - 1))) ||
                          (end < rank_end && take_clock(search, run, clock_at(end)));
      if (!merged || end == rank_end) begin = end;
    }
  }
}

/// Gives every (stage, kind) the clocks of others of its rank, so that there are fewer changes, then lower ones.
void LatencyPlanner::improve_by_cell(Search& search) const {
  const auto cells_of_ranks = cells_by_rank(*dag_);
  for (const auto& cells : cells_of_ranks) {
    for (const std::vector<int>& ops : cells) {
      for (const std::vector<int>& others : cells) {
        (void)take_clock(search, ops, search.best.clocks_mhz[static_cast<std::size_t>(others.front())]);
      }
    }
  }
  for (const auto& cells : cells_of_ranks) {
    for (const std::vector<int>& ops : cells) slow_down(search, ops);
  }
}

std::vector<int> rises_in_advance(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                  double latency_s, std::span<const int> clocks_mhz, std::span<const double> work) {
  std::vector<int> raised(clocks_mhz.begin(), clocks_mhz.end());
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(dag.ranks); ++rank) {
    const int begin = dag.rank_begin[rank];
    const int end = dag.rank_begin[rank + 1];
    for (int op = begin; op < end; ++op) {
      const int wanted_mhz = clocks_mhz[static_cast<std::size_t>(op)];
      double lead_s = 0;
      int before = op;
      for (int steps = 1; steps < end - begin && lead_s < latency_s; ++steps) {
        before = before == begin ? end - 1 : before - 1;
        const auto place = static_cast<std::size_t>(before);
        const schedule::ComputeOp& running = dag.ops[place];
        if (raised[place] < wanted_mhz && has_clock(running, profile, wanted_mhz)) raised[place] = wanted_mhz;
        lead_s +=
            (work.empty() ? 1 : work[place]) * profile.at_clock(running.stage, running.kind, raised[place]).time_s;
      }
    }
  }
  return raised;
}

namespace {

/// How the op runs at `other_mhz` no slower and no dearer than as it is to run; null if it does not.
const profile::Measurement* as_good_at(int other_mhz, const profile::Measurement& own, const schedule::ComputeOp& op,
                                       const profile::StageProfile& profile, double blocking_power_w) {
  const auto effective_j = [&](const profile::Measurement& row) {
    return row.energy_j - blocking_power_w * row.time_s;
  };
  const auto rows = profile.measurements(op.stage, op.kind);
  const auto found = std::ranges::find_if(rows, [&](const profile::Measurement& row) {
    return row.clock_mhz == other_mhz && row.time_s <= own.time_s && effective_j(row) <= effective_j(own);
  });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

plan::OpChoices without_needless_changes(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                         std::span<const double> blocking_power_w, PlanGranularity granularity,
                                         plan::OpChoices choices) {
  const bool with_settings = !choices.settings.empty();
  std::map<std::pair<int, OpKind>, const profile::Measurement*> shared;
  for (int rank = 0; rank < dag.ranks; ++rank) {
    const auto first = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank)]);
    const auto end = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank) + 1]);
    for (std::size_t op = first; op < end; ++op) {
      int& clock_mhz = choices.clocks_mhz[op];
      const schedule::ComputeOp& computation = dag.ops[op];
      const auto& [at_rank, stage, kind, microbatch] = computation;
      const profile::Measurement* row = with_settings
                                            ? &profile.at_setting(stage, kind, clock_mhz, choices.settings[op])
                                            : &profile.at_clock(stage, kind, clock_mhz);
      const auto same = shared.find({stage, kind});
      if (same != shared.end()) {
        row = same->second;
      } else if (op > first && choices.clocks_mhz[op - 1] != clock_mhz) {
        const double power_w = blocking_power_w[static_cast<std::size_t>(rank)];
        const profile::Measurement* const other =
            as_good_at(choices.clocks_mhz[op - 1], *row, computation, profile, power_w);
        if (other != nullptr) row = other;
      }
      clock_mhz = row->clock_mhz;
      if (with_settings) choices.settings[op] = row->setting;
      if (granularity == PlanGranularity::per_stage_kind) shared.emplace(std::pair(stage, kind), row);
    }
  }
  return choices;
}

}  // namespace lowgear::planner
