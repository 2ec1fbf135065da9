#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/gpu/gpu_worker.h"
#include "agent/http/http_routes.h"
#include "agent/lease/lease_server.h"
#include "agent/mps/mps_daemon.h"
#include "agent/service/access.h"
#include "base/core/files/user_database.h"
#include "base/http/message/message.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::agent {

struct Options {
  LeaseServerOptions lease_server;
  GpuWorkerOptions worker;
  double telemetry_rate_hz = 20;
  std::chrono::milliseconds settings_period{1'000};  ///< between checks of limits that other programs may change
  std::chrono::milliseconds driver_timeout{5'000};   ///< how long a request waits for the driver
  std::chrono::milliseconds hung_after{2'000};       ///< a driver call of this length is reported
  bool shares_power = false;                         ///< power limits are the agent's, and no process may set them
};

/// Where other machines may read metrics and health, and nothing else.
struct MetricsAddress {
  std::string address;  ///< of IPv4 or IPv6, without brackets
  std::uint16_t port = 0;
  std::optional<http::TlsServerFiles> tls;  ///< empty: plain HTTP
};

/// The node's share of a power budget (docs/serving.md).
struct PowerShareOptions {
  http::Endpoint server;
  std::filesystem::path token_file;  ///< empty: none is sent
  std::filesystem::path ca_file;     ///< authorities of a server of `https`; before LOWGEAR_SERVER_CA_FILE
  double safe_w = 0;                 ///< the power limit of each GPU without a share
  std::string host;                  ///< as budgets and ranks name it
};

struct ProcessOptions {
  Options agent;
  std::filesystem::path http_socket;
  mode_t http_mode = 0660;
  std::optional<gid_t> http_group;
  std::optional<std::uint16_t> http_port;  ///< on the loopback interface, for reading only; empty: none
  std::optional<MetricsAddress> metrics;   ///< empty: none
  ZeusdEvents zeusd_events = ZeusdEvents::device;
  MpsOptions mps;
  std::optional<PowerShareOptions> power_share;  ///< empty: power limits are as users set them
};

/// Where the agent looks for its configuration.
inline constexpr const char* kDefaultAgentConfig = "/etc/lowgear/agent.yaml";

/// The agent's configuration, as deploy/agent.yaml explains it.
struct Config {
  ProcessOptions process;
  std::filesystem::path journal = "/var/lib/lowgear";
  std::filesystem::path clock_log;  ///< folder for the clocks of each GPU with the times of the calls; empty: none
  /// UUIDs or PCI addresses of the GPUs that may be changed; `all` stands for every GPU. Closed by default: a GPU that
  /// is not named is only read.
  std::vector<std::string> gpus;
  bool all_gpus = false;
  std::vector<AllowRule> allow;
};

/// Reads a configuration. Throws InputError with file, line and column on a syntax error, an unknown key (naming the
/// nearest known one), a value of the wrong kind or out of range, and a user or group that does not exist.
[[nodiscard]] Config parse_agent_config(std::string_view text, const std::string& source, const NameLookup& lookup);

/// Reads the file. Throws InputError also when another user could have changed it (base/core/files/user_database.h).
[[nodiscard]] Config load_agent_config(const std::filesystem::path& path);

}  // namespace lowgear::agent
