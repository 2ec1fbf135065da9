#include "client/c_api/open_options.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "base/core/error.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::client::c_api {
namespace {

/// The caller's structure as this library knows it: what an older program does not have yet is as `defaults` say.
lowgear_options complete(const lowgear_options* options) {
  lowgear_options result = LOWGEAR_OPTIONS_INIT;
  if (options == nullptr) return result;
  if (options->struct_size < offsetof(lowgear_options, agent_socket)) {
    throw InputError("lowgear_options.struct_size is not set; start from LOWGEAR_OPTIONS_INIT");
  }
  std::memcpy(&result, options, std::min(options->struct_size, sizeof result));
  return result;
}

/// A text of the caller; what the environment or else `fallback` says when it is null.
std::string text_or(const char* text, const Environment& environment, const char* variable,
                    const std::string& fallback) {
  if (text != nullptr) return text;
  return environment(variable).value_or(fallback);
}

RankInfo rank_of(const lowgear_options& options, const Environment& environment) {
  RankInfo rank = rank_from_environment(environment);
  if (options.rank >= 0) {
    rank.rank = options.rank;
    rank.world_size = std::max(rank.world_size, rank.rank + 1);
    rank.world_size_known = rank.world_size_known && rank.launcher != "none";
    rank.conflict.clear();
  }
  if (options.local_rank >= 0) rank.local_rank = options.local_rank;
  if (options.world_size >= 0) {
    rank.world_size = options.world_size;
    rank.world_size_known = true;
  }
  if (rank.rank >= rank.world_size) throw InputError("the rank is not below the world size");
  return rank;
}

ServerOptions server_options(const lowgear_options& options, const Environment& environment) {
  ServerOptions result;
  result.address = text_or(options.server, environment, "LOWGEAR_SERVER", "");
  if (result.address.empty()) return result;
  result.tls = http::tls_files_from_environment(environment);
  result.token_file = text_or(options.token_file, environment, "LOWGEAR_SERVER_TOKEN_FILE", "");
  result.job_json = text_or(options.job_spec, environment, "LOWGEAR_JOB_SPEC", "");
  if (result.job_json.empty()) {
    throw InputError("a server is named and no job: give lowgear_options.job_spec or LOWGEAR_JOB_SPEC");
  }
  return result;
}

JobPlaceFacts place_facts(const lowgear_options& options, const Environment& environment) {
  const auto rank_or = [&](std::int32_t rank, const char* variable) {
    return rank >= 0 ? std::optional<int>(rank) : number_from_environment(environment, variable);
  };
  JobPlaceFacts facts;
  facts.pp_rank = rank_or(options.pp_rank, "LOWGEAR_PP_RANK");
  facts.dp_rank = rank_or(options.dp_rank, "LOWGEAR_DP_RANK");
  facts.tp_rank = rank_or(options.tp_rank, "LOWGEAR_TP_RANK");
  const std::string order = text_or(options.rank_order, environment, "LOWGEAR_RANK_ORDER", "");
  if (!order.empty()) facts.order = RankOrder::parse(order);
  facts.sizes = read_job_sizes(text_or(options.job_spec, environment, "LOWGEAR_JOB_SPEC", ""));
  return facts;
}

}  // namespace

Options client_options(const lowgear_options* given, const Environment& environment) {
  const lowgear_options options = complete(given);
  Options result;
  result.rank = rank_of(options, environment);
  result.agent_socket = text_or(options.agent_socket, environment, "LOWGEAR_AGENT_SOCKET", "/run/lowgear/lease.sock");
  result.gpu = options.gpu != nullptr ? options.gpu : "";
  result.job = text_or(options.job, environment, "LOWGEAR_JOB", result.rank.job);
  result.recording.folder = text_or(options.recording, environment, "LOWGEAR_RECORDING", "");
  result.server = server_options(options, environment);
  result.place = place_facts(options, environment);
  return result;
}

}  // namespace lowgear::client::c_api
