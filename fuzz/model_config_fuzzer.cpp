/// Reads any text as a config.json. What is accepted is written and read back the same, its parameters can be counted,
/// and its layers divided by every rule. The first byte chooses the number of stages.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "estimating/model/model_config.h"
#include "estimating/model/partition.h"

namespace {

void divide(const lowgear::model::ModelConfig& config, int stages, std::string_view rule) {
  std::int64_t end = 0;
  for (const lowgear::model::LayerRange& range :
       lowgear::model::partition_layers(config, stages, lowgear::model::parse_partition_rule(rule))) {
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
    const lowgear::model::ModelConfig config = lowgear::model::parse_model_config(text, "config.json");
    require(lowgear::model::parse_model_config(lowgear::model::to_json(config), "config.json") == config);
    require(lowgear::model::parameter_count(config) > 0);
    require(lowgear::model::training_flops_per_token(config, config.max_positions) > 0);
    divide(config, stages, "uniform");
    divide(config, stages, "cost");
    divide(config, stages, "custom:0,8,14,21,27");
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
