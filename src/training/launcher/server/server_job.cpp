#include "training/launcher/server/server_job.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "planning/planner/policies/envpipe/envpipe_names.h"
#include "protocol/job_spec.h"
#include "protocol/json_members.h"
#include "training/launcher/envpipe_order.h"

namespace lowgear::launcher {
namespace {

constexpr std::size_t kMaxScheduleBytes = std::size_t{32} << 20U;

protocol::JobProfiling profiling_of(const TrainServerConfig& server) {
  return {.clocks = server.profile_clocks,
          .iterations = server.profile_iterations,
          .settle_iterations = server.settle_iterations,
          .min_mhz = server.min_mhz,
          .max_mhz = server.max_mhz,
          .allowance_pct = server.allowance_pct,
          .allowance_iterations = server.allowance_iterations};
}

protocol::JobEnvPipe envpipe_of(const planner::EnvPipeOptions& options) {
  const auto word = [](const auto& words, auto value) {
    return std::string(words.at(static_cast<std::size_t>(value)));
  };
  return {.type = word(planner::kEnvPipeTypeWords, options.type),
          .reconfig = word(planner::kEnvPipeReconfigWords, options.reconfiguration),
          .threshold_scale = options.threshold_scale,
          .transfer_ms = options.transfer_s * 1e3,
          .start_mhz = options.start_clock_mhz,
          .lowest_mhz = options.lowest_clock_mhz,
          .raise_step_mhz = options.raise_step_mhz};
}

std::string_view type_name(const TrainConfig& config) {
  if (config.fp8) return config.fp8->probe ? "auto" : "fp8";
  return config.bf16 ? "bf16" : "fp32";
}

}  // namespace

std::string model_text(const TrainConfig& config) {
  const model::ModelConfig& model = config.model;
  std::string text =
      fmt::format("{} {}x{} heads {}/{} intermediate {} vocabulary {} sequence {} {}{}{}",
                  model.architecture == model::Architecture::gpt2 ? "gpt2" : "llama", model.layers, model.hidden,
                  model.heads, model.kv_heads, model.intermediate, model.vocabulary, config.sequence_length,
                  type_name(config), config.recompute ? " recompute" : "", config.cuda ? "" : " cpu");
  if (const std::int64_t blocks = config.freeze.most_blocks(); blocks > 0) text += fmt::format(" frozen {}", blocks);
  if (const auto& gpu = config.simulated_gpu) {
    text += fmt::format(" simulated {}+{}+{} s x{} memory {} load {}", gpu->layer_forward_s, gpu->embedding_forward_s,
                        gpu->head_forward_s, gpu->backward_factor, gpu->memory_share, gpu->load);
  }
  return text;
}

std::string server_job_json(const TrainConfig& config) {
  const TrainServerConfig& server = config.server.value();
  protocol::JobSpec spec;
  spec.model = model_text(config);
  spec.name = server.name.empty() ? spec.model : server.name;
  spec.framework = "lowgear";
  spec.partition = config.partition;
  spec.parallel = config.parallel;
  spec.schedule_is_csv = config.schedule.ends_with(".csv");
  spec.schedule = spec.schedule_is_csv ? read_file(config.schedule, kMaxScheduleBytes) : config.schedule;
  spec.microbatches = config.microbatches;
  spec.microbatch_size = static_cast<int>(config.microbatch_size);  // at most 1,000,000
  spec.slowdown_pct = server.slowdown_pct;
  spec.guard_pct = server.guard_pct;
  spec.switch_latency_ms = server.switch_latency_ms;
  spec.policy = config.envpipe ? protocol::JobPolicy::envpipe : server.policy;
  if (config.envpipe) spec.envpipe = envpipe_of(config.envpipe->options);
  if (config.schedule == kEnvPipeSchedule) spec.early_forwards = starting_order(config).early_forwards;
  if (server.profile_clocks > 0) spec.profiling = profiling_of(server);
  Json json = to_json(spec);
  json.erase("run");
  json.erase("gpu");
  return protocol::json_text(json);
}

}  // namespace lowgear::launcher
