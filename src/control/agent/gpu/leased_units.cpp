#include "control/agent/gpu/leased_units.h"

#include <span>
#include <utility>

#include "base/core/monotonic_clock.h"

namespace lowgear::agent {
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
  schedule_ = PollSchedule();
  wanted_clock_mhz_.reset();
  counts_ = {.late = counts_.late, .begun = 0, .lost = 0, .unplanned = 0};
  last_unit_ns_ = monotonic_ns();
  suspended_ = false;
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
  counts_.unplanned = 0;
  if (ring_) ring().unplanned_units.store(0, std::memory_order_release);
}

LeasedUnits::Look LeasedUnits::look() {
  const ipc::UnitRingReader::Batch batch = reader_->read(events_);
  const std::int64_t now_ns = monotonic_ns();
  counts_.lost += batch.lost;
  if (batch.events == 0) return {.time_ns = now_ns, .any = false, .idle_ns = now_ns - last_unit_ns_};
  std::uint64_t begun = 0;
  wanted_clock_mhz_.reset();
  for (const ipc::UnitEvent& event : std::span(events_).first(batch.events)) {
    take(event, now_ns);
    if (event.type == ipc::UnitEventType::unit_begin) ++begun;
  }
  counts_.begun += begun;
  if (begun > 1) counts_.late += begun - 1;
  last_unit_ns_ = now_ns;
  if (std::exchange(suspended_, false)) set_state(ipc::RingState::active);
  return {.time_ns = now_ns, .any = true, .idle_ns = 0};
}

void LeasedUnits::take(const ipc::UnitEvent& event, std::int64_t now_ns) {
  // The client wrote the time: one that cannot be is taken for now.
  const auto event_ns = static_cast<std::int64_t>(event.time_ns & INT64_MAX);
  const std::int64_t time_ns = event_ns <= now_ns && now_ns - event_ns < kOldestMarkNs ? event_ns : now_ns;
  if (event.type == ipc::UnitEventType::iteration_begin) {
    schedule_.iteration_began(time_ns);
    iteration_began(event.microbatch);
  }
  if (event.type == ipc::UnitEventType::unit_begin) schedule_.unit_began(time_ns);
  if (!clocks_) return;
  if (const std::optional<int> clock_mhz = clocks_->clock_mhz(event)) {
    wanted_clock_mhz_ = clock_mhz;
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

void LeasedUnits::suspend() {
  suspended_ = true;
  wanted_clock_mhz_.reset();
  schedule_.pause();
  set_state(ipc::RingState::suspended);
}

std::int64_t LeasedUnits::sleep_ns(std::int64_t now_ns) const {
  return suspended_ ? kSuspendedSleepNs : schedule_.sleep_ns(now_ns);
}

}  // namespace lowgear::agent
