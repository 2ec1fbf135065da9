#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "planning/steps/work_model.h"

namespace lowgear::client {

/// `lengths.csv` of a recording: the lengths of every replica's microbatches in each recorded step, as `lowgear
/// profile` and `lowgear plan --lengths` read them. Training does not depend on it: what cannot be written is reported
/// once.
class LengthsFile {
 public:
  /// Keeps the rows of steps before `first_step` in a recording that is continued.
  LengthsFile(const std::filesystem::path& recording, std::int64_t first_step);

  /// By replica, then microbatch.
  void add(std::int64_t step, std::span<const steps::Amounts> amounts, int microbatches);

 private:
  void write(const std::string& text, bool from_begin);

  std::filesystem::path path_;
  bool failed_ = false;
};

}  // namespace lowgear::client
