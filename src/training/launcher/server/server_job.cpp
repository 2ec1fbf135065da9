#include "training/launcher/server/server_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/http/client/client.h"
#include "base/http/message/error.h"
#include "base/http/tls/tls_credentials.h"
#include "client/server/server_addresses.h"
#include "protocol/job_spec.h"
#include "protocol/json_members.h"
#include "rivals/policies/envpipe/envpipe.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::launcher {

namespace {

constexpr std::string_view kAssumed = "a backward is assumed to take twice as long as a forward";

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    const bool is_plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    if (is_plain) {
      encoded += each;
    } else {
      encoded += fmt::format("%{:02X}", byte);
    }
  }
  return encoded;
}

ServedOrder order_of(const TrainConfig& config, const http::Endpoint& server, const http::ReplyText& reply) {
  if (reply.status == 404) return {{}, fmt::format("{} has no profile of this job yet: {}", server.text(), kAssumed)};
  if (reply.status != 200) {
    return {{},
            fmt::format("{} gives no profile: {}: {}", server.text(), http::refusal_text(reply.status, reply.body),
                        kAssumed)};
  }
  const Json document = parse_json(reply.body, "profile");
  return order_by_profile(config, protocol::read_measured_cells(JsonView(document, "profile"), config.parallel.pp));
}

}  // namespace

bool has_servers_order(const TrainConfig& config) {
  return config.server && config.schedule == kEnvPipeSchedule && config.early_forwards.empty() &&
         !(config.envpipe && config.envpipe->profile);
}

ServedOrder order_by_profile(const TrainConfig& config, const protocol::MeasuredCells& profile) {
  const policies::EnvPipeFindings found =
      envpipe_order_findings(protocol::stage_profile_of(profile.cells, config.parallel.pp),
                             protocol::blocking_power_of(profile.blocking, config.parallel.pp), config.microbatches,
                             config.envpipe ? config.envpipe->options : policies::EnvPipeOptions{});
  policies::EnvPipeOrder order = order_in_memory(config.envpipe_memory, config.microbatches, found);
  std::string note = fmt::format("early forwards {} by the forward and backward times of the server's profile",
                                 fmt::join(order.early_forwards, " "));
  if (!order.note.empty()) note += "; " + order.note;
  return {std::move(order.early_forwards), std::move(note)};
}

std::string profile_query(const TrainConfig& config, std::string_view gpu, bool simulated) {
  return fmt::format("?model={}&partition={}&gpu={}&pp={}&tp={}&chunks={}&microbatch_size={}&simulated={:d}",
                     percent_encoded(model_text(config)), percent_encoded(config.partition), percent_encoded(gpu),
                     config.parallel.pp, config.parallel.tp, config.parallel.chunks, config.microbatch_size, simulated);
}

ServedOrder ask_order(const TrainConfig& config, std::string_view gpu, bool simulated,
                      std::chrono::milliseconds patience) {
  std::string problem = "no server is named";
  try {
    const TrainServerConfig& server = config.server.value();
    const http::Client::HeaderList headers =
        http::token_headers(http::token_file_from_environment(process_environment(), server.token_file.value_or("")));
    const http::ClientOptions options{
        .connect_timeout = patience,
        .tls = http::tls_files_from_environment(process_environment(), server.ca_file.value_or(""))};
    for (const http::Endpoint& address : client::parse_server_addresses(server.address)) {
      try {
        http::Client client(address, options);
        const std::string target = "/v1/profile" + profile_query(config, gpu, simulated);
        return order_of(config, address, client.request("GET", target, {}, headers, patience));
      } catch (const http::ClientError& error) {
        problem = error.what();
      }
    }
  } catch (const Error& error) {
    problem = error.what();
  }
  return {{}, fmt::format("no profile of the server: {}; {}", problem, kAssumed)};
}

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

protocol::JobEnvPipe envpipe_of(const policies::EnvPipeOptions& options) {
  const auto word = [](const auto& words, auto value) {
    return std::string(words.at(static_cast<std::size_t>(value)));
  };
  return {.type = word(policies::kEnvPipeTypeWords, options.type),
          .reconfig = word(policies::kEnvPipeReconfigWords, options.reconfiguration),
          .threshold_scale = options.threshold_scale,
          .transfer_ms = options.transfer_s * 1e3,
          .start_mhz = options.start_clock_mhz,
          .lowest_mhz = options.lowest_clock_mhz,
          .raise_step_mhz = options.raise_step_mhz};
}

std::string_view type_name(const TrainConfig& config) {
  if (config.fp8) return config.fp8->probe ? "auto" : "fp8";
  return config.fp16 ? "fp16" : config.bf16 ? "bf16" : "fp32";
}

std::string recompute_text(const TrainConfig& config) {
  std::string text = config.recompute == Recompute::none        ? ""
                     : config.recompute == Recompute::attention ? " recompute attention"
                                                                : " recompute";
  for (std::size_t rank = 0; rank < config.ranks_recompute.size(); ++rank) {
    text += fmt::format("{}{}", rank == 0 ? " recompute " : ",", name(config.ranks_recompute[rank]));
  }
  return text;
}

}  // namespace

std::string model_text(const TrainConfig& config) {
  const model::ModelConfig& model = config.model;
  std::string text =
      fmt::format("{} {}x{} heads {}/{} intermediate {} vocabulary {} sequence {} {}{}{}", model.family, model.layers,
                  model.hidden, model.heads, model.kv_heads, model.intermediate, model.vocabulary,
                  config.sequence_length, type_name(config), recompute_text(config), config.cuda ? "" : " cpu");
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
  spec.policy = config.envpipe       ? protocol::JobPolicy::envpipe
                : config.step_clocks ? protocol::JobPolicy::steps
                                     : server.policy;
  if (config.envpipe) spec.envpipe = envpipe_of(config.envpipe->options);
  if (config.schedule == kEnvPipeSchedule) spec.early_forwards = starting_order(config).early_forwards;
  if (server.profile_clocks > 0 && !config.step_clocks) spec.profiling = profiling_of(server);
  Json json = to_json(spec);
  json.erase("run");
  json.erase("gpu");
  return protocol::json_text(json);
}

}  // namespace lowgear::launcher
