#include "control/agent/gpu/poll_schedule.h"

#include <algorithm>

namespace lowgear::agent {
namespace {

constexpr std::int64_t kMaxGapNs = 60'000'000'000;  // longer ones are no training; also keeps sums within their type

/// How far from its expected time a unit is still looked for every few microseconds: units of one kind differ by some
/// per cent from iteration to iteration.
std::int64_t window_ns(std::int64_t gap_ns) {
  constexpr std::int64_t kShareOfGap = 8;
  return std::clamp<std::int64_t>(gap_ns / kShareOfGap, 100'000, 5'000'000);
}

}  // namespace

void PollSchedule::iteration_began(std::int64_t time_ns) {
  passed(time_ns);
  position_ = 0;
  last_ns_ = time_ns;
}

void PollSchedule::unit_began(std::int64_t time_ns) {
  passed(time_ns);
  ++position_;
  last_ns_ = time_ns;
}

void PollSchedule::pause() { last_ns_ = 0; }

void PollSchedule::passed(std::int64_t time_ns) {
  if (position_ >= kMaxUnits || last_ns_ == 0) return;
  const std::int64_t gap_ns = std::clamp<std::int64_t>(time_ns - last_ns_, 0, kMaxGapNs);
  if (position_ >= gaps_ns_.size()) gaps_ns_.resize(position_ + 1);
  gaps_ns_[position_] = gap_ns;
}

std::int64_t PollSchedule::sleep_ns(std::int64_t now_ns) const {
  if (last_ns_ == 0 || position_ >= gaps_ns_.size() || gaps_ns_[position_] == 0) return kCoarseNs;
  const std::int64_t gap_ns = gaps_ns_[position_];
  const std::int64_t window = window_ns(gap_ns);
  const std::int64_t until_ns = last_ns_ + gap_ns - now_ns;  // may be past
  if (until_ns > window) return std::min(kCoarseNs, until_ns - window);
  return until_ns >= -window ? kFineNs : kCoarseNs;
}

}  // namespace lowgear::agent
