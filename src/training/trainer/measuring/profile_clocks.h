#pragma once

#include <cstdint>
#include <optional>

#include "training/launcher/config/train_config.h"

namespace lowgear::trainer {

/// The clocks of a run that profiles: each in turn for as many steps as configured, of which the first ones do not
/// count, as the clock settles. A run that continues from a checkpoint continues with the step's clock, which has to
/// settle once more.
class ProfileClocks {
 public:
  /// Empty: the run does not profile.
  explicit ProfileClocks(std::optional<launcher::ProfileConfig> profile);

  /// To be called before each step, in order: the clock to change to, in MHz; empty: none.
  [[nodiscard]] std::optional<int> change_before(std::int64_t step);
  /// Whether a step does not count, as the clock has just been changed.
  [[nodiscard]] bool settles_at(std::int64_t step) const { return step < settled_from_; }

 private:
  std::optional<launcher::ProfileConfig> profile_;
  std::optional<std::size_t> index_;  ///< of the present clock
  std::int64_t settled_from_ = 0;     ///< first step that counts for it
};

}  // namespace lowgear::trainer
