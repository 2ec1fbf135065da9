#include "training/trainer/measuring/profile_clocks.h"

#include <utility>

namespace lowgear::trainer {

ProfileClocks::ProfileClocks(std::optional<launcher::ProfileConfig> profile) : profile_(std::move(profile)) {}

std::optional<int> ProfileClocks::change_before(std::int64_t iteration) {
  if (!profile_) return std::nullopt;
  const std::int64_t length = profile_->settle_iterations + profile_->iterations;
  const auto index = static_cast<std::size_t>(iteration / length);
  if (index >= profile_->clocks_mhz.size() || index_ == index) return std::nullopt;
  index_ = index;
  settled_from_ = iteration + profile_->settle_iterations;
  return profile_->clocks_mhz[index];
}

}  // namespace lowgear::trainer
