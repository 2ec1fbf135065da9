#include "client/steps/step_rows.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ios>
#include <iterator>
#include <utility>

namespace lowgear::client {

StepRows::StepRows(std::filesystem::path file, std::string_view header, std::int64_t first_step)
    : file_(std::move(file)) {
  std::string text = fmt::format("{}\n", header);
  std::ifstream before(file_);
  std::string line;
  for (std::getline(before, line); std::getline(before, line);) {
    if (std::atoll(line.c_str()) < first_step) text += line + '\n';
  }
  write(text, true);
}

void StepRows::write(const std::string& text, bool from_begin) {
  if (failed_) return;
  std::ofstream file(file_, from_begin ? std::ios::trunc : std::ios::app);
  file << text << std::flush;
  if (file) return;
  failed_ = true;
  fmt::print(stderr, "{}: cannot be written: its steps are not recorded; training continues\n", file_.string());
}

StepRows lengths_file(const std::filesystem::path& recording, std::int64_t first_step) {
  return {recording / steps::kLengthsFile, "step,replica,microbatch,tokens,squared_tokens", first_step};
}

std::string lengths_rows(std::int64_t step, std::span<const steps::Amounts> amounts, int microbatches) {
  std::string rows;
  const auto count = static_cast<std::size_t>(microbatches);
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    fmt::format_to(std::back_inserter(rows), "{},{},{},{:.0f},{:.0f}\n", step, i / count, i % count, amounts[i].tokens,
                   amounts[i].squared_tokens);
  }
  return rows;
}

}  // namespace lowgear::client
