#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "estimating/estimator/costs/sample_files.h"
#include "estimating/estimator/iteration/job_costs.h"
#include "estimating/estimator/peer/sampled_job.h"

namespace lowgear::estimator {
struct PeerSamples;
}  // namespace lowgear::estimator

namespace lowgear::cli {

/// The sampling files of a folder and of its folders `operator` and `nccl` (and `gloo`), by name; other files are left
/// alone. Throws InputError where it is no folder or has no sampling file.
[[nodiscard]] std::vector<estimator::SampleFile> read_sample_folder(const std::filesystem::path& folder);

/// The same with the folder's name; nothing where `folder` is empty: no samples were given.
[[nodiscard]] estimator::SampleSet load_samples(const std::string& folder);

/// What the published estimator reads for the job: from `operators` and `collectives`, the folders of sampling files of
/// its GPU. Throws InputError where one of them or its `{GPU}.csv` is missing.
[[nodiscard]] estimator::PeerSamples read_peer_samples(const estimator::SampledJob& job,
                                                       const std::filesystem::path& operators,
                                                       const std::filesystem::path& collectives);

}  // namespace lowgear::cli
