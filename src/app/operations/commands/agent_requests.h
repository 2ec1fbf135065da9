#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/environment.h"
#include "base/core/formats/json.h"
#include "base/http/client/client.h"

namespace lowgear::operations {

/// The HTTP socket of this node's agent: LOWGEAR_AGENT_HTTP_SOCKET, or `agent.sock` next to LOWGEAR_AGENT_SOCKET, or
/// that of an agent whose configuration names none.
[[nodiscard]] std::filesystem::path agent_http_socket(const Environment& environment);

/// Asks a program that serves HTTP on a Unix socket: an agent or a server. `body` is JSON, or null for none. Throws
/// ClientError, which names the socket, when there is no answer.
[[nodiscard]] http::ReplyText ask_socket(const std::filesystem::path& socket, std::string_view method,
                                         std::string_view path, const Json& body = nullptr);

/// Asks the running agent, and returns its JSON. `body` is JSON, or empty for none. Throws Error with the message that
/// the agent says when it refuses, and when no agent responds.
[[nodiscard]] Json ask_agent_json(const std::filesystem::path& socket, std::string_view method, std::string_view path,
                                  const Json& body = nullptr);

/// A share of a GPU, as `GPU:PERCENT%` names it: `0:50%`, `0000:17:00.0:25%`, `GPU-...:100%`.
struct GpuShare {
  std::string gpu;  ///< index, PCI address or UUID
  int percent = 100;
};
/// Throws InputError.
[[nodiscard]] GpuShare parse_gpu_share(std::string_view text);

/// Who wants a share.
struct GpuShareClient {
  std::string name;
  std::string job;  ///< empty: of no job that has several ranks
  std::optional<int> rank;
};

/// Asks the agent for a share for as long as this process lives, also as another program. Returns the variables that
/// the job has to be started with. Throws as ask_agent_json.
[[nodiscard]] std::map<std::string, std::string> request_gpu_share(const std::filesystem::path& socket,
                                                                   const GpuShare& share, const GpuShareClient& client);

}  // namespace lowgear::operations
