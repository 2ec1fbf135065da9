/// Reads any text as a config.json of a transformer. What is accepted is valid, and its parameters can be counted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "estimating/estimator/job/transformer_shape.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lowgear::estimator::TransformerShape shape =
        lowgear::estimator::parse_transformer_shape({reinterpret_cast<const char*>(data), size}, "config.json");
    lowgear::estimator::require_valid(shape);
    if (lowgear::estimator::parameter_count(shape) <= 0) std::abort();
    if (!(lowgear::estimator::training_flops_per_token(shape, shape.max_positions) > 0)) std::abort();
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
