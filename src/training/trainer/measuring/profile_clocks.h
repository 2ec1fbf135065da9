#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "training/launcher/config/train_config.h"

namespace lowgear::trainer {

/// The clocks of a run that profiles: each in turn for the configured number of iterations. The first ones do not
/// count, as the clock settles. A run that continues from a checkpoint continues with the iteration's clock, which
/// settles once more.
class ProfileClocks {
 public:
  /// Empty: the run does not profile.
  explicit ProfileClocks(std::optional<launcher::ProfileConfig> profile);

  /// Called before each iteration, in order. Returns the clock to change to, in MHz; empty: none.
  [[nodiscard]] std::optional<int> change_before(std::int64_t iteration);
  /// Whether an iteration does not count, as the clock has just been changed.
  [[nodiscard]] bool settles_at(std::int64_t iteration) const { return iteration < settled_from_; }

 private:
  std::optional<launcher::ProfileConfig> profile_;
  std::optional<std::size_t> index_;  ///< of the current clock
  std::int64_t settled_from_ = 0;     ///< first iteration that counts for it
};

}  // namespace lowgear::trainer
