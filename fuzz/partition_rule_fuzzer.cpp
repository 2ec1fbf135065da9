/// Reads any text as a rule of partition. The first byte chooses the depth of the model, the second the number of
/// stages; what is accepted divides all layers or is refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "estimating/model/partition.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  lowgear::model::ModelConfig config;
  config.vocabulary = config.hidden = config.intermediate = config.max_positions = 64;
  config.heads = config.kv_heads = config.head_dim = 8;
  config.layers = 1 + data[0];
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  try {
    std::int64_t end = 0;
    for (const lowgear::model::LayerRange& range :
         lowgear::model::partition_layers(config, 1 + data[1] % 16, lowgear::model::parse_partition_rule(text))) {
      if (range.begin != end || range.end <= range.begin) std::abort();
      end = range.end;
    }
    if (end != config.layers) std::abort();
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
