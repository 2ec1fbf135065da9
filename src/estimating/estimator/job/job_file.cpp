#include "estimating/estimator/job/job_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"
#include "base/core/units.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "estimating/model/config_json.h"
#include "estimating/power/gpu_file.h"

namespace lowgear::estimator {

namespace {

constexpr double kMicro = 1e-6;
constexpr double kMaxGigabytesPerS = 1e6;
constexpr double kMaxLatencyUs = 1e6;
constexpr double kMaxHostUs = 1e6;
constexpr int kMaxGpusPerNode = 4096;
constexpr int kMaxZero = 3;

constexpr auto kDataTypes =
    std::to_array({DataType::fp32, DataType::tf32, DataType::fp16, DataType::bf16, DataType::fp8, DataType::fp4});
constexpr auto kRecomputes =
    std::to_array({Recompute::none, Recompute::selective, Recompute::operators, Recompute::full});
constexpr auto kLosses =
    std::to_array({LossKind::split, LossKind::gathered, LossKind::plain, LossKind::fused, LossKind::online});
constexpr auto kAttentionKernels =
    std::to_array({AttentionKernel::newest, AttentionKernel::flash2, AttentionKernel::flash1});
constexpr auto kOffloads = std::to_array({Offload::none, Offload::activations, Offload::optimizer, Offload::states});
constexpr auto kAttentions = std::to_array({AttentionKind::fused, AttentionKind::unfused});

/// A config.json that is written out in the job file.
class YamlMembers final : public model::ConfigMembers {
 public:
  explicit YamlMembers(YamlView map) : map_(std::move(map)) {}

  [[nodiscard]] std::vector<std::string> keys() const override { return map_.keys(); }
  [[nodiscard]] bool has(std::string_view key) const override { return map_.has(key); }
  [[nodiscard]] std::int64_t integer(std::string_view key) const override {
    return map_.at(key).integer_in(-kLargest, kLargest);
  }
  [[nodiscard]] double number(std::string_view key) const override {
    constexpr double kLargestNumber = 1e300;
    return map_.at(key).number_in(-kLargestNumber, kLargestNumber);
  }
  [[nodiscard]] std::string text(std::string_view key) const override { return map_.at(key).text(); }
  [[nodiscard]] bool boolean(std::string_view key) const override { return map_.at(key).boolean(); }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const override {
    const YamlView list = map_.at(key);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list.at(i).text());
    return texts;
  }
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const override {
    const YamlView list = map_.at(key);
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < list.size(); ++i) values.push_back(list.at(i).integer_in(-kLargest, kLargest));
    return values;
  }
  [[nodiscard]] std::unique_ptr<ConfigMembers> object(std::string_view key) const override {
    if (!map_.at(key).is_map()) map_.at(key).fail("expected a map or null");
    return std::make_unique<YamlMembers>(map_.at(key));
  }
  [[nodiscard]] std::string written(std::string_view key) const override {
    const YamlView value = map_.at(key);
    if (value.is_map()) return value.keys().empty() ? "{}" : "...";
    if (!value.is_list()) return value.text();
    if (value.size() == 0) return "[]";
    const bool one = value.size() == 1 && !value.at(0).is_map() && !value.at(0).is_list();
    return one ? value.at(0).text() : "...";
  }
  [[noreturn]] void fail(std::string_view key, std::string_view what, std::string_view fix) const override {
    map_.at(key).fail(what, fix);
  }

 private:
  static constexpr std::int64_t kLargest = std::int64_t{1} << 53;

  YamlView map_;
};

int int_in(const YamlView& value, int low, int high) { return static_cast<int>(value.integer_in(low, high)); }

void read_optional(const YamlView& map, std::string_view key, int low, int high, int& value) {
  if (map.has(key)) value = int_in(map.at(key), low, high);
}

void read_optional(const YamlView& map, std::string_view key, bool& value) {
  if (map.has(key)) value = map.at(key).boolean();
}

void read_optional(const YamlView& map, std::string_view key, double highest, double unit, double& value) {
  if (!map.has(key)) return;
  const YamlView given = map.at(key);
  value = given.number_in(0, highest) * unit;
}

/// One of `values` by its name.
template <typename Values>
auto choice_of(const YamlView& view, const Values& values) {
  const std::string text = view.text();
  std::array<std::string_view, std::tuple_size_v<Values>> names;
  std::ranges::transform(values, names.begin(), [](auto value) { return name(value); });
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return values[static_cast<std::size_t>(found - names.begin())];
  const auto meant = nearest_name(text, names);
  view.fail(fmt::format("expected {}, not {}", fmt::join(names, " or "), quote(text)),
            meant ? fmt::format("did you mean {}?", *meant) : "");
}

/// Looks the name up in a catalogue; errors have the place of the name.
template <typename Look>
auto looked_up(const YamlView& view, const Look& look) {
  const std::string name = view.text();
  try {
    return look(name);
  } catch (const InputError& error) {
    view.fail(error.what());
  }
}

model::ModelConfig read_model(const YamlView& model, const ConfigReader& read_config) {
  if (model.is_map()) return model::read_model_config(YamlMembers(model), "model");
  const std::string text = model.text();
  const bool path = text.ends_with(".json") || text.find('/') != std::string::npos;
  if (!path && is_model_name(text)) return named_model(text);
  if (const std::optional<ConfigFile> file = read_config(text)) {
    if (file->is_missing) {
      model.fail(fmt::format("the folder {} has no config.json", quote(text)),
                 "name the folder of a model, as transformers saves it");
    }
    return model::parse_model_config(file->text, file->source);
  }
  if (!path) return looked_up(model, [](const std::string& name) { return named_model(name); });
  const std::vector<std::string> meant = models_meant_by(text.substr(text.rfind('/') + 1));
  constexpr std::string_view kOther = "give the path of its config.json, or of the folder that has it";
  model.fail(fmt::format("there is no file or folder {}", quote(text)),
             meant.empty()
                 ? std::string(kOther)
                 : fmt::format("did you mean the model {}? For another, {}", fmt::join(meant, " or "), kOther));
}

model::ModelConfig read_estimable_model(const YamlView& view, const ConfigReader& read_config) {
  model::ModelConfig config = read_model(view, read_config);
  estimable(config).require();
  return config;
}

void read_cluster(const YamlView& root, Cluster& cluster) {
  if (!root.has("cluster")) return;
  const YamlView map = root.at("cluster");
  map.require_only({"gpus", "nodes", "gpus_per_node", "intra_node_gb_per_s", "intra_node_latency_us",
                    "inter_node_gb_per_s", "inter_node_latency_us", "host_link_gb_per_s", "host_memory_gb_per_s"});
  read_optional(map, "gpus_per_node", 1, kMaxGpusPerNode, cluster.gpus_per_node);
  read_optional(map, "intra_node_gb_per_s", kMaxGigabytesPerS, kGiga, cluster.intra_node.bytes_per_s);
  read_optional(map, "intra_node_latency_us", kMaxLatencyUs, kMicro, cluster.intra_node.latency_s);
  read_optional(map, "inter_node_gb_per_s", kMaxGigabytesPerS, kGiga, cluster.inter_node.bytes_per_s);
  read_optional(map, "inter_node_latency_us", kMaxLatencyUs, kMicro, cluster.inter_node.latency_s);
  read_optional(map, "host_link_gb_per_s", kMaxGigabytesPerS, kGiga, cluster.host.link_bytes_per_s);
  read_optional(map, "host_memory_gb_per_s", kMaxGigabytesPerS, kGiga, cluster.host.memory_bytes_per_s);
  if (map.has("host_link_gb_per_s") || map.has("host_memory_gb_per_s")) cluster.host.source = "given in the job";
  for (const char* const key :
       {"intra_node_gb_per_s", "inter_node_gb_per_s", "host_link_gb_per_s", "host_memory_gb_per_s"}) {
    if (map.has(key) && !(map.at(key).number_in(0, kMaxGigabytesPerS) > 0)) map.at(key).fail("expected more than 0");
  }
}

/// Takes the number of GPUs that is given; what is not used for anything else is for replicas.
void derive_replicas(const YamlView& given, std::int64_t gpus, bool dp_given, ParallelLayout& parallel) {
  const std::int64_t one_replica = std::int64_t{parallel.tp} * parallel.pp * parallel.cp;
  if (gpus % one_replica != 0) {
    given.fail(fmt::format("{} GPUs are not a multiple of {} (tp {} x pp {} x cp {})", gpus, one_replica, parallel.tp,
                           parallel.pp, parallel.cp),
               fmt::format("give {} GPUs, or another layout", (gpus / one_replica + 1) * one_replica));
  }
  const auto dp = static_cast<int>(gpus / one_replica);
  if (dp_given && parallel.dp != dp) {
    given.fail(fmt::format("{} GPUs give a dp of {}, not {}", gpus, dp, parallel.dp), "leave one of them out");
  }
  parallel.dp = dp;
}

void read_gpu_count(const YamlView& root, const Cluster& cluster, bool dp_given, ParallelLayout& parallel) {
  if (!root.has("cluster")) return;
  const YamlView map = root.at("cluster");
  if (map.has("nodes")) {
    const YamlView nodes = map.at("nodes");
    derive_replicas(nodes, nodes.integer_in(1, kMaxJobGpus) * cluster.gpus_per_node, dp_given, parallel);
    dp_given = true;  // said twice, they have to agree
  }
  if (map.has("gpus")) {
    const YamlView gpus = map.at("gpus");
    derive_replicas(gpus, gpus.integer_in(1, kMaxJobGpus), dp_given, parallel);
  }
}

void read_parallel(const YamlView& root, TrainingJob& job) {
  ParallelLayout& parallel = job.parallel;
  bool dp_given = false;
  if (root.has("parallel")) {
    const YamlView map = root.at("parallel");
    map.require_only({"dp", "tp", "pp", "virtual_stages", "ep", "cp", "sequence_parallel"});
    read_optional(map, "dp", 1, kMaxJobGpus, parallel.dp);
    read_optional(map, "tp", 1, kMaxJobGpus, parallel.tp);
    read_optional(map, "pp", 1, kMaxJobGpus, parallel.pp);
    read_optional(map, "virtual_stages", 1, kMaxJobGpus, parallel.virtual_stages);
    read_optional(map, "ep", 1, kMaxJobGpus, parallel.ep);
    read_optional(map, "cp", 1, kMaxJobGpus, parallel.cp);
    read_optional(map, "sequence_parallel", parallel.sequence_parallel);
    dp_given = map.has("dp");
  }
  // What exceeds the largest job is said by find_fault.
  const std::int64_t sharers = std::int64_t{parallel.tp} * parallel.cp;
  if (sharers > kMaxJobGpus || sharers * parallel.pp > kMaxJobGpus) return;
  read_gpu_count(root, job.cluster, dp_given, parallel);
}

/// As usual with tensor parallelism since it exists.
void assume_sequence_parallel(const YamlView& root, TrainingJob& job) {
  if (root.has("parallel") && root.at("parallel").has("sequence_parallel")) return;
  const std::int64_t sharers = std::int64_t{job.parallel.tp} * job.parallel.cp;
  job.parallel.sequence_parallel = job.parallel.tp > 1 && job.batch.sequence_length % sharers == 0;
}

void read_batch(const YamlView& root, BatchShape& batch) {
  if (root.has("batch")) {
    const YamlView map = root.at("batch");
    map.require_only({"global", "micro", "sequence"});
    if (map.has("global")) batch.global = map.at("global").integer_in(1, kMaxBatch);
    if (map.has("micro")) batch.micro = map.at("micro").integer_in(1, kMaxBatch);
    if (map.has("sequence")) batch.sequence_length = map.at("sequence").integer_in(1, model::kMaxPositions);
  }
  // Said where they are missing.
  if (batch.global == 0) (void)root.at("batch").at("global");
  if (batch.sequence_length == 0) (void)root.at("batch").at("sequence");
}

void read_overlap(const YamlView& root, Overlap& overlap) {
  if (!root.has("overlap")) return;
  const YamlView map = root.at("overlap");
  map.require_only({"gradients", "tensor_gradients", "tensor", "pipeline"});
  read_optional(map, "gradients", overlap.gradients);
  read_optional(map, "tensor_gradients", overlap.tensor_gradients);
  read_optional(map, "tensor", overlap.tensor);
  read_optional(map, "pipeline", overlap.pipeline);
}

void read_host(const YamlView& root, HostCosts& host) {
  if (!root.has("host")) return;
  const YamlView map = root.at("host");
  map.require_only({"operator_us", "collective_us", "checkpoint_forward_us", "checkpoint_backward_us"});
  read_optional(map, "operator_us", kMaxHostUs, kMicro, host.operator_s);
  read_optional(map, "collective_us", kMaxHostUs, kMicro, host.collective_s);
  read_optional(map, "checkpoint_forward_us", kMaxHostUs, kMicro, host.checkpoint_forward_s);
  read_optional(map, "checkpoint_backward_us", kMaxHostUs, kMicro, host.checkpoint_backward_s);
}

void read_optional(const YamlView& map, std::string_view key, std::optional<DataType>& value) {
  if (map.has(key)) value = choice_of(map.at(key), kDataTypes);
}

/// A name, or a map of members that differ from the named stack's (without a name, the job's).
void read_stack(const YamlView& root, SoftwareStack& stack) {
  if (!root.has("stack")) return;
  const YamlView given = root.at("stack");
  const auto look = [&stack](const YamlView& name) {
    stack = looked_up(name, [](const std::string& text) { return named_stack(text); });
  };
  if (!given.is_map()) return look(given);
  given.require_only({"name", "loss", "attention", "fused_norms", "fused_gradient_sums", "gathers_ahead", "weights",
                      "gradients", "reductions", "host"});
  if (given.has("name")) look(given.at("name"));
  if (given.has("loss")) stack.loss = choice_of(given.at("loss"), kLosses);
  if (given.has("attention")) stack.attention = choice_of(given.at("attention"), kAttentionKernels);
  read_optional(given, "fused_norms", stack.fused_norms);
  read_optional(given, "fused_gradient_sums", stack.fused_gradient_sums);
  read_optional(given, "gathers_ahead", stack.gathers_ahead);
  read_optional(given, "weights", stack.weights);
  read_optional(given, "gradients", stack.gradients);
  read_optional(given, "reductions", stack.reductions);
  read_host(given, stack.host);
}

void read_execution(const YamlView& root, TrainingJob& job) {
  if (root.has("recompute")) job.recompute = choice_of(root.at("recompute"), kRecomputes);
  if (root.has("attention")) job.attention = choice_of(root.at("attention"), kAttentions);
  if (root.has("dtype")) job.dtype = choice_of(root.at("dtype"), kDataTypes);
  read_optional(root, "zero", 0, kMaxZero, job.zero);
  read_optional(root, "shard_size", 1, kMaxJobGpus, job.shard_size);
  if (root.has("offload")) job.offload = choice_of(root.at("offload"), kOffloads);
  read_optional(root, "dropout", 1, 1, job.dropout);
  if (root.has("schedule")) {
    job.schedule = root.at("schedule").text();
  } else if (job.parallel.virtual_stages > 1) {
    job.schedule = "interleaved";
  }
  read_overlap(root, job.overlap);
  read_optional(root, "split_messages", job.split_messages);
  read_stack(root, job.stack);
  const bool adds_to_scores =
      job.model.positions == model::PositionKind::relative || job.model.positions == model::PositionKind::alibi;
  if (root.has("stack") && !root.has("attention") && job.stack.name == "lowgear" && adds_to_scores) {
    job.attention = AttentionKind::unfused;
  }
}

/// An amount in the key's unit, of which the data sheet says `usual`; both ends and `usual` in the unit of the model.
double amount_within(const YamlView& value, const ValueRange& range, double unit, std::string_view unit_name,
                     double usual) {
  constexpr double kAnyNumber = 1e12;
  const double number = value.number_in(0, kAnyNumber);
  if (number * unit >= range.lowest && number * unit <= range.highest) return number * unit;
  value.fail(
      fmt::format("{} {} are not from {:.6g} to {:.6g}", number, unit_name, range.lowest / unit, range.highest / unit),
      fmt::format("the data sheet says {:.6g}", usual / unit));
}

void read_gpu_file(const YamlView& path, const ConfigReader& read_config, GpuModel& gpu) {
  const std::string text = path.text();
  const std::optional<ConfigFile> file = read_config(text);
  if (!file) path.fail(fmt::format("there is no GPU file {}", quote(text)));
  if (file->of_folder) {
    path.fail(fmt::format("{} is a folder, not a GPU file", quote(text)),
              "name the file that lowgear sample curve writes");
  }
  const power::GpuFile measured = power::parse_gpu_file(file->text, file->source);
  try {
    set_gpu_file(gpu, measured);
  } catch (const InputError& error) {
    path.fail(error.what());
  }
}

/// Reads the GPU's deviations from its data sheet, other than those of its file.
void read_gpu_changes(const YamlView& map, GpuModel& gpu) {
  map.require_only({"name", "file", "power_limit_w", "memory_gb", "memory_gb_per_s"});
  const GpuModel usual = named_gpu(gpu.name);
  if (map.has("power_limit_w")) {
    set_power_limit(gpu,
                    amount_within(map.at("power_limit_w"), allowed_power_limit_w(gpu), 1, "W", usual.power.limit_w));
  }
  if (map.has("memory_gb")) {
    gpu.memory_bytes = amount_within(map.at("memory_gb"), allowed_memory_bytes(), kGiB, "GB", usual.memory_bytes);
  }
  if (map.has("memory_gb_per_s")) {
    set_memory_bandwidth(gpu, amount_within(map.at("memory_gb_per_s"), allowed_memory_bytes_per_s(gpu), kGiga, "GB/s",
                                            usual.memory_bytes_per_s));
  }
}

/// `gpu` is a name or a map. `changes` are those of settings, which stand before it.
void read_gpu(const YamlView& root, const YamlView& changes, const ConfigReader& read_config, TrainingJob& job) {
  const bool names_file = changes.has("gpu") && changes.at("gpu").has("file");
  if (root.has("gpu") || job.gpu.name.empty()) {
    const YamlView gpu = root.at("gpu");
    const YamlView name = gpu.is_map() ? gpu.at("name") : gpu;
    job.gpu = looked_up(name, [](const std::string& text) { return named_gpu(text); });
    if (gpu.is_map() && gpu.has("file") && !names_file) read_gpu_file(gpu.at("file"), read_config, job.gpu);
    if (gpu.is_map()) read_gpu_changes(gpu, job.gpu);
    job.cluster = default_cluster(job.gpu);
    job.dtype = job.gpu.bf16 ? DataType::bf16 : DataType::fp16;
  }
  if (names_file) read_gpu_file(changes.at("gpu").at("file"), read_config, job.gpu);
  if (changes.has("gpu")) read_gpu_changes(changes.at("gpu"), job.gpu);
}

/// At the value that the fault names, or as near to it as the text goes; nowhere where settings alone make the job.
[[noreturn]] void fail_at(const YamlView& root, const std::string& source, const JobFault& fault) {
  const std::size_t dot = fault.member.find('.');
  const std::string_view group = fault.member.substr(0, dot);
  if (!root.has(group)) {
    const std::string what = fmt::format("{}: {}", fault.member, fault.what);
    if (!source.empty()) root.fail(what, fault.fix);
    throw InputError(fault.fix.empty() ? what : fmt::format("{}; {}", what, fault.fix));
  }
  const YamlView view = root.at(group);
  if (dot == std::string_view::npos) view.fail(fault.what, fault.fix);
  const std::string_view key = fault.member.substr(dot + 1);
  if (view.is_map() && view.has(key)) view.at(key).fail(fault.what, fault.fix);
  view.fail(fmt::format("{}: {}", key, fault.what), fault.fix);
}

/// Overwrites members of `job` with those of the text and the settings. Settings within `gpu` are kept apart: the text,
/// and another setting, may have a plain name there.
TrainingJob read_job(std::string_view yaml, const std::string& source, std::span<const YamlSetting> settings,
                     TrainingJob job, const ConfigReader& read_config) {
  std::vector<YamlSetting> of_gpu;
  std::vector<YamlSetting> others;
  for (const YamlSetting& setting : settings) {
    (setting.path.starts_with("gpu.") ? of_gpu : others).push_back(setting);
  }
  if (!source.empty()) refuse_eadt_config(yaml, source);
  const YamlView root = YamlView::parse_with(yaml, source, others);
  root.require_only({"model", "gpu", "cluster", "parallel", "batch", "recompute", "zero", "shard_size", "offload",
                     "dtype", "overlap", "schedule", "attention", "dropout", "split_messages", "stack"});
  const bool described = job.model.layers > 0;
  if (root.has("model") || !described) job.model = read_estimable_model(root.at("model"), read_config);
  read_gpu(root, YamlView::parse_with("{}", source, of_gpu), read_config, job);
  read_cluster(root, job.cluster);
  read_batch(root, job.batch);
  read_parallel(root, job);
  if (!described) assume_sequence_parallel(root, job);
  read_execution(root, job);
  if (const std::optional<JobFault> fault = find_fault(job)) fail_at(root, source, *fault);
  return job;
}

}  // namespace

TrainingJob parse_training_job(std::string_view yaml, const std::string& source, std::span<const YamlSetting> settings,
                               const ConfigReader& read_config) {
  return read_job(yaml, source, settings, {}, read_config);
}

TrainingJob with_settings(TrainingJob job, const std::string& source, std::span<const YamlSetting> settings,
                          const ConfigReader& read_config) {
  return read_job("{}", source, settings, std::move(job), read_config);
}

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
  return is_model_name(name) ? name : "NAME (or the folder of its config.json)";
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
      fmt::format("lowgear estimate --model {} --gpu GPU --gpus N --global-batch B --microbatch {} --seq {}{}",
                  model_option(root), micro, count_of(root, {"max_seq_length", "block_size"}, 512), zero_option(root));
  if (is_on(root, "gradient_checkpointing")) command += " --recompute full";
  if (is_on(root, "bf16") || is_on(root, "fp16")) command += is_on(root, "bf16") ? " --dtype bf16" : " --dtype fp16";
  root.fail(
      "a configuration of EADT, DeepSpeed or Hugging Face's trainer, not a job of `lowgear estimate`",
      fmt::format("the same job is `{}`, with B = {} x N; `lowgear train` reports what it does with the other keys",
                  command, micro * steps));
}

}  // namespace lowgear::estimator
