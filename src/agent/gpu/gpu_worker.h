#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "agent/gpu/guarded_driver.h"
#include "agent/gpu/leased_units.h"
#include "agent/service/agent_service.h"
#include "agent/service/gpu_writer.h"
#include "base/ipc/lease_messages.h"

namespace lowgear::agent {

/// Counters of a GPU's thread; readable at any time.
struct GpuWorkerStatus {
  GpuWriterStatus writer;
  UnitCounts units;
  bool has_plan = false;
  bool suspended = false;
  /// Time that the thread has spent in its current task or driver call.
  std::chrono::nanoseconds busy{0};
};

struct GpuWorkerOptions {
  /// After this time without a unit the SM clock returns to its default until the next unit.
  std::chrono::milliseconds suspend_after{30'000};
  /// Between attempts to restore a GPU, or to suspend its clock, whose driver refused.
  std::chrono::milliseconds retry_after{1'000};
};

/// One thread per controlled GPU, the only one that writes to it. It runs tasks in order, and during a lease it reads
/// the lease's unit ring and applies the plan's clock of the newest unit; units that were overtaken are counted and
/// skipped. A driver that hangs blocks only this GPU's thread.
class GpuWorker {
 public:
  using Task = std::function<void(GpuWriter&)>;

  /// Keeps `system` alive as long as the thread, that is for ever if the driver never returns.
  GpuWorker(const GuardedGpus& system, std::unique_ptr<GpuWriter> writer, GpuWorkerOptions options);
  /// Ends the thread after the present task; waits at most `DriverThread::kPatience`. Restores nothing.
  ~GpuWorker();
  GpuWorker(const GpuWorker&) = delete;
  GpuWorker& operator=(const GpuWorker&) = delete;

  /// Runs the task on the thread. The future rethrows its exceptions.
  std::future<void> post(Task task);
  /// Sets it on the thread. `done` is called there once the status shows the outcome, with the error or null.
  void apply(const gpu::GpuSetting& setting, std::function<void(std::exception_ptr)> done);
  /// Follows the units of a lease from now on.
  std::future<void> begin_lease(std::shared_ptr<SharedUnitRing> ring);
  /// Sets the clocks for the units of the lease, at once or from the begin of an iteration on; they replace clocks that
  /// still wait for their iteration. Both functions run on the thread: `make`, because reading a long plan takes time,
  /// and `reply`, with a refusal if `make` threw and too_late if the lease's ring shows that the iteration has begun;
  /// clocks are then unchanged.
  void follow_plan(std::function<std::unique_ptr<UnitClocks>()> make, std::optional<std::uint32_t> from_iteration,
                   std::function<void(ipc::PlanAnswer)> reply);
  /// Ends the lease, if there is one, and restores the GPU; tries again when that fails, until a client writes to it.
  std::future<void> end_lease();
  /// Calls `done` on the thread after all earlier tasks.
  void tell_when_done(std::function<void()> done);

  [[nodiscard]] GpuWorkerStatus status() const;

 private:
  class Loop;
  std::shared_ptr<Loop> loop_;
  DriverThread thread_;
};

}  // namespace lowgear::agent
