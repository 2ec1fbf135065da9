/// Runs a fuzz target over the files of one or more corpus folders, without libFuzzer: `fuzz_replay NAME FOLDER...`.
/// Exits with 1 when there is no such target, a folder has no files or one cannot be read; a target that finds
/// something aborts the process, and the last line printed names the input.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "replay_targets.h"

namespace {

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  if (files.empty()) throw std::runtime_error(folder.string() + ": no inputs to replay");
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) throw std::runtime_error(file.string() + ": cannot be read");
  return bytes;
}

FuzzTarget* target_of(std::string_view name) {
  for (const auto& [known, target] : kFuzzTargets) {
    if (known == name) return target;
  }
  throw std::runtime_error("there is no fuzz target '" + std::string(name) + "'");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("usage: fuzz_replay NAME FOLDER...");
    FuzzTarget* const target = target_of(argv[1]);
    for (const std::string& folder : std::vector<std::string>(argv + 2, argv + argc)) {
      for (const std::filesystem::path& file : files_below(folder)) {
        std::cout << "replaying " << file.string() << std::endl;
        const std::vector<std::uint8_t> bytes = bytes_of(file);
        target(bytes.data(), bytes.size());
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
