#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/costs/operator_samples.h"
#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {

/// A sampling file as it was found.
struct SampleFile {
  std::string source;  ///< for messages: its path
  SampleFileName name;
  std::string text;
};

/// The files that were sampled on the GPU; those of a GPU that the catalogue does not have count for any if there are
/// no others. Throws InputError, naming `folder`, where there are files of other GPUs only, or none at all.
[[nodiscard]] std::vector<SampleFile> files_of_gpu(std::vector<SampleFile> files, const GpuModel& gpu,
                                                   const std::string& folder);

/// Files of the type that was asked for; where there are none, of the other 16-bit type, which runs as fast.
[[nodiscard]] std::vector<const SampleFile*> files_of_type(std::span<const SampleFile* const> files, DataType dtype);

}  // namespace lowgear::estimator
