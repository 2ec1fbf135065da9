#pragma once

#include <optional>
#include <set>
#include <vector>

#include "server/rank_cells.h"

namespace lowgear {

/// Which clocks are still to be tried out, and what the ranks have measured so far. One clock at a time, each under a
/// plan of its own.
class ProfileSweep {
 public:
  /// What was measured under plans before `first_version` belongs to an earlier sweep, and does not count.
  explicit ProfileSweep(int first_version = 0) : first_version_(first_version) {}
  [[nodiscard]] int first_version() const { return first_version_; }

  /// Adds clocks to be measured behind those that wait: another round.
  void want(const std::vector<int>& clocks_mhz);
  /// The clock to be measured now; empty when all have been.
  [[nodiscard]] std::optional<int> clock_mhz() const;
  /// It is being measured under this version of the plan, which was issued at `now_s`.
  void begin(int plan_version, double now_s);
  [[nodiscard]] double begun_s() const { return begun_s_; }
  /// How often the clock at hand has been begun.
  [[nodiscard]] int attempts() const { return attempts_; }
  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] int plan_version() const { return plan_version_; }

  /// What a rank has measured. What it had posted for the same version before stays. Returns whether it is new, and of
  /// this sweep.
  bool add(RankCells cells);
  /// Neither has the rank posted for the clock at hand, nor is it done without.
  [[nodiscard]] bool waits_for(int rank) const { return !posted_.contains(rank) && !absent_.contains(rank); }
  /// How many ranks need not be waited for.
  [[nodiscard]] std::size_t waited() const { return posted_.size() + absent_.size(); }
  /// The rank is not waited for at this and later clocks, until it posts again.
  void do_without(int rank) { absent_.insert(rank); }
  /// The clock at hand is done.
  void advance();

  [[nodiscard]] const std::vector<RankCells>& cells() const { return cells_; }
  /// How many clocks have been measured.
  [[nodiscard]] std::size_t measured_clocks() const;
  [[nodiscard]] const std::vector<int>& waiting_clocks_mhz() const { return waiting_mhz_; }

 private:
  int first_version_;
  std::vector<int> waiting_mhz_;  ///< the first is at hand
  int plan_version_ = 0;
  double begun_s_ = 0;
  int attempts_ = 0;
  int rounds_ = 0;
  std::set<int> posted_;
  std::set<int> absent_;
  std::set<std::pair<int, int>> seen_;  ///< (version, rank)
  std::vector<RankCells> cells_;
};

}  // namespace lowgear
