#include "estimating/estimator/peer/sampled_training_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/core/error.h"

namespace lowgear::estimator {
namespace {

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

TransformerShape shape_of(const SampledJob& job) {
  if (job.hidden % job.heads != 0) {
    throw InputError(fmt::format("training_config: {} heads do not divide the width of {}", job.heads, job.hidden));
  }
  TransformerShape shape;
  shape.name = "sampled";
  shape.vocabulary = 50257;
  shape.hidden = job.hidden;
  shape.layers = job.encoders;
  shape.heads = job.heads;
  shape.kv_heads = job.heads;
  shape.head_dim = job.hidden / job.heads;
  shape.intermediate = 4 * job.hidden;
  shape.max_positions = job.sequence_length;
  shape.mlp = MlpKind::plain;
  shape.norm = job.layernorm_name == "RMSlayernorm" ? NormKind::rms_norm : NormKind::layer_norm;
  shape.positions = has(job.encoder_function_list, "RoPE") ? PositionKind::rotary : PositionKind::learned;
  shape.qkv_biases = true;
  shape.output_bias = true;
  shape.mlp_biases = true;
  shape.parallel_residual = job.fwd_syncs == 1;
  require_valid(shape);
  return shape;
}

}  // namespace

TrainingJob training_job_of(const SampledJob& sampled) {
  const std::optional<std::string_view> gpu = gpu_of_name(sampled.gpu_name);
  if (!gpu) {
    throw InputError(fmt::format("gpu_name: {} is not a GPU of the catalogue; there are {}", quote(sampled.gpu_name),
                                 fmt::join(gpu_names(), ", ")));
  }
  TrainingJob job;
  job.model = shape_of(sampled);
  job.gpu = named_gpu(*gpu);
  job.cluster = default_cluster(job.gpu);
  job.cluster.gpus_per_node = sampled.gpus_per_node;
  job.parallel = {.dp = sampled.dp, .tp = sampled.mp, .pp = sampled.pp};
  job.batch = {.global = sampled.micro_batch * sampled.microbatches * sampled.dp,
               .micro = sampled.micro_batch,
               .sequence_length = sampled.sequence_length};
  job.recompute = Recompute::full;
  job.attention = has(sampled.encoder_function_list, "flash_atten") ? AttentionKind::fused : AttentionKind::unfused;
  job.dtype = DataType::fp16;
  return job;
}

TrainingJob parse_job_file(std::string_view yaml, const std::string& source, std::span<const YamlSetting> settings,
                           const ConfigReader& read_config) {
  if (!is_sampled_job(yaml, source)) return parse_training_job(yaml, source, settings, read_config);
  return with_settings(training_job_of(parse_sampled_job(yaml, source)), source, settings, read_config);
}

}  // namespace lowgear::estimator
