#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "estimating/estimator/costs/sample_files.h"
#include "estimating/estimator/peer/peer_times.h"
#include "estimating/estimator/peer/sampled_job.h"

namespace lowgear::estimator {

/// What the published estimator reads besides the job: the sampling files of one GPU and, for operators and for
/// collectives, the file `{GPU}.csv` that says which regressor it uses.
struct PeerSamples {
  std::vector<SampleFile> files;
  std::string operator_settings = {};         ///< text of the CSV
  std::string operator_settings_source = {};  ///< its path, for messages
  std::string collective_settings = {};
  std::string collective_settings_source = {};
};

/// A time that one of its regressors predicted.
struct PeerPrediction {
  std::string name;  ///< `linear1 forward`, `allreduce 1 x 2`
  double time_s = 0;
};

/// Of the first stage, those in the middle, and the last one.
using PeerStages = std::array<double, 3>;

/// An iteration by the published estimator's own composition.
struct PeerEstimate {
  std::array<std::int64_t, 3> layers{};  ///< of a stage; they need not add up to those of the model
  PeerStages forward_s{};                ///< of a microbatch, without messages between stages
  PeerStages backward_s{};               ///< with the forward pass, which is always run again
  double message_s = 0;                  ///< of one microbatch to the next stage
  double pipeline_s = 0;
  double gradients_s = 0;  ///< sums over replicas, of the first stage
  double update_s = 0;     ///< of the slowest stage: gathering of weights, optimizer
  double time_s = 0;
  std::vector<PeerPrediction> predictions;
};

/// Composes an iteration as DebarghaG/estimate-train-time does (arXiv 2509.22832): per-stage sums of
/// operators with full recomputation, (microbatches + stages - 1) times the slowest forward and backward, then the
/// first stage's gradients and the slowest update. Its flaws are kept: the split of layers counts five extra ones and
/// need not add up, trees clamp shapes outside of the samples, and without replicas there is no update. Throws
/// InputError where a time is not known, and where the split leaves a stage without layers.
[[nodiscard]] PeerEstimate peer_estimate(const SampledJob& job, const PeerTimes& times);

/// The same with its regressors on raw times (RegressedTimes). Samples are not cleaned. Random draws are not those of
/// its libraries, so times differ by what their draws are worth.
[[nodiscard]] PeerEstimate peer_estimate(const SampledJob& job, const PeerSamples& samples);

}  // namespace lowgear::estimator
