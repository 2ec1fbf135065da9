#include "client/agent/agent_settings.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

constexpr int kConflict = 409;
constexpr int kServerErrors = 500;
constexpr std::size_t kMaxAnswerValues = 20'000;

/// The agent's message for a person.
std::string reason_of(const Json& body, int status) {
  if (body.is_object() && body.contains("error") && body["error"].is_object() && body["error"].contains("message") &&
      body["error"]["message"].is_string()) {
    return body["error"]["message"].get<std::string>();
  }
  return fmt::format("the agent responded with HTTP status {}", status);
}

}  // namespace

std::filesystem::path agent_http_socket(const std::filesystem::path& lease_socket, const Environment& environment) {
  if (const auto named = environment("LOWGEAR_AGENT_HTTP_SOCKET")) return *named;
  return lease_socket.empty() ? lease_socket : lease_socket.parent_path() / "agent.sock";
}

AgentSettings::AgentSettings(const std::filesystem::path& socket, std::chrono::milliseconds timeout)
    : timeout_(timeout), agent_(http::Endpoint{.host = {}, .port = 0, .unix_path = socket.string()}) {}

Json AgentSettings::ask(std::string_view method, const std::string& target, const std::string& body) {
  const std::lock_guard lock(mutex_);
  const http::ReplyText reply = agent_.request(method, target, body, {}, timeout_);
  Json answer = parse_json(reply.body, "the agent's response", kMaxAnswerValues);
  if (reply.status == kConflict) throw GpuHeld(reason_of(answer, reply.status));
  if (reply.status >= kServerErrors) throw Error(reason_of(answer, reply.status));
  if (reply.status >= 400) throw LeaseRefused(reason_of(answer, reply.status));
  return answer;
}

std::uint64_t AgentSettings::set(const std::string& gpu, std::string_view what, const Json& value) {
  const Json answer = ask("POST", fmt::format("/v1/gpus/{}/{}", gpu, what), value.dump());
  const JsonView view(answer, "the agent's response");
  if (view.at("dry_run").boolean()) {
    throw LeaseRefused("the agent was started with --no-writes: it sets nothing");
  }
  return static_cast<std::uint64_t>(view.at("gpu").at("lease").integer());
}

std::uint64_t AgentSettings::lock_clock(const std::string& gpu, int clock_mhz) {
  return set(gpu, "clocks", {{"min_mhz", clock_mhz}, {"max_mhz", clock_mhz}});
}

std::uint64_t AgentSettings::set_power_limit(const std::string& gpu, double limit_w) {
  return set(gpu, "power_limit", {{"power_limit_w", limit_w}});
}

void AgentSettings::require_held(const std::string& gpu, std::uint64_t lease) {
  const Json answer = ask("GET", "/v1/gpus/" + gpu, {});
  const JsonView view = JsonView(answer, "the agent's response").at("gpu");
  if (view.at("lease").json() != Json(lease)) {
    throw LeaseRefused(
        fmt::format("the lease of {} has ended: an administrator has ended it, or the agent has started "
                    "again",
                    gpu));
  }
  const std::string state = view.at("clocks").at("state").text();
  if (state == "foreign") throw LeaseRefused(fmt::format("another program sets {}", gpu));
}

void AgentSettings::release(std::uint64_t lease) { (void)ask("DELETE", fmt::format("/v1/leases/{}", lease), {}); }

}  // namespace lowgear::client
