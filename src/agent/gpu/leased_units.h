#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "agent/gpu/shared_unit_ring.h"
#include "agent/gpu/unit_counts.h"
#include "agent/gpu/unit_forecast.h"
#include "agent/service/gpu_writer.h"
#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"

namespace lowgear::agent {

/// The units that a process marks during a lease, and the clock that its plan wants for them. Writes to the ring what
/// the process is to know of them; sets no clocks. For one thread.
class LeasedUnits {
 public:
  /// What a look at the ring has found.
  struct Look {
    std::int64_t time_ns = 0;  ///< CLOCK_MONOTONIC, after the ring was read
    bool any = false;          ///< something was marked
    std::int64_t idle_ns = 0;  ///< since something was marked, or the lease began
  };

  void begin(std::shared_ptr<SharedUnitRing> ring);
  /// Leaves the ring to the process, as that of a lease which has ended. Does nothing without a lease.
  void end();
  /// Whether there is a lease.
  [[nodiscard]] bool active() const { return ring_ != nullptr; }
  /// During a lease.
  [[nodiscard]] ipc::UnitRing& ring() { return ring_->ring(); }

  /// These clocks count from the next unit on, and none that wait.
  void follow(std::unique_ptr<UnitClocks> clocks);
  /// These clocks wait for their iteration, in the place of others that do; too_late when it has begun.
  [[nodiscard]] ipc::PlanAnswer follow_from(std::uint32_t iteration, std::unique_ptr<UnitClocks> clocks);
  [[nodiscard]] bool has_clocks() const { return clocks_ != nullptr; }

  /// Reads what was marked since the last look. Ends a suspension when that is anything.
  Look look();
  /// The clock to ask for since the last look: that for the newest unit that was read in it, or, where the plan has
  /// clocks asked for ahead, for the one that is expected to run when the request takes effect. Empty: none.
  [[nodiscard]] std::optional<int> wanted_clock_mhz() const { return wanted_clock_mhz_; }
  /// The clock that the newest unit was to have from its begin; empty when the last look has found none with a clock.
  [[nodiscard]] std::optional<int> begun_clock_mhz() const {
    return begun_ ? std::optional(begun_->clock_mhz) : std::nullopt;
  }
  /// The power limit of that unit; empty when the last look has found none with one.
  [[nodiscard]] std::optional<int> begun_power_limit_w() const { return begun_ ? begun_->power_limit_w : std::nullopt; }
  /// No clock is wanted until something is marked.
  void suspend();
  [[nodiscard]] bool suspended() const { return suspended_; }
  /// How long to sleep before the next look.
  [[nodiscard]] std::int64_t sleep_ns(std::int64_t now_ns) const;
  [[nodiscard]] const UnitCounts& counts() const { return counts_; }

 private:
  /// Clocks that wait for their iteration.
  struct NextClocks {
    std::uint32_t from_iteration = 0;
    std::unique_ptr<UnitClocks> clocks;
  };
  /// What the plan sets for a unit that began.
  struct Begun {
    int clock_mhz = 0;
    std::optional<int> power_limit_w;
  };
  void take(std::span<const ipc::UnitEvent> events, std::int64_t now_ns);
  void take(const ipc::UnitEvent& event, std::int64_t now_ns);
  void iteration_began(std::uint32_t iteration);
  [[nodiscard]] std::optional<int> clock_ahead_mhz(std::int64_t now_ns) const;
  void use(std::unique_ptr<UnitClocks> clocks);
  void set_state(ipc::RingState state);

  std::shared_ptr<SharedUnitRing> ring_;  ///< null: no lease
  std::optional<ipc::UnitRingReader> reader_;
  std::unique_ptr<UnitClocks> clocks_;
  std::optional<NextClocks> next_clocks_;
  std::optional<std::uint32_t> iteration_;  ///< the newest that began
  UnitForecast forecast_;
  std::array<ipc::UnitEvent, ipc::kUnitRingCapacity> events_{};
  std::optional<int> wanted_clock_mhz_;
  std::optional<Begun> begun_;
  UnitCounts counts_;
  std::int64_t last_unit_ns_ = 0;
  bool suspended_ = false;
};

}  // namespace lowgear::agent
