#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/plan/plan.h"
#include "protocol/job_spec.h"
#include "protocol/rank_plan.h"
#include "protocol/rank_spec.h"
#include "server/job/iteration_history.h"

namespace lowgear::server {

/// Clocks for all ranks of a job. Ranks of the same place in their pipelines have the same clocks, but for replicas
/// that a straggler holds up.
struct PlanVersion : protocol::PlanHead {
  std::vector<plan::Plan> plans;
  std::vector<int> plan_of_replica;  ///< by dp rank
  /// By plan and pp rank: time of a rank's units in an iteration at the plan's clocks when nothing slows it down. Empty
  /// when not known.
  std::vector<std::vector<double>> expected_compute_s;
  /// Of all units; empty: they have several, or the plan was not issued.
  std::optional<int> only_mhz = {};

  /// The clock that is tried out in an iteration; empty: the plan's own clocks.
  [[nodiscard]] std::optional<int> trial_mhz(std::int64_t iteration) const;
  [[nodiscard]] const plan::Plan& plan_of(int dp_rank) const {
    return plans.at(static_cast<std::size_t>(plan_of_replica.at(static_cast<std::size_t>(dp_rank))));
  }
};

/// The stored document of a version, and back. Throws InputError.
[[nodiscard]] std::string write_plan_version(const PlanVersion& version);
[[nodiscard]] PlanVersion read_plan_version(std::string_view text);

/// The texts of plans for ranks, each made once for all ranks that get the same.
class RankPlanTexts {
 public:
  explicit RankPlanTexts(const PlanVersion& version) : version_(&version) {}
  /// The plan of a rank, to begin at `from_iteration`, as docs/server-api.md has it.
  [[nodiscard]] std::shared_ptr<const std::string> text(int dp_rank, int pp_rank, std::int64_t from_iteration);

 private:
  struct Key {
    int plan;
    int pp_rank;
    std::int64_t from_iteration;
    // NOLINTNEXTLINE(modernize-use-nullptr): the 0 of a comparison is no pointer
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  const PlanVersion* version_;
  std::map<Key, std::shared_ptr<const std::string>> texts_;
};

/// The plans that a job has issued, and how they reach its ranks. Plans are followed even when the disk takes none.
/// Numbers are reserved on it ahead, so that a server that is killed and starts anew gives none of theirs to another
/// plan.
class PlanDelivery {
 public:
  /// Gives the plan its number, and the iteration from which ranks follow it; trials are counted from there. The job's
  /// state has to be stored with it: it has the numbers that are reserved.
  const PlanVersion& issue(PlanVersion version, const IterationHistory& history, double now_s);
  /// The response to a rank that has version `after`; null when no newer version exists.
  [[nodiscard]] std::shared_ptr<const std::string> plan_after(const protocol::RankSpec& rank, int after,
                                                              const IterationHistory& history, double now_s);

  /// Null before the first plan.
  [[nodiscard]] const PlanVersion* newest() const { return versions_.empty() ? nullptr : versions_.back().get(); }
  [[nodiscard]] int newest_version() const { return versions_.empty() ? 0 : versions_.back()->version; }
  /// Null where the version was never issued or is no longer kept.
  [[nodiscard]] const PlanVersion* find(int version) const;
  /// The newest version that ranks should follow in an iteration; 0: there is none.
  [[nodiscard]] int due_version(std::int64_t iteration) const;

  /// Marks the newest plan as one for training.
  void train_by_newest();
  /// The newest plan for training, or null.
  [[nodiscard]] const PlanVersion* training() const { return training_.get(); }
  [[nodiscard]] int training_version() const { return training_ ? training_->version : 0; }
  /// The oldest plan for training, or 0.
  [[nodiscard]] int first_training_version() const { return first_training_version_; }

  /// Restores a stored version; to be called with the oldest first.
  void restore(PlanVersion version);
  /// Restores the numbers after all versions. Throws InputError.
  void restore_numbers(const JsonView& state);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

  static constexpr std::size_t kKeptVersions = 8;
  static constexpr int kReservedVersions = 16;  ///< numbers of plans that are reserved at least

 private:
  void keep(PlanVersion version);
  [[nodiscard]] int take_version();

  std::deque<std::shared_ptr<const PlanVersion>> versions_;  ///< the last ones, newest last
  std::optional<RankPlanTexts> texts_;                       ///< of the newest version
  std::optional<std::int64_t> late_boundary_;                ///< where ranks begin that have missed the version's own
  int last_version_ = 0;      ///< number that a plan may have had at most, of a server that was killed, too
  int reserved_version_ = 0;  ///< up to which a server that starts anew uses none
  std::shared_ptr<const PlanVersion> training_;
  int first_training_version_ = 0;
};

}  // namespace lowgear::server
