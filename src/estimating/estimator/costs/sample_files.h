#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "estimating/estimator/costs/operator_regressor.h"
#include "estimating/estimator/costs/operator_samples.h"
#include "estimating/estimator/gpu/gpu_model.h"

namespace lowgear::estimator {

/// Samples of one file that were removed for one reason.
struct DiscardedSamples {
  std::string source;      ///< of the sampling file
  std::string reason;      ///< `backward is faster than the GPU can compute`
  std::vector<int> lines;  ///< of the file, ascending
  std::size_t of = 0;      ///< number of samples checked
};

/// One sentence: the file's name, the numbers of removed and of all samples, the reason, the first lines.
[[nodiscard]] std::string to_string(const DiscardedSamples& discarded);

/// The plausible samples of a sampling file of an operator.
struct CleanSamples {
  std::vector<TimedOperator> forward;
  std::vector<TimedOperator> backward;  ///< empty for functions of one pass
  std::vector<DiscardedSamples> discarded;
};

/// Removes impossible samples: times below least_time_s; backward passes of matrix products faster than their forward
/// passes, which do half the work; times that are far from the trend of the others (a factor of 1.7, and eight times
/// the usual distance). A pass of which more than half is impossible is removed. Times of attention without a causal
/// mask are halved, since causal attention does half the work.
[[nodiscard]] CleanSamples clean_samples(const OperatorSamples& samples, const GpuModel& gpu);

/// The plausible samples of a sampling file of a collective.
struct CleanCollectives {
  std::vector<CollectiveSample> rows;
  std::vector<DiscardedSamples> discarded;
};

/// Removes times in which the GPU's memory could not have stored the received data, and times that are the same for
/// messages of all sizes.
[[nodiscard]] CleanCollectives clean_samples(const CollectiveSamples& samples, const GpuModel& gpu);

/// A sampling file: its name and text.
struct SampleFile {
  std::string source;  ///< for messages: its path
  SampleFileName name;
  std::string text;
};

/// The files that were sampled on the GPU. Without any, the files of GPUs that the catalogue does not have. Throws
/// InputError that names `folder` if only files of other GPUs of the catalogue are left, or none.
[[nodiscard]] std::vector<SampleFile> files_of_gpu(std::vector<SampleFile> files, const GpuModel& gpu,
                                                   const std::string& folder);

/// Files of the type; without any, files of the other 16-bit type, which runs as fast.
[[nodiscard]] std::vector<const SampleFile*> files_of_type(std::span<const SampleFile* const> files, DataType dtype);

}  // namespace lowgear::estimator
