#include "app/operations/commands/agent_requests.h"

#include <fmt/format.h>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "base/http/client/client.h"
#include "client/agent/agent_connection.h"

namespace lowgear::operations {
namespace {

constexpr std::size_t kMaxCharacters = 4000;  // the kill switch names every GPU

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

}  // namespace

void throw_refusal(int status, const std::string& body) {
  std::string reason = body;
  try {
    const Json document = parse_json(body, "agent");
    reason = JsonView(document, "agent").at("error").at("message").text();
  } catch (const InputError&) {
    // The whole body is the message then.
  }
  throw Error(fmt::format("the agent returned {}: {}", status, printable(reason, kMaxCharacters)));
}

std::filesystem::path agent_http_socket(const Environment& environment) {
  std::string lease_socket = environment("LOWGEAR_AGENT_SOCKET").value_or("");
  if (lease_socket.empty()) lease_socket = "/run/lowgear/lease.sock";
  return client::agent_http_socket(lease_socket, environment);
}

http::ReplyText ask_socket(const std::filesystem::path& socket, std::string_view method, std::string_view path,
                           const Json& body) {
  http::Client client({.host = {}, .port = 0, .unix_path = socket.string(), .tls = false});
  if (body.is_null()) return client.request(method, path);
  return client.request(method, path, body.dump(), {{"Content-Type", "application/json"}});
}

Json ask_agent_json(const std::filesystem::path& socket, std::string_view method, std::string_view path,
                    const Json& body) {
  try {
    const http::ReplyText answer = ask_socket(socket, method, path, body);
    if (answer.status != 200) throw_refusal(answer.status, answer.body);
    return parse_json(answer.body, "agent");
  } catch (const http::ClientError& error) {
    throw Error(
        fmt::format("no agent responds at {}; start one: lowgear agent, or name the socket of one at another path "
                    "(http_socket of its configuration): export LOWGEAR_AGENT_HTTP_SOCKET=PATH",
                    printable(error.what(), kMaxCharacters)));
  }
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
