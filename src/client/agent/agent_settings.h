#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"
#include "base/http/client/client.h"
#include "client/agent/agent_connection.h"
#include "client/rank/rank_environment.h"

namespace lowgear::client {

/// Another process holds the GPU; the message is the agent's.
class GpuHeld : public LeaseRefused {
 public:
  using LeaseRefused::LeaseRefused;
};

/// The agent's HTTP socket: LOWGEAR_AGENT_HTTP_SOCKET, or `agent.sock` next to the lease socket. Empty where that is.
[[nodiscard]] std::filesystem::path agent_http_socket(const std::filesystem::path& lease_socket,
                                                      const Environment& environment);

/// Settings of GPUs that hold until they are changed, without units: clocks and power limits (docs/agent.md). The
/// agent sets them under a lease of this process, which it restores when the process ends. Safe from any thread, one
/// at a time.
///
/// Calls throw GpuHeld while another process has the GPU, LeaseRefused when the agent refuses for another reason, and
/// Error when no agent responds.
class AgentSettings {
 public:
  explicit AgentSettings(const std::filesystem::path& socket,
                         std::chrono::milliseconds timeout = std::chrono::seconds(5));

  /// Locks the SM clock. `gpu` is a UUID. Returns the number of the lease.
  std::uint64_t lock_clock(const std::string& gpu, int clock_mhz);
  std::uint64_t set_power_limit(const std::string& gpu, double limit_w);
  /// Throws LeaseRefused where the GPU no longer runs at what was set: the lease has ended, or another program sets it.
  void require_held(const std::string& gpu, std::uint64_t lease);
  /// Ends the lease, and with it everything that was set on its GPU.
  void release(std::uint64_t lease);

 private:
  /// The response's body.
  Json ask(std::string_view method, const std::string& target, const std::string& body);
  std::uint64_t set(const std::string& gpu, std::string_view what, const Json& value);

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;  ///< of the connection
  http::Client agent_;
};

}  // namespace lowgear::client
