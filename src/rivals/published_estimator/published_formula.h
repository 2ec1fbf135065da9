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

/// The only type that its data has.
inline constexpr estimator::DataType kPublishedType = estimator::DataType::fp16;

/// Where the published estimator's composition gets its times from.
class PublishedTimes {
 public:
  virtual ~PublishedTimes() = default;
  /// Of one pass of a sampled operator in fp16; functions of one pass have the forward alone. Throws InputError where
  /// the time is not known.
  [[nodiscard]] virtual double operator_s(const estimator::SampledFunction& function,
                                          const estimator::SampledShape& shape, estimator::Pass pass) const = 0;
  /// Of a collective of `elements` fp16 numbers among `nodes` x `per_node` GPUs. Throws as operator_s does.
  [[nodiscard]] virtual double collective_s(std::string_view function, std::int64_t elements, int nodes,
                                            int per_node) const = 0;

 protected:
  PublishedTimes() = default;
  PublishedTimes(const PublishedTimes&) = default;
  PublishedTimes& operator=(const PublishedTimes&) = default;
};

/// What the published estimator reads besides the job: the sampling files of one GPU and, for operators and for
/// collectives, the file `{GPU}.csv` that says which regressor it uses.
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

/// Of the first stage, those in the middle, and the last one.
using PublishedStages = std::array<double, 3>;

/// An iteration by the published estimator's own composition.
struct PublishedEstimate {
  std::array<std::int64_t, 3> layers{};  ///< of a stage; they need not add up to those of the model
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
/// first stage's gradients and the slowest update. Its flaws are kept: the split of layers counts five extra ones and
/// need not add up, trees clamp shapes outside of the samples, and without replicas there is no update. Throws
/// InputError where a time is not known, and where the split leaves a stage without layers.
[[nodiscard]] PublishedEstimate published_estimate(const SampledJob& job, const PublishedTimes& times);

/// The same with its regressors on raw times (RegressedTimes). Samples are not cleaned. Random draws are not those of
/// its libraries, so times differ by what their draws are worth.
[[nodiscard]] PublishedEstimate published_estimate(const SampledJob& job, const PublishedSamples& samples);

/// Predicts as the published estimator does: the regressor that its authors tuned is fitted to the sampling file, on
/// raw times, whenever a time is asked for.
class RegressedTimes : public PublishedTimes {
 public:
  /// Keeps a reference to the samples. Throws InputError where the settings cannot be read.
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
