#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/rank/rank_environment.h"
#include "estimating/sampling/sampling_options.h"
#include "training/trainer/sampler/gpu_observer.h"
#include "training/trainer/sampler/sample_writer.h"
#include "training/trainer/sampler/sampling_device.h"

namespace lowgear::trainer {

/// What a run of the sampler has, whatever it samples.
struct SamplingRun {
  const sampling::SamplingOptions& options;
  client::RankInfo rank;
  SamplingDevice& device;
  GpuObserver* gpu = nullptr;          ///< null on a CPU and where NVML shows nothing
  std::function<bool()> asked_to_end;  ///< a signal, or the time limit

  /// The median of the repeats of one pass, timed after `before_each`. As many repeats as `options` say at most, fewer
  /// where they take long. `agree` gives the largest of what the ranks say, so that all repeat as often.
  [[nodiscard]] sampling::PassSample time_pass(const TimedWork& work, const std::function<double(double)>& agree) const;
};

/// A file that a run wrote, and what became of it.
struct SampledFile {
  std::string name;  ///< of the operator or collective
  SampleWriter file;
};

/// Samples operators in this process. `on_row` is called after each row, or a point that was skipped, with what is
/// done and planned in all.
struct SamplingEvents {
  std::function<void(std::string_view what, std::size_t done, std::size_t planned)> on_row;
  std::function<void(const std::string& warning)> on_warning;
};
[[nodiscard]] std::vector<SampledFile> sample_operators(const SamplingRun& run, const SamplingEvents& events);

}  // namespace lowgear::trainer
