#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "planning/steps/work_model.h"

namespace lowgear::client {

/// A CSV of a recording whose first column is the step. Training does not depend on it: what cannot be written is
/// reported once.
class StepRows {
 public:
  /// Keeps the rows of steps before `first_step` in a recording that is continued.
  StepRows(std::filesystem::path file, std::string_view header, std::int64_t first_step);

  void add(const std::string& rows) {
    if (!rows.empty()) write(rows, false);
  }

 private:
  void write(const std::string& text, bool from_begin);

  std::filesystem::path file_;
  bool failed_ = false;
};

/// `lengths.csv`: the lengths of every replica's microbatches in each recorded step, as `lowgear profile` and `lowgear
/// plan --lengths` read them.
[[nodiscard]] StepRows lengths_file(const std::filesystem::path& recording, std::int64_t first_step);
/// By replica, then microbatch.
[[nodiscard]] std::string lengths_rows(std::int64_t step, std::span<const steps::Amounts> amounts, int microbatches);

}  // namespace lowgear::client
