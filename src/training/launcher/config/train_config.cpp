#include "training/launcher/config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/yaml.h"
#include "estimating/model/config_json.h"
#include "estimating/model/config_members.h"
#include "planning/steps/work_model.h"
#include "training/launcher/config/precision_config.h"
#include "training/launcher/config/yaml_members.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

/// Every rank holds them, in two bytes each.
constexpr std::int64_t kMaxSyntheticTokens = std::int64_t{1} << 28;
constexpr double kMaxTokensPerStep = 1e12;
constexpr std::int64_t kMaxBucketMib = std::int64_t{1} << 20;
constexpr double kMaxUnitS = 3600;

model::ModelConfig read_shape(const YamlView& map) {
  map.require_only({"architecture", "vocabulary", "hidden", "layers", "heads", "kv_heads", "intermediate",
                    "max_positions", "tied_embeddings", "rope_theta", "weights"});
  model::ModelConfig model;
  const std::string architecture = map.has("architecture") ? map.at("architecture").text() : "llama";
  if (architecture == "gpt2") {
    model = model::gpt_model(0, 0, 1, 0, 0);
    model.tied_embeddings = true;
  } else if (architecture != "llama") {
    map.at("architecture").fail(fmt::format("unknown architecture {}", quote(architecture)), "there are llama, gpt2");
  }
  model.vocabulary = map.at("vocabulary").integer_in(2, model::kMaxVocabulary);
  model.hidden = map.at("hidden").integer_in(2, model::kMaxModelWidth);
  model.layers = map.at("layers").integer_in(1, model::kMaxModelLayers);
  model.heads = map.at("heads").integer_in(1, model.hidden);
  if (model.hidden % (2 * model.heads) != 0) {
    map.at("heads").fail(
        fmt::format("{} heads do not divide a hidden size of {} into even parts", model.heads, model.hidden));
  }
  model.head_dim = model.hidden / model.heads;
  model.kv_heads = model.heads;
  read_optional(map, "kv_heads", 1, model.heads, model.kv_heads);
  for (const char* key : {"kv_heads", "rope_theta"}) {
    if (architecture == "gpt2" && map.has(key)) map.at(key).fail("GPT-2 has none", "leave it out");
  }
  model.intermediate = 4 * model.hidden;
  read_optional(map, "intermediate", 1, model::kMaxModelWidth, model.intermediate);
  read_optional(map, "max_positions", 1, model::kMaxPositions, model.max_positions);
  read_optional(map, "rope_theta", 1, 1e9, model.rope_theta);
  read_optional(map, "tied_embeddings", model.tied_embeddings);
  return model;
}

void read_model(const YamlView& root, const fs::path& folder, TrainConfig& config) {
  const YamlView map = root.at("model");
  if (map.has("config")) {
    map.require_only({"config", "weights"});
    config.model_file = path_at(map.at("config"), folder);
    config.model = model::parse_trainable_config(read_file(*config.model_file), config.model_file->string());
  } else {
    config.model = read_shape(map);
  }
  read_optional(map, "weights", folder, config.weights);
  if (root.has("partition")) config.partition = root.at("partition").text();
}

/// The section `model` calls its keys as the description does its fields.
void require_valid_shape(const YamlView& map, const model::ModelConfig& model) {
  const std::optional<model::ModelFault> fault = find_fault(model);
  if (!fault) return;
  if (map.has(fault->field)) map.at(fault->field).fail(fault->what, fault->fix);
  map.fail(fmt::format("{}: {}", fault->field, fault->what), fault->fix);
}

dataset::TokenType token_type_at(const YamlView& view) {
  const std::string text = view.text();
  const auto* const type =
      std::ranges::find(dataset::kTokenTypes, text, [](dataset::TokenType known) { return name(known); });
  if (type == dataset::kTokenTypes.end()) {
    view.fail(fmt::format("unknown type of tokens {}", quote(text)), "there are uint16, uint32");
  }
  return *type;
}

void read_data(const YamlView& root, const fs::path& folder, TrainConfig& config) {
  const YamlView map = root.at("data");
  map.require_only({"tokens", "token_type", "synthetic_tokens", "sequence_length", "document_end", "mask_token"});
  config.sequence_length = map.at("sequence_length").integer_in(1, model::kMaxPositions);
  if (config.model.max_positions == 0) config.model.max_positions = config.sequence_length;
  if (!config.model_file) require_valid_shape(root.at("model"), config.model);
  if (config.sequence_length > config.model.max_positions) {
    map.at("sequence_length").fail(fmt::format("the model has {} positions", config.model.max_positions));
  }
  if (is_masked_language_model(config.model)) {
    if (!map.has("mask_token")) {
      map.fail("a masked language model needs the id of its mask", "mask_token: 103 for the published uncased BERT");
    }
    config.mask_token = map.at("mask_token").integer_in(0, config.model.vocabulary - 1);
  } else if (map.has("mask_token")) {
    map.at("mask_token").fail("the model is no masked language model", "leave it out");
  }
  if (map.has("tokens")) config.tokens = paths_at(map.at("tokens"), folder);
  if (map.has("token_type")) config.token_type = token_type_at(map.at("token_type"));
  read_optional(map, "synthetic_tokens", 1, kMaxSyntheticTokens, config.synthetic_tokens);
  if (config.tokens.empty() == (config.synthetic_tokens == 0)) {
    map.fail("give either tokens or synthetic_tokens", "tokens: FILE.bin, or synthetic_tokens: 1000000");
  }
  if (config.token_type && config.tokens.empty()) {
    map.at("token_type").fail("synthetic text has no file", "leave it out");
  }
  if (!map.has("document_end")) return;
  config.document_end = map.at("document_end").integer_in(0, config.model.vocabulary - 1);
  if (config.mask_token || has_encoder_and_decoder(config.model)) {
    map.at("document_end").fail("documents are of models that predict the next token", "leave it out");
  }
  if (config.model.rope_scaling.kind == model::RopeScaling::Kind::dynamic) {
    map.at("document_end").fail("dynamic RoPE depends on the length of each document, which is not computed");
  }
}

void read_parallel(const YamlView& root, TrainConfig& config) {
  if (!root.has("parallel")) return;
  const YamlView map = root.at("parallel");
  map.require_only({"pp", "dp", "tp", "chunks", "gradient_bucket_mib"});
  protocol::JobParallel& parallel = config.parallel;
  read_optional(map, "pp", 1, kMaxRanks, parallel.pp);
  read_optional(map, "dp", 1, kMaxRanks, parallel.dp);
  read_optional(map, "tp", 1, kMaxRanks, parallel.tp);
  read_optional(map, "chunks", 1, kMaxRanks, parallel.chunks);
  if (map.has("gradient_bucket_mib")) {
    config.gradient_bucket_bytes = map.at("gradient_bucket_mib").integer_in(1, kMaxBucketMib) << 20;
  }
  const std::int64_t stages = std::int64_t{parallel.pp} * parallel.chunks;
  if (stages > config.model.layers) {
    map.fail(fmt::format("{} stages are more than the model's {} layers", stages, config.model.layers));
  }
  if (std::int64_t{parallel.pp} * parallel.dp * parallel.tp > kMaxRanks) {
    map.fail(fmt::format("more than {} ranks", kMaxRanks));
  }
}

/// Of the schedule `envpipe`.
void read_early_forwards(const YamlView& list, TrainConfig& config) {
  if (config.schedule != kEnvPipeSchedule) list.fail("they are of the schedule envpipe", "leave them out");
  for (std::size_t rank = 0; rank < list.size(); ++rank) {
    const int most = rank == 0 ? config.microbatches : config.early_forwards.back();  // a rise can hang
    config.early_forwards.push_back(int_in(list.at(rank), 0, most));
  }
  if (std::cmp_equal(config.early_forwards.size(), config.parallel.pp)) return;
  list.fail(fmt::format("{} numbers for {} pipeline ranks", config.early_forwards.size(), config.parallel.pp),
            "give one for each, none above the one before");
}

/// A job that is cut short by `--steps` keeps the warm-up of its file, so the message says how to leave that out.
void read_warmup(const YamlView& optimizer, std::int64_t steps, std::int64_t& warmup_steps) {
  read_optional(optimizer, "warmup_steps", 0, kMaxSteps, warmup_steps);
  if (warmup_steps <= steps) return;
  optimizer.at("warmup_steps")
      .fail(fmt::format("{} steps of warm-up do not fit into the {} steps of the job", warmup_steps, steps),
            "add --set optimizer.warmup_steps=0");
}

void read_optimizer(const YamlView& root, TrainConfig& config) {
  if (!root.has("optimizer")) return;
  const YamlView map = root.at("optimizer");
  map.require_only({"learning_rate", "min_learning_rate", "warmup_steps", "beta1", "beta2", "epsilon", "weight_decay",
                    "clip_norm", "zero1"});
  OptimizerConfig& optimizer = config.optimizer;
  read_optional(map, "learning_rate", 0, 1e3, optimizer.learning_rate);
  read_optional(map, "min_learning_rate", 0, optimizer.learning_rate, optimizer.min_learning_rate);
  read_warmup(map, config.steps, optimizer.warmup_steps);
  read_optional(map, "beta1", 0, 0.999999, optimizer.beta1);
  read_optional(map, "beta2", 0, 0.999999, optimizer.beta2);
  read_optional(map, "epsilon", 1e-30, 1, optimizer.epsilon);
  read_optional(map, "weight_decay", 0, 1, optimizer.weight_decay);
  read_optional(map, "clip_norm", 0, 1e9, optimizer.clip_norm);
  read_optional(map, "zero1", optimizer.zero1);
}

/// A plan is for the times of one type, and simulated GPUs have no other ones for another type.
void require_known_type(const YamlView& root, const TrainConfig& config) {
  if (!config.fp8 || !config.fp8->probe) return;
  const char* other = config.server ? "server" : config.plan ? "energy.plan" : config.profile ? "energy.profile" : "";
  if (config.step_clocks) other = "energy.steps";
  if (config.simulated_gpu) other = "simulated_gpu";
  if (*other == 0) return;
  root.at("type").fail(fmt::format("{} needs to know the type before the run", other), "set type: bf16 or fp8");
}

/// A job that searches its operating point sets clocks itself.
void require_free_clocks(const YamlView& root, const TrainConfig& config) {
  if (!config.adapt.slowdown || (!config.plan && !config.profile && !config.server)) return;
  const char* other = config.server ? "server" : config.plan ? "energy.plan" : "energy.profile";
  root.at("adapt")
      .at("slowdown")
      .fail(fmt::format("{} sets clocks, too", other), fmt::format("leave out {}, or the technique slowdown", other));
}

/// A profile's cells and a plan's clocks are those of one partition; a server knows one, too.
void require_free_partition(const YamlView& root, const TrainConfig& config) {
  if (!config.adapt.repartition) return;
  const YamlView view = root.at("adapt").at("repartition");
  const auto& slowdown = config.adapt.slowdown;
  const char* other = config.server                          ? "server"
                      : config.plan                          ? "energy.plan"
                      : config.profile                       ? "energy.profile"
                      : slowdown && !slowdown->plans.empty() ? "adapt.slowdown.plans"
                                                             : nullptr;
  if (other != nullptr) {
    view.fail(fmt::format("{} is for one partition", other), fmt::format("leave out {}, or this", other));
  }
  if (slowdown && config.adapt.repartition->profile) {
    view.fail("the technique slowdown sets clocks, too", "leave out profile, or the technique slowdown");
  }
}

void read_evaluation(const YamlView& root, const fs::path& folder, TrainConfig& config) {
  if (!root.has("evaluation")) return;
  const YamlView map = root.at("evaluation");
  map.require_only({"held_out", "every", "batches"});
  EvaluationConfig evaluation;
  evaluation.held_out = paths_at(map.at("held_out"), folder);
  read_optional(map, "every", 1, kMaxSteps, evaluation.every);
  read_optional(map, "batches", 1, 1'000'000, evaluation.batches);
  config.evaluation = std::move(evaluation);
}

void read_profile(const YamlView& map, TrainConfig& config) {
  map.require_only({"clocks_mhz", "settle_iterations", "iterations"});
  ProfileConfig profile;
  const YamlView clocks = map.at("clocks_mhz");
  for (std::size_t i = 0; i < clocks.size(); ++i) profile.clocks_mhz.push_back(int_in(clocks.at(i), 1, 100'000));
  if (profile.clocks_mhz.empty()) clocks.fail("name at least one clock");
  read_optional(map, "settle_iterations", 0, 1000, profile.settle_iterations);
  read_optional(map, "iterations", 1, 100'000, profile.iterations);
  const std::int64_t needed =
      static_cast<std::int64_t>(profile.clocks_mhz.size()) * (profile.settle_iterations + profile.iterations);
  if (config.steps < needed) {
    map.fail(fmt::format("{} clocks take {} steps, and there are {}", profile.clocks_mhz.size(), needed, config.steps),
             fmt::format("steps: {}", needed));
  }
  config.profile = std::move(profile);
}

void read_recorded_steps(const YamlView& map, TrainConfig& config) {
  map.require_only({"first", "count"});
  RecordedSteps steps;
  read_optional(map, "first", 0, config.steps - 1, steps.first);
  read_optional(map, "count", 1, kMaxSteps, steps.count);
  if (!config.recording) map.fail("there is no recording", "add recording: FOLDER");
  config.recorded_steps = steps;
}

void read_simulated_gpu(const YamlView& map, TrainConfig& config) {
  map.require_only({"layer_forward_s", "embedding_forward_s", "head_forward_s", "backward_factor", "memory_share",
                    "load", "attention_share"});
  SimulatedGpuConfig gpu;
  gpu.layer_forward_s = map.at("layer_forward_s").number_in(1e-6, kMaxUnitS);
  read_optional(map, "embedding_forward_s", 0, kMaxUnitS, gpu.embedding_forward_s);
  read_optional(map, "head_forward_s", 0, kMaxUnitS, gpu.head_forward_s);
  read_optional(map, "backward_factor", 0.1, 100, gpu.backward_factor);
  read_optional(map, "memory_share", 0, 1, gpu.memory_share);
  read_optional(map, "load", 0, 1, gpu.load);
  read_optional(map, "attention_share", 0, 1, gpu.attention_share);
  config.simulated_gpu = gpu;
}

void read_server(const YamlView& map, const fs::path& folder, TrainConfig& config) {
  config.server = read_train_server(map, folder);
  if (config.server->policy && config.envpipe) {
    map.at("policy").fail("energy.policy is another one", "leave out this or energy.policy");
  }
  if (config.envpipe && config.envpipe->options.profile_step_mhz != policies::EnvPipeOptions().profile_step_mhz) {
    map.fail("energy.envpipe.profile_step is of a job's own profiling, and the server has a sweep of its own",
             "leave out profile_step, and set server.profile.clocks, or leave out the server");
  }
  if (config.plan || config.profile) {
    map.fail("a job with a server must not set clocks itself", "leave out energy.plan and energy.profile");
  }
  for (const char* const member : {"policy", "slowdown_pct", "guard_pct", "switch_latency_ms", "profile"}) {
    if (!config.step_clocks || !map.has(member)) continue;
    map.at(member).fail("the server does not plan a job that has energy.steps", "leave out this or energy.steps");
  }
}

void read_clock_profile(const YamlView& map, TrainConfig& config) {
  read_profile(map.at("profile"), config);
  if (config.plan) map.at("plan").fail("a run that profiles sets clocks itself", "leave out plan or profile");
  if (!config.recording) map.fail("a run that profiles needs a recording", "add recording: FOLDER");
  if (config.recorded_steps) map.at("recorded_steps").fail("a run that profiles records all its steps", "leave it out");
}

/// Which setting changes units from step to step, or their clocks; empty: none.
const char* changing_setting(const TrainConfig& config) {
  if (config.adapt.slowdown) return "adapt.slowdown";
  if (config.adapt.repartition) return "adapt.repartition";
  if (config.freeze.weight_gradient_budget) return "adapt.freeze.weight_gradients";
  return config.freeze.most_blocks() > 0 ? "adapt.freeze" : "";
}

/// A job that reconfigures sets clocks itself, from one step to the next of the same units.
void read_policy(const YamlView& energy, const fs::path& folder, TrainConfig& config) {
  if (!energy.has("policy")) return;
  const YamlView policy = energy.at("policy");
  if (policy.text() != "envpipe") {
    policy.fail(fmt::format("the policy {} is not followed in a running job", quote(policy.text())),
                "write envpipe; plans of other policies are made by lowgear plan and followed with --plan");
  }
  const char* other = config.plan ? "energy.plan" : config.profile ? "energy.profile" : "";
  if (const char* const changes = changing_setting(config); *changes != 0) other = changes;
  if (*other != 0)
    policy.fail(fmt::format("{} sets clocks or changes units, too", other),
                fmt::format("leave out {}, or the policy", other));
  if (config.parallel.pp < 2) policy.fail("a pipeline of one rank receives nothing", "set parallel.pp to 2 or more");
  config.envpipe = energy.has("envpipe") ? read_envpipe(energy.at("envpipe"), folder) : EnvPipeConfig{};
}

void read_clocks_of_steps(const YamlView& map, const fs::path& folder, TrainConfig& config) {
  map.require_only({"profile", "work", "clocks_per"});
  const char* const other = config.plan      ? "energy.plan"
                            : config.profile ? "energy.profile"
                            : config.envpipe ? "energy.policy"
                                             : changing_setting(config);
  if (*other != 0) {
    map.fail(fmt::format("{} sets clocks or changes units, too", other), fmt::format("leave out {}, or this", other));
  }
  client::StepFiles& clocks = config.step_clocks.emplace();
  clocks.profile = path_at(map.at("profile"), folder);
  clocks.work = steps::work_file_of(clocks.profile.string());
  if (map.has("work")) clocks.work = path_at(map.at("work"), folder);
  if (!map.has("clocks_per")) return;
  const std::string per = map.at("clocks_per").text();
  if (per != "unit" && per != "replica") map.at("clocks_per").fail("expected unit or replica");
  clocks.clocks_per = per == "unit" ? steps::ClocksPer::unit : steps::ClocksPer::replica;
}

/// Of the policy, or of the schedule `envpipe`, for which only the memory counts.
void read_order_memory(const YamlView& envpipe, TrainConfig& config) {
  constexpr const char* kAddPolicy = "add policy: envpipe, or leave it out";
  if (!config.envpipe && config.schedule != kEnvPipeSchedule) {
    envpipe.fail("it is of the policy envpipe, and its memory_limit of the schedule envpipe, too", kAddPolicy);
  }
  envpipe.require_only(kEnvPipeMembers);
  for (const std::string_view member : std::span(kEnvPipeMembers).subspan(1)) {
    if (config.envpipe || !envpipe.has(member)) continue;
    envpipe.at(member).fail("it is of the policy envpipe, which this job does not follow", kAddPolicy);
  }
  if (!envpipe.has("memory_limit")) return;
  config.envpipe_memory = read_envpipe_memory(envpipe.at("memory_limit"), config.parallel.pp, config.microbatches);
}

void read_outputs(const YamlView& root, const fs::path& folder, TrainConfig& config) {
  if (root.has("checkpoint")) {
    const YamlView map = root.at("checkpoint");
    map.require_only({"folder", "every", "keep"});
    config.checkpoint = path_at(map.at("folder"), folder);
    read_optional(map, "every", 1, kMaxSteps, config.checkpoint_every);
    read_optional(map, "keep", 1, 1'000'000, config.checkpoint_keep);
  }
  read_optional(root, "export", folder, config.export_folder);
  read_optional(root, "metrics", folder, config.metrics);
  if (!root.has("energy")) return;
  const YamlView map = root.at("energy");
  map.require_only({"plan", "recording", "recorded_steps", "profile", "policy", "envpipe", "steps"});
  read_optional(map, "plan", folder, config.plan);
  read_optional(map, "recording", folder, config.recording);
  if (map.has("recorded_steps")) read_recorded_steps(map.at("recorded_steps"), config);
  if (map.has("profile")) read_clock_profile(map, config);
  read_policy(map, folder, config);
  if (map.has("envpipe")) read_order_memory(map.at("envpipe"), config);
  if (map.has("steps")) read_clocks_of_steps(map.at("steps"), folder, config);
}

/// As other names of the same place have it: absolute, without links, dots and a trailing slash.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) result = path;
  result = result.lexically_normal();
  return result.has_filename() ? result : result.parent_path();
}

/// Whether one of them is the other or lies in it.
bool overlap(const fs::path& a, const fs::path& b) {
  const fs::path first = resolved(a);
  const fs::path second = resolved(b);
  const auto [in_first, in_second] = std::ranges::mismatch(first, second);
  return in_first == first.end() || in_second == second.end();
}

/// An export replaces its folder as a whole.
void require_separate_export(const YamlView& root, const TrainConfig& config) {
  if (!config.export_folder) return;
  const std::optional<fs::path> freezing_log =
      config.freeze.controller ? config.freeze.controller->log : std::optional<fs::path>();
  const std::optional<fs::path> envpipe_log = config.envpipe ? config.envpipe->log : std::optional<fs::path>();
  const std::array<std::pair<std::string_view, const std::optional<fs::path>*>, 8> others = {
      {{"checkpoint.folder", &config.checkpoint},
       {"metrics", &config.metrics},
       {"adapt.freeze.controller.log", &freezing_log},
       {"adapt.log", &config.adapt.log},
       {"energy.recording", &config.recording},
       {"energy.envpipe.log", &envpipe_log},
       {"model.weights", &config.weights},
       {"model.config", &config.model_file}}};
  for (const auto& [name, path] : others) {
    if (!*path || !overlap(*config.export_folder, **path)) continue;
    root.at("export").fail(
        fmt::format("{} and {}, which is {}, overlap", config.export_folder->string(), (*path)->string(), name),
        "name a folder for the export alone");
  }
}

/// A word; `true` is full, `false` none.
Recompute recompute_at(const YamlView& view) {
  const std::string word = view.text();
  if (word == "true" || word == "false") return word == "true" ? Recompute::full : Recompute::none;
  const auto* const found = std::ranges::find(kRecomputeWords, word);
  if (found == kRecomputeWords.end()) {
    view.fail(fmt::format("expected {}, true or false, not {}", fmt::join(kRecomputeWords, ", "), quote(word)));
  }
  return static_cast<Recompute>(found - kRecomputeWords.begin());
}

/// Of all ranks, or a list with that of each pipeline rank.
void read_recompute(const YamlView& view, TrainConfig& config) {
  if (!view.is_list()) {
    config.recompute = recompute_at(view);
    return;
  }
  for (std::size_t rank = 0; rank < view.size(); ++rank) {
    config.ranks_recompute.push_back(recompute_at(view.at(rank)));
  }
  if (std::cmp_equal(view.size(), config.parallel.pp)) return;
  view.fail(fmt::format("{} words for {} pipeline ranks", view.size(), config.parallel.pp),
            fmt::format("give one of {} for each", fmt::join(kRecomputeWords, ", ")));
}

/// As a double, which cannot overflow.
double tokens_per_step(const TrainConfig& config) {
  return static_cast<double>(config.microbatches) * static_cast<double>(config.microbatch_size) *
         static_cast<double>(config.sequence_length) * config.parallel.dp;
}

}  // namespace

TrainConfig parse_train_config(std::string_view text, const std::string& source, const fs::path& folder,
                               std::span<const std::string> settings) {
  const YamlView root = YamlView::parse(text, source, settings);
  if (model::is_eadt_config(root)) {
    root.fail(
        "a configuration of EADT, DeepSpeed or Hugging Face's trainer, not of `lowgear train`",
        "`lowgear train FILE` alone prints its settings that have the same meaning here, and explains the others");
  }
  root.require_only(
      {"model",  "partition", "data",          "parallel",      "schedule", "microbatches", "microbatch_size",
       "type",   "device",    "recompute",     "optimizer",     "steps",    "seed",         "checkpoint",
       "export", "metrics",   "energy",        "simulated_gpu", "server",   "adapt",        "evaluation",
       "fp8",    "fp16",      "early_forwards"});
  TrainConfig config;
  config.steps = root.at("steps").integer_in(1, kMaxSteps);
  read_model(root, folder, config);
  read_data(root, folder, config);
  read_parallel(root, config);
  if (root.has("schedule")) config.schedule = root.at("schedule").text();
  if (config.schedule.ends_with(".csv")) config.schedule = (folder / config.schedule).string();
  read_optional(root, "microbatches", 1, 1'000'000, config.microbatches);
  read_optional(root, "microbatch_size", 1, 1'000'000, config.microbatch_size);
  if (root.has("early_forwards")) read_early_forwards(root.at("early_forwards"), config);
  if (root.has("device")) {
    const std::string device = root.at("device").text();
    if (device != "cpu" && device != "cuda") {
      root.at("device").fail(fmt::format("unknown device {}", quote(device)), "there are cpu, cuda");
    }
    config.cuda = device == "cuda";
  }
  if (root.has("recompute")) read_recompute(root.at("recompute"), config);
  read_precision(root, config);
  read_optimizer(root, config);
  if (root.has("adapt")) read_adapt(root.at("adapt"), folder, config.model.layers, config.freeze, config.adapt);
  read_evaluation(root, folder, config);
  std::int64_t seed = 1;
  read_optional(root, "seed", 0, std::int64_t{1} << 52, seed);
  config.seed = static_cast<std::uint64_t>(seed);
  read_outputs(root, folder, config);
  require_separate_export(root, config);
  if (root.has("simulated_gpu")) read_simulated_gpu(root.at("simulated_gpu"), config);
  if (root.has("server")) read_server(root.at("server"), folder, config);
  require_free_clocks(root, config);
  require_known_type(root, config);
  require_free_partition(root, config);
  if (tokens_per_step(config) > kMaxTokensPerStep) root.fail("a step has more than 1e12 tokens");
  return config;
}

TrainConfig read_train_config(const fs::path& path, std::span<const std::string> settings) {
  return parse_train_config(read_file(path, kMaxYamlBytes), path.string(), path.parent_path(), settings);
}

}  // namespace lowgear::launcher
