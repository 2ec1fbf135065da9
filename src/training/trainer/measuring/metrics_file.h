#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/core/files/file_descriptor.h"

namespace lowgear::trainer {

/// A file of JSON lines, one for a step: the metrics of a run, or a record.
class MetricsFile {
 public:
  /// A run that continues after `first_step` steps keeps their lines and removes later ones. An open file
  /// (/dev/stdout) is only appended to. Throws InputError when the file cannot be created or written.
  MetricsFile(std::filesystem::path path, std::int64_t first_step);

  /// Appends a line and returns whether that succeeded. A line that cannot be written (a full disk) is left out as a
  /// whole, and training continues.
  bool add(std::string_view line);
  [[nodiscard]] std::int64_t lost_lines() const { return lost_; }
  /// `metrics.jsonl: 2 of 9 lines could not be written: No space left on device`, if some are lost.
  [[nodiscard]] std::string lost_text() const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t lines_ = 0;  ///< all, with lost ones
  std::int64_t lost_ = 0;
  int error_number_ = 0;  ///< of the last lost line
};

}  // namespace lowgear::trainer
