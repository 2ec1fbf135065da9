/// How fast a safetensors file of 1 GB gets to the disk, against as many bytes written one after the other and flushed
/// as `dd bs=1M conv=fsync` does, in the same folder and by turns. `tensorfile_write_study [FOLDER]`; the folder is the
/// current one when it is not given.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "measurement.h"
#include "training/tensorfile/safetensors_writer.h"

namespace lowgear::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 7;
constexpr std::size_t kTensors = 60;
constexpr std::size_t kTensorBytes = std::size_t{1} << 24;  // a matrix of 2048 x 2048 in fp32
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr double kTotalBytes = static_cast<double>(kTensors * kTensorBytes);
constexpr double kReach = 0.7;

void write_tensors(const fs::path& path, std::span<const std::byte> data) {
  std::vector<tensorfile::TensorSpec> specs;
  for (std::size_t i = 0; i < kTensors; ++i)
    specs.push_back({fmt::format("w{}", i), tensorfile::TensorType::f32, {2048, 2048}});
  tensorfile::SafetensorsWriter writer(path, specs);
  for (const tensorfile::TensorSpec& spec : specs) writer.write(spec.name, data);
  writer.commit();
}

void write_blocks(const fs::path& path, std::span<const std::byte> data) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = file >= 0;
  for (std::size_t block = 0; written && block < kTensors * kTensorBytes / kBlockBytes; ++block) {
    const std::byte* const begin = data.data() + block * kBlockBytes % kTensorBytes;
    written = ::write(file, begin, kBlockBytes) == static_cast<ssize_t>(kBlockBytes);
  }
  written = written && ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  if (!written) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
}

/// Gigabytes (10^9) per second of writing a file that was not there before.
template <typename Write>
double rate_of(const fs::path& path, Write write) {
  const double time_s = seconds_of([&] { write(path); });
  fs::remove(path);
  ::sync();  // so that no work is left to the next one
  return kTotalBytes * 1e-9 / time_s;
}

void print_row(std::string_view what, const Spread& rate) {
  fmt::print("| {} | {:.2f} GB/s | {:.2f} to {:.2f} GB/s | {} |\n", what, rate.median, rate.min, rate.max, kRounds);
}

void study(const fs::path& folder) {
  std::vector<std::byte> data(kTensorBytes);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 2654435761U >> 13U);
  const fs::path path = folder / "tensorfile_write_study.tmp";
  std::vector<double> tensor_rates;
  std::vector<double> block_rates;
  for (int round = 0; round < kRounds; ++round) {
    block_rates.push_back(rate_of(path, [&](const fs::path& file) { write_blocks(file, data); }));
    tensor_rates.push_back(rate_of(path, [&](const fs::path& file) { write_tensors(file, data); }));
  }
  const Spread tensors = spread_of(tensor_rates);
  const Spread blocks = spread_of(block_rates);
  fmt::print("| {:.2f} GB, flushed to the disk | median | from to | files |\n|---|---|---|---|\n", kTotalBytes * 1e-9);
  print_row("safetensors, 60 tensors", tensors);
  print_row("plain blocks of 1 MiB", blocks);
  const double ratio = tensors.median / blocks.median;
  print_target("writing tensors, of the disk's sequential write rate", fmt::format("{:.0f} %", 100 * ratio), "≥ 70 %",
               ratio >= kReach);
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  try {
    lowgear::bench::study(argc > 1 ? argv[1] : ".");
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
