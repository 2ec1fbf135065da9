#pragma once

#include <span>
#include <string>
#include <string_view>

#include "estimating/estimator/job/job_file.h"
#include "estimating/estimator/peer/sampled_job.h"

namespace lowgear::estimator {

/// The published estimator's job as this one describes jobs: the GPU by the beginning of its sampling files, the model
/// by its operators (unless they say otherwise, an MLP of four times the width, biases, and the published estimator's
/// vocabulary of 50257), ZeRO 1 and full recomputation, which the published estimator assumes. Throws InputError on a
/// GPU that has no sampling files, and on heads that do not divide the width.
[[nodiscard]] TrainingJob training_job_of(const SampledJob& sampled);

/// Reads a job file of either format: this estimator's (parse_training_job) or the published estimator's. Throws
/// InputError as their readers do.
[[nodiscard]] TrainingJob parse_job_file(std::string_view yaml, const std::string& source,
                                         std::span<const YamlSetting> settings, const ConfigReader& read_config);

}  // namespace lowgear::estimator
