#include "agent/gpu/unit_forecast.h"

#include <algorithm>
#include <cstdlib>

namespace lowgear::agent {
namespace {

constexpr std::int64_t kMaxGapNs = 60'000'000'000;  // longer ones are no training; also keeps sums within their type
/// No begin is expected earlier than the mean by more than this share of its gap: on a machine where units vary more,
/// the unit before would run at another unit's clock for too long.
constexpr std::int64_t kLargestSlackShare = 32;

/// How far from its expected time a unit is still looked for every few microseconds: units of one kind differ by some
/// per cent from iteration to iteration.
std::int64_t window_ns(std::int64_t gap_ns) {
  constexpr std::int64_t kShareOfGap = 8;
  return std::clamp<std::int64_t>(gap_ns / kShareOfGap, 100'000, 5'000'000);
}

}  // namespace

// Half of the newest gap: after a change of clocks the times are others. A stall says little of the next iteration, so
// that a gap counts as twice the expected one at most, and a millisecond. A gap that is shorter by a quarter is
// believed at once: a begin may be delayed by much that does not recur (the warm-up of the first iteration, an
// evaluation), while no work takes a fraction of its time once.
void UnitForecast::Step::learn(std::int64_t measured_gap_ns) {
  constexpr std::int64_t kFirstDeviationShare = 32;
  constexpr std::int64_t kSmallGapNs = 1'000'000;
  if (!is_known() || measured_gap_ns < gap_ns - gap_ns / 4) {
    gap_ns = measured_gap_ns;
    deviation_ns = measured_gap_ns / kFirstDeviationShare;
    return;
  }
  const std::int64_t error_ns = std::min(measured_gap_ns, 2 * gap_ns + kSmallGapNs) - gap_ns;
  gap_ns += error_ns / 2;
  deviation_ns += (std::abs(error_ns) - deviation_ns) / 8;
}

// Four mean deviations, as TCP allows for round-trip times (Jacobson 1988): of normal gaps 997 in 1,000 are no shorter.
std::int64_t UnitForecast::Step::earliest_ns() const {
  return gap_ns - std::min(4 * deviation_ns, gap_ns / kLargestSlackShare);
}

void UnitForecast::iteration_began(std::int64_t time_ns) {
  passed(time_ns, 0);
  steps_.resize(std::min(position_ + 1, steps_.size()));
  resembles_last_ = position_ < kMaxUnits;
  position_ = 0;
  last_ns_ = time_ns;
}

void UnitForecast::unit_began(std::int64_t time_ns, const ipc::UnitEvent& event) {
  passed(time_ns, ipc::pack_unit(event));
  ++position_;
  last_ns_ = time_ns;
}

void UnitForecast::pause() { last_ns_ = 0; }

void UnitForecast::passed(std::int64_t time_ns, std::uint64_t unit) {
  if (position_ >= kMaxUnits) return;
  if (position_ >= steps_.size()) steps_.resize(position_ + 1);
  Step& step = steps_[position_];
  if (step.unit != unit) {
    resembles_last_ = false;
    step = {.unit = unit};
  }
  if (last_ns_ != 0) step.learn(std::clamp<std::int64_t>(time_ns - last_ns_, 0, kMaxGapNs));
}

std::int64_t UnitForecast::sleep_ns(std::int64_t now_ns) const {
  if (last_ns_ == 0 || position_ >= steps_.size() || !steps_[position_].is_known()) return kCoarseNs;
  const std::int64_t gap_ns = steps_[position_].gap_ns;
  const std::int64_t window = window_ns(gap_ns);
  const std::int64_t until_ns = last_ns_ + gap_ns - now_ns;  // may be past
  if (until_ns > window) return std::min(kCoarseNs, until_ns - window);
  return until_ns >= -window ? kFineNs : kCoarseNs;
}

std::optional<UnitForecast::Expected> UnitForecast::newest_by(std::int64_t now_ns, std::int64_t until_ns) const {
  std::optional<Expected> newest;
  if (!resembles_last_ || last_ns_ == 0) return newest;
  bool in_next_iteration = false;
  std::int64_t begin_ns = last_ns_;
  std::size_t position = position_;
  for (std::size_t ahead = 0; ahead < kMaxAhead && position < steps_.size(); ++ahead) {
    const Step& step = steps_[position];
    if (!step.is_known()) break;
    begin_ns += step.earliest_ns();
    if (ahead == 0) begin_ns = std::max(begin_ns, now_ns);
    if (begin_ns > until_ns) break;
    if (step.unit != 0) {
      newest = {.unit = ipc::unpack_unit(0, step.unit), .in_next_iteration = in_next_iteration};
      ++position;
    } else {
      if (in_next_iteration) break;
      in_next_iteration = true;
      position = 0;
    }
  }
  return newest;
}

}  // namespace lowgear::agent
