#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lowgear::trainer {

/// Timed work, which runs after a flush of the cache or a barrier that does not count.
struct TimedWork {
  std::function<void()> before_each;
  std::function<void()> run;
  std::function<void()> meanwhile;  ///< called once while the repeats run; may be empty
};

/// Where samples are taken. On a GPU, calls only begin work.
class SamplingDevice {
 public:
  virtual ~SamplingDevice() = default;
  /// As CUDA calls it; `CPU`.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Seconds of each of the repeats, by the device's own clock. Nothing waits for the host in between.
  [[nodiscard]] virtual std::vector<double> time_s(const TimedWork& work, int repeats) = 0;
  /// Overwrites the last-level cache.
  virtual void flush_cache() = 0;
  /// Waits until all that was begun is done.
  virtual void synchronize() = 0;
};

/// The GPU with this number among those that CUDA shows, or the CPU. Throws InputError where this build or machine has
/// no such thing.
[[nodiscard]] std::unique_ptr<SamplingDevice> open_sampling_device(bool gpu, int local_rank);

/// Release of the libtorch at hand.
[[nodiscard]] std::string torch_version();

}  // namespace lowgear::trainer
