#include "training/launcher/config/eadt_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"
#include "base/core/numbers/number.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {
namespace {

/// A value of the document that is no map.
struct Leaf {
  std::string path;  ///< `training.fp16`
  std::string name;  ///< `fp16`
  std::string text;
  SourceLocation where;
};

/// A key and the setting that says the same.
struct Setting {
  std::string_view key;
  std::string_view setting;
};
constexpr auto kSettings = std::to_array<Setting>({
    {"per_device_train_batch_size", "microbatch_size"},
    {"train_micro_batch_size_per_gpu", "microbatch_size"},
    {"gradient_accumulation_steps", "microbatches"},
    {"max_seq_length", "data.sequence_length"},
    {"block_size", "data.sequence_length"},
    {"max_steps", "steps"},
    {"seed", "seed"},
    {"learning_rate", "optimizer.learning_rate"},
    {"weight_decay", "optimizer.weight_decay"},
    {"warmup_steps", "optimizer.warmup_steps"},
    {"adam_beta1", "optimizer.beta1"},
    {"adam_beta2", "optimizer.beta2"},
    {"adam_epsilon", "optimizer.epsilon"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"gradient_clipping", "optimizer.clip_norm"},
    {"gradient_checkpointing", "recompute"},
    {"output_dir", "checkpoint.folder"},
    {"save_steps", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
});

/// A key, or the end of its path, and why there is no setting for it.
struct Reason {
  std::string_view key;
  std::string_view why;
};
constexpr auto kReasons = std::to_array<Reason>({
    {"dataset_name",
     "a data set of Hugging Face; training reads token files: write its text to a file, then `lowgear "
     "data tokenize`"},
    {"dataset_config_name", "part of the data set's name: choose the text that you write to a file"},
    {"num_train_epochs",
     "training counts steps: epochs x sequences of the text / (microbatches x microbatch_size x "
     "parallel.dp)"},
    {"logging_steps", "every step is logged: metrics: FILE"},
    {"evaluation_strategy", "set evaluation: {held_out: FILE.bin, every: STEPS}, with a token file of its own"},
    {"eval_strategy", "set evaluation: {held_out: FILE.bin, every: STEPS}, with a token file of its own"},
    {"eval_steps", "evaluation.every, once evaluation.held_out names a token file"},
    {"lr_scheduler_type",
     "the learning rate falls along half a cosine, to optimizer.min_learning_rate; lowgear train has no other schedule "
     "for it"},
    {"initial_scale_power", "the power of two of fp16.loss_scale"},
    {"loss_scale_window", "fp16.growth_steps"},
    {"adaptive_precision",
     "in EADT it changes a label and no arithmetic; here all steps of a run have one type: type: auto measures bf16 "
     "and fp8 before the first step"},
    {"dynamic_layer_freezing",
     "it freezes nothing there on its default model; here adapt.freeze.controller, which needs "
     "held-out text, and --adapt freezing where a trial shows that it saves"},
    {"min_active_layers", "adapt.freeze.controller.cap, the largest share of blocks that may be frozen"},
    {"layer_activation_threshold",
     "an absolute size of gradients, which loss scaling moves; here "
     "adapt.freeze.controller.steady_drift, a relative change"},
    {"adaptation_cooldown", "adapt.freeze.controller.dwell_windows, counted in windows of steps"},
    {"energy_monitoring_interval", "not needed: the GPUs' energy counters are read every step, whatever its length"},
    {"energy_efficiency_threshold", "EADT does not read it"},
    {"energy_threshold_high",
     "watts at which a label changes there; a loaded GPU always draws more. Here "
     "adapt.slowdown finds the operating point of least energy within a slowdown"},
    {"energy_threshold_low", "EADT does not read it"},
    {"adaptive_training.enabled", "EADT does not read it; `lowgear train --adapt slowdown` adapts by measurement"},
    {"zero_optimization.stage",
     "lowgear train has ZeRO stage 1 alone (optimizer.zero1: true); parallel.pp and parallel.tp divide parameters. To "
     "stay with DeepSpeed: docs/attaching.md"},
    {"offload_optimizer", "there is no offloading: parallel.pp, parallel.tp and recompute save memory on the GPU"},
    {"offload_param", "there is no offloading: parallel.pp, parallel.tp and recompute save memory on the GPU"},
    {"mps.enabled", "MPS saves energy where independent jobs share a GPU, and not within one job: docs/sharing.md"},
    {"initial_thread_percentage", "the agent gives shares of a GPU, when a process starts: docs/sharing.md"},
    {"shared_resources",
     "NCCL refuses two ranks of a job on one GPU; `lowgear pack` finds jobs that can share one: "
     "docs/sharing.md"},
});
constexpr std::string_view kUnknown = "not known of EADT's configuration; docs/training.md has the settings";

/// Of Hugging Face's TrainingArguments: where they differ from those of `lowgear train`.
constexpr auto kDefaults = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"data.sequence_length", "512"},
    {"microbatch_size", "8"},
    {"optimizer.learning_rate", "5e-5"},
    {"optimizer.weight_decay", "0"},
    {"optimizer.beta2", "0.999"},
});

void add_leaves(const YamlNode& node, const std::string& path, std::string_view name, std::vector<Leaf>& leaves) {
  if (node.kind != YamlNode::Kind::map) {
    leaves.push_back({.path = path,
                      .name = std::string(name),
                      .text = node.kind == YamlNode::Kind::scalar ? node.scalar : "",
                      .where = node.place.location()});
    return;
  }
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const YamlNode::Key& key = node.keys[i];
    add_leaves(node.values[i], path.empty() ? key.name : path + "." + key.name, key.name, leaves);
  }
}

/// Whether `key`, of one word or several, is part of the leaf's path: `offload_param` of `offload_param.device`.
bool is_of(const Leaf& leaf, std::string_view key) {
  return fmt::format(".{}.", leaf.path).find(fmt::format(".{}.", key)) != std::string::npos;
}

std::string lower(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

/// A scalar in YAML: numbers and plain words as they are.
std::string value_text(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '.' || letter == '-' || letter == '+' || letter == '_' || letter == '/';
  });
  return plain && !text.empty() ? text : yaml_quoted(text);
}

/// Why the reader of configurations would not take the value, by trying it in a small job; empty where it would.
std::string problem_of(std::string_view setting, const std::string& value) {
  constexpr std::string_view kJob =
      "model: {vocabulary: 256, hidden: 2, layers: 1, heads: 1}\ndata: {synthetic_tokens: 1, sequence_length: 1}\n"
      "steps: 1000000000\ncheckpoint: {folder: checkpoints}\n";
  const std::string given = fmt::format("{}={}", setting, value);
  try {
    (void)parse_train_config(kJob, "", "", std::span(&given, 1));
  } catch (const InputError& error) {
    const std::string_view what = error.what();
    const std::string where = fmt::format("setting {}: ", quote(given));
    return std::string(what.substr(what.starts_with(where) ? where.size() : 0));
  }
  return "";
}

bool is_true(const Leaf& leaf) { return lower(leaf.text) == "true"; }
bool is_false(const Leaf& leaf) { return lower(leaf.text) == "false"; }

class Translator {
 public:
  explicit Translator(std::string source) : source_(std::move(source)) {}

  void add(const Leaf& leaf) {
    if (leaf.name == "model_name_or_path") return add_model(leaf);
    for (const char* type : {"bf16", "fp16"}) {
      if (leaf.name == type || is_of(leaf, fmt::format("{}.enabled", type))) return add_type(type, leaf);
    }
    if (is_of(leaf, "zero_optimization.stage") && leaf.text == "1") return set("optimizer.zero1", "true", leaf);
    const auto* const setting = std::ranges::find(kSettings, leaf.name, &Setting::key);
    if (setting != kSettings.end()) return add_setting(setting->setting, leaf);
    if (is_false(leaf)) return refuse(leaf, "off there, and here");
    const auto* const reason =
        std::ranges::find_if(kReasons, [&leaf](const Reason& each) { return is_of(leaf, each.key); });
    refuse(leaf, reason == kReasons.end() ? kUnknown : reason->why);
  }

  [[nodiscard]] EadtTranslation take() {
    for (const auto& [setting, value] : kDefaults) {
      if (!settings_.contains(setting)) settings_[std::string(setting)] = {std::string(value), "the default there"};
    }
    if (!settings_.contains("steps"))
      steps_.push_back("set steps: num_train_epochs x sequences of the text / those of a step");
    steps_.push_back(
        "set parallel.dp to the number of GPUs, each of which is a replica there, and tokenize the text into "
        "data.tokens: `lowgear data tokenize --tokenizer tokenizer.json --out train.bin FILE`");
    steps_.push_back("check what comes out: `lowgear train train.yaml --dry-run`; docs/coming-from.md has more");
    return {.config = config_text(), .reasons = std::move(reasons_), .steps = std::move(steps_)};
  }

 private:
  struct Value {
    std::string text;
    std::string from;
  };

  void refuse(const Leaf& leaf, std::string_view why) {
    reasons_.push_back(fmt::format("{}: {}: {}", to_string(leaf.where), printable(leaf.path), why));
  }

  void set(std::string_view setting, const std::string& value, const Leaf& leaf) {
    const auto [place, is_new] = settings_.emplace(setting, Value{value, leaf.path});
    if (is_new || place->second.text == value) return;
    refuse(leaf, fmt::format("{} says {} already", place->second.from, printable(place->second.text)));
  }

  void add_setting(std::string_view setting, const Leaf& leaf) {
    const std::optional<double> number = parse_number(leaf.text);
    if (leaf.name == "max_steps" && number && *number <= 0) return refuse(leaf, "the epochs count there: set steps");
    if (leaf.text.empty()) return refuse(leaf, "no value, as if it were missing there");
    if (leaf.text == "auto") return refuse(leaf, fmt::format("the value of another key there: set {}", setting));
    const std::string value = is_true(leaf) || is_false(leaf) ? lower(leaf.text) : value_text(leaf.text);
    const std::string problem = problem_of(setting, value);
    if (!problem.empty()) return refuse(leaf, problem);
    set(setting, value, leaf);
  }

  /// A folder is as good here; a name of Hugging Face's hub has to be downloaded.
  void add_model(const Leaf& leaf) {
    const std::string& name = leaf.text;
    const bool is_path = name.starts_with('/') || name.starts_with('.');
    const std::string folder = is_path ? name : name.substr(name.rfind('/') + 1);
    set("model", fmt::format("{{config: {}, weights: {}}}", yaml_quoted(folder + "/config.json"), yaml_quoted(folder)),
        leaf);
    if (is_path) return;
    steps_.push_back(fmt::format("download the model, as nothing is downloaded here: `hf download {} --local-dir {}`",
                                 printable(name), printable(folder)));
  }

  void add_type(const char* type, const Leaf& leaf) {
    if (is_true(leaf)) return set("type", type, leaf);
    if (!is_false(leaf)) refuse(leaf, "neither true nor false: set type");
  }

  /// `  key: value  # from`, or a section with its members.
  [[nodiscard]] std::string config_text() const {
    std::string text = fmt::format("# From {}, a configuration of EADT.\n", printable(source_));
    text +=
        "# Here the learning rate falls along half a cosine; in EADT along a line, if the file names nothing else.\n";
    for (const std::string_view setting : {"model", "steps"}) {
      if (!settings_.contains(setting)) text += fmt::format("# {}: to be set\n", setting);
    }
    text += "# parallel: {dp: to be set}\ndevice: cuda  # as there\n";
    std::string section;
    for (const auto& [setting, value] : settings_) {
      const std::size_t dot = setting.find('.');
      const std::string of = dot == std::string::npos ? "" : setting.substr(0, dot);
      if (!of.empty() && of != section) {
        text += of + ":\n";
        if (of == "data") text += "  tokens: train.bin  # to be made\n";
      }
      section = of;
      text += fmt::format("{}{}: {}  # {}\n", of.empty() ? "" : "  ", setting.substr(of.empty() ? 0 : dot + 1),
                          value.text, printable(value.from));
    }
    return text;
  }

  std::string source_;
  std::map<std::string, Value, std::less<>> settings_;
  std::vector<std::string> reasons_;
  std::vector<std::string> steps_;
};

}  // namespace

EadtTranslation translate_eadt_config(std::string_view text, const std::string& source) {
  const YamlNode document = parse_yaml(std::make_shared<const YamlSource>(YamlSource{source, std::string(text), true}));
  std::vector<Leaf> leaves;
  add_leaves(document, "", "", leaves);
  Translator translator(source);
  for (const Leaf& leaf : leaves) translator.add(leaf);
  return translator.take();
}

}  // namespace lowgear::launcher
