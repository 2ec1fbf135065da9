#pragma once

#include <cstdint>
#include <string_view>

#include "estimating/estimator/costs/operator_samples.h"

namespace lowgear::estimator {

/// The only type that its data has.
inline constexpr DataType kPeerType = DataType::fp16;

/// Where the published estimator's composition gets its times from.
class PeerTimes {
 public:
  virtual ~PeerTimes() = default;
  /// Of one pass of a sampled operator in fp16; functions of one pass have the forward alone. Throws InputError where
  /// the time is not known.
  [[nodiscard]] virtual double operator_s(const SampledFunction& function, const SampledShape& shape,
                                          Pass pass) const = 0;
  /// Of a collective of `elements` fp16 numbers among `nodes` x `per_node` GPUs. Throws as operator_s does.
  [[nodiscard]] virtual double collective_s(std::string_view function, std::int64_t elements, int nodes,
                                            int per_node) const = 0;

 protected:
  PeerTimes() = default;
  PeerTimes(const PeerTimes&) = default;
  PeerTimes& operator=(const PeerTimes&) = default;
};

}  // namespace lowgear::estimator
