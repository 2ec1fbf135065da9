#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/ipc/unit_ring.h"
#include "client/agent/agent_lease.h"
#include "client/measure/unit_log.h"

namespace lowgear::client {

/// Events that the training thread reports.
struct Mark {
  std::uint64_t time_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t number = 0;   ///< of the iteration, or of the unit's microbatch
  std::uint16_t stage = 0;
  OpKind kind = OpKind::forward;
  ipc::UnitEventType type = ipc::UnitEventType::unit_begin;
  bool settling = false;  ///< of an iteration that begins: clocks have just been changed
};

/// Who takes marks, one after the other: the agent and the recording, in the end. Does not wait or allocate.
class MarkTaker {
 public:
  virtual ~MarkTaker() = default;
  virtual void take(const Mark& mark) noexcept = 0;
};

/// Writes marks to the ring that the agent reads, and units and iterations that are over to the log. At most two units
/// are open at once. One that begins as a third, begins twice, ends without having begun, or is still open when an
/// iteration begins counts as mismatched. One thread at a time writes; the counts may be read by any.
class MarkWriter final : public MarkTaker {
 public:
  /// Either may be null; they live longer than this.
  MarkWriter(AgentLease* lease, UnitLog* log) : lease_(lease), log_(log) {}

  void take(const Mark& mark) noexcept override;
  /// The same for a unit that begins or ends now, without a mark: units that the training thread reports take this way
  /// where it is not deferred, and its time counts.
  void begin_unit(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept;
  void end_unit(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept;
  /// Iterations are logged here, too, from now on; null: no more. From any thread. The named log has to stay until no
  /// thread marks any more.
  void watch_iterations(IterationLog* log) noexcept { watched_.store(log, std::memory_order_release); }
  /// An invalid mark, from any thread.
  void count_mismatch() noexcept { mismatched_.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t units() const { return units_.load(std::memory_order_relaxed); }
  /// Iterations that ended, and those of them with units at whose end the agent held the clocks of a plan.
  [[nodiscard]] std::uint64_t iterations() const { return iterations_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t planned_iterations() const { return planned_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t mismatched() const { return mismatched_.load(std::memory_order_relaxed); }

 private:
  struct OpenUnit {
    std::uint64_t unit = 0;  ///< packed; 0: none
    std::uint64_t begin_ns = 0;
  };

  void write_begin(std::uint64_t time_ns, OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept;
  void write_end(std::uint64_t time_ns, OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept;
  void begin_iteration(const Mark& mark) noexcept;
  void end_iteration(const Mark& mark) noexcept;
  /// Where a unit that begins is kept: in its own place where it is open already, a free one, or the oldest unit's.
  [[nodiscard]] OpenUnit& place_of(std::uint64_t unit) noexcept {
    const bool none_is_open = (open_[0].unit | open_[1].unit) == 0;
    if (none_is_open) [[likely]]
      return open_[0];
    return place_next_to_others(unit);
  }
  [[nodiscard]] OpenUnit& place_next_to_others(std::uint64_t unit) noexcept;
  void log_iteration(RecordType type, std::uint64_t end_ns) noexcept;
  [[nodiscard]] ipc::UnitRing* ring() const noexcept { return lease_ != nullptr ? lease_->ring() : nullptr; }

  AgentLease* lease_;
  UnitLog* log_;
  std::atomic<IterationLog*> watched_{nullptr};
  std::uint64_t iteration_ = 0;
  std::uint64_t iteration_begin_ns_ = 0;
  std::uint64_t units_before_ = 0;  ///< the iteration
  bool settling_ = false;
  std::array<OpenUnit, 2> open_;
  std::atomic<std::uint64_t> units_{0};
  std::atomic<std::uint64_t> mismatched_{0};
  std::atomic<std::uint64_t> iterations_{0};
  std::atomic<std::uint64_t> planned_{0};
};

}  // namespace lowgear::client
