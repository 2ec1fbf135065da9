#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/service/gpu_writer.h"
#include "base/core/files/file_descriptor.h"
#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"

namespace lowgear::agent {

/// A unit ring in memory that the agent shares with one training process: a memfd whose size is sealed, so that the
/// client cannot truncate it (which would kill the agent with SIGBUS).
class SharedUnitRing {
 public:
  /// Throws Error when the system has no descriptor or memory left.
  SharedUnitRing();
  ~SharedUnitRing();
  SharedUnitRing(const SharedUnitRing&) = delete;
  SharedUnitRing& operator=(const SharedUnitRing&) = delete;

  [[nodiscard]] ipc::UnitRing& ring() { return *ring_; }
  /// The descriptor for the client.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
  ipc::UnitRing* ring_ = nullptr;
};

/// Predicts the next units of a training process and their times. Training is periodic: an iteration has the units of
/// its predecessor in the same order, and about the same time apart. Says how long the thread of a GPU may sleep before
/// it reads the unit ring again, and which units to ask clocks for ahead.
class UnitForecast {
 public:
  static constexpr std::int64_t kFineNs = 20'000;
  static constexpr std::int64_t kCoarseNs = 150'000;
  /// Units of an iteration that are remembered; later ones are looked for every kCoarseNs, and are not expected.
  static constexpr std::size_t kMaxUnits = 1U << 16U;
  /// Largest number of begins that are predicted ahead.
  static constexpr std::size_t kMaxAhead = 256;

  /// An iteration began: what follows is what followed its predecessor.
  void iteration_began(std::int64_t time_ns);
  /// A unit_begin.
  void unit_began(std::int64_t time_ns, const ipc::UnitEvent& event);
  /// Forgets the time of the last event: the time after a pause predicts nothing.
  void pause();

  /// Near a time when a unit is expected the thread reads every kFineNs, otherwise every kCoarseNs, so that it also
  /// finds unexpected units soon. Times are CLOCK_MONOTONIC.
  [[nodiscard]] std::int64_t sleep_ns(std::int64_t now_ns) const;

  struct Expected {
    ipc::UnitEvent unit;  ///< a unit_begin without its time
    bool in_next_iteration = false;
  };
  /// How soon units are taken to begin: as early, or as late, as 99 of 100 do, but by no more than 1/32 of its gap
  /// earlier or later than the mean.
  enum class Pace : std::uint8_t { early, late };
  /// The newest unit that is expected to have begun by `until_ns`, which is not before `now_ns`. An overdue unit is
  /// expected now. Empty: no unit begins until then but those that have, or the iteration under way does not resemble
  /// its predecessor.
  [[nodiscard]] std::optional<Expected> newest_by(std::int64_t now_ns, std::int64_t until_ns, Pace pace) const;

 private:
  /// The begin of a unit or of the next iteration, and its time after the begin before it.
  struct Step {
    std::uint64_t unit = 0;         ///< packed, without its time; 0: the next iteration
    std::int64_t gap_ns = -1;       ///< mean of recent ones, since one much shorter; below 0: not known
    std::int64_t deviation_ns = 0;  ///< mean absolute error of the forecast

    [[nodiscard]] bool is_known() const { return gap_ns >= 0; }
    void learn(std::int64_t measured_gap_ns);
    [[nodiscard]] std::int64_t gap_at_ns(Pace pace) const;
  };

  void passed(std::int64_t time_ns, std::uint64_t unit);

  std::vector<Step> steps_;      ///< of the last iteration as far as they are not yet those of the present one
  std::size_t position_ = 0;     ///< in `steps_`: the next
  std::int64_t last_ns_ = 0;     ///< 0: no event since the start or a pause
  bool resembles_last_ = false;  ///< the iteration under way its predecessor, so far
};

/// Unit starts, as read from rings.
struct UnitCounts {
  std::uint64_t late = 0;       ///< of all leases, that a newer one had overtaken when they were read
  std::uint64_t begun = 0;      ///< of the current lease
  std::uint64_t lost = 0;       ///< of the same, overwritten before they were read
  std::uint64_t unplanned = 0;  ///< that the plan which is followed does not name
};

/// The units that a process marks during a lease, and the clock that its plan wants for them. Writes to the ring what
/// the process is to know of them; sets no clocks. For one thread.
class LeasedUnits {
 public:
  /// Findings of one look at the ring.
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

  /// Reads the marks since the last look. Any mark ends a suspension.
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
  /// The plan's settings for a unit that began.
  struct Begun {
    int clock_mhz = 0;
    std::optional<int> power_limit_w;
  };
  void take(std::span<const ipc::UnitEvent> events, std::int64_t now_ns);
  void take(const ipc::UnitEvent& event, std::int64_t now_ns);
  void iteration_began(std::uint32_t iteration);
  [[nodiscard]] std::optional<int> clock_mhz(const UnitForecast::Expected& expected) const;
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
  std::optional<int> running_clock_mhz_;  ///< of the newest unit with a clock, whenever it began
  UnitCounts counts_;
  std::int64_t last_unit_ns_ = 0;
  bool suspended_ = false;
};

}  // namespace lowgear::agent
