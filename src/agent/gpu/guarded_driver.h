#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

/// A thread that calls the driver, which may never return: the wait for its end is bounded. An abandoned thread still
/// uses what its function holds, so the function must own all of it, and the driver's library and all others, so a
/// program with such threads returns from `main` by `end_process`.
class DriverThread {
 public:
  using Clock = std::chrono::steady_clock;
  /// Longest wait for a thread that was asked to end.
  static constexpr std::chrono::seconds kPatience{1};

  explicit DriverThread(std::function<void()> run);
  /// The owner must have asked `run` to end. Waits at most `kPatience` for that.
  ~DriverThread();
  DriverThread(const DriverThread&) = delete;
  DriverThread& operator=(const DriverThread&) = delete;
  DriverThread(DriverThread&&) = default;
  DriverThread& operator=(DriverThread&&) = delete;

  /// Joins the thread if it ends by then, and detaches it otherwise. For several threads that share one deadline.
  void end_until(Clock::time_point deadline);

 private:
  std::future<void> ended_;
  std::thread thread_;
};

/// Ends the program as a return from `main` does. Once a DriverThread was abandoned, it does so without destroying what
/// is static: objects of the libraries, the driver's among them, that the thread may be using or use when the driver
/// returns.
[[noreturn]] void end_process(int code);

/// Tasks for one thread, which runs them in order between other things that it does: whether there is one costs it an
/// atomic load.
class TaskQueue {
 public:
  using Task = std::packaged_task<void()>;

  // By any thread.
  /// The future rethrows the task's exceptions.
  std::future<void> post(std::function<void()> task);
  /// The thread is to end after the task that it is at; no further task runs.
  void stop();

  // By the thread.
  /// The next task; empty when none waits, or the thread is to end.
  [[nodiscard]] std::optional<Task> next();
  [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  /// Waits until `next` or `stopped` has changed.
  void wait();
  /// The same for a time; false when nothing has changed.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time);

 private:
  void call();
  [[nodiscard]] bool called() const { return called_.load(std::memory_order_acquire); }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;           // under mutex_
  std::atomic<bool> called_{false};  // changes under mutex_
  std::atomic<bool> stopped_{false};
};

/// The GPUs of the machine as the agent's main thread sees them: only their identities. Calls of the driver, which may
/// never return, are made only on the separate thread of each GPU.
class GuardedGpus {
 public:
  /// No GPUs.
  GuardedGpus() = default;
  /// Guards the GPUs of any system.
  template <std::derived_from<gpu::GpuSystem> System>
  GuardedGpus(std::shared_ptr<System> driver)  // NOLINT(google-explicit-constructor)
      : driver_(std::move(driver)),
        simulated_(driver_->simulated()),
        driver_version_(driver_->driver_version()),
        hidden_(driver_->problems()) {
    for (const std::unique_ptr<gpu::Gpu>& gpu : driver_->gpus()) identities_.push_back(gpu->identity());
  }

  /// In the driver's order.
  [[nodiscard]] const std::vector<gpu::GpuIdentity>& identities() const { return identities_; }
  [[nodiscard]] bool simulated() const { return simulated_; }
  [[nodiscard]] const std::string& driver_version() const { return driver_version_; }

  /// Reasons why GPUs that the driver counts are missing here, one line each.
  [[nodiscard]] const std::vector<std::string>& hidden() const { return hidden_; }

  /// The place in `identities` of the GPU with this UUID or PCI address. Throws InputError naming the existing ones.
  [[nodiscard]] std::size_t index_of(std::string_view uuid_or_pci_address) const;

 private:
  friend class GpuWorker;
  friend class Telemetry;
  [[nodiscard]] const std::shared_ptr<gpu::GpuSystem>& driver() const { return driver_; }

  std::shared_ptr<gpu::GpuSystem> driver_;
  bool simulated_ = false;
  std::string driver_version_;
  std::vector<std::string> hidden_;
  std::vector<gpu::GpuIdentity> identities_;
};

}  // namespace lowgear::agent
