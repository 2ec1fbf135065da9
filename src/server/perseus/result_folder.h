#pragma once

#include <filesystem>
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

}  // namespace lowgear::server::perseus
