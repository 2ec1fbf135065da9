#include "estimating/estimator/job/eadt_job.h"

#include <fmt/format.h>

#include <initializer_list>
#include <optional>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"
#include "base/core/numbers/number.h"
#include "estimating/estimator/job/transformer_shape.h"
#include "estimating/model/foreign_config.h"

namespace lowgear::estimator {
namespace {

/// A scalar of the sections in which EADT's users write the arguments of Hugging Face's trainer; empty without one.
std::string argument(const YamlView& root, std::string_view key) {
  const auto in = [key](const YamlView& map) {
    const bool there = map.is_map() && map.has(key) && !map.at(key).is_map() && !map.at(key).is_list();
    return there ? map.at(key).text() : std::string();
  };
  std::string text = in(root);
  for (const char* const section : {"training", "deepspeed"}) {
    if (text.empty() && root.has(section)) text = in(root.at(section));
  }
  return text;
}

/// The first of the keys that holds a whole number from 1; `otherwise`, the trainer's own, where none does.
long long count_of(const YamlView& root, std::initializer_list<std::string_view> keys, long long otherwise) {
  for (const std::string_view key : keys) {
    const std::optional<long long> number = parse_integer(argument(root, key));
    if (number && *number > 0) return *number;
  }
  return otherwise;
}

bool is_on(const YamlView& root, std::string_view key) {
  const std::string text = argument(root, key);
  return text == "true" || text == "True";
}

std::string model_option(const YamlView& root) {
  const std::string given = argument(root, "model_name_or_path");
  const std::string name = given.substr(given.rfind('/') + 1);
  return is_transformer_name(name) ? name : "NAME (or the folder of its config.json)";
}

std::string zero_option(const YamlView& root) {
  if (!root.has("deepspeed") || !root.at("deepspeed").is_map()) return " --zero 0";
  const YamlView deepspeed = root.at("deepspeed");
  if (!deepspeed.has("zero_optimization") || !deepspeed.at("zero_optimization").is_map()) return " --zero 0";
  const YamlView zero = deepspeed.at("zero_optimization");
  const std::optional<long long> stage = zero.has("stage") ? parse_integer(zero.at("stage").text()) : std::nullopt;
  return stage && *stage >= 0 && *stage <= 3 ? fmt::format(" --zero {}", *stage) : "";
}

}  // namespace

void refuse_eadt_config(std::string_view yaml, const std::string& source) {
  const YamlView root = YamlView::parse(yaml, source);
  if (!model::is_eadt_config(root)) return;
  const long long micro = count_of(root, {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"}, 8);
  const long long steps = count_of(root, {"gradient_accumulation_steps"}, 1);
  std::string command =
      fmt::format("lowgear estimate --model {} --gpu GPU --gpus N --global-batch B --micro-batch {} --seq {}{}",
                  model_option(root), micro, count_of(root, {"max_seq_length", "block_size"}, 512), zero_option(root));
  if (is_on(root, "gradient_checkpointing")) command += " --recompute full";
  if (is_on(root, "bf16") || is_on(root, "fp16")) command += is_on(root, "bf16") ? " --dtype bf16" : " --dtype fp16";
  root.fail("a configuration of EADT, DeepSpeed or Hugging Face's trainer, not a job of `lowgear estimate`",
            fmt::format("the same job is `{}`, with B = {} x N; `lowgear train` says what becomes of the other keys",
                        command, micro * steps));
}

}  // namespace lowgear::estimator
