#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::trainer {

/// The metrics of a run: a JSON line for every step.
class MetricsFile {
 public:
  /// `first_step` steps were done before: their lines stay, and those of later steps, which were lost, go. An open
  /// file that is named as such (/dev/stdout) is appended to as it is. Throws InputError when the file cannot be made
  /// or written to.
  MetricsFile(std::filesystem::path path, std::int64_t first_step);

  /// Appends a line. One that cannot be written (a full disk) is left out as a whole: metrics are no reason to end a
  /// training. Returns whether it was written.
  bool add(std::string_view line);
  [[nodiscard]] std::int64_t lost_lines() const { return lost_; }
  /// `metrics.jsonl: 2 of 9 lines could not be written: No space left on device`: for when some are lost.
  [[nodiscard]] std::string lost_text() const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t lines_ = 0;  ///< that were to be written
  std::int64_t lost_ = 0;
  int error_number_ = 0;  ///< why the last of these was
};

}  // namespace lowgear::trainer
