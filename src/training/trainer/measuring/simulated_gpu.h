#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "training/launcher/config/train_config.h"
#include "training/trainer/engine/engine.h"

namespace lowgear::trainer {

/// A kernel for a simulated GPU.
struct UnitKernel {
  double compute_s = 0;  ///< at the highest SM clock
  double memory_s = 0;   ///< at any clock
  double load = 1;       ///< share of the GPU's compute power
};

/// The configured kernel of a unit. The backward of a stage with `frozen_blocks` first blocks is that of its other
/// blocks. `attention`: pairs of tokens in a document, over those where each sequence is one.
[[nodiscard]] UnitKernel simulated_kernel(const launcher::SimulatedGpuConfig& config, const StageRange& range,
                                          std::int64_t frozen_blocks, OpKind kind, double attention = 1);

/// Times of simulated kernels and of the real computation that runs concurrently.
struct SimulatedTimes {
  std::uint64_t units = 0;
  std::uint64_t outlasted = 0;  ///< units whose real computation took longer than the kernel
  double kernel_s = 0;
  double excess_s = 0;  ///< sum of the differences

  /// The real computation took longer than the kernels: clocks then have less effect than on a GPU.
  [[nodiscard]] bool invalid() const { return excess_s > 0.005 * kernel_s; }
};

/// A simulated GPU that this rank computes on: while the CPU does the work, a thread runs a kernel of the configured
/// length there, which goes with the GPU's clock and draws power; a unit ends when both are done.
class SimulatedDevice {
 public:
  /// The GPU with this UUID of the simulated machine that `nvml_library` shows. Throws InputError when the library is
  /// not that of the simulation or has no such GPU.
  SimulatedDevice(const std::string& nvml_library, const std::string& uuid);
  ~SimulatedDevice();
  SimulatedDevice(const SimulatedDevice&) = delete;
  SimulatedDevice& operator=(const SimulatedDevice&) = delete;

  void begin(const UnitKernel& kernel);
  /// Waits for the kernel. Throws Error when the simulation failed.
  void end();
  [[nodiscard]] const SimulatedTimes& times() const { return times_; }

 private:
  class Library;
  void run();

  std::unique_ptr<Library> library_;
  int index_ = 0;
  SimulatedTimes times_;

  std::mutex mutex_;
  std::condition_variable changed_;
  UnitKernel kernel_;          // under mutex_
  bool running_ = false;       // under mutex_
  bool stopping_ = false;      // under mutex_
  std::string failure_;        // under mutex_
  std::int64_t done_ns_ = 0;   // under mutex_
  std::int64_t begun_ns_ = 0;  // under mutex_
  std::thread thread_;
};

}  // namespace lowgear::trainer
