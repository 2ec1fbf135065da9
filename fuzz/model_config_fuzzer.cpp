/// Reads any text as a config.json. Of what is accepted, parameters and FLOPs can be counted. A trainable model is
/// written and read back the same, and its layers are divided by every rule. The first byte chooses the number of
/// stages.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "estimating/model/config_json.h"
#include "estimating/model/partition.h"

namespace {

using namespace lowgear::model;

void divide(const ModelConfig& config, int stages, std::string_view rule) {
  std::int64_t end = 0;
  for (const LayerRange& range : partition_layers(config, stages, parse_partition_rule(rule))) {
    require(range.begin == end && range.end > range.begin);
    end = range.end;
  }
  require(end == config.layers);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const int stages = 1 + data[0] % 8;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    const ModelConfig config = parse_model_config(text, "config.json");
    require(!find_fault(config));
    require(parameter_count(config) > 0);
    require(training_flops_per_token(config, config.max_positions) > 0);
    if (!trainable(config)) return 0;
    require(to_json(parse_trainable_config(to_json(config), "config.json")) == to_json(config));
    divide(config, stages, "uniform");
    divide(config, stages, "cost");
    divide(config, stages, "custom:0,8,14,21,27");
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
