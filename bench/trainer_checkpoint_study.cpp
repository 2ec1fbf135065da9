/// How fast the training state of two pipeline ranks (fp32 values and AdamW's two moments) gets to the disk as a
/// checkpoint, against as many bytes written to one file and flushed, in the same folder and by turns; and how fast it
/// is loaded. `trainer_checkpoint_study [FOLDER] [LAYERS]`: the folder is the current one
/// when it is not given; 20 layers (1.03 B parameters) take 17 GB of memory and 13 GB of disk, 9 layers, the default,
/// half of that.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "estimating/model/parameters.h"
#include "measurement.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/trainer/state_job.h"

namespace lowgear::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 3;
constexpr double kReach = 0.7;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

launcher::TrainConfig config_of(std::int64_t layers) {
  launcher::TrainConfig config;
  config.model = {.architecture = model::Architecture::llama,
                  .vocabulary = 32'000,
                  .hidden = 2048,
                  .layers = layers,
                  .heads = 32,
                  .kv_heads = 8,
                  .head_dim = 64,
                  .intermediate = 5632,
                  .max_positions = 4096};
  config.parallel.pp = 2;
  return config;
}

/// Bytes of a checkpoint but for its headers.
std::size_t state_bytes(const model::ModelConfig& model) {
  return static_cast<std::size_t>(parameter_count(model)) * 3 * sizeof(float);
}

void write_blocks(const fs::path& path, std::size_t bytes) {
  const std::vector<std::byte> block(kBlockBytes, std::byte{0x5a});
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = file >= 0;
  for (std::size_t done = 0; written && done < bytes; done += kBlockBytes) {
    written = ::write(file, block.data(), kBlockBytes) == static_cast<ssize_t>(kBlockBytes);
  }
  written = written && ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  if (!written) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
}

void fill(trainer::StateRank& rank) {
  trainer::OptimizerState& state = rank.optimizer().state();
  float value = 0.5F;
  for (const at::Tensor* tensor : {&state.master, &state.mean, &state.variance}) tensor->fill_(value /= 3);
}

/// Gigabytes (10^9) per second.
struct Rates {
  std::vector<double> blocks;
  std::vector<double> saves;
  std::vector<double> loads;
};

/// Rank 0's clock: the others wait for it, and it for them.
template <typename Action>
void timed(trainer::StateRank& rank, double gigabytes, std::vector<double>& rates, Action action) {
  const double time_s = seconds_of([&] { action(); });
  if (rank.ranks().world->rank() == 0) rates.push_back(gigabytes / time_s);
}

/// One round of all ranks.
void run_round(trainer::StateRank& rank, const launcher::TrainConfig& config, const fs::path& folder, Rates& rates) {
  const bool first = rank.ranks().world->rank() == 0;
  const std::size_t bytes = state_bytes(config.model);
  const double gigabytes = static_cast<double>(bytes) * 1e-9;
  const auto meet = [&rank] { rank.ranks().world->all_reduce(at::zeros({1})); };
  const fs::path plain = folder / "plain";
  const fs::path saved = folder / launcher::checkpoint_folder_name(1);
  if (first) {
    timed(rank, gigabytes, rates.blocks, [&] { write_blocks(plain, bytes); });
    fs::remove(plain);
    ::sync();  // so that no work is left to the next one
  }
  meet();
  timed(rank, gigabytes, rates.saves, [&] { save_checkpoint(folder, 1, config, rank.state(), rank.ranks()); });
  timed(rank, gigabytes, rates.loads, [&] { load_checkpoint(saved, config, rank.state(), rank.ranks()); });
  meet();
  if (first) {
    fs::remove_all(saved);
    ::sync();
  }
}

void print_row(std::string_view what, const std::vector<double>& rates) {
  const Spread rate = spread_of(rates);
  fmt::print("| {} | {:.2f} GB/s | {:.2f} to {:.2f} GB/s | {} |\n", what, rate.median, rate.min, rate.max, kRounds);
}

void study(const fs::path& place, std::int64_t layers) {
  const launcher::TrainConfig config = config_of(layers);
  const fs::path folder = place / "trainer_checkpoint_study.tmp";
  fs::create_directories(folder);
  Rates rates;
  trainer::run_state_job(config, [&](trainer::StateRank& rank) {
    fill(rank);
    for (int round = 0; round < kRounds; ++round) run_round(rank, config, folder, rates);
  });
  fs::remove_all(folder);
  fmt::print("| {:.2f} B parameters, {:.2f} GB | median | from to | rounds |\n|---|---|---|---|\n",
             static_cast<double>(parameter_count(config.model)) * 1e-9,
             static_cast<double>(state_bytes(config.model)) * 1e-9);
  print_row("checkpoint, 2 ranks", rates.saves);
  print_row("plain blocks of 1 MiB, one file", rates.blocks);
  print_row("loading it, from the page cache where that holds it", rates.loads);
  const double ratio = spread_of(rates.saves).median / spread_of(rates.blocks).median;
  print_target("saving a checkpoint, of the disk's sequential write rate", fmt::format("{:.0f} %", 100 * ratio),
               "≥ 70 %", ratio >= kReach);
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  try {
    constexpr int kDefaultLayers = 9;
    const int layers = argc > 2 ? std::atoi(argv[2]) : kDefaultLayers;
    lowgear::bench::study(argc > 1 ? argv[1] : ".", layers < 2 ? kDefaultLayers : layers);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
