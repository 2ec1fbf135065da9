#include "planning/planner/planners/fastest_clocks.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {
namespace {

/// Replays, times ops, that the search may cost: about half a second.
constexpr std::size_t kMaxTriedOps = 3'000'000;

/// Relative; what is less comes of rounding.
constexpr double kTimeRounding = 1e-12;

/// So many ops before one ask for its clock, at most, in a single change: those that run within the latency.
constexpr int kLongestRun = 4;

/// The fastest clock of a cell; of equally fast ones the highest, which other ops are likely to share.
int fastest_clock_mhz(std::span<const profile::Measurement> measurements) {
  return std::ranges::min_element(measurements, {}, &profile::Measurement::time_s)->clock_mhz;
}

}  // namespace

FastestClocks::FastestClocks(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                             const LatencyPlanner& latency, WorkReport* work)
    : dag_(&dag), profile_(&profile), latency_(&latency), work_(work) {}

ReplayedClocks FastestClocks::find(double bound_s) {
  if (work_ != nullptr) work_->begin("looking for the shortest iteration", -1);
  bound_s_ = bound_s;
  trials_ = kMaxTriedOps / std::max<std::size_t>(dag_->ops.size(), 1);
  std::vector<int> highest;
  std::vector<int> fastest;
  for (const schedule::ComputeOp& op : dag_->ops) {
    highest.push_back(profile_->at_max_clock(op.stage, op.kind).clock_mhz);
    fastest.push_back(fastest_clock_mhz(profile_->measurements(op.stage, op.kind)));
  }
  std::vector<std::vector<int>> starts{std::move(highest), fastest};
  if (may_differ_by_op()) starts.push_back(latency_->rises_in_advance(fastest));
  std::optional<Candidate> best;
  for (std::vector<int>& start : starts) {
    Candidate found = replayed(std::move(start));
    descend(found);
    if (!best || found.time_s < best->time_s) best = std::move(found);
    if (is_shortest(*best)) break;
  }
  return std::move(best->clocks);
}

FastestClocks::Candidate FastestClocks::replayed(std::vector<int> clocks_mhz) {
  Candidate candidate;
  candidate.clocks = latency_->replayed(std::move(clocks_mhz));
  const simulator::Timeline& timeline = candidate.clocks.timeline;
  candidate.time_s = timeline.time_s;
  candidate.busy_s = std::accumulate(timeline.busy_s.begin(), timeline.busy_s.end(), 0.0);
  return candidate;
}

bool FastestClocks::is_shortest(const Candidate& best) const { return best.time_s <= bound_s_ * (1 + kTimeRounding); }

bool FastestClocks::may_differ_by_op() const { return latency_->granularity() == PlanGranularity::per_op; }

bool FastestClocks::is_done(const Candidate& best) const { return trials_ == 0 || is_shortest(best); }

void FastestClocks::descend(Candidate& best) {
  bool improved = true;
  while (improved && !is_done(best)) {
    improved = change_ranks(best);
    improved = change_cells(best) || improved;
    if (may_differ_by_op()) improved = change_ops(best) || improved;
  }
}

bool FastestClocks::try_clocks(Candidate& best, std::vector<int> clocks_mhz) {
  if (work_ != nullptr) work_->visited(clocks_mhz.size());
  if (trials_ == 0 || clocks_mhz == best.clocks.clocks_mhz) return false;
  --trials_;
  Candidate other = replayed(std::move(clocks_mhz));
  const bool is_shorter = other.time_s < best.time_s * (1 - kTimeRounding);
  const bool has_more_slack =
      other.time_s <= best.time_s * (1 + kTimeRounding) && other.busy_s < best.busy_s * (1 - kTimeRounding);
  if (!is_shorter && !has_more_slack) return false;
  best = std::move(other);
  return true;
}

/// One clock for all that a rank runs: no change is late then.
bool FastestClocks::change_ranks(Candidate& best) {
  bool improved = false;
  std::vector<int> all_ops(dag_->ops.size());
  std::iota(all_ops.begin(), all_ops.end(), 0);
  for (int rank = 0; rank < dag_->ranks; ++rank) {
    const int begin = dag_->rank_begin[at(rank)];
    const int end = dag_->rank_begin[at(rank + 1)];
    if (begin == end) continue;
    const auto ops = std::span(all_ops).subspan(at(begin), at(end - begin));
    const schedule::ComputeOp& first = dag_->ops[at(begin)];
    for (const profile::Measurement& row : profile_->measurements(first.stage, first.kind)) {
      if (is_done(best)) return improved;
      if (!latency_->have_clock(ops, row.clock_mhz)) continue;
      std::vector<int> clocks_mhz = best.clocks.clocks_mhz;
      std::fill(clocks_mhz.begin() + begin, clocks_mhz.begin() + end, row.clock_mhz);
      improved = try_clocks(best, std::move(clocks_mhz)) || improved;
    }
  }
  return improved;
}

bool FastestClocks::change_cells(Candidate& best) {
  bool improved = false;
  for (const auto& [stage, kind, rows] : profile_->ops()) {
    for (const profile::Measurement& row : rows) {
      if (is_done(best)) return improved;
      std::vector<int> clocks_mhz = best.clocks.clocks_mhz;
      for (std::size_t op = 0; op < clocks_mhz.size(); ++op) {
        if (dag_->ops[op].stage == stage && dag_->ops[op].kind == kind) clocks_mhz[op] = row.clock_mhz;
      }
      improved = try_clocks(best, std::move(clocks_mhz)) || improved;
    }
  }
  return improved;
}

/// An op at another clock, for which up to some ops before it ask already.
bool FastestClocks::change_ops(Candidate& best) {
  bool improved = false;
  for (int rank = 0; rank < dag_->ranks; ++rank) {
    const int begin = dag_->rank_begin[at(rank)];
    const int end = dag_->rank_begin[at(rank + 1)];
    for (int op = begin; op < end; ++op) {
      const schedule::ComputeOp& changed = dag_->ops[at(op)];
      for (const profile::Measurement& row : profile_->measurements(changed.stage, changed.kind)) {
        if (is_done(best)) return improved;
        std::vector<int> clocks_mhz = best.clocks.clocks_mhz;
        int asking = op;
        for (int length = 1; length <= std::min(kLongestRun, end - begin); ++length) {
          if (!latency_->have_clock(std::span(&asking, 1), row.clock_mhz)) break;
          clocks_mhz[at(asking)] = row.clock_mhz;
          improved = try_clocks(best, clocks_mhz) || improved;
          // Ranks repeat their ops for ever.
          asking = asking == begin ? end - 1 : asking - 1;
        }
      }
    }
  }
  return improved;
}

}  // namespace lowgear::planner
