#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "control/client/measure/recording_writer.h"

namespace lowgear {

/// The recording of a rank, safe from several threads. Where training goes back to an iteration that has been recorded,
/// the recording continues in a part next to it, as that of a job which was resumed.
class RankRecording {
 public:
  /// Throws InputError when it cannot be made.
  RankRecording(std::filesystem::path folder, RecordingFolder existing, RecordingHeader header, std::uint64_t start_ns);

  void write(const UnitRecord& record);
  void write(const GpuSample& sample);
  void flush();
  /// Writes the last of it. `lost_units` could not be recorded.
  void finish(std::uint64_t lost_units);
  [[nodiscard]] std::string problem() const;

 private:
  void begin_part(std::uint64_t start_ns);

  std::filesystem::path folder_;
  RecordingHeader header_;
  mutable std::mutex mutex_;  ///< of all below
  std::unique_ptr<RecordingWriter> part_;
  std::optional<std::uint64_t> newest_iteration_;  ///< of the part
  std::string problem_;                            ///< that there is no further part
};

}  // namespace lowgear
