#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/measure/recorded_iterations.h"
#include "client/measure/recording_writer.h"

namespace lowgear::client {

struct RankRecordingOptions {
  std::filesystem::path folder;
  RecordingFolder existing = RecordingFolder::must_be_new;
  RecordedIterations iterations;
};

/// The recording of a rank, safe from several threads. Where training goes back to an iteration that has been recorded,
/// the recording continues in a part next to it, as that of a job which was resumed.
class RankRecording {
 public:
  /// Throws InputError when it cannot be made.
  RankRecording(RankRecordingOptions options, RecordingHeader header, std::uint64_t start_ns);

  /// By the thread that trains. Neither waits nor allocates.
  void iteration_begins(std::uint64_t iteration) noexcept {
    takes_samples_.store(iterations_.contains_near(iteration), std::memory_order_relaxed);
  }
  /// Records of iterations that are not to be recorded are ignored.
  void write(const UnitRecord& record);
  /// Samples are ignored while training is at an iteration that is neither recorded nor next to one that is.
  void write(const measure::GpuSample& sample);
  void flush();
  /// Writes the last of it. `lost_units` could not be recorded.
  void finish(std::uint64_t lost_units);
  [[nodiscard]] std::string problem() const;

 private:
  void begin_part(std::uint64_t start_ns);

  std::filesystem::path folder_;
  RecordedIterations iterations_;
  RecordingHeader header_;
  std::atomic<bool> takes_samples_;
  mutable std::mutex mutex_;  ///< of all below
  std::unique_ptr<RecordingWriter> part_;
  std::optional<std::uint64_t> newest_iteration_;  ///< of the part
  std::string problem_;                            ///< that there is no further part
};

}  // namespace lowgear::client
