#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/steps/step_clocks.h"
#include "planning/steps/work_model.h"

namespace lowgear::client {

/// The lengths of iterations as a job tells them, replica by replica. Thread-safe.
class ToldLengths {
 public:
  /// Iterations whose lengths may wait: those of an epoch are not told at once.
  static constexpr std::size_t kMostIterations = 1'024;

  ToldLengths(int replicas, int microbatches) : replicas_(replicas), microbatches_(microbatches) {}

  /// Lengths that do not add up, or others than those that this replica told before, make the iteration one that is
  /// not planned. Returns whether this is news: false where the same were told before. Throws InputError where there is
  /// no such replica, or too many iterations wait.
  bool tell(std::int64_t iteration, int replica, std::span<const steps::Amounts> microbatches);
  [[nodiscard]] StepLengths of(std::int64_t iteration) const;
  /// Those of earlier iterations are not needed any more.
  void forget_before(std::int64_t iteration);

 private:
  struct Told {
    std::map<int, std::vector<steps::Amounts>> replicas;
    std::string fault;  ///< the first one
  };
  [[nodiscard]] std::string what_is_missing(const Told& told) const;

  int replicas_;
  int microbatches_;
  mutable std::mutex mutex_;  ///< of the rest
  std::map<std::int64_t, Told> iterations_;
  std::optional<std::int64_t> newest_;  ///< that was told
};

}  // namespace lowgear::client
