#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "server/perseus/protocol.h"

namespace lowgear::server::perseus {

/// The ranks of a job while they register: each place (pp, dp, tp) once, all with the same power states, and those of
/// a stage with the same schedule.
class RegisteredRanks {
 public:
  explicit RegisteredRanks(const JobInfo& job);

  /// Whether the rank has registered before, saying the same. Throws InputError when it contradicts the job or another
  /// rank: out of range, taken, other power states, another schedule than the rest of its stage.
  [[nodiscard]] bool check(const RankInfo& rank) const;
  /// Takes the place of a rank that passed `check`.
  void add(RankInfo rank);
  /// Frees it again.
  void remove(int rank);
  /// One more registration is on disk.
  void count_stored() { ++stored_; }

  /// Ranks of the job, whether they have registered or not.
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] bool contains(int rank) const;
  /// Registrations that are on disk.
  [[nodiscard]] std::size_t stored() const { return stored_; }
  [[nodiscard]] bool all_stored() const { return stored_ == size(); }
  /// All ranks, in order; only once all have registered.
  [[nodiscard]] std::vector<RankInfo> all() const;

 private:
  [[nodiscard]] std::size_t place_of(const RankInfo& rank) const;

  JobInfo job_;
  std::vector<std::optional<RankInfo>> ranks_;
  std::vector<int> places_;       ///< rank by (pp, dp, tp), -1: none yet
  std::vector<int> stage_ranks_;  ///< by stage: the rank of it that registered first, -1: none yet
  std::size_t instructions_ = 0;
  std::size_t stored_ = 0;
};

}  // namespace lowgear::server::perseus
