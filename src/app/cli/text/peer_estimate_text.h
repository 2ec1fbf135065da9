#pragma once

#include <filesystem>
#include <string>

#include "base/core/formats/json.h"
#include "estimating/estimator/peer/peer_formula.h"
#include "estimating/estimator/peer/sampled_job.h"

namespace lowgear::cli {

/// What `lowgear estimate --peer-formula` prints: the iteration, its parts, and every prediction that went into them.
[[nodiscard]] std::string peer_estimate_text(const estimator::PeerEstimate& estimate);

/// The same as an object.
[[nodiscard]] Json peer_estimate_json(const estimator::PeerEstimate& estimate);

/// Reads the job, which is a file of the published estimator, and its samples: from `folder` (with folders `operator`
/// and `nccl` in it) or, where that is empty, from the folders that the file names, seen from its own or
/// else from the current one. Throws InputError.
[[nodiscard]] estimator::PeerEstimate estimate_as_published(const std::string& job_file, const std::string& folder);

/// The same of a job that was read. Folders that the job names are seen from `from` or else from the current folder;
/// those that begin with `packaged:` are tables of Lowgear (published_examples.h). Throws InputError.
[[nodiscard]] estimator::PeerEstimate estimate_as_published(const estimator::SampledJob& job,
                                                            const std::filesystem::path& from,
                                                            const std::string& folder);

}  // namespace lowgear::cli
