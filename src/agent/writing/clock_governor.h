#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/journal/journal.h"
#include "agent/service/gpu_writer.h"
#include "hardware/gpu/gpu_control.h"

namespace lowgear::agent {

/// Nanoseconds since 1970.
[[nodiscard]] std::int64_t wall_clock_ns();

/// The SM clocks that one GPU was locked to, as Perseus' client logs them: `freq,start,end` in MHz and nanoseconds
/// since 1970, from the return of the driver's call that set the clock to the call that set the next one. What lies
/// between the end of a row and the start of the next is the call. Writes a few kilobytes at once, and the rest when
/// the clocks are restored. A file that cannot be written is reported once and is then left alone. For one thread.
class ClockLog {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;

  /// Appends to the file; one of more than `max_bytes` becomes FILE.old, which replaces an earlier one.
  ClockLog(std::filesystem::path file, std::function<void(const std::string& problem)> warn,
           std::size_t max_bytes = kMaxBytes);
  ClockLog(const ClockLog&) = delete;
  ClockLog& operator=(const ClockLog&) = delete;
  ~ClockLog() { ended(wall_clock_ns()); }

  /// The driver was asked for a clock, and returned.
  void set(int clock_mhz, std::int64_t asked_ns, std::int64_t returned_ns);
  /// The clock is the driver's own choice again, from a call at this time on.
  void ended(std::int64_t asked_ns);

 private:
  void close_row(std::int64_t end_ns);
  void flush();

  std::filesystem::path file_;
  std::function<void(const std::string& problem)> warn_;
  std::size_t max_bytes_;
  std::string lines_;  ///< that wait to be written
  std::optional<int> clock_mhz_;
  std::int64_t start_ns_ = 0;
  bool failed_ = false;
};

struct ClockGovernorOptions {
  /// Writes nothing and logs each write that it would make.
  bool dry_run = false;
  /// Pause after a failed write of a clock.
  std::chrono::milliseconds retry_after{1'000};
  /// After this time outside the locked range, while the GPU is busy and not throttled, a clock counts as another
  /// program's; so does a power limit that was not set here.
  std::chrono::milliseconds foreign_after{1'000};
  /// The original power limit of a GPU counts as this if it is higher: no restore goes beyond it.
  std::optional<double> safe_power_w;
  std::function<void(std::string_view)> note;  ///< receives the writes of a dry run; may be empty
  std::filesystem::path clock_log;             ///< folder for a ClockLog of each GPU; empty: none
  std::function<void(std::string_view)> warn;  ///< receives errors of a log; may be empty
  std::function<std::chrono::steady_clock::time_point()> now = [] { return std::chrono::steady_clock::now(); };
};

/// Writes to one GPU through NVML and keeps the promises of the agent: the GPU is in the journal before its first
/// write, values that are already set are not written, another program's clocks are left alone when they are noticed,
/// and everything is restored.
class ClockGovernor final : public GpuWriter {
 public:
  /// A GPU that the journal still names counts as one whose restoring failed, so that it is tried again.
  ClockGovernor(std::unique_ptr<gpu::GpuControl> control, std::shared_ptr<Journal> journal,
                ClockGovernorOptions options);

  bool follow(int clock_mhz) override;
  bool follow_power_limit(std::optional<int> limit_w) override;
  void apply(const gpu::GpuSetting& setting) override;
  void suspend() noexcept override;
  void restore() noexcept override;
  void observe(const GpuReading& reading, const std::optional<ReadPowerLimit>& limit) override;
  [[nodiscard]] GpuWriterStatus status() const override { return status_; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  /// Applies the setting unless a write has just failed; true when the driver took it.
  bool try_apply(const gpu::GpuSetting& setting);
  /// Journals and writes; counts, and keeps what went wrong. Throws Error.
  void write(std::string_view what, const std::function<void()>& call);
  /// Passes the setting to the driver, and logs the clock with the times of the call.
  void call_driver(const gpu::GpuSetting& setting);
  void require_own() const;
  /// The entry for the journal.
  [[nodiscard]] OriginalGpuState original() const;
  /// Keeps the values that are compared with the GPU's readings.
  void remember(const gpu::GpuSetting& setting);
  void observe_clock(const GpuReading& reading);
  void observe_power_limit(const ReadPowerLimit& limit);
  void leave_to_others(std::string_view what_shows_them);
  /// Whether the SM clock may be another than the driver's own choice.
  [[nodiscard]] bool may_hold_sm_clock() const;

  std::unique_ptr<gpu::GpuControl> control_;
  std::shared_ptr<Journal> journal_;
  ClockGovernorOptions options_;
  GpuWriterStatus status_;
  std::optional<Time> retry_at_;
  std::optional<Time> outside_since_;  ///< since when the clock has been outside the locked range
  Time locked_at_;
  std::optional<double> power_limit_w_;        ///< as it was set here; empty before
  std::optional<double> limit_before_plan_w_;  ///< empty while no plan has set one
  std::optional<Time> other_limit_since_;
  Time limited_at_;
  std::unique_ptr<ClockLog> log_;  ///< null: none is kept
};

}  // namespace lowgear::agent
