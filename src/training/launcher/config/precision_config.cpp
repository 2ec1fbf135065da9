#include "training/launcher/config/precision_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "estimating/model/model_config.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/config/yaml_members.h"

namespace lowgear::launcher {
namespace {

void read_type(const YamlView& root, TrainConfig& config) {
  if (!root.has("type")) return;
  const std::string type = root.at("type").text();
  if (type != "fp32" && type != "bf16" && type != "fp16" && type != "fp8" && type != "auto")
    root.at("type").fail(fmt::format("unknown type {}", quote(type)), "there are fp32, bf16, fp16, fp8, auto");
  config.bf16 = type != "fp32" && type != "fp16";
  if (type == "fp16") config.fp16.emplace();
  if (type == "fp8" || type == "auto") config.fp8.emplace();
  if (type == "auto") config.fp8->probe.emplace();
}

/// What products in fp8 have as rows and columns has to be a multiple of 16 on every rank.
void require_fp8_sizes(const YamlView& type, const TrainConfig& config) {
  constexpr std::int64_t kMultiple = 16;
  const model::ModelConfig& model = config.model;
  const std::int64_t heads = model.heads + 2 * model.kv_heads;
  const std::array<std::pair<std::string_view, std::int64_t>, 5> sizes = {
      {{"model.hidden", model.hidden},
       {"model.intermediate / parallel.tp", model.intermediate / config.parallel.tp},
       {"heads of queries x their width / parallel.tp", model.heads * model.head_dim / config.parallel.tp},
       {"all heads x their width / parallel.tp", heads * model.head_dim / config.parallel.tp},
       {"microbatch_size x data.sequence_length", config.microbatch_size * config.sequence_length}}};
  for (const auto& [name, size] : sizes) {
    if (size % kMultiple == 0) continue;
    type.fail(fmt::format("{} is {}, and fp8 needs multiples of {}", name, size, kMultiple),
              "change that, or set type: bf16");
  }
}

void read_precision_probe(const YamlView& map, Fp8Config& fp8) {
  if (!fp8.probe) map.fail("the type is given", "set type: auto");
  map.require_only({"pairs", "block_s", "loss_margin_pct"});
  read_optional(map, "pairs", 2, 1000, fp8.probe->pairs);
  read_optional(map, "block_s", 0.001, 86400, fp8.probe->block_s);
  read_optional(map, "loss_margin_pct", 0, 100, fp8.probe->loss_margin_pct);
}

/// `bf16` or `fp8`.
bool reads_bf16(const YamlView& type) {
  const std::string name = type.text();
  if (name != "bf16" && name != "fp8") type.fail(fmt::format("unknown type {}", quote(name)), "there are fp8, bf16");
  return name == "bf16";
}

void read_fp16(const YamlView& root, TrainConfig& config) {
  if (!root.has("fp16")) return;
  const YamlView map = root.at("fp16");
  if (!config.fp16) map.fail("there is no loss to scale", "set type: fp16");
  map.require_only({"loss_scale", "growth_steps"});
  read_optional(map, "loss_scale", kLowestLossScale, kHighestLossScale, config.fp16->loss_scale);
  if (const double scale = config.fp16->loss_scale; std::exp2(std::round(std::log2(scale))) != scale) {
    map.at("loss_scale").fail(fmt::format("{} is no power of two", scale), "set 65536");
  }
  read_optional(map, "growth_steps", 1, kMaxSteps, config.fp16->growth_steps);
}

void read_fp8(const YamlView& root, TrainConfig& config) {
  if (!config.fp8) {
    if (root.has("fp8")) root.at("fp8").fail("there are no products in fp8", "set type: fp8");
    return;
  }
  Fp8Config& fp8 = *config.fp8;
  const YamlView type = root.at("type");
  if (root.has("fp8")) {
    const YamlView map = root.at("fp8");
    map.require_only({"keep_first", "keep_last", "weight_gradients", "emulate", "probe"});
    read_optional(map, "keep_first", 0, config.model.layers, fp8.keep_first);
    read_optional(map, "keep_last", 0, config.model.layers, fp8.keep_last);
    if (map.has("weight_gradients")) fp8.bf16_weight_gradients = reads_bf16(map.at("weight_gradients"));
    read_optional(map, "emulate", fp8.emulate);
    if (map.has("probe")) read_precision_probe(map.at("probe"), fp8);
  }
  if (fp8.keep_first + fp8.keep_last >= config.model.layers) {
    type.fail(fmt::format("no block is left for fp8: of {}, the first {} and the last {} stay in bf16",
                          config.model.layers, fp8.keep_first, fp8.keep_last),
              "set type: bf16, or fp8.keep_first and fp8.keep_last");
  }
  if (config.cuda && fp8.emulate) root.at("fp8").at("emulate").fail("GPUs compute in fp8", "leave it out");
  if (!config.cuda && !fp8.emulate) {
    type.fail("CPUs have no fp8", "set device: cuda, type: bf16, or fp8: {emulate: true}, which is for tests");
  }
  require_fp8_sizes(type, config);
}

}  // namespace

void read_precision(const YamlView& root, TrainConfig& config) {
  read_type(root, config);
  read_fp8(root, config);
  read_fp16(root, config);
}

}  // namespace lowgear::launcher
