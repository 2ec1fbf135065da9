#include "hardware/gpu/peak_compute.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/core/units.h"

namespace lowgear::gpu {
namespace {

/// TFLOP/s of a GPU whose name has both words.
struct Peak {
  std::string_view model;
  std::string_view variant;  ///< empty: any
  double fp32 = 0;
  double bf16 = 0;  ///< 0: none
};

constexpr auto kPeaks = std::to_array<Peak>({
    {"V100", "PCIE", 14, 0},
    {"V100", "SXM2", 15.7, 0},
    {"A10", "", 31.2, 125},
    {"A30", "", 10.3, 165},
    {"A40", "", 37.4, 149.7},
    {"A100", "", 19.5, 312},
    {"A6000", "", 38.7, 154.8},
    {"3090", "", 35.6, 71},
    {"L4", "", 30.3, 121},
    {"L40", "", 90.5, 181.05},
    {"L40S", "", 91.6, 362.05},
    {"H100", "PCIe", 51.2, 756},
    {"H100", "HBM3", 66.9, 989.4},  // SXM, whose name does not say so
    {"H200", "", 66.9, 989.4},
});

/// `NVIDIA A100-SXM4-80GB` has four.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of(" -"), name.size());
    words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

}  // namespace

std::optional<double> peak_flop_s(std::string_view gpu_name, MatrixType type) {
  const std::vector<std::string_view> words = words_of(gpu_name);
  const auto has = [&words](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  if (has("MIG") || has("NVL")) return std::nullopt;
  const auto* const peak = std::ranges::find_if(
      kPeaks, [&](const Peak& row) { return has(row.model) && (row.variant.empty() || has(row.variant)); });
  if (peak == kPeaks.end()) return std::nullopt;
  const double tera = type == MatrixType::fp32 ? peak->fp32 : peak->bf16;
  return tera > 0 ? std::optional(tera * kTera) : std::nullopt;
}

}  // namespace lowgear::gpu
