#include "app/operations/commands/agent_requests.h"

#include <fmt/format.h>

#include "app/operations/doctor/agent_reach.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "base/http/client/client.h"
#include "base/http/message/error.h"
#include "client/agent/agent_connection.h"

namespace lowgear::operations {
namespace {

/// The UUID of the GPU with this index in the agent's list; any other name as it is.
std::string name_for_agent(const std::filesystem::path& socket, const std::string& gpu) {
  const std::optional<long long> index = parse_integer(gpu);
  if (!index) return gpu;
  const Json listed = ask_agent_json(socket, "GET", "/v1/gpus");
  for (const Json& each : listed.at("gpus")) {
    if (each.at("index") == *index) return each.at("uuid").get<std::string>();
  }
  throw InputError(fmt::format("--share: the agent shows no GPU {}; it has {}", gpu, listed.at("gpus").size()));
}

/// Which variable has led to the agent's HTTP socket, as the start of a line; empty: none.
std::string source_of(const std::filesystem::path& socket, const Environment& environment) {
  if (socket != agent_http_socket(environment)) return "";
  if (environment("LOWGEAR_AGENT_HTTP_SOCKET")) return "LOWGEAR_AGENT_HTTP_SOCKET: ";
  const std::string named = environment("LOWGEAR_AGENT_SOCKET").value_or("");
  return named.empty() ? "" : fmt::format("LOWGEAR_AGENT_SOCKET is {}: beside it, ", printable(named));
}

[[noreturn]] void throw_no_answer(const std::filesystem::path& socket, const http::ClientError& error) {
  const Environment environment = process_environment();
  const doctor::AgentReach reach = doctor::reach_agent(socket);
  const doctor::AgentProblem problem =
      reach == doctor::AgentReach::answers
          ? doctor::AgentProblem{.what = error.what(), .next_step = "look for it in the agent's log"}
          : doctor::problem_of(reach, socket.string(), doctor::agent_gpus(environment));
  throw Error(
      fmt::format("no agent responds: {}{}; {}", source_of(socket, environment), problem.what, problem.next_step));
}

}  // namespace

std::filesystem::path agent_http_socket(const Environment& environment) {
  return client::agent_http_socket(doctor::agent_socket(environment), environment);
}

http::ReplyText ask_socket(const std::filesystem::path& socket, std::string_view method, std::string_view path,
                           const Json& body) {
  http::Client client({.host = {}, .port = 0, .unix_path = socket.string(), .tls = false});
  if (body.is_null()) return client.request(method, path);
  return client.request(method, path, body.dump(), {{"Content-Type", "application/json"}});
}

Json ask_agent_json(const std::filesystem::path& socket, std::string_view method, std::string_view path,
                    const Json& body) {
  http::ReplyText answer;
  try {
    answer = ask_socket(socket, method, path, body);
  } catch (const http::ClientError& error) {
    throw_no_answer(socket, error);
  }
  if (answer.status == 200) return parse_json(answer.body, "agent");
  throw Error(fmt::format("the agent refuses: {}", http::refusal_text(answer.status, answer.body)));
}

GpuShare parse_gpu_share(std::string_view text) {
  const std::size_t colon = text.rfind(':');  // a PCI address has others
  const std::string_view number = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool has_percent = number.ends_with('%');
  const std::optional<long long> percent = parse_integer(number.substr(0, number.size() - (has_percent ? 1 : 0)));
  if (colon == 0 || !has_percent || !percent || *percent < 1 || *percent > 100) {
    throw InputError(
        fmt::format("--share: expected GPU:PERCENT% with 1 to 100 per cent of the SMs, as 0:50%, not {}", quote(text)));
  }
  return {.gpu = std::string(text.substr(0, colon)), .percent = static_cast<int>(*percent)};
}

std::map<std::string, std::string> request_gpu_share(const std::filesystem::path& socket, const GpuShare& share,
                                                     const GpuShareClient& client) {
  Json body = {{"percent", share.percent}, {"client", client.name}};
  if (!client.job.empty()) body["job"] = client.job;
  if (client.rank) body["rank"] = *client.rank;
  const std::string path = fmt::format("/v1/gpus/{}/shares", name_for_agent(socket, share.gpu));
  const Json given = ask_agent_json(socket, "POST", path, body);
  return given.at("environment").get<std::map<std::string, std::string>>();
}

}  // namespace lowgear::operations
