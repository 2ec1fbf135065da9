#include "estimating/estimator/costs/sample_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/core/error.h"

namespace lowgear::estimator {
namespace {

DataType other_16_bit(DataType dtype) {
  if (dtype == DataType::bf16) return DataType::fp16;
  return dtype == DataType::fp16 ? DataType::bf16 : dtype;
}

}  // namespace

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
    const std::optional<std::string_view> of = gpu_of_name(file.name.gpu);
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
