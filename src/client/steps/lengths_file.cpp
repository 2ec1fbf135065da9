#include "client/steps/lengths_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ios>
#include <iterator>

namespace lowgear::client {

LengthsFile::LengthsFile(const std::filesystem::path& recording, std::int64_t first_step)
    : path_(recording / steps::kLengthsFile) {
  std::string text = "step,replica,microbatch,tokens,squared_tokens\n";
  std::ifstream before(path_);
  std::string line;
  for (std::getline(before, line); std::getline(before, line);) {
    if (std::atoll(line.c_str()) < first_step) text += line + '\n';
  }
  write(text, true);
}

void LengthsFile::add(std::int64_t step, std::span<const steps::Amounts> amounts, int microbatches) {
  std::string rows;
  const auto count = static_cast<std::size_t>(microbatches);
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    fmt::format_to(std::back_inserter(rows), "{},{},{},{:.0f},{:.0f}\n", step, i / count, i % count, amounts[i].tokens,
                   amounts[i].squared_tokens);
  }
  write(rows, false);
}

void LengthsFile::write(const std::string& text, bool from_begin) {
  if (failed_) return;
  std::ofstream file(path_, from_begin ? std::ios::trunc : std::ios::app);
  file << text << std::flush;
  if (file) return;
  failed_ = true;
  fmt::print(stderr, "{}: cannot be written: lengths are not recorded; training continues\n", path_.string());
}

}  // namespace lowgear::client
