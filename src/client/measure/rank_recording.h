#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/files/file.h"
#include "client/measure/unit_log.h"
#include "hardware/measure/gpu_meter.h"

namespace lowgear::client {

/// The header of a recording.
struct RecordingHeader {
  int rank = 0;
  int world_size = 1;
  std::string job;
  std::string gpu_uuid;
  std::string gpu_name;
  std::string driver_version;
  bool simulated = false;
  std::string invalid = {};  ///< why its times and energies mean nothing; empty: they do
  std::string failure = {};  ///< that has ended the rank; empty: none has
  double clock_lead_s = 0;   ///< longest time before its unit that a clock was requested
};

/// Where a recording goes when there is one of the rank already.
enum class RecordingFolder : unsigned char {
  must_be_new,  ///< nowhere: it is never overwritten
  next_part,    ///< next to it, in `part-00001`, `part-00002`, ...: the job was resumed
};

/// Writes the recording of one rank (`lowgear.recording/1`, docs/profiling.md): a folder with `recording.json`,
/// `units.csv`, `iterations.csv` and `energy.csv`. Not safe from several threads. Once writing fails (a full disk), or
/// a file is as long as readers take, the rest is dropped and `problem` says why: training continues. The files then
/// end with the line that was written whole last.
class RecordingWriter {
 public:
  /// Makes `folder`/rank-00000 for rank 0. Throws InputError when it cannot be made. Times count from `start_ns`
  /// (CLOCK_MONOTONIC). No file becomes longer than `max_file_bytes`.
  RecordingWriter(const std::filesystem::path& folder, RecordingFolder existing, RecordingHeader header,
                  std::uint64_t start_ns, std::uint64_t max_file_bytes = kMaxFileBytes);

  void write(const UnitRecord& record);
  /// `sample.time_s` is CLOCK_MONOTONIC in seconds.
  void write(const measure::GpuSample& sample);
  /// Flushes to the system, so that a killed process leaves most of its recording.
  void flush();
  /// The header says why from the next `flush` on: a job may be killed.
  void set_invalid(std::string why) { header_.invalid = std::move(why); }
  /// Clocks are requested so long before their units from now on. The header says so at once: a job may be killed.
  void set_clock_lead(double lead_s);
  /// What ends the rank; the header has it from `finish` on.
  void set_failure(std::string failure) { header_.failure = std::move(failure); }
  /// Writes the last of it. `lost_units` could not be recorded.
  void finish(std::uint64_t lost_units);

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  /// One of its tables.
  struct Table {
    std::filesystem::path path;
    std::ofstream stream;
    std::uint64_t whole_bytes = 0;  ///< as long as it was when it could last be written to: whole lines
  };

  void open(Table& table, const char* name, const char* header);
  /// Why no more can be written to it; empty when nothing is wrong.
  [[nodiscard]] std::string end_of(Table& table) const;
  void end(std::string_view problem);
  void write_header(std::uint64_t lost_units);
  /// Where it cannot be written, `problem` says why.
  void try_write_header(std::uint64_t lost_units);
  [[nodiscard]] double since_start_s(std::uint64_t time_ns) const;

  std::filesystem::path folder_;
  RecordingHeader header_;
  std::uint64_t start_ns_;
  double start_unix_s_;
  std::uint64_t iterations_ = 0;
  std::uint64_t whole_iterations_ = 0;  ///< when its table could last be written to
  std::uint64_t max_file_bytes_;
  bool has_ended_ = false;
  std::string told_invalid_;  ///< as the header says it
  Table units_;
  Table iterations_table_;
  Table energy_;
  std::string problem_;
};

/// Which iterations a recording has: `count` of them from `first` on.
struct RecordedIterations {
  std::uint64_t first = 0;
  std::uint64_t count = UINT64_MAX;

  [[nodiscard]] bool contains(std::uint64_t iteration) const noexcept {
    return iteration >= first && iteration - first < count;
  }
  /// Whether it contains this iteration or one next to it. Energy is known between samples, so that the recorded
  /// iterations need some of their neighbours.
  [[nodiscard]] bool contains_near(std::uint64_t iteration) const noexcept {
    return contains(iteration) || contains(iteration + 1) || (iteration > 0 && contains(iteration - 1));
  }
};

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
  /// Why times and energies mean nothing, as of now; empty: they do.
  void set_invalid(const std::string& why);
  /// Of the plans that the agent has taken so far.
  void set_clock_lead(double lead_s);
  /// Writes the last of it. `lost_units` could not be recorded. `failure` has ended the rank; empty: none has.
  void finish(std::uint64_t lost_units, const std::string& failure);
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
