#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/core/error.h"
#include "base/core/units.h"
#include "estimating/estimator/gpu/catalogue_name.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/gpu/gpu_tables.h"
#include "estimating/power/gpu_power.h"

/// Sources, all NVIDIA's: "Tesla V100 GPU Architecture" (2017) and the V100 data sheet (2020); A40 data sheet (2021)
/// and "Ampere GA102 GPU Architecture"; "A100 Tensor Core GPU Architecture" (2020) and the A100 data sheet (2021) for
/// its 80 GB forms; "H100 Tensor Core GPU Architecture" (2022) and the H100 data sheet; H200 data sheet (2024); "Grace
/// Hopper Superchip" data sheet (2023, 96 GB of HBM3); "Blackwell Architecture Technical Brief" (2024), and the data
/// sheets of HGX B200, DGX B200 and HGX B300 (2025), of which a GPU has an eighth, and of GB200 NVL72 and GB300 NVL72,
/// of which it has a seventy-second. Rates are dense: those of sparse matrices count twice. fp4 (NVFP4) has twice the
/// rate of fp8 on B200 and GB200, three times on B300 and GB300 (108 PFLOP/s of HGX B300, 1,080 of GB300 NVL72).
///
/// RTX 3090 and RTX A6000: "Ampere GA102 GPU Architecture" (71 and 154.8 TFLOP/s of fp16 matrices with
/// fp32 sums, at boost clocks of 1695 and 1800 MHz). Their highest clock is above the boost clock that the whitepaper's
/// rates are for: 2100 MHz, as `nvidia-smi -q` of both shows (NVIDIA/nvidia-docker#1547, mrirecon/bart#323). The rates
/// here are at that clock, in proportion; their power limit leaves less.
///
/// Memory: what data sheets call GB is 2^30 bytes, as nvidia-smi shows. Clocks: what `nvidia-smi -q -d
/// SUPPORTED_CLOCKS` lists. L2 of H200 and GH200 is that of the H100's whitepaper; those and multiprocessors of
/// Blackwell are what CUDA reports of B200 and GB200, and assumed of B300 and GB300.
namespace lowgear::estimator {
namespace {

constexpr double kBytesPerMib = 1024.0 * 1024;

/// One direction of 16 lanes, after line coding.
constexpr double kPcie4BytesPerS = 31.5 * kGiga;
constexpr double kPcie5BytesPerS = 63 * kGiga;

constexpr Generation kGv100 = Generation::volta;
constexpr Generation kGa100 = Generation::ampere;
constexpr Generation kGa102 = Generation::ampere_ga102;
constexpr Generation kGh100 = Generation::hopper;
constexpr Generation kGb100 = Generation::blackwell;

struct Entry {
  std::string_view name;
  Generation generation;
  double fp16_tflops;
  bool bf16;
  double fp8_tflops;
  double tf32_tflops;
  double fp32_tflops;
  double memory_gib;
  double memory_gb_per_s;
  double l2_mib;
  int multiprocessors;
  double link_bytes_per_s;
  double data_sheet_share = 1;
  double fp4_tflops = 0;
};

// NVLink bridges of PCIe cards join pairs only: what more than two GPUs have is PCIe. V100 also has clocks between
// those of its step, every 7.5 MHz.
constexpr auto kGpus = std::to_array<Entry>({
    {"v100-16gb-sxm", kGv100, 125, false, 0, 0, 15.7, 16, 900, 6, 80, 150 * kGiga},
    {"v100-sxm", kGv100, 125, false, 0, 0, 15.7, 32, 900, 6, 80, 150 * kGiga},
    {"rtx-3090", kGa102, 87.96, true, 0, 44.11, 44.11, 24, 936, 6, 82, kPcie4BytesPerS, 1695.0 / 2100},
    {"rtx-a6000", kGa102, 180.6, true, 0, 90.3, 45.15, 48, 768, 6, 84, kPcie4BytesPerS, 1800.0 / 2100},
    {"a40", kGa102, 149.7, true, 0, 74.8, 37.4, 48, 696, 6, 84, kPcie4BytesPerS},
    {"a100-40gb-sxm", kGa100, 312, true, 0, 156, 19.5, 40, 1555, 40, 108, 300 * kGiga},
    {"a100-80gb-pcie", kGa100, 312, true, 0, 156, 19.5, 80, 1935, 40, 108, kPcie4BytesPerS},
    {"a100-80gb-sxm", kGa100, 312, true, 0, 156, 19.5, 80, 2039, 40, 108, 300 * kGiga},
    {"h100-pcie", kGh100, 756, true, 1513, 378, 51.2, 80, 2000, 50, 114, kPcie5BytesPerS},
    {"h100-sxm", kGh100, 989.4, true, 1978.9, 494.7, 66.9, 80, 3350, 50, 132, 450 * kGiga},
    {"h200-sxm", kGh100, 989.4, true, 1978.9, 494.7, 66.9, 141, 4800, 50, 132, 450 * kGiga},
    {"gh200", kGh100, 989.4, true, 1978.9, 494.7, 66.9, 96, 4000, 50, 132, 450 * kGiga},
    {"b200", kGb100, 2250, true, 4500, 1125, 75, 180, 8000, 126, 148, 900 * kGiga, 1, 9000},
    {"gb200", kGb100, 2500, true, 5000, 1250, 80, 186, 8000, 126, 152, 900 * kGiga, 1, 10000},
    {"b300", kGb100, 2250, true, 4500, 1125, 75, 270, 8000, 126, 148, 900 * kGiga, 1, 13500},
    {"gb300", kGb100, 2500, true, 5000, 1250, 80, 279, 8000, 126, 152, 900 * kGiga, 1, 15000},
});

struct OtherName {
  std::string_view key;  ///< without a brand, as catalogues compare names
  std::string_view gpu;
};

/// What the driver calls GPUs, and short names that mean one. A GH200 is called by the memory of its CPU: both of these
/// have 96 GB of their own.
constexpr auto kOtherNames = std::to_array<OtherName>({
    {"v100", "v100-sxm"},
    {"v100sxm2", "v100-sxm"},
    {"v100sxm216gb", "v100-16gb-sxm"},
    {"v100sxm16gb", "v100-16gb-sxm"},
    {"v100sxm232gb", "v100-sxm"},
    {"v100sxm32gb", "v100-sxm"},
    {"v10032gbsxm", "v100-sxm"},
    {"a6000", "rtx-a6000"},
    {"a100", "a100-80gb-sxm"},
    {"a100sxm", "a100-80gb-sxm"},
    {"a100sxm4", "a100-80gb-sxm"},
    {"a100sxm480gb", "a100-80gb-sxm"},
    {"a100sxm80gb", "a100-80gb-sxm"},
    {"a100sxm440gb", "a100-40gb-sxm"},
    {"a100sxm40gb", "a100-40gb-sxm"},
    {"a100pcie80gb", "a100-80gb-pcie"},
    {"h100", "h100-sxm"},
    {"h100sxm5", "h100-sxm"},
    {"h100sxm580gb", "h100-sxm"},
    {"h100sxm80gb", "h100-sxm"},
    {"h10080gbsxm", "h100-sxm"},
    {"h10080gbhbm3", "h100-sxm"},
    {"h100pcie80gb", "h100-pcie"},
    {"h10080gbpcie", "h100-pcie"},
    {"h200", "h200-sxm"},
    {"h200sxm5", "h200-sxm"},
    {"h200sxm141gb", "h200-sxm"},
    {"gh200120gb", "gh200"},
    {"gh200480gb", "gh200"},
    {"b200sxm", "b200"},
    {"b300sxm6", "b300"},
    {"b300sxm6ac", "b300"},
});

/// Short names that the driver gives to no GPU: with a brand they may mean another of the family.
constexpr auto kOnlyShort = std::to_array<std::string_view>({"v100", "v100sxm2", "a100", "a100sxm4", "h100"});

constexpr std::string_view kOfAmd =
    "it is one of AMD's, and the catalogue has NVIDIA's alone: no kernel or run of it was there to check rates against";
/// GPUs that the catalogue leaves out, with what to say of them: models for export, and AMD's. `key` is what their
/// names begin with.
struct AbsentGpu {
  std::string_view key;
  std::string_view what;
};
constexpr auto kAbsentGpus = std::to_array<AbsentGpu>({
    {"mi250", kOfAmd},
    {"mi300", kOfAmd},
    {"mi325", kOfAmd},
    {"mi350", kOfAmd},
    {"mi355", kOfAmd},
    {"h800",
     "it is an H100 whose NVLink has 400 GB/s, not 900: name h100-sxm with intra_node_gb_per_s 200 "
     "(--intra-node-gb-per-s), or h100-pcie"},
    {"a800",
     "it is an A100 whose NVLink has 400 GB/s, not 600: name a100-80gb-sxm with intra_node_gb_per_s 200 "
     "(--intra-node-gb-per-s), or a100-80gb-pcie"},
    {"h20",
     "it computes matrix products at less than a sixth of the rate of an H100 or H200, and the catalogue has no "
     "similar GPU"},
});

/// As an answer to a name that the catalogue does not have.
void refuse_absent_gpu(std::string_view name, const std::string& key) {
  for (const AbsentGpu& model : kAbsentGpus) {
    const bool is_it = key.starts_with(model.key) && (key.size() == model.key.size() || key[model.key.size()] != '0');
    if (is_it) throw InputError(fmt::format("there is no GPU {}; {}", quote(name), model.what));
  }
}

/// Removes what stands before the driver's names; they are also written without their blanks.
std::string_view without_brand(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of(" \t\r\n"), name.size()));
  for (const std::string_view brand : {"nvidia", "tesla", "geforce", "amd", "instinct"}) {
    if (catalogue_key(name.substr(0, brand.size())) != brand) continue;
    name.remove_prefix(brand.size());
    name.remove_prefix(std::min(name.find_first_not_of(" -_"), name.size()));
  }
  return name;
}

GpuModel model_of(const Entry& entry) {
  const power::GpuRow& row = power::gpu_row(entry.name);
  return {.name = std::string(entry.name),
          .generation = entry.generation,
          .fp16_flops = entry.fp16_tflops * kTera,
          .bf16 = entry.bf16,
          .fp8_flops = entry.fp8_tflops * kTera,
          .fp4_flops = entry.fp4_tflops * kTera,
          .tf32_flops = entry.tf32_tflops * kTera,
          .fp32_flops = entry.fp32_tflops * kTera,
          .data_sheet_share = entry.data_sheet_share,
          .memory_bytes = entry.memory_gib * kGiB,
          .memory_bytes_per_s = entry.memory_gb_per_s * kGiga,
          .l2_bytes = entry.l2_mib * kBytesPerMib,
          .multiprocessors = entry.multiprocessors,
          .clocks = row.clocks,
          .link_bytes_per_s = entry.link_bytes_per_s,
          .efficiency = kernel_efficiency(entry.name, entry.generation),
          .power = row.power,
          .power_source = std::string(row.source)};
}

}  // namespace

std::optional<std::string_view> gpu_of_name(std::string_view name) {
  const std::string_view own = without_brand(name);
  const std::string key = catalogue_key(own);
  const auto* const entry =
      std::ranges::find_if(kGpus, [&key](const Entry& gpu) { return catalogue_key(gpu.name) == key; });
  if (entry != kGpus.end()) return entry->name;
  const bool branded = own.size() < name.size();
  if (branded && std::ranges::find(kOnlyShort, key) != kOnlyShort.end()) return std::nullopt;
  const auto* const other = std::ranges::find(kOtherNames, key, &OtherName::key);
  return other == kOtherNames.end() ? std::nullopt : std::optional(other->gpu);
}

GpuModel named_gpu(std::string_view name) {
  const std::optional<std::string_view> known = gpu_of_name(name);
  if (!known) {
    std::array<std::string_view, kGpus.size()> names;
    std::ranges::transform(kGpus, names.begin(), &Entry::name);
    refuse_absent_gpu(name, catalogue_key(without_brand(name)));
    throw_unknown_name("GPU", name, without_brand(name), names);
  }
  return model_of(*std::ranges::find(kGpus, *known, &Entry::name));
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  names.reserve(kGpus.size());
  for (const Entry& gpu : kGpus) names.emplace_back(gpu.name);
  return names;
}

}  // namespace lowgear::estimator
