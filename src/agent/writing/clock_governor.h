#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/journal/journal.h"
#include "agent/service/gpu_writer.h"
#include "agent/writing/clock_log.h"
#include "hardware/gpu/gpu_control.h"

namespace lowgear::agent {

struct ClockGovernorOptions {
  /// Writes nothing and logs what it would write.
  bool dry_run = false;
  /// After a write of a clock that failed, none is tried for so long.
  std::chrono::milliseconds retry_after{1'000};
  /// A clock outside the locked range for so long, while the GPU is busy and nothing holds it back, is another
  /// program's; so is a power limit that was not set here.
  std::chrono::milliseconds foreign_after{1'000};
  /// The original power limit of a GPU counts as this if it is higher: no restore goes beyond it.
  std::optional<double> safe_power_w;
  std::function<void(std::string_view)> note;  ///< receives what a dry run would do; may be empty
  std::filesystem::path clock_log;             ///< folder for a ClockLog of each GPU; empty: none
  std::function<void(std::string_view)> warn;  ///< receives what is wrong with a log; may be empty
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

  /// Applies it unless a write has just failed; true when the driver took it.
  bool try_apply(const gpu::GpuSetting& setting);
  /// Journals and writes; counts, and keeps what went wrong. Throws Error.
  void write(std::string_view what, const std::function<void()>& call);
  /// Passes the setting to the driver, and logs the clock with the times of the call.
  void call_driver(const gpu::GpuSetting& setting);
  void require_own() const;
  /// As the journal is to have it.
  [[nodiscard]] OriginalGpuState original() const;
  /// Keeps what has been set, as far as it is compared with what the GPU does.
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
