#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "estimating/estimator/peer/peer_formula.h"
#include "estimating/estimator/peer/peer_times.h"
#include "estimating/estimator/peer/tuned_regressors.h"

namespace lowgear::estimator {

/// Predicts as the published estimator does: the regressor that its authors tuned is fitted to the sampling file, on
/// raw times, whenever a time is asked for.
class RegressedTimes : public PeerTimes {
 public:
  /// Keeps a reference to the samples. Throws InputError where the settings cannot be read.
  RegressedTimes(std::string gpu_name, const PeerSamples& samples);

  [[nodiscard]] double operator_s(const SampledFunction& function, const SampledShape& shape, Pass pass) const override;
  [[nodiscard]] double collective_s(std::string_view function, std::int64_t elements, int nodes,
                                    int per_node) const override;

 private:
  [[nodiscard]] const SampleFile* find(std::string_view function, const std::optional<RankGroup>& group) const;
  [[noreturn]] void fail_without(std::string_view function, std::string_view group) const;

  std::string gpu_name_;
  const PeerSamples& samples_;
  TunedRegressors operators_;
  TunedRegressors collectives_;
};

}  // namespace lowgear::estimator
