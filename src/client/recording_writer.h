#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "client/unit_log.h"
#include "measure/gpu_meter.h"

namespace lowgear {

/// What a recording says of itself.
struct RecordingHeader {
  int rank = 0;
  int world_size = 1;
  std::string job;
  std::string gpu_uuid;
  std::string gpu_name;
  std::string driver_version;
  bool simulated = false;
};

/// Where a recording goes when there is one of the rank already.
enum class RecordingFolder : unsigned char {
  must_be_new,  ///< nowhere: it is never overwritten
  next_part,    ///< beside it, in `part-00001`, `part-00002`, ...: the job was resumed
};

/// Writes the recording of one rank (`lowgear.recording/1`, docs/profiling.md): a folder with `recording.json`,
/// `units.csv`, `iterations.csv` and `energy.csv`. Not safe from several threads. Once writing fails (a full disk), the
/// rest is dropped and `problem` says why: training goes on.
class RecordingWriter {
 public:
  /// Makes `folder`/rank-00000 for rank 0. Throws InputError when it cannot be made. Times are told from `start_ns`
  /// (CLOCK_MONOTONIC).
  RecordingWriter(const std::filesystem::path& folder, RecordingFolder existing, RecordingHeader header,
                  std::uint64_t start_ns);

  void write(const UnitRecord& record);
  /// `sample.time_s` is CLOCK_MONOTONIC in seconds.
  void write(const GpuSample& sample);
  /// Hands what was written to the system, so that a killed process leaves most of its recording.
  void flush();
  /// Writes the last of it. `lost_units` could not be recorded.
  void finish(std::uint64_t lost_units);

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void open(std::ofstream& file, const char* name, const char* header);
  void check();
  void write_header(std::uint64_t lost_units);
  [[nodiscard]] double since_start_s(std::uint64_t time_ns) const;

  std::filesystem::path folder_;
  RecordingHeader header_;
  std::uint64_t start_ns_;
  double start_unix_s_;
  std::uint64_t iterations_ = 0;
  std::ofstream units_;
  std::ofstream iterations_file_;
  std::ofstream energy_;
  std::string problem_;
};

}  // namespace lowgear
