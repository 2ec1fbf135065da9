#include "rivals/published_estimator/sampled_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"
#include "planning/schedule/schedule.h"

namespace lowgear::published_estimator {

namespace {

constexpr std::int64_t kMaxJobRanks = 65'536;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
constexpr std::int64_t kMaxBucket = std::int64_t{1} << 40;
constexpr std::int64_t kMaxEncoders = 1024;
constexpr std::int64_t kMaxSyncs = 16;

std::vector<std::string> texts(const YamlView& list) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < list.size(); ++i) values.push_back(list.at(i).text());
  if (values.empty()) list.fail("an operator is missing here", "name those of the sampling files");
  return values;
}

int small(const YamlView& value, std::int64_t low, std::int64_t high) {
  return static_cast<int>(value.integer_in(low, high));
}

void read_training_config(const YamlView& list, SampledJob& job) {
  constexpr std::size_t kNumbers = 9;
  if (list.size() != kNumbers) {
    list.fail("expected 9 numbers",
              "give pp, mp, dp, micro-batch, heads, sequence length, hidden size, micro-batches per update, GPUs per "
              "node");
  }
  job.pp = small(list.at(0), 1, kMaxJobRanks);
  job.mp = small(list.at(1), 1, kMaxJobRanks);
  job.dp = small(list.at(2), 1, kMaxJobRanks);
  job.micro_batch = list.at(3).integer_in(1, kMaxSize);
  job.heads = list.at(4).integer_in(1, kMaxSize);
  job.sequence_length = list.at(5).integer_in(1, kMaxSize);
  job.hidden = list.at(6).integer_in(1, kMaxSize);
  job.microbatches = list.at(7).integer_in(1, schedule::kMaxMicrobatches);
  job.gpus_per_node = small(list.at(8), 1, kMaxJobRanks);
}

}  // namespace

bool is_sampled_job(std::string_view yaml, const std::string& source) {
  return YamlView::parse(yaml, source).has("training_config");
}

SampledJob parse_sampled_job(std::string_view yaml, const std::string& source) {
  const YamlView map = YamlView::parse(yaml, source);
  map.require_only({"gpu_name", "operator_data_folder", "nccl_data_folder", "training_config", "comm_bucket",
                    "encoders", "function_list", "encoder_function_list", "layernorm_name", "fwd_syncs", "bwd_syncs"});
  SampledJob job;
  job.gpu_name = map.at("gpu_name").text();
  job.operator_data_folder = map.at("operator_data_folder").text();
  job.nccl_data_folder = map.at("nccl_data_folder").text();
  read_training_config(map.at("training_config"), job);
  job.comm_bucket = map.at("comm_bucket").integer_in(1, kMaxBucket);
  job.encoders = map.at("encoders").integer_in(1, kMaxEncoders);
  job.function_list = texts(map.at("function_list"));
  job.encoder_function_list = texts(map.at("encoder_function_list"));
  job.layernorm_name = map.at("layernorm_name").text();
  job.fwd_syncs = small(map.at("fwd_syncs"), 0, kMaxSyncs);
  job.bwd_syncs = small(map.at("bwd_syncs"), 0, kMaxSyncs);
  return job;
}

namespace {

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

model::ModelConfig model_of(const SampledJob& job) {
  if (job.hidden % job.heads != 0) {
    throw InputError(fmt::format("training_config: {} heads do not divide the width of {}", job.heads, job.hidden));
  }
  model::ModelConfig model = model::gpt_model(job.hidden, job.encoders, job.heads, 50257, job.sequence_length);
  model.name = "sampled";
  model.norm = job.layernorm_name == "RMSlayernorm" ? model::NormKind::rms_norm : model::NormKind::layer_norm;
  model.positions = has(job.encoder_function_list, "RoPE") ? model::PositionKind::rotary : model::PositionKind::learned;
  model.parallel_residual = job.fwd_syncs == 1;
  require_valid(model);
  return model;
}

}  // namespace

estimator::TrainingJob training_job_of(const SampledJob& sampled) {
  const std::optional<std::string_view> gpu = estimator::gpu_of_name(sampled.gpu_name);
  if (!gpu) {
    throw InputError(fmt::format("gpu_name: {} is not a GPU of the catalogue; there are {}", quote(sampled.gpu_name),
                                 fmt::join(estimator::gpu_names(), ", ")));
  }
  estimator::TrainingJob job;
  job.model = model_of(sampled);
  job.gpu = estimator::named_gpu(*gpu);
  job.cluster = estimator::default_cluster(job.gpu);
  job.cluster.gpus_per_node = sampled.gpus_per_node;
  job.parallel = {.dp = sampled.dp, .tp = sampled.mp, .pp = sampled.pp};
  job.batch = {.global = sampled.micro_batch * sampled.microbatches * sampled.dp,
               .micro = sampled.micro_batch,
               .sequence_length = sampled.sequence_length};
  job.recompute = estimator::Recompute::full;
  job.attention = has(sampled.encoder_function_list, "flash_atten") ? estimator::AttentionKind::fused
                                                                    : estimator::AttentionKind::unfused;
  job.dtype = estimator::DataType::fp16;
  return job;
}

estimator::TrainingJob parse_job_file(std::string_view yaml, const std::string& source,
                                      std::span<const YamlSetting> settings,
                                      const estimator::ConfigReader& read_config) {
  if (!is_sampled_job(yaml, source)) return estimator::parse_training_job(yaml, source, settings, read_config);
  return with_settings(training_job_of(parse_sampled_job(yaml, source)), source, settings, read_config);
}

}  // namespace lowgear::published_estimator
