#include "server/job/slowest_rank.h"

#include <algorithm>

namespace lowgear::server {
namespace {

/// A rank counts once it has taken so much longer, in iterations.
constexpr double kBehind = 0.5;
/// What one iteration adds to that at most: a rank that stalls is waited for in the next one, and is not slow.
constexpr double kBehindByOne = 0.25;

}  // namespace

double SlowestRank::take(std::span<const double> times_s) {
  const auto longest = static_cast<std::size_t>(std::ranges::max_element(times_s) - times_s.begin());
  if (behind_.empty()) {  // ranks begin at different times, and the first one waits longest
    behind_.resize(times_s.size());
    return times_s[longest];
  }
  if (!rank_ || times_s[*rank_] == 0) {
    std::ranges::fill(behind_, 0);
    rank_ = longest;
  }
  const double time_s = times_s[*rank_];
  for (std::size_t rank = 0; rank < times_s.size(); ++rank) {
    if (times_s[rank] == 0) continue;
    const double longer = (times_s[rank] - time_s) / std::max(times_s[rank], time_s);
    behind_[rank] = std::max(0.0, behind_[rank] + std::clamp(longer, -kBehindByOne, kBehindByOne));
  }
  const auto furthest = std::ranges::max_element(behind_);
  if (*furthest >= kBehind) {
    rank_ = static_cast<std::size_t>(furthest - behind_.begin());
    std::ranges::fill(behind_, 0);
  }
  return times_s[*rank_];
}

}  // namespace lowgear::server
