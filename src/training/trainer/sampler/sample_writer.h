#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "estimating/sampling/sample_csv.h"

namespace lowgear::trainer {

/// A file of samples that is written row by row and continues where it ended. Rows are whole whenever the process
/// ends.
class SampleWriter {
 public:
  /// Opens the file, or makes it with its folders; a last line that was not finished is cut off. Throws InputError when
  /// another process writes it, when it cannot be written, and as resume() does.
  SampleWriter(const std::filesystem::path& path, sampling::SampleFormat format,
               std::vector<std::vector<std::int64_t>> plan);
  ~SampleWriter();
  SampleWriter(const SampleWriter&) = delete;
  SampleWriter& operator=(const SampleWriter&) = delete;
  SampleWriter(SampleWriter&& other) noexcept;
  SampleWriter& operator=(SampleWriter&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::size_t planned() const { return plan_.size(); }
  /// Of the plan: the first that was not looked at yet; planned() at the end.
  [[nodiscard]] std::size_t next() const { return next_; }
  [[nodiscard]] bool done() const { return next_ == plan_.size(); }
  [[nodiscard]] std::size_t rows() const { return rows_; }          ///< in the file
  [[nodiscard]] std::size_t new_rows() const { return new_rows_; }  ///< of them written since it was opened
  [[nodiscard]] std::size_t skipped() const { return skipped_; }

  /// Writes the row of `next()`: its passes after the planned cells. Throws Error when that fails (a full disk).
  void append(std::vector<sampling::PassSample> passes);
  /// Leaves `next()` without a row.
  void skip();

 private:
  std::filesystem::path path_;
  sampling::SampleFormat format_;
  std::vector<std::vector<std::int64_t>> plan_;
  int descriptor_ = -1;
  std::size_t next_ = 0;
  std::size_t rows_ = 0;
  std::size_t new_rows_ = 0;
  std::size_t skipped_ = 0;
};

}  // namespace lowgear::trainer
