/// Runs a fuzz target over the files of one or more corpus folders, without libFuzzer: `NAME_replay FOLDER...`.
/// Exits with 1 when a folder has no files or one cannot be read; a target that finds something aborts the process, and
/// the last line printed names the input.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

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

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("usage: NAME_replay FOLDER...");
    for (const std::string& folder : std::vector<std::string>(argv + 1, argv + argc)) {
      for (const std::filesystem::path& file : files_below(folder)) {
        std::cout << "replaying " << file.string() << std::endl;
        const std::vector<std::uint8_t> bytes = bytes_of(file);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
