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

/// The measurements of a job's ranks: of the same stage, instruction and clock the newest counts.
class SweepCells {
 public:
  void put(const protocol::RankCells& cells);
  /// One entry for each rank.
  [[nodiscard]] std::vector<protocol::RankCells> all() const;
  [[nodiscard]] bool empty() const { return by_rank_.empty(); }
  /// Number of clocks that have been measured.
  [[nodiscard]] std::size_t clocks() const;
  /// The given clocks at which no rank has measured some stage and instruction that has other measurements.
  [[nodiscard]] std::vector<int> missing(const std::vector<int>& clocks_mhz) const;

 private:
  std::map<int, protocol::RankCells> by_rank_;
};

/// The clocks that a job tries, and the measurements of its ranks so far.
class TrialSweep {
 public:
  /// No sweep: no measurement counts.
  TrialSweep() = default;
  /// Measurements under plans before `first_version` (1 or more) belong to an earlier sweep, and do not count.
  explicit TrialSweep(int first_version) : first_version_(first_version) {}
  [[nodiscard]] int first_version() const { return first_version_; }
  /// The sweep was begun, and no clock has been wanted yet.
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

  /// Adds measurements of a rank; those that it has posted for the same version stay. Returns whether they are new, and
  /// of this sweep.
  bool add(const protocol::RankCells& cells);
  [[nodiscard]] const SweepCells& measured() const { return measured_; }

  /// The measurements so far are enough for a plan.
  void keep();
  /// Plan version of the round whose measurements were kept; 0: none.
  [[nodiscard]] int kept_version() const { return kept_version_; }
  /// Drops what was measured after `keep`, also where it arrives later. Returns false where nothing was kept.
  [[nodiscard]] bool return_to_kept();
  /// Whether it has returned to them.
  [[nodiscard]] bool has_returned() const { return has_returned_; }
  /// Continues a sweep of which these were `kept_version` and `has_returned`, before measurements are added.
  void restore_kept(int kept_version, bool has_returned);

  /// Whether the rank has not posted under the round's version, and is not absent.
  [[nodiscard]] bool waits_for(int rank) const { return !posted_.contains(rank) && !absent_.contains(rank); }
  /// Number of ranks that are not waited for.
  [[nodiscard]] std::size_t waited() const { return posted_.size() + absent_.size(); }
  /// The rank is not waited for until it posts again.
  void do_without(int rank) { absent_.insert(rank); }

 private:
  int first_version_ = 0;
  int rounds_ = 0;
  TrialRound round_;
  std::optional<TrialRound> first_round_;
  SweepCells measured_;
  SweepCells kept_;
  int kept_version_ = 0;
  bool has_returned_ = false;
  std::set<int> posted_;
  std::set<int> absent_;
  std::set<std::pair<int, int>> seen_;  ///< (version, rank)
};

}  // namespace lowgear::server
