#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/job/job_file.h"

namespace lowgear::published_estimator {

/// A job in the format of the ICICLE project's published estimator (github.com/DebarghaG/estimate-train-time). It has
/// fewer settings than a TrainingJob, and names operators by sampling files.
struct SampledJob {
  std::string gpu_name;              ///< beginning of the names of sampling files: `NVIDIAA100-SXM4-80GB`
  std::string operator_data_folder;  ///< as written, of the sampling files of operators
  std::string nccl_data_folder;      ///< as written, of those of collectives

  int pp = 1;
  int mp = 1;  ///< tensor parallel ranks
  int dp = 1;
  std::int64_t micro_batch = 0;  ///< sequences
  std::int64_t heads = 0;
  std::int64_t sequence_length = 0;
  std::int64_t hidden = 0;
  std::int64_t microbatches = 0;  ///< per update
  int gpus_per_node = 1;

  std::int64_t comm_bucket = 0;                    ///< gradients of one all-reduce between replicas, in elements
  std::int64_t encoders = 0;                       ///< layers
  std::vector<std::string> function_list;          ///< operators to predict
  std::vector<std::string> encoder_function_list;  ///< operators of one layer in order; repeats allowed
  std::string layernorm_name;                      ///< the norm after the last layer: `RMSlayernorm`
  int fwd_syncs = 0;                               ///< tensor parallel all-reduces of one layer, forward
  int bwd_syncs = 0;                               ///< the same, backward

  friend bool operator==(const SampledJob&, const SampledJob&) = default;
};

/// Whether a YAML document is a job of the published estimator: it has a `training_config`.
[[nodiscard]] bool is_sampled_job(std::string_view yaml, const std::string& source);

/// Reads its YAML: JSON-like, with comments, single quotes and trailing commas. Throws InputError with line and column
/// on members that are missing, unknown, of the wrong type or out of bounds.
[[nodiscard]] SampledJob parse_sampled_job(std::string_view yaml, const std::string& source);

/// Converts a job of the published estimator: the GPU from the beginning of its sampling files' names, the model from
/// its operators (by default an MLP of four times the width, biases, and the published estimator's vocabulary of
/// 50257), with ZeRO 1 and full recomputation, which the published estimator assumes. Throws InputError on a GPU that
/// has no sampling files, and on heads that do not divide the width.
[[nodiscard]] estimator::TrainingJob training_job_of(const SampledJob& sampled);

/// Reads a job file of either format: this estimator's (parse_training_job) or the published estimator's. Throws
/// InputError as their readers do.
[[nodiscard]] estimator::TrainingJob parse_job_file(std::string_view yaml, const std::string& source,
                                                    std::span<const YamlSetting> settings,
                                                    const estimator::ConfigReader& read_config);

}  // namespace lowgear::published_estimator
