#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/costs/operator_samples.h"
#include "estimating/estimator/costs/sample_files.h"
#include "rivals/published_estimator/sampled_job.h"
#include "rivals/published_estimator/tuned_regressors.h"

namespace lowgear::published_estimator {

/// The only type in the published data.
inline constexpr estimator::DataType kPublishedType = estimator::DataType::fp16;

/// A source of times for the published estimator's composition.
class PublishedTimes {
 public:
  virtual ~PublishedTimes() = default;
  /// Time of one pass of a sampled operator in fp16; functions of one pass have only the forward. Throws InputError if
  /// the time is unknown.
  [[nodiscard]] virtual double operator_s(const estimator::SampledFunction& function,
                                          const estimator::SampledShape& shape, estimator::Pass pass) const = 0;
  /// Time of a collective of `elements` fp16 numbers among `nodes` x `per_node` GPUs. Throws as operator_s does.
  [[nodiscard]] virtual double collective_s(std::string_view function, std::int64_t elements, int nodes,
                                            int per_node) const = 0;

 protected:
  PublishedTimes() = default;
  PublishedTimes(const PublishedTimes&) = default;
  PublishedTimes& operator=(const PublishedTimes&) = default;
};

/// Input of the published estimator besides the job: the sampling files of one GPU and, for operators and for
/// collectives, the file `{GPU}.csv` with the choice of regressors.
struct PublishedSamples {
  std::vector<estimator::SampleFile> files;
  std::string operator_settings = {};         ///< text of the CSV
  std::string operator_settings_source = {};  ///< its path, for messages
  std::string collective_settings = {};
  std::string collective_settings_source = {};
};

/// A time that one of its regressors predicted.
struct PublishedPrediction {
  std::string name;  ///< `linear1 forward`, `allreduce 1 x 2`
  double time_s = 0;
};

/// Values of the first stage, of each stage in the middle, and of the last one.
using PublishedStages = std::array<double, 3>;

/// An iteration by the published estimator's own composition.
struct PublishedEstimate {
  std::array<std::int64_t, 3> layers{};  ///< of a stage; the sum may differ from the model's layers
  PublishedStages forward_s{};           ///< of a microbatch, without messages between stages
  PublishedStages backward_s{};          ///< with the forward pass, which is always run again
  double message_s = 0;                  ///< of one microbatch to the next stage
  double pipeline_s = 0;
  double gradients_s = 0;  ///< sums over replicas, of the first stage
  double update_s = 0;     ///< of the slowest stage: gathering of weights, optimizer
  double time_s = 0;
  std::vector<PublishedPrediction> predictions;
};

/// Composes an iteration as DebarghaG/estimate-train-time does (arXiv 2509.22832): per-stage sums of
/// operators with full recomputation, (microbatches + stages - 1) times the slowest forward and backward, then the
/// first stage's gradients and the slowest update. Its flaws are kept: the partition counts five extra layers and
/// may not add up, trees clamp shapes outside the samples, and without replicas there is no update. Throws InputError
/// if a time is unknown, and if the partition leaves a stage without layers.
[[nodiscard]] PublishedEstimate published_estimate(const SampledJob& job, const PublishedTimes& times);

/// The same with its regressors on raw times (RegressedTimes). Samples are not cleaned. Random draws differ from those
/// of its libraries, so times differ slightly.
[[nodiscard]] PublishedEstimate published_estimate(const SampledJob& job, const PublishedSamples& samples);

/// Predicts as the published estimator does: fits the regressor that its authors tuned to the raw times of the sampling
/// file, for every call.
class RegressedTimes : public PublishedTimes {
 public:
  /// Keeps a reference to the samples. Throws InputError on invalid settings.
  RegressedTimes(std::string gpu_name, const PublishedSamples& samples);

  [[nodiscard]] double operator_s(const estimator::SampledFunction& function, const estimator::SampledShape& shape,
                                  estimator::Pass pass) const override;
  [[nodiscard]] double collective_s(std::string_view function, std::int64_t elements, int nodes,
                                    int per_node) const override;

 private:
  [[nodiscard]] const estimator::SampleFile* find(std::string_view function,
                                                  const std::optional<estimator::RankGroup>& group) const;
  [[noreturn]] void fail_without(std::string_view function, std::string_view group) const;

  std::string gpu_name_;
  const PublishedSamples& samples_;
  TunedRegressors operators_;
  TunedRegressors collectives_;
};

}  // namespace lowgear::published_estimator
