#include "training/launcher/server_job.h"

#include <fmt/format.h>

#include "base/core/files/file.h"
#include "base/core/formats/json.h"

namespace lowgear {
namespace {

constexpr std::size_t kMaxScheduleBytes = std::size_t{32} << 20U;

Json profile_json(const TrainServerConfig& server) {
  if (server.profile_clocks == 0) return {};
  return {{"clocks", server.profile_clocks},
          {"iterations", server.profile_iterations},
          {"settle_iterations", server.settle_iterations},
          {"min_mhz", or_null(server.min_mhz)},
          {"max_mhz", or_null(server.max_mhz)},
          {"allowance_pct", server.allowance_pct},
          {"allowance_iterations", server.allowance_iterations}};
}

Json schedule_json(const TrainConfig& config) {
  if (!config.schedule.ends_with(".csv")) return config.schedule;
  return {{"csv", read_file(config.schedule, kMaxScheduleBytes)}};
}

}  // namespace

std::string model_text(const TrainConfig& config) {
  const ModelConfig& model = config.model;
  std::string text =
      fmt::format("{} {}x{} heads {}/{} intermediate {} vocabulary {} sequence {} {}{}{}",
                  model.architecture == Architecture::gpt2 ? "gpt2" : "llama", model.layers, model.hidden, model.heads,
                  model.kv_heads, model.intermediate, model.vocabulary, config.sequence_length,
                  config.bf16 ? "bf16" : "fp32", config.recompute ? " recompute" : "", config.cuda ? "" : " cpu");
  if (const auto& gpu = config.simulated_gpu) {
    text += fmt::format(" simulated {}+{}+{} s x{} memory {} load {}", gpu->layer_forward_s, gpu->embedding_forward_s,
                        gpu->head_forward_s, gpu->backward_factor, gpu->memory_share, gpu->load);
  }
  return text;
}

std::string server_job_json(const TrainConfig& config) {
  const TrainServerConfig& server = config.server.value();
  const std::string model = model_text(config);
  const Json json = {{"name", server.name.empty() ? model : server.name},
                     {"framework", "lowgear"},
                     {"model", model},
                     {"partition", config.partition},
                     {"parallel",
                      {{"pp", config.parallel.pp},
                       {"dp", config.parallel.dp},
                       {"tp", config.parallel.tp},
                       {"chunks", config.parallel.chunks}}},
                     {"schedule", schedule_json(config)},
                     {"microbatches", config.microbatches},
                     {"microbatch_size", config.microbatch_size},
                     {"slowdown_pct", server.slowdown_pct},
                     {"guard_pct", server.guard_pct},
                     {"switch_latency_ms", server.switch_latency_ms},
                     {"profile", profile_json(server)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lowgear
