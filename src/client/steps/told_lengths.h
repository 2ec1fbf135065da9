#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/steps/begun_steps.h"
#include "client/steps/step_clocks.h"
#include "planning/steps/work_model.h"

namespace lowgear::client {

/// The lengths of iterations as a job tells them, replica by replica. Where training goes back to a checkpoint, lengths
/// that were told before are forgotten from there on: other documents may follow. Thread-safe.
class ToldLengths {
 public:
  /// Iterations whose lengths may wait: those of an epoch are not told at once.
  static constexpr std::size_t kMostIterations = 1'024;

  /// Iterations before the newest that has begun whose lengths are kept: some are told in their course.
  static constexpr std::int64_t kKept = 64;

  /// `begun`, the job's, outlives this.
  ToldLengths(const BegunSteps& begun, int replicas, int microbatches)
      : begun_(&begun), replicas_(replicas), microbatches_(microbatches) {}

  /// Lengths that do not add up, or others than those that this replica told before, make the iteration one that is
  /// not planned. Returns whether this is news: false where the same were told before. Throws InputError where there is
  /// no such replica, or too many iterations wait.
  bool tell(std::int64_t iteration, int replica, std::span<const steps::Amounts> microbatches);
  [[nodiscard]] StepLengths of(std::int64_t iteration);
  /// Whether any lengths were told.
  [[nodiscard]] bool any() const;

 private:
  struct Told {
    std::map<int, std::vector<steps::Amounts>> replicas;
    std::string fault;  ///< the first one
  };
  void look_at_begun();
  bool add(Told& told, int replica, std::span<const steps::Amounts> microbatches) const;
  [[nodiscard]] std::string what_is_missing(const Told& told) const;

  const BegunSteps* begun_;
  int replicas_;
  int microbatches_;
  mutable std::mutex mutex_;  ///< of the rest
  BegunSteps::Run run_;
  std::map<std::int64_t, Told> iterations_;
  std::map<std::int64_t, Told> again_;  ///< told after they began: those of a repetition, if training goes back
  std::optional<std::int64_t> newest_;  ///< that was told
};

}  // namespace lowgear::client
