#include "agent/gpu/leased_units.h"

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
  forecast_ = UnitForecast();
  wanted_clock_mhz_.reset();
  begun_.reset();
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

/// The clock for the unit that is expected to run one lead from now; empty: none that has not begun.
std::optional<int> LeasedUnits::clock_ahead_mhz(std::int64_t now_ns) const {
  if (!clocks_ || clocks_->lead_ns() <= 0) return std::nullopt;
  const std::optional<UnitForecast::Expected> expected = forecast_.newest_by(now_ns, now_ns + clocks_->lead_ns());
  if (!expected) return std::nullopt;
  if (!expected->in_next_iteration || !iteration_) return clocks_->clock_mhz(expected->unit, iteration_);
  const std::uint32_t iteration = *iteration_ + 1;
  const bool switches = next_clocks_ && ipc::has_come(iteration, next_clocks_->from_iteration);
  return (switches ? next_clocks_->clocks : clocks_)->clock_mhz(expected->unit, iteration);
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
