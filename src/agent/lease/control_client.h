#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear::agent {

/// The answer of a running agent.
struct ControlAnswer {
  int status = 0;  ///< of HTTP
  std::string body;
};

/// Asks a running agent, or another program that serves HTTP on a Unix socket, and waits for the answer. `body` is
/// JSON, or empty for none. Empty when none listens there. Throws Error when the socket may not be used, or the answer
/// is none of HTTP or does not come in time.
[[nodiscard]] std::optional<ControlAnswer> ask_agent(const std::filesystem::path& socket, std::string_view method,
                                                     std::string_view path, std::string_view body = {});

}  // namespace lowgear::agent
