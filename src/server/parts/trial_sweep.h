#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/rank_cells.h"

namespace lowgear::server {

/// The clocks that a job tries at present. One plan tries several clocks.
struct TrialRound {
  std::vector<int> wanted_mhz;
  int plan_version = 0;            ///< that tries them out
  std::int64_t end_iteration = 0;  ///< the first one after its trials
  double begun_s = 0;              ///< when it was issued
  int attempts = 0;                ///< how often the round has been begun
};

/// What the ranks of a job have measured: of the same stage, instruction and clock the newest counts.
class SweepCells {
 public:
  void put(const protocol::RankCells& cells);
  /// One entry for each rank.
  [[nodiscard]] std::vector<protocol::RankCells> all() const;
  [[nodiscard]] bool empty() const { return by_rank_.empty(); }
  /// How many clocks have been measured.
  [[nodiscard]] std::size_t clocks() const;
  /// Those of these clocks at which some instruction of some stage was measured on no rank, of those that were measured
  /// at all.
  [[nodiscard]] std::vector<int> missing(const std::vector<int>& clocks_mhz) const;

 private:
  std::map<int, protocol::RankCells> by_rank_;
};

/// The clocks that a job tries, and the measurements of its ranks so far.
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
  [[nodiscard]] int rounds() const { return rounds_; }
  /// Wanted clocks are being measured under this version of the plan, which was issued at `now_s` and tries them out
  /// before `end_iteration`.
  void begin(int plan_version, std::int64_t end_iteration, double now_s);
  /// The newest round.
  [[nodiscard]] const TrialRound& round() const { return round_; }
  /// The round that the sweep began with, or was continued with after the server had been started again; empty before.
  [[nodiscard]] const std::optional<TrialRound>& first_round() const { return first_round_; }

  /// What a rank has measured. What it had posted for the same version before stays. Returns whether it is new, and of
  /// this sweep.
  bool add(const protocol::RankCells& cells);
  [[nodiscard]] const SweepCells& measured() const { return measured_; }
  /// Neither has the rank posted under the version at hand, nor is it done without.
  [[nodiscard]] bool waits_for(int rank) const { return !posted_.contains(rank) && !absent_.contains(rank); }
  /// How many ranks need not be waited for.
  [[nodiscard]] std::size_t waited() const { return posted_.size() + absent_.size(); }
  /// The rank is not waited for until it posts again.
  void do_without(int rank) { absent_.insert(rank); }

 private:
  int first_version_ = 0;
  int rounds_ = 0;
  TrialRound round_;
  std::optional<TrialRound> first_round_;
  SweepCells measured_;
  std::set<int> posted_;
  std::set<int> absent_;
  std::set<std::pair<int, int>> seen_;  ///< (version, rank)
};

}  // namespace lowgear::server
