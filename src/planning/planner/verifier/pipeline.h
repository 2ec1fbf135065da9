#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/op_kind.h"
#include "base/core/units.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"

namespace lowgear::planner::verifier {

/// Least effective energy (energy - blocking power x time) of an op against its time, from its measurements: the lower
/// convex hull of those that no other one beats, with mixtures of clocks in between.
///
/// The numbers are those that docs/formats.md states for certificates: effective energy in double precision, times to
/// the next whole picosecond, slopes to the nearest nanowatt; a clock that saves time at more than 10 MW is left out.
class CostCurve {
 public:
  /// `measurements` must not be empty.
  CostCurve(std::span<const profile::Measurement> measurements, double blocking_power_w);

  [[nodiscard]] TimePs fastest_ps() const { return corners_.front().time_ps; }
  [[nodiscard]] TimePs slowest_ps() const { return corners_.back().time_ps; }
  /// At a time between fastest and slowest.
  [[nodiscard]] EnergyZj energy_zj(TimePs time_ps) const;
  /// Least of energy + price x time over all times.
  [[nodiscard]] EnergyZj least_at_price_zj(PowerNw price_nw) const;

 private:
  struct Corner {
    TimePs time_ps = 0;
    EnergyZj energy_zj = 0;
    PowerNw slope_nw = 0;  ///< energy saved per time from here to the next slower corner
  };
  std::vector<Corner> corners_;  ///< fastest first
};

/// A computation and its predecessors.
struct PipelineOp {
  int rank = 0;
  int stage = 0;
  OpKind kind = OpKind::forward;
  int microbatch = 0;
  std::size_t curve = 0;  ///< which cost curve is its own
};

/// `after` may not start before `before` has finished.
struct Precedence {
  std::size_t before = 0;
  std::size_t after = 0;
};

/// A profiled pipeline, derived from its files by the verifier itself.
class Pipeline {
 public:
  /// `blocking_power_w` by rank. Throws InputError when the profile lacks a (stage, kind) of the schedule, when the
  /// schedule's order contradicts its data, or when all ops together take longer than kMaxTimeS.
  Pipeline(const schedule::Schedule& schedule, const profile::StageProfile& profile,
           std::span<const double> blocking_power_w);

  /// Rank by rank, each in its order of execution.
  [[nodiscard]] const std::vector<PipelineOp>& ops() const { return ops_; }
  /// By `before`: first the next op of its rank, then the op of another rank that needs its data.
  [[nodiscard]] const std::vector<Precedence>& precedences() const { return precedences_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] const CostCurve& curve(std::size_t op) const { return curves_[ops_[op].curve]; }
  /// Of all ranks together.
  [[nodiscard]] PowerNw blocking_power_nw() const { return blocking_power_nw_; }
  [[nodiscard]] bool has_predecessor(std::size_t op) const {
    return predecessor_begin_[op] < predecessor_begin_[op + 1];
  }
  [[nodiscard]] bool has_successor(std::size_t op) const { return successor_begin_[op] < successor_begin_[op + 1]; }

  /// Earliest start of every op with the given times, which it writes, and the iteration time, which it returns.
  template <typename Time>
  Time start_times(std::span<const Time> time, std::span<Time> start) const {
    Time end_of_all = 0;
    for (const std::size_t op : order_) {
      Time ready = 0;
      for (std::size_t i = predecessor_begin_[op]; i < predecessor_begin_[op + 1]; ++i) {
        const std::size_t before = predecessors_[i];
        if (start[before] + time[before] > ready) ready = start[before] + time[before];
      }
      start[op] = ready;
      if (ready + time[op] > end_of_all) end_of_all = ready + time[op];
    }
    return end_of_all;
  }

 private:
  void add_ops(const schedule::Schedule& schedule);
  void add_curves(const profile::StageProfile& profile, std::span<const double> blocking_power_w);
  void add_precedences(const schedule::Schedule& schedule);
  void index_precedences();
  void sort_ops(const std::string& source);

  int ranks_ = 0;
  std::vector<PipelineOp> ops_;
  std::vector<CostCurve> curves_;
  PowerNw blocking_power_nw_ = 0;
  std::vector<Precedence> precedences_;
  std::vector<std::size_t> predecessor_begin_;  ///< by op, and one more
  std::vector<std::size_t> predecessors_;
  std::vector<std::size_t> successor_begin_;  ///< by op, and one more: into precedences_
  std::vector<std::size_t> order_;            ///< every op after all that it waits for
};

/// Faults that the checks found: the first ones, since one wrong file can fail thousands of checks.
class Findings {
 public:
  void add(std::string what) {
    if (!full()) list_.push_back(std::move(what));
  }
  [[nodiscard]] bool full() const { return list_.size() >= kMost; }
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

 private:
  static constexpr std::size_t kMost = 20;
  std::vector<std::string> list_;
};

/// The first rank for which `run_name` states another blocking power than `profile_name` does for one of its stages,
/// with both numbers. Nothing where the profile states none.
[[nodiscard]] std::optional<std::string> blocking_power_fault(std::span<const double> by_rank_w,
                                                              std::string_view run_name,
                                                              std::span<const double> by_stage_w,
                                                              std::string_view profile_name,
                                                              std::span<const int> rank_of_stage);

}  // namespace lowgear::planner::verifier
