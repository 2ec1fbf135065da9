#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "client/rank/rank_environment.h"
#include "estimating/sampling/sampling_options.h"
#include "training/trainer/sampler/gpu_observer.h"
#include "training/trainer/sampler/sample_writer.h"
#include "training/trainer/sampler/sampling_device.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Options of every run of the sampler.
struct SamplingRun {
  const sampling::SamplingOptions& options;
  client::RankInfo rank;
  SamplingDevice& device;
  GpuObserver* gpu = nullptr;          ///< null on a CPU and where NVML shows nothing
  std::function<bool()> asked_to_end;  ///< a signal, or the time limit

  /// The median of the repeats of one pass, timed after `before_each`. As many repeats as `options` say at most, fewer
  /// where they take long. `agree` returns the largest value of all ranks, so that all repeat as often.
  [[nodiscard]] sampling::PassSample time_pass(const TimedWork& work, const std::function<double(double)>& agree) const;
};

/// A file that a run wrote, with its rows.
struct SampledFile {
  std::string name;  ///< of the operator or collective
  SampleWriter file;
};

/// Samples operators in this process. `on_row` is called after each row, or a point that was skipped, with the numbers
/// of points that are done and planned in all.
struct SamplingEvents {
  std::function<void(std::string_view what, std::size_t done, std::size_t planned)> on_row;
  std::function<void(const std::string& warning)> on_warning;
};
[[nodiscard]] std::vector<SampledFile> sample_operators(const SamplingRun& run, const SamplingEvents& events);

/// The origin of samples, for their readers.
struct SamplingRecord {
  std::string device;
  std::string driver;  ///< empty where there is none
  std::string torch;   ///< release of libtorch
  std::string type;
  bool simulated = false;  ///< the GPU's counters are Lowgear's simulation

  [[nodiscard]] Json to_json() const;
};

/// Writes `sampling.json` next to the files, with the day. Where there is one already, rows are added only to those of
/// the same device, driver and libtorch: throws InputError when it says something else, or cannot be read or written.
void write_record(const std::filesystem::path& folder, const SamplingRecord& record);

/// The result of a run, for people and as JSON.
[[nodiscard]] std::string summary_text(const std::vector<SampledFile>& files);
[[nodiscard]] Json summary_json(const SamplingRecord& record, const std::vector<SampledFile>& files);

/// Samples collectives of all ranks, each of which calls this. Rank 0 writes the files and has the events; the others
/// return none. Throws PeerLost when another rank has gone, and InputError where there is but one rank.
[[nodiscard]] std::vector<SampledFile> sample_collectives(const SamplingRun& run, const Rendezvous& rendezvous,
                                                          const SamplingEvents& events);

/// All of `main` of lowgear-sampler: times operators in one process, or collectives as one rank of several, and returns
/// the exit code.
[[nodiscard]] int run_sampler_program(int count, char** words);

}  // namespace lowgear::trainer
