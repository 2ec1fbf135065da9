#pragma once

#include <cstdint>
#include <vector>

#include "training/trainer/transport/compat.h"

namespace lowgear::trainer {

/// Places in a model where values are dropped.
enum class DropoutSite : unsigned char {
  embedding,
  attention,
  attention_output,
  mlp_output,
  cross_attention,
  cross_output,
  mlp_inside,
  last_norm
};

/// The samples of a pass, by keys that tell them from all others of a training; empty: nothing is dropped.
using SampleKeys = std::vector<std::uint64_t>;

/// The key of a sample: a function of the training's seed and the sample's number in it.
[[nodiscard]] std::uint64_t sample_key(std::uint64_t seed, std::int64_t sample);

/// Dropout whose masks are functions of sample, layer, site and place in the tensor alone: the same for every layout of
/// ranks, when a layer is computed again, and after a resumption. Bits come from two rounds of a 32-bit hash (Wellons
/// 2018, "lowbias32") of the place, each after a half of the sample's key.
class Dropout {
 public:
  /// Sets the samples of the passes until the returned guard ends.
  class Guard {
   public:
    Guard(Dropout& dropout, const SampleKeys& samples) : dropout_(&dropout) { dropout_->samples_ = samples; }
    ~Guard() { dropout_->samples_.clear(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Dropout* dropout_;
  };

  struct Place {
    std::int64_t layer = 0;
    DropoutSite site = DropoutSite::embedding;
    std::int64_t first = 0;  ///< number, in the whole tensor of a sample, of this rank's first element
    std::int64_t parts =
        1;  ///< into which the last dimension of the whole tensor is divided, and which of them this is
    std::int64_t part = 0;
  };

  [[nodiscard]] bool drops(double share) const { return share > 0 && !samples_.empty(); }
  /// [samples, ...]: `share` of the elements become zero, the others grow by 1 / (1 - share). Nothing outside of a
  /// guard, or of a share of 0.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& input, double share, const Place& place) const;

 private:
  SampleKeys samples_;
};

}  // namespace lowgear::trainer
