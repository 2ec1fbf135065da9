#include "estimating/estimator/costs/sample_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/core/error.h"

namespace lowgear::estimator {
namespace {

struct GpuOfDriverName {
  std::string_view part;
  std::string_view gpu;
};

/// What names contain; the first that fits counts.
constexpr auto kGpusOfDriverNames = std::to_array<GpuOfDriverName>({
    {"V100-SXM2-16GB", "v100-16gb-sxm"},
    {"V100-SXM", "v100-sxm"},
    {"A100-SXM4-40GB", "a100-40gb-sxm"},
    {"A100-SXM4-80GB", "a100-80gb-sxm"},
    {"A10080GBPCIe", "a100-80gb-pcie"},
    {"H100PCIe", "h100-pcie"},
    {"H10080GBHBM3", "h100-sxm"},
    {"GH200", "gh200"},
    {"H200", "h200-sxm"},
    {"B200", "b200"},
    {"A40", "a40"},
});

DataType other_16_bit(DataType dtype) {
  if (dtype == DataType::bf16) return DataType::fp16;
  return dtype == DataType::fp16 ? DataType::bf16 : dtype;
}

}  // namespace

std::optional<std::string_view> gpu_of_driver_name(std::string_view name) {
  for (const auto& [part, gpu] : kGpusOfDriverNames) {
    if (name.find(part) != std::string_view::npos) return gpu;
  }
  return std::nullopt;
}

std::vector<SampleFile> files_of_gpu(std::vector<SampleFile> files, const GpuModel& gpu, const std::string& folder) {
  if (files.empty()) {
    throw_input_error(
        {folder, 0, 0}, "has no sampling files",
        "they are named like NVIDIAA100-SXM4-80GB_linear1_fp16.csv, in the folder or its folders operator "
        "and nccl; `lowgear sample` writes them");
  }
  std::vector<SampleFile> same;
  std::vector<SampleFile> unknown;
  std::set<std::string> names;
  for (SampleFile& file : files) {
    names.insert(file.name.gpu);
    const std::optional<std::string_view> of = gpu_of_driver_name(file.name.gpu);
    if (!of) {
      unknown.push_back(std::move(file));
    } else if (*of == gpu.name) {
      same.push_back(std::move(file));
    }
  }
  if (!same.empty()) return same;
  if (!unknown.empty()) return unknown;
  throw_input_error({folder, 0, 0}, fmt::format("was sampled on {}, not on {}", fmt::join(names, ", "), gpu.name),
                    "give the folder of this GPU's samples, or another GPU");
}

std::vector<const SampleFile*> files_of_type(std::span<const SampleFile* const> files, DataType dtype) {
  for (const DataType wanted : {dtype, other_16_bit(dtype)}) {
    std::vector<const SampleFile*> found;
    for (const SampleFile* const file : files) {
      if (file->name.dtype == wanted) found.push_back(file);
    }
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace lowgear::estimator
