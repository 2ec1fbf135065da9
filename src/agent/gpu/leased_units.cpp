#include "agent/gpu/leased_units.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::agent {

namespace {

[[noreturn]] void throw_ring_error(const char* call) {
  throw Error(std::string("no memory can be shared with the client: ") + call + ": " +
              std::generic_category().message(errno));
}

}  // namespace

SharedUnitRing::SharedUnitRing() : descriptor_(::memfd_create("lowgear-unit-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!descriptor_) throw_ring_error("memfd_create");
  if (::ftruncate(descriptor_.get(), sizeof(ipc::UnitRing)) != 0) throw_ring_error("ftruncate");
  void* memory = ::mmap(nullptr, sizeof(ipc::UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (memory == MAP_FAILED) throw_ring_error("mmap");
  ring_ = new (memory) ipc::UnitRing;  // NOLINT(cppcoreguidelines-owning-memory): the mapping's
  if (::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    ::munmap(memory, sizeof(ipc::UnitRing));
    throw_ring_error("sealing");
  }
}

SharedUnitRing::~SharedUnitRing() { ::munmap(ring_, sizeof(ipc::UnitRing)); }

namespace {

constexpr std::int64_t kMaxGapNs = 60'000'000'000;  // longer ones are no training; also keeps sums within their type
/// No begin is expected earlier or later than the mean by more than this share of its gap: on a machine where units
/// vary more, the unit before would run at another unit's clock for too long.
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

// Four mean deviations, as TCP allows for round-trip times (Jacobson 1988): of normal gaps 997 in 1,000 are no shorter,
// and as many no longer.
std::int64_t UnitForecast::Step::gap_at_ns(Pace pace) const {
  const std::int64_t slack_ns = std::min(4 * deviation_ns, gap_ns / kLargestSlackShare);
  return pace == Pace::early ? gap_ns - slack_ns : gap_ns + slack_ns;
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

std::optional<UnitForecast::Expected> UnitForecast::newest_by(std::int64_t now_ns, std::int64_t until_ns,
                                                              Pace pace) const {
  std::optional<Expected> newest;
  if (!resembles_last_ || last_ns_ == 0) return newest;
  bool in_next_iteration = false;
  std::int64_t begin_ns = last_ns_;
  std::size_t position = position_;
  for (std::size_t ahead = 0; ahead < kMaxAhead && position < steps_.size(); ++ahead) {
    const Step& step = steps_[position];
    if (!step.is_known()) break;
    begin_ns += step.gap_at_ns(pace);
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

namespace {

/// Oldest mark whose time is believed.
constexpr std::int64_t kOldestMarkNs = 1'000'000'000;
/// While a lease is suspended: its first unit after that may be this much late.
constexpr std::int64_t kSuspendedSleepNs = 2'000'000;

}  // namespace

void LeasedUnits::begin(std::shared_ptr<SharedUnitRing> ring) {
  ring_ = std::move(ring);
  reader_.emplace(ring_->ring());
  clocks_.reset();
  next_clocks_.reset();
  iteration_.reset();
  forecast_ = UnitForecast();
  wanted_clock_mhz_.reset();
  begun_.reset();
  running_clock_mhz_.reset();
  last_unit_ns_ = monotonic_ns();
  set_state(ipc::RingState::active);
}

void LeasedUnits::end() {
  if (ring_) {
    ring().requested_clock_mhz.store(0, std::memory_order_relaxed);
    set_state(ipc::RingState::ended);
  }
  reader_.reset();
  ring_.reset();
  clocks_.reset();
  next_clocks_.reset();
  counts_ = {.late = counts_.late, .begun = 0, .lost = 0, .unplanned = 0};
  suspended_ = false;
}

void LeasedUnits::set_state(ipc::RingState state) {
  ring().state.store(static_cast<std::uint32_t>(state), std::memory_order_release);
}

void LeasedUnits::follow(std::unique_ptr<UnitClocks> clocks) {
  use(std::move(clocks));
  wanted_clock_mhz_.reset();
}

ipc::PlanAnswer LeasedUnits::follow_from(std::uint32_t iteration, std::unique_ptr<UnitClocks> clocks) {
  if (iteration_ && ipc::has_come(*iteration_, iteration)) return ipc::TooLateMessage{.begun_iteration = *iteration_};
  next_clocks_ = {.from_iteration = iteration, .clocks = std::move(clocks)};
  return ipc::AcceptedMessage{};
}

void LeasedUnits::use(std::unique_ptr<UnitClocks> clocks) {
  clocks_ = std::move(clocks);
  next_clocks_.reset();
  running_clock_mhz_.reset();
  counts_.unplanned = 0;
  if (ring_) ring().unplanned_units.store(0, std::memory_order_release);
}

LeasedUnits::Look LeasedUnits::look() {
  const ipc::UnitRingReader::Batch batch = reader_->read(events_);
  const std::int64_t now_ns = monotonic_ns();
  counts_.lost += batch.lost;
  begun_.reset();
  if (batch.events > 0) take(std::span(events_).first(batch.events), now_ns);
  const std::optional<int> ahead_mhz = clock_ahead_mhz(now_ns);
  wanted_clock_mhz_ = ahead_mhz ? ahead_mhz : begun_clock_mhz();
  return {.time_ns = now_ns, .any = batch.events > 0, .idle_ns = now_ns - last_unit_ns_};
}

void LeasedUnits::take(std::span<const ipc::UnitEvent> events, std::int64_t now_ns) {
  std::uint64_t begun = 0;
  for (const ipc::UnitEvent& event : events) {
    take(event, now_ns);
    if (event.type == ipc::UnitEventType::unit_begin) ++begun;
  }
  counts_.begun += begun;
  if (begun > 1) counts_.late += begun - 1;
  last_unit_ns_ = now_ns;
  if (std::exchange(suspended_, false)) set_state(ipc::RingState::active);
}

void LeasedUnits::take(const ipc::UnitEvent& event, std::int64_t now_ns) {
  // The client wrote the time: one that cannot be is taken for now.
  const auto event_ns = static_cast<std::int64_t>(event.time_ns & INT64_MAX);
  const std::int64_t time_ns = event_ns <= now_ns && now_ns - event_ns < kOldestMarkNs ? event_ns : now_ns;
  if (event.type == ipc::UnitEventType::iteration_begin) {
    forecast_.iteration_began(time_ns);
    iteration_began(event.microbatch);
  }
  if (event.type == ipc::UnitEventType::unit_begin) forecast_.unit_began(time_ns, event);
  if (!clocks_) return;
  if (const std::optional<int> clock_mhz = clocks_->clock_mhz(event, iteration_)) {
    begun_ = {*clock_mhz, clocks_->power_limit_w(event)};
    running_clock_mhz_ = clock_mhz;
  } else if (event.type == ipc::UnitEventType::unit_begin) {
    ++counts_.unplanned;
    ring().unplanned_unit.store(pack_unit(event), std::memory_order_relaxed);
    ring().unplanned_units.store(counts_.unplanned, std::memory_order_release);
  }
}

void LeasedUnits::iteration_began(std::uint32_t iteration) {
  iteration_ = iteration;
  if (!next_clocks_ || !ipc::has_come(iteration, next_clocks_->from_iteration)) return;
  use(std::move(next_clocks_->clocks));
}

std::optional<int> LeasedUnits::clock_mhz(const UnitForecast::Expected& expected) const {
  if (!expected.in_next_iteration || !iteration_) return clocks_->clock_mhz(expected.unit, iteration_);
  const std::uint32_t iteration = *iteration_ + 1;
  const bool switches = next_clocks_ && ipc::has_come(iteration, next_clocks_->from_iteration);
  return (switches ? next_clocks_->clocks : clocks_)->clock_mhz(expected.unit, iteration);
}

/// The clock for the units that may run one lead from now; empty: none that has not begun. Units vary, so that a change
/// comes early or late: of two clocks the higher one, so that no unit takes longer than planned. A rise is asked for as
/// early as its unit may begin, and a fall as late.
std::optional<int> LeasedUnits::clock_ahead_mhz(std::int64_t now_ns) const {
  if (!clocks_ || clocks_->lead_ns() <= 0) return std::nullopt;
  const std::int64_t until_ns = now_ns + clocks_->lead_ns();
  const auto first = forecast_.newest_by(now_ns, until_ns, UnitForecast::Pace::early);
  if (!first) return std::nullopt;
  const auto last = forecast_.newest_by(now_ns, until_ns, UnitForecast::Pace::late);
  return std::max(clock_mhz(*first), last ? clock_mhz(*last) : running_clock_mhz_);  // an absent clock is the lowest
}

void LeasedUnits::suspend() {
  suspended_ = true;
  wanted_clock_mhz_.reset();
  forecast_.pause();
  set_state(ipc::RingState::suspended);
}

std::int64_t LeasedUnits::sleep_ns(std::int64_t now_ns) const {
  return suspended_ ? kSuspendedSleepNs : forecast_.sleep_ns(now_ns);
}

}  // namespace lowgear::agent
