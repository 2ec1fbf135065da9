#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>

#include "server/perseus/scheduler.h"

namespace lowgear::server::perseus {

/// Where results of jobs lie, as Perseus' server leaves them: a folder for each job, named by the job's id.
class ResultFolder {
 public:
  /// Whether the constructor could make and write to the folder; makes nothing. Throws InputError as that does.
  static void check(const std::filesystem::path& folder);
  /// Makes the folder when it is missing. Throws InputError when it cannot be made or written to.
  explicit ResultFolder(std::filesystem::path folder);

  /// Whether a job of this id has left results here.
  [[nodiscard]] bool has(const std::string& job) const;
  /// Writes one file into the folder of the job: whole, flushed to the disk, in place of an earlier one. Throws
  /// InputError and Error as write_file_atomically.
  void write(const std::string& job, const File& file) const;

 private:
  std::filesystem::path folder_;
};

/// Writes results of jobs, and does not lose them to a disk that is full for a while: what cannot be written is kept in
/// memory and written later. All calls from one thread.
class ResultWriter {
 public:
  /// `warn` is called when files cannot be written, once, when they can be again, and when some are lost.
  ResultWriter(ResultFolder folder, std::function<void(const std::string&)> warn,
               std::size_t max_kept_bytes = std::size_t{64} << 20U);
  /// Tries once more to write the files that are kept.
  ~ResultWriter();
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;

  /// Never throws for a file that cannot be written. When it returns, the file is on the disk, or kept.
  void write(const std::string& job, File file);

 private:
  struct Kept {
    std::string job;
    File file;
  };

  void keep(const std::string& job, File file);
  void write_kept();
  void drop_oldest();

  ResultFolder folder_;
  std::function<void(const std::string&)> warn_;
  std::size_t max_kept_bytes_;
  std::deque<Kept> kept_;  ///< oldest first, each file once
  std::size_t kept_bytes_ = 0;
  bool is_failing_ = false;  ///< and the log says so
};

}  // namespace lowgear::server::perseus
