#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/service/agent_service.h"
#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"
#include "hardware/gpu/gpu_setting.h"

namespace lowgear::agent {

/// Rights of one user on one GPU.
struct AllowedRange {
  int min_clock_mhz = 0;  ///< of the SMs
  int max_clock_mhz = 0;
  double min_power_w = 0;
  double max_power_w = 0;
  bool power = false;                    ///< whether power limits may be set at all
  bool memory_clocks = false;            ///< whether memory clocks may be locked
  bool persistence = false;              ///< whether persistence mode may be set
  bool workload_power_profiles = false;  ///< whether workload power profiles may be requested
  bool power_smoothing = false;          ///< whether power smoothing may be set
};

/// Throws AccessDenied where the setting needs a right that is not given, naming its key in the configuration, and
/// InputError for a value outside of the allowed range.
void require_allowed(const gpu::GpuSetting& setting, const AllowedRange& allowed);

/// The writes to a GPU so far.
struct GpuWriterStatus {
  ClockState clock_state = ClockState::untouched;
  std::optional<int> requested_min_mhz;
  std::optional<int> requested_max_mhz;
  std::uint64_t clock_writes = 0;        ///< setter calls that the driver took
  std::uint64_t clock_write_errors = 0;  ///< setter calls that the driver refused
  std::string problem;                   ///< error of the last call; empty after a success
};

/// The power limit that a GPU reported.
struct ReadPowerLimit {
  double power_limit_w = 0;
  std::chrono::steady_clock::time_point asked_at;  ///< before the query: later changes may not show
};

/// Writes to one GPU, and restores its original state. Used only by the GPU's thread. `apply` throws GpuError.
class GpuWriter {
 public:
  virtual ~GpuWriter() = default;

  /// Locks the SM clock for the unit that begins. True when the driver took it; false when nothing had to be written or
  /// the write failed, which the status then says.
  virtual bool follow(int clock_mhz) = 0;
  /// Sets the power limit of the plan for the unit that begins, as `follow` does the clock; empty: the one from before
  /// the plan set any. Nothing by default.
  virtual bool follow_power_limit(std::optional<int> /*limit_w*/) { return false; }
  virtual void apply(const gpu::GpuSetting& setting) = 0;
  /// Back to the driver's own choice of the SM clock; other settings (power limit, memory clocks,
  /// persistence mode) stay. Throws nothing: a failure shows in the status, which then still names the clock.
  virtual void suspend() noexcept = 0;
  /// Back to how the GPU was before the first write. Throws nothing: a failure shows in the status, and is tried again.
  virtual void restore() noexcept = 0;
  /// Receives the GPU's readings and its power limit (empty if it reports none) about once a second, to notice writes
  /// of another program.
  virtual void observe(const GpuReading& /*reading*/, const std::optional<ReadPowerLimit>& /*limit*/) {}
  [[nodiscard]] virtual GpuWriterStatus status() const = 0;
};

/// The clocks of a plan, unit by unit. Used by the GPU's thread alone.
class UnitClocks {
 public:
  virtual ~UnitClocks() = default;
  /// The clock for what begins in an iteration, whose number is empty before the first; empty where the plan has
  /// nothing to say.
  [[nodiscard]] virtual std::optional<int> clock_mhz(const ipc::UnitEvent& event,
                                                     std::optional<std::uint32_t> iteration) const = 0;
  /// The power limit that goes with that clock, in W; empty where the plan names none.
  [[nodiscard]] virtual std::optional<int> power_limit_w(const ipc::UnitEvent& /*event*/) const { return {}; }
  /// How long before a unit is expected to begin its clock is asked for; 0: when it begins.
  [[nodiscard]] virtual std::int64_t lead_ns() const { return 0; }
};

/// The administrator's policy and its implementation. Makes no driver calls: only the writers do.
class Policy {
 public:
  virtual ~Policy() = default;

  /// UUIDs of the GPUs that may be changed at all.
  [[nodiscard]] virtual std::vector<std::string> controlled_gpus() const = 0;
  /// Throws AccessDenied, naming the missing configuration.
  [[nodiscard]] virtual AllowedRange allow(const Peer& peer, const gpu::GpuIdentity& gpu) const = 0;
  [[nodiscard]] virtual bool may_read(const Peer& peer) const = 0;
  [[nodiscard]] virtual bool dry_run() const = 0;
  /// The one writer of a GPU.
  [[nodiscard]] virtual std::unique_ptr<GpuWriter> writer(const gpu::GpuIdentity& gpu) = 0;
  /// Reads a plan for a GPU. Throws InputError when it is none for it. May be called from any thread.
  [[nodiscard]] virtual std::unique_ptr<UnitClocks> read_plan(const ipc::PlanMessage& plan, const gpu::GpuIdentity& gpu,
                                                              const AllowedRange& allowed) const = 0;
};

}  // namespace lowgear::agent
