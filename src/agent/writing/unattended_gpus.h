#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string_view>
#include <vector>

#include "agent/gpu/guarded_driver.h"
#include "agent/journal/journal.h"
#include "agent/service/agent_service.h"
#include "hardware/gpu/gpu_control.h"

namespace lowgear::agent {

struct Config;

/// GPUs that the configuration names and that did not answer, and GPUs that the journal names and that the
/// configuration does not give to a GpuWorker. To be asked after `recover`.
[[nodiscard]] std::vector<UnattendedGpu> find_unattended_gpus(const Config& config, const gpu::GpuSystem& system,
                                                              const Journal& journal);

struct UnattendedGpusOptions {
  /// Opens the driver anew: a GPU that did not answer may be found only then. Throws GpuError.
  std::function<std::unique_ptr<gpu::GpuControlSystem>()> open;
  std::chrono::milliseconds retry_after{2'000};  ///< between attempts to restore
  std::function<void(std::string_view)> note;    ///< receives restored GPUs; may be empty
};

/// Handles GPUs without a GpuWorker: tries on a separate thread to restore those that were left changed, until all are
/// restored. May be called from any thread.
class UnattendedGpus {
 public:
  UnattendedGpus(std::vector<UnattendedGpu> gpus, std::shared_ptr<Journal> journal, UnattendedGpusOptions options);
  /// Ends the thread after the attempt at hand; waits for it `DriverThread::kPatience` at most.
  ~UnattendedGpus();
  UnattendedGpus(const UnattendedGpus&) = delete;
  UnattendedGpus& operator=(const UnattendedGpus&) = delete;

  /// With an entry for a damaged journal, which may have named any GPU.
  [[nodiscard]] std::vector<UnattendedGpu> list() const;
  /// Tries to restore at once. The future is ready after the attempt; `list` then has its outcome.
  [[nodiscard]] std::future<void> restore();
  /// The same; `done` is called on the thread.
  void restore(std::function<void()> done);

 private:
  class Loop;
  std::shared_ptr<Loop> loop_;
  DriverThread thread_;
};

}  // namespace lowgear::agent
