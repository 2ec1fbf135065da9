#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/core/formats/json.h"
#include "protocol/job_spec.h"
#include "protocol/rank_spec.h"
#include "server/parts/iteration_history.h"
#include "server/parts/plan_version.h"

namespace lowgear::server {

/// The plans that a job has issued, and how they reach its ranks. Plans are followed even when the disk takes none.
/// Numbers are reserved on it ahead, so that a server that is killed and starts anew gives none of theirs to another
/// plan.
class PlanDelivery {
 public:
  /// Gives the plan its number, and the iteration from which ranks follow it; trials are counted from there. The job's
  /// state has to be stored with it: it has the numbers that are reserved.
  const PlanVersion& issue(PlanVersion version, const IterationHistory& history, double now_s);
  /// The answer to a rank that has version `after`; null when there is nothing newer.
  [[nodiscard]] std::shared_ptr<const std::string> plan_after(const protocol::RankSpec& rank, int after,
                                                              const IterationHistory& history, double now_s);

  /// Null: none has been issued.
  [[nodiscard]] const PlanVersion* newest() const { return versions_.empty() ? nullptr : versions_.back().get(); }
  [[nodiscard]] int newest_version() const { return versions_.empty() ? 0 : versions_.back()->version; }
  /// Null: it is not kept, or was never issued.
  [[nodiscard]] const PlanVersion* find(int version) const;
  /// The newest version that ranks should follow in an iteration; 0: there is none.
  [[nodiscard]] int due_version(std::int64_t iteration) const;

  /// The newest plan has been made to train by.
  void train_by_newest();
  /// The newest of those; null: there is none.
  [[nodiscard]] const PlanVersion* training() const { return training_.get(); }
  [[nodiscard]] int training_version() const { return training_ ? training_->version : 0; }
  /// The oldest of those; 0: there is none.
  [[nodiscard]] int first_training_version() const { return first_training_version_; }

  /// As it was stored, oldest first.
  void restore(PlanVersion version);
  /// Numbers, once all versions are restored. Throws InputError.
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
