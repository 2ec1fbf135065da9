#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "control/protocol/rank_cells.h"

namespace lowgear::server {

/// The clocks that a job tries, and the measurements of its ranks so far. One plan tries several clocks.
class TrialSweep {
 public:
  /// None that was asked for: nothing counts.
  TrialSweep() = default;
  /// What was measured under plans before `first_version` (1 or more) belongs to an earlier sweep, and does not count.
  explicit TrialSweep(int first_version) : first_version_(first_version) {}
  [[nodiscard]] int first_version() const { return first_version_; }
  /// It was asked for, and no clock has been wanted yet.
  [[nodiscard]] bool is_new() const { return first_version_ > 0 && rounds_ == 0; }

  /// These clocks are to be measured now: another round.
  void want(std::vector<int> clocks_mhz);
  [[nodiscard]] const std::vector<int>& wanted_mhz() const { return wanted_mhz_; }
  [[nodiscard]] int rounds() const { return rounds_; }

  /// Wanted clocks are being measured under this version of the plan, which was issued at `now_s` and tries them out
  /// before `end_iteration`.
  void begin(int plan_version, std::int64_t end_iteration, double now_s);
  [[nodiscard]] int plan_version() const { return plan_version_; }
  [[nodiscard]] std::int64_t end_iteration() const { return end_iteration_; }
  [[nodiscard]] double begun_s() const { return begun_s_; }
  /// How often the round at hand has been begun.
  [[nodiscard]] int attempts() const { return attempts_; }

  /// What a rank has measured: of the same stage, instruction and clock the newest counts. What it had posted for the
  /// same version before stays. Returns whether it is new, and of this sweep.
  bool add(protocol::RankCells cells);
  /// Neither has the rank posted under the version at hand, nor is it done without.
  [[nodiscard]] bool waits_for(int rank) const { return !posted_.contains(rank) && !absent_.contains(rank); }
  /// How many ranks need not be waited for.
  [[nodiscard]] std::size_t waited() const { return posted_.size() + absent_.size(); }
  /// The rank is not waited for until it posts again.
  void do_without(int rank) { absent_.insert(rank); }

  /// One entry for each rank that has posted.
  [[nodiscard]] std::vector<protocol::RankCells> cells() const;
  [[nodiscard]] bool is_empty() const { return by_rank_.empty(); }
  /// How many clocks have been measured.
  [[nodiscard]] std::size_t measured_clocks() const;
  /// Wanted clocks at which some instruction of some stage was measured on no rank, of those that were measured at all.
  [[nodiscard]] std::vector<int> unmeasured_mhz() const;

 private:
  int first_version_ = 0;
  std::vector<int> wanted_mhz_;
  int plan_version_ = 0;
  std::int64_t end_iteration_ = 0;
  double begun_s_ = 0;
  int attempts_ = 0;
  int rounds_ = 0;
  std::set<int> posted_;
  std::set<int> absent_;
  std::set<std::pair<int, int>> seen_;  ///< (version, rank)
  std::map<int, protocol::RankCells> by_rank_;
};

}  // namespace lowgear::server
